#include "luminal/text/grammar.h"

#include <algorithm>
#include <unordered_map>

#include "base/fail.h"
#include "text/grammar/program.h"
#include "text/token_trie.h"

namespace luminal::text {

struct GrammarTokenTree {
  std::vector<std::string> bytes;
  std::vector<TokenId> end;
  TokenTrie trie;
};

Grammar::Grammar(std::string_view gbnf)
    : program_(std::make_shared<const GrammarProgram>(compile_grammar(parse_gbnf(gbnf)))) {}

bool Grammar::matches(std::string_view text) const {
  GrammarAutomaton automaton(*program_);
  uint32_t state = automaton.start();
  for (const char c : text) state = automaton.trimmed(automaton.next(state, static_cast<uint8_t>(c)));
  return automaton.complete(state);
}

GrammarTokens::GrammarTokens(std::span<const std::string> bytes, std::vector<TokenId> end) {
  for (const TokenId id : end)
    if (id < 0 || static_cast<size_t>(id) >= bytes.size())
      fail<Error>("[grammar] end token {} is out of range; there are {} tokens", id, bytes.size());
  std::vector<std::pair<std::string, TokenId>> tokens;
  for (size_t id = 0; id < bytes.size(); ++id)
    if (std::ranges::find(end, static_cast<TokenId>(id)) == end.end())
      tokens.emplace_back(bytes[id], static_cast<TokenId>(id));
  tree_ = std::make_shared<const GrammarTokenTree>(
      GrammarTokenTree{{bytes.begin(), bytes.end()}, std::move(end), TokenTrie(std::move(tokens))});
}

struct GrammarMatcher::State {
  State(Grammar g, GrammarTokens t)
      : grammar(std::move(g)), tokens(std::move(t)), automaton(*grammar.program_), state(automaton.start()) {}

  /// Walks the tree of tokens and the automaton together; what no text begins with is skipped whole.
  [[nodiscard]] std::vector<uint64_t> mask() {
    const GrammarTokenTree& tree = *tokens.tree_;
    std::vector<uint64_t> bits((tree.bytes.size() + 63) / 64);
    const auto set = [&bits](TokenId id) { bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64); };
    if (automaton.complete(state) && !ended)
      for (const TokenId id : tree.end) set(id);
    if (ended) return bits;
    const auto& nodes = tree.trie.nodes();
    std::vector<uint32_t> path{state};
    for (uint32_t at = 1; at < nodes.size();) {
      const TokenTrie::Node& node = nodes[at];
      path.resize(node.depth);
      const uint32_t next = automaton.next(path.back(), node.byte);
      if (next == GrammarAutomaton::kDead) {
        at = node.end;
        continue;
      }
      for (uint32_t i = node.first_id; i < node.last_id; ++i) set(tree.trie.ids()[i]);
      path.push_back(next);
      ++at;
    }
    return bits;
  }

  static constexpr size_t kMostMasks = 256;
  Grammar grammar;
  GrammarTokens tokens;
  GrammarAutomaton automaton;
  uint32_t state = 0;
  bool ended = false;
  std::unordered_map<uint32_t, std::vector<uint64_t>> masks;  ///< by state
  std::vector<uint64_t> nothing;                              ///< the mask behind the end
};

GrammarMatcher::GrammarMatcher(Grammar grammar, GrammarTokens tokens)
    : state_(std::make_unique<State>(std::move(grammar), std::move(tokens))) {}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;
GrammarMatcher::~GrammarMatcher() = default;

std::span<const uint64_t> GrammarMatcher::allowed() {
  State& s = *state_;
  if (s.ended) return s.nothing = s.mask();
  const uint64_t generation = s.automaton.generation();
  s.state = s.automaton.trimmed(s.state);
  if (s.automaton.generation() != generation || s.masks.size() >= State::kMostMasks) s.masks.clear();
  auto found = s.masks.find(s.state);
  if (found == s.masks.end()) found = s.masks.emplace(s.state, s.mask()).first;
  return found->second;
}

void GrammarMatcher::accept(TokenId id) {
  State& s = *state_;
  const GrammarTokenTree& tree = *s.tokens.tree_;
  const auto refuse = [&](const char* why) { fail<Error>("[grammar] token {} is not allowed: {}", id, why); };
  if (id < 0 || static_cast<size_t>(id) >= tree.bytes.size()) refuse("it is out of range");
  if (s.ended) refuse("the text has ended");
  if (std::ranges::find(tree.end, id) != tree.end.end()) {
    if (!complete()) refuse("the text may not end here");
    s.ended = true;
    return;
  }
  const std::string& bytes = tree.bytes[static_cast<size_t>(id)];
  if (bytes.empty()) refuse("it has no text");
  uint32_t state = s.state;
  for (const char c : bytes) state = s.automaton.next(state, static_cast<uint8_t>(c));
  if (state == GrammarAutomaton::kDead) refuse("no text of the grammar goes on with it");
  s.state = state;
}

bool GrammarMatcher::complete() const { return state_->automaton.complete(state_->state); }

}  // namespace luminal::text
