#include "text/token_trie.h"

#include <algorithm>

namespace luminal::text {

TokenTrie::TokenTrie(std::vector<std::pair<std::string, TokenId>> tokens) {
  std::erase_if(tokens, [](const auto& token) { return token.first.empty(); });
  std::ranges::sort(tokens);
  nodes_.push_back({});
  std::vector<uint32_t> path{0};  // the nodes of the last string
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  };
  for (const auto& [text, id] : tokens) {
    const size_t shared = static_cast<size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
    close(shared + 1);
    for (size_t i = shared; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.byte = static_cast<uint8_t>(text[i]), .depth = static_cast<uint32_t>(i + 1)});
      if (i == 0) first_bytes_[static_cast<uint8_t>(text[0])] = path.back();
    }
    Node& node = nodes_[path.back()];
    if (node.first_id == node.last_id) node.first_id = static_cast<uint32_t>(ids_.size());
    ids_.push_back(id);
    node.last_id = static_cast<uint32_t>(ids_.size());
    last = text;
  }
  close(0);
}

}  // namespace luminal::text
