#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "egraph/language/ast.h"
#include "egraph/language/source.h"
#include "egraph/language/symbol.h"
#include "luminal/egraph.h"

/// What a program may name: sorts, functions, primitives and their overloads.
namespace luminal::egraph::language {

class ContainerStore;  // the interned values of one container sort (containers.h)

struct SortInfo {
  enum class Kind : uint8_t { Eq, Base, Container };
  enum class Presort : uint8_t { None, Vec, Set, Map, MultiSet, Pair, Function };
  Symbol name;
  SortId id{};
  Kind kind = Kind::Eq;
  bool unionable = true;            ///< false for the sort that a relation's rows stand for
  Presort presort = Presort::None;  ///< of a container
  std::vector<const SortInfo*>
      inner;  ///< of a container: element sorts; of a function sort: inputs, then output
  std::shared_ptr<ContainerStore> store;  ///< of a container
  /// A constructor of (value, representative) that a program keeps, which extraction follows by one step.
  Symbol union_table;

  [[nodiscard]] bool is_eq() const { return kind == Kind::Eq; }
  /// Inputs and output of a function sort.
  [[nodiscard]] std::span<const SortInfo* const> inputs() const {
    return std::span(inner).first(inner.size() - 1);
  }
  [[nodiscard]] const SortInfo* output() const { return inner.back(); }
};

struct FunctionInfo {
  Symbol name;
  FunctionKind kind = FunctionKind::Constructor;
  std::vector<const SortInfo*> inputs;
  const SortInfo* output = nullptr;
  FunctionId id{};
  bool is_global = false;  ///< a nullary function that holds the value of a top-level `let`
  bool hidden = false;
  std::optional<Value> term;  ///< a global: the id its term was made with, where proofs are kept
  Span span;
};

/// Where a primitive is called from decides what it may do: queries of semi-naive rules must depend on their
/// arguments alone, their actions may write but not read, top-level commands and naive rules may do both.
enum class Context : uint8_t { Pure, Read, Write, Full };
using ContextMask = uint8_t;
inline constexpr ContextMask mask_of(Context context) {
  return static_cast<ContextMask>(1U << static_cast<int>(context));
}
inline constexpr ContextMask kEverywhere = 0b1111;
inline constexpr ContextMask kWhereWriting = mask_of(Context::Write) | mask_of(Context::Full);
inline constexpr ContextMask kOnlyFull = mask_of(Context::Full);

struct Overload;

/// The target of `(unstable-fn "name" ...)`: a table or one overload of a primitive.
struct FunctionTarget {
  const FunctionInfo* function = nullptr;
  const Overload* primitive = nullptr;
};

/// One signature of a primitive.
struct Overload {
  enum class Shape : uint8_t {
    Exact,          ///< `inputs` one by one
    Variadic,       ///< any number of `inputs[0]`
    AllEqual,       ///< `arity` arguments of one sort, whichever
    Alternating,    ///< key, value, key, value ...: `inputs` in turn
    FunctionMaker,  ///< a name and the first arguments of that function
  };
  Symbol name;
  Shape shape = Shape::Exact;
  std::vector<const SortInfo*> inputs;
  const SortInfo* output = nullptr;  ///< null for AllEqual: the sort of the arguments
  size_t arity = 0;                  ///< AllEqual
  ContextMask contexts = kEverywhere;
  std::array<PrimitiveId, 4> ids{};  ///< the engine's primitive for each context

  [[nodiscard]] bool takes(size_t arg_count) const;
  /// Sort of argument `i`; null where any sort fits (AllEqual).
  [[nodiscard]] const SortInfo* input(size_t i) const;
};

struct RulesetInfo {
  RulesetId id{};
  bool combined = false;
  std::vector<Symbol> parts;
  std::unordered_map<std::string, Span> rule_names;
};

/// All that is declared at one moment; copied by `push`.
struct Scope {
  std::unordered_map<Symbol, const SortInfo*> sorts;
  std::unordered_map<Symbol, const FunctionInfo*> functions;
  std::unordered_map<Symbol, std::vector<const Overload*>> primitives;
  std::unordered_map<Symbol, RulesetInfo> rulesets;
  std::vector<const SortInfo*> sort_order;          ///< in order of declaration
  std::vector<const FunctionInfo*> function_order;  ///< in order of declaration
  std::unordered_map<Symbol, Span> names;           ///< every name taken, and where
  std::unordered_map<Symbol, Symbol> global_stems;  ///< "x" of a global "$x"

  [[nodiscard]] const SortInfo* find_sort(Symbol name) const;
  [[nodiscard]] const FunctionInfo* find_function(Symbol name) const;
  [[nodiscard]] const FunctionInfo* find_global(Symbol name) const;
  [[nodiscard]] const std::vector<const Overload*>* find_primitive(Symbol name) const;

  /// "; did you mean ...?" among sorts, callables, or rulesets; "" if nothing is near.
  [[nodiscard]] std::string suggest_sort(Symbol wrong) const;
  [[nodiscard]] std::string suggest_callable(Symbol wrong) const;
  [[nodiscard]] std::string suggest_ruleset(Symbol wrong) const;
};

}  // namespace luminal::egraph::language
