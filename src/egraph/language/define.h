#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "egraph/language/library.h"

/// Primitives written as plain C++ functions: the signature in the language follows from the lambda's.
///
///   define(library, scope, "+", [](int64_t a, int64_t b) { return checked_add(a, b); });
///   // checked_add returns an optional<int64_t>
namespace luminal::egraph::language {

using Unit = std::monostate;
/// A condition: true is the unit value, false is "undefined".
inline std::optional<Unit> when(bool condition) {
  return condition ? std::optional<Unit>(Unit{}) : std::nullopt;
}
/// The same of a primitive on e-graph values.
inline std::optional<Value> unit_if(bool condition) {
  return condition ? std::optional<Value>(kUnitValue) : std::nullopt;
}

/// How a C++ type stands in the language: its sort, and both conversions.
template <class T>
struct Codec;
template <>
struct Codec<int64_t> {
  static const SortInfo* sort(const Library& l) { return l.i64; }
  static int64_t get(Library& l, Value v) { return l.graph().as_i64(v); }
  static Value put(Library& l, int64_t x) { return l.graph().i64(x); }
};
template <>
struct Codec<double> {
  static const SortInfo* sort(const Library& l) { return l.f64; }
  static double get(Library& l, Value v) { return l.graph().as_f64(v); }
  static Value put(Library& l, double x) { return l.graph().f64(x); }
};
template <>
struct Codec<std::string> {
  static const SortInfo* sort(const Library& l) { return l.string; }
  static std::string get(Library& l, Value v) { return std::string(l.graph().as_string(v)); }
  static Value put(Library& l, const std::string& x) { return l.graph().string(x); }
};
template <>
struct Codec<bool> {
  static const SortInfo* sort(const Library& l) { return l.boolean; }
  static bool get(Library&, Value v) { return EGraph::as_bool(v); }
  static Value put(Library&, bool x) { return EGraph::boolean(x); }
};
template <>
struct Codec<Unit> {
  static const SortInfo* sort(const Library& l) { return l.unit; }
  static Value put(Library&, Unit) { return kUnitValue; }
};
template <>
struct Codec<BigInt> {
  static const SortInfo* sort(const Library& l) { return l.big_int_sort; }
  static const BigInt& get(Library& l, Value v) { return l.big_int(v); }
  static Value put(Library& l, const BigInt& x) { return l.value_of(x); }
};
template <>
struct Codec<BigRat> {
  static const SortInfo* sort(const Library& l) { return l.big_rat_sort; }
  static const BigRat& get(Library& l, Value v) { return l.big_rat(v); }
  static Value put(Library& l, const BigRat& x) { return l.value_of(x); }
};
template <>
struct Codec<Rational> {
  static const SortInfo* sort(const Library& l) { return l.rational_sort; }
  static const Rational& get(Library& l, Value v) { return l.rational(v); }
  static Value put(Library& l, const Rational& x) { return l.value_of(x); }
};

template <class T>
struct Unwrapped {
  using Type = T;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using Type = T;
};

template <class F, class R, class... A>
void define_as(Library& library, Scope& scope, std::string_view name, F function, R (F::*)(A...) const) {
  using Result = typename Unwrapped<std::remove_cvref_t<R>>::Type;
  const auto call = [&library, function](Library::Args args) -> std::optional<Value> {
    return [&]<size_t... I>(std::index_sequence<I...>) -> std::optional<Value> {
      const std::optional<Result> result = function(Codec<std::remove_cvref_t<A>>::get(library, args[I])...);
      if (!result) return std::nullopt;
      return Codec<Result>::put(library, *result);
    }(std::index_sequence_for<A...>{});
  };
  library.add(scope, name, {Codec<std::remove_cvref_t<A>>::sort(library)...}, Codec<Result>::sort(library),
              call);
}

/// Adds the primitive `name`; `function` takes and returns types that have a Codec, or returns an optional of
/// one.
template <class F>
void define(Library& library, Scope& scope, std::string_view name, F function) {
  define_as(library, scope, name, function, &F::operator());
}

}  // namespace luminal::egraph::language
