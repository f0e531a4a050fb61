#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "luminal/text/tokenizer.h"

namespace luminal::text {

/// Strings with ids as a tree of their bytes, laid out depth first: a node's descendants follow it up to `end`.
class TokenTrie {
 public:
  struct Node {
    uint32_t end = 0;                    ///< behind the last descendant
    uint32_t first_id = 0, last_id = 0;  ///< of `ids()`: the strings that end here
    uint8_t byte = 0;
    uint32_t depth = 0;
  };
  TokenTrie() : TokenTrie(std::vector<std::pair<std::string, TokenId>>{}) {}
  /// Empty strings are left out.
  explicit TokenTrie(std::vector<std::pair<std::string, TokenId>> tokens);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }  ///< the first is the root
  [[nodiscard]] const std::vector<TokenId>& ids() const { return ids_; }
  /// The child of a node, 0 if it has none for the byte.
  [[nodiscard]] uint32_t child(uint32_t node, uint8_t byte) const {
    if (node == 0) return first_bytes_[byte];
    for (uint32_t next = node + 1; next < nodes_[node].end; next = nodes_[next].end)
      if (nodes_[next].byte >= byte) return nodes_[next].byte == byte ? next : 0;
    return 0;
  }
  /// Calls `found(length, id)` for each string that begins at `at`, shorter ones first.
  template <class Found>
  void prefixes(std::string_view text, size_t at, const Found& found) const {
    uint32_t node = 0;
    for (size_t i = at; i < text.size(); ++i) {
      node = child(node, static_cast<uint8_t>(text[i]));
      if (node == 0) return;
      if (nodes_[node].first_id < nodes_[node].last_id) found(i + 1 - at, ids_[nodes_[node].first_id]);
    }
  }

 private:
  std::vector<Node> nodes_;
  std::vector<TokenId> ids_;
  std::array<uint32_t, 256> first_bytes_{};
};

}  // namespace luminal::text
