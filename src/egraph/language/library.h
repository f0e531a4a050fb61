#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "egraph/language/ast.h"
#include "egraph/language/big_numbers.h"
#include "egraph/language/containers.h"
#include "egraph/language/types.h"
#include "luminal/egraph.h"

namespace luminal::egraph::language {

/// Interned values of one type; equal content, equal handle. Handles count from 0.
template <class T>
class Interner {
 public:
  [[nodiscard]] Value intern(const T& content, const std::string& key) {
    const auto [found, fresh] = handles_.try_emplace(key, static_cast<Value>(contents_.size()));
    if (fresh) contents_.push_back(content);
    return found->second;
  }
  [[nodiscard]] const T& at(Value handle) const { return contents_[handle]; }
  [[nodiscard]] size_t size() const { return contents_.size(); }

 private:
  std::unordered_map<std::string, Value> handles_;
  std::deque<T> contents_;
};

/// Of an element that occurs more often in a multiset, the multiset's text says the count.
inline constexpr int64_t kMostRepeats = 64;

/// -1, 0 or 1, as `a` is less than, equal to or greater than `b`.
template <class T>
[[nodiscard]] int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

/// What a number of an unstable-fn target means.
struct FunctionKindInfo {
  std::string name;
  FunctionTarget target;
  std::vector<const SortInfo*> partial;  ///< sorts of the arguments that are already given
};

/// The built-in sorts, the containers, and every primitive function on them. One library serves one e-graph;
/// it owns the descriptions that scopes point to, so it outlives them.
class Library {
 public:
  using Args = std::span<const Value>;
  using Function = PrimitiveFunction;

  Library(EGraph& graph, SymbolTable& symbols);

  /// Declares the built-in sorts and their primitives.
  void install(Scope& scope);
  /// The sort Rational, which is not in the core language.
  void install_rationals(Scope& scope);

  const SortInfo* declare_sort(Scope& scope, Symbol name, Symbol union_table = {});
  /// The sort that rows of a relation have as terms; it has no values of its own.
  const SortInfo* relation_sort(Symbol name);
  /// `(sort Name (Vec i64))`. Errors: ProgramError for an unknown container, unknown or too few sorts.
  const SortInfo* declare_container(Scope& scope, const SortSyntax& syntax, const ExprPool& exprs);
  /// A sort that the host has given to the graph.
  const SortInfo* add_host_sort(Scope& scope, std::string_view name, SortId id);
  /// A function of the host's, with the signature in its spec.
  void add_host_primitive(Scope& scope, PrimitiveSpec spec);
  FunctionInfo* new_function() { return &functions_.emplace_back(); }
  int64_t target_number(const FunctionTarget& target, std::vector<const SortInfo*> partial);
  [[nodiscard]] const FunctionKindInfo& target_info(int64_t number) const {
    return targets_[static_cast<size_t>(number)];
  }

  /// Sorts of the first arguments that function values of the sort may hold.
  [[nodiscard]] std::vector<const SortInfo*> partial_sorts(const SortInfo* function_sort) const;

  /// Order of values by content, where content has one; ids by number.
  [[nodiscard]] int compare(const SortInfo* sort, Value left, Value right) const;
  /// The sort of each element of a container value, in the order of its sequence; i64 for a multiset's
  /// counts.
  [[nodiscard]] const SortInfo* element_sort(const SortInfo* sort, Args sequence, size_t i) const;
  /// Position of the first element in a sequence (function values begin with their target).
  [[nodiscard]] static size_t first_element(const SortInfo* sort) {
    return sort->presort == SortInfo::Presort::Function ? 1 : 0;
  }

  /// Values of the sorts that this library interns.
  [[nodiscard]] Value value_of(const BigInt& x) { return counted(big_ints_, x, content_key(x)); }
  [[nodiscard]] Value value_of(const BigRat& x) {
    return counted(big_rats_, x, content_key(x.numerator) + content_key(x.denominator));
  }
  [[nodiscard]] Value value_of(const Rational& x) {
    return rationals_.intern(x, std::to_string(x.numerator) + "/" + std::to_string(x.denominator));
  }
  [[nodiscard]] const BigInt& big_int(Value v) const { return big_ints_.at(v); }
  [[nodiscard]] const BigRat& big_rat(Value v) const { return big_rats_.at(v); }
  [[nodiscard]] const Rational& rational(Value v) const { return rationals_.at(v); }
  [[nodiscard]] EGraph& graph() { return graph_; }
  [[nodiscard]] const EGraph& graph() const { return graph_; }

  const SortInfo *unit = nullptr, *boolean = nullptr, *i64 = nullptr, *f64 = nullptr, *string = nullptr,
                 *big_int_sort = nullptr, *big_rat_sort = nullptr, *rational_sort = nullptr;

  // For the files that define primitives:

  /// A primitive of a fixed signature, the same wherever it is called.
  void add(Scope& scope, std::string_view name, std::vector<const SortInfo*> inputs, const SortInfo* output,
           Function call);
  Overload& add_overload(Scope& scope, Overload overload, Function call);
  /// A primitive whose behaviour depends on where it is called (it applies function values, or writes).
  void add_contextual(Scope& scope, std::string_view name, std::vector<const SortInfo*> inputs,
                      const SortInfo* output, ContextMask contexts,
                      const std::function<std::optional<Value>(Context, Args)>& call);
  /// Applies a function value to further arguments; nullopt where it is undefined. Error if the context does
  /// not allow what the function does.
  std::optional<Value> apply(const SortInfo* sort, Context context, Value function, Args args);
  [[nodiscard]] Symbol symbol(std::string_view text) { return symbols_.intern(text); }
  [[nodiscard]] bool less(const SortInfo* sort, Value left, Value right) const {
    return compare(sort, left, right) < 0;
  }
  /// Sorts elements; of equal ones sets keep one, maps the last, and multisets the sum of their counts.
  void normalize(const SortInfo* container, std::vector<Value>& sequence) const;
  Value intern(const SortInfo* container, std::vector<Value> sequence);

  // What may be much larger than what it is made of is looked at before it is made. Each throws Stopped where
  // the budget in force has no room or time for it.

  /// Error for more elements than a container can hold.
  void check_room(const SortInfo* container, size_t elements) const;
  /// Error for a text that is longer than a String can be.
  void check_text(std::string_view primitive, size_t bytes) const;
  void check_number(uint64_t bits, double seconds = 0) const;
  void poll() const;

 private:
  /// Interned, with the memory that it takes.
  template <class T>
  Value counted(Interner<T>& values, const T& x, const std::string& key) {
    const size_t before = values.size();
    const Value value = values.intern(x, key);
    if (values.size() != before) count_bytes(3 * key.size() + 128);  // twice as key and content, and tables
    return value;
  }
  void count_bytes(size_t bytes);
  void normalize_map(const SortInfo* map, std::vector<Value>& sequence) const;
  void normalize_multiset(const SortInfo* multiset, std::vector<Value>& sequence) const;
  [[nodiscard]] int compare_multisets(const SortInfo* sort, Args left, Args right) const;
  const SortInfo* add_base_sort(Scope& scope, std::string_view name, SortId id);
  const SortInfo* add_interned_sort(Scope& scope, std::string_view name,
                                    std::function<std::string(Value)> print,
                                    std::function<int(Value, Value)> compare);
  SortInfo* new_sort(Scope& scope, SortInfo info);
  void register_container(SortInfo* sort);
  void add_ordering(Scope& scope, const SortInfo* sort);
  Value rebuild(const SortInfo* sort, Value value, const ElementMap& map);
  [[nodiscard]] std::string print_multiset(Args sequence, std::span<const std::string> children) const;
  std::string print(const SortInfo* sort, Value value, std::span<const std::string> children) const;

  void install_generic(Scope& scope);
  void install_i64(Scope& scope);
  void install_f64(Scope& scope);
  void install_text_and_bool(Scope& scope);
  void install_big_int(Scope& scope);
  void install_big_rat(Scope& scope);
  void install_vec(Scope& scope, const SortInfo* sort);
  void install_set(Scope& scope, const SortInfo* sort);
  void install_map(Scope& scope, const SortInfo* sort);
  void install_multiset(Scope& scope, const SortInfo* sort);
  void install_multiset_basics(Scope& scope, const SortInfo* sort);
  void install_pair(Scope& scope, const SortInfo* sort);
  void install_function_sort(Scope& scope, const SortInfo* sort);
  /// The functions that take a function value and a container, for each pair that fits.
  void install_higher_order(Scope& scope, const SortInfo* function, const SortInfo* container);
  void install_vec_map(Scope& scope, const SortInfo* function, const SortInfo* from, const SortInfo* to);
  void install_multiset_map(Scope& scope, const SortInfo* function, const SortInfo* from, const SortInfo* to);
  void install_multiset_higher_order(Scope& scope, const SortInfo* function, const SortInfo* multiset);
  void install_multiset_index(Scope& scope, const SortInfo* function, const SortInfo* multiset);

  EGraph& graph_;
  SymbolTable& symbols_;
  std::deque<SortInfo> sorts_;
  std::deque<FunctionInfo> functions_;
  std::deque<Overload> overloads_;
  std::vector<FunctionKindInfo> targets_;
  Interner<BigInt> big_ints_;
  Interner<BigRat> big_rats_;
  Interner<Rational> rationals_;
};

}  // namespace luminal::egraph::language
