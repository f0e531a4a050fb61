#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "egraph/core/growing_text.h"
#include "egraph/language/library.h"
#include "egraph/language/sexp.h"

namespace luminal::egraph::language {

/// Terms as the language prints them, equal ones stored once. Children come before parents.
class TermTexts {
 public:
  using Id = uint32_t;

  explicit TermTexts(const EngineState& state) : state_(state) {}
  TermTexts(const TermTexts&) = delete;
  TermTexts& operator=(const TermTexts&) = delete;
  ~TermTexts() { state_.text_bytes -= counted_; }

  Id literal(Literal value);
  /// A bare word, such as the mark for a value that has no term.
  Id word(std::string_view text);
  Id call(std::string_view head, std::vector<Id> children);

  /// Order by structure: literals by value, then words, then calls by head, number of children, children.
  [[nodiscard]] int compare(Id left, Id right) const;
  void append(GrowingText& out, Id id) const;
  /// Head of a call, "" for others.
  [[nodiscard]] std::string_view head(Id id) const;
  [[nodiscard]] std::span<const Id> children(Id id) const { return nodes_[id].children; }

 private:
  struct Node {
    enum class Kind : uint8_t { Constant, Word, Call } kind = Kind::Word;
    Literal value;
    std::string name;
    std::vector<Id> children;
  };
  /// Stopped where the budget in force has no room for it.
  Id add(Node node, std::string key);
  const EngineState& state_;
  size_t counted_ = 0;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, Id> ids_;
};

/// Turns values into terms as they are printed.
class TermWriter {
 public:
  TermWriter(const EGraph& graph, const Library& library)
      : graph_(graph), library_(library), texts_(graph.state()) {}

  /// A value of a base sort.
  TermTexts::Id leaf(const SortInfo* sort, Value value);
  /// A container of elements whose terms are known, in the order of its sequence; for a multiset the terms of
  /// its distinct elements.
  TermTexts::Id container(const SortInfo* sort, Value value, std::vector<TermTexts::Id> children);
  [[nodiscard]] TermTexts& texts() { return texts_; }

 private:
  TermTexts::Id big(const BigInt& x);
  TermTexts::Id multiset(Library::Args sequence, std::span<const TermTexts::Id> elements);

  const EGraph& graph_;
  const Library& library_;
  TermTexts texts_;
};

}  // namespace luminal::egraph::language
