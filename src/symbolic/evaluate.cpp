#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"
#include "base/suggest.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

/// Evaluation and substitution: walks over the formula that remember shared parts of large ones.
namespace luminal {
namespace {

using symbolic::int128;
using symbolic::Kind;
using symbolic::kind_of;
using symbolic::Node;
using symbolic::Term;

constexpr uint32_t kRememberFrom = 200;  // tree size from which shared parts are worth a table

template <class Map>
[[noreturn]] void unbound(const std::string& name, const Map& dims) {
  std::vector<std::string> known;
  for (const auto& [n, v] : dims) known.push_back(n);
  fail<Error>("[Expression] dim '{}' has no value{}; set it with set_dim(\"{}\", size)", name,
              did_you_mean(name, known), name);
}

int64_t narrow(int128 value, const Expression& where) {
  if (value > INT64_MAX || value < INT64_MIN)
    fail<ShapeError>("[Expression] the value of {} does not fit in 64 bits; use smaller dims",
                     where.to_string());
  return static_cast<int64_t>(value);
}

void check_facts(const Node& dim, int64_t value) {
  const DimFacts& f = dim.facts;
  if (value < f.min || value > f.max || symbolic::floor_mod(value, f.multiple_of) != 0)
    fail<Error>(
        "[Expression] dim '{}' is {}, but {} promises a multiple of {} in [{}, {}]; give a size that keeps "
        "the promise or declare the dim with other facts",
        dim.name, value, Node::wrap(&dim).to_string(), f.multiple_of, f.min, f.max);
}

class Evaluation {
 public:
  Evaluation(const DimMap& dims, std::span<const int64_t> indices) : dims_(dims), indices_(indices) {}

  int64_t operator()(const Expression& e) {
    const Node& n = e.node();
    if (n.kind == Kind::Constant) return n.value;
    if (n.size < kRememberFrom) return compute(e);
    if (const auto at = known_.find(&n); at != known_.end()) return at->second;
    const int64_t value = compute(e);
    known_.emplace(&n, value);
    return value;
  }

 private:
  int64_t compute(const Expression& e) {
    const Node& n = e.node();
    switch (n.kind) {
      case Kind::Constant:
        return n.value;
      case Kind::Dim:
        return dim(n);
      case Kind::Index:
        if (static_cast<size_t>(n.value) >= indices_.size())
          fail<Error>("[Expression] index variable i{} has no value: {} given; pass one for each axis",
                      n.value, indices_.size());
        return indices_[static_cast<size_t>(n.value)];
      case Kind::Flat: {
        const auto at = dims_.find("z");
        if (at == dims_.end())
          fail<Error>("[Expression] the flat index z has no value; pass {{\"z\", value}} among the dims");
        return at->second;
      }
      case Kind::FloorDiv:
        return quotient(e);
      case Kind::Mod:
        return remainder(e);
      case Kind::Negative:
        return negative((*this), n.args[0]);
      case Kind::Product:
        return product(e);
      case Kind::Sum:
        return narrow(sum(e), e);
      default:
        return fold(n);
    }
  }

  // The sign of a sum needs no 64-bit result.
  int64_t negative(Evaluation&, const Expression& a) {
    return kind_of(a) == Kind::Sum ? sum(a) < 0 : (*this)(a) < 0;
  }

  int64_t dim(const Node& n) {
    const auto at = dims_.find(n.name);
    if (at == dims_.end()) unbound(n.name, dims_);
    check_facts(n, at->second);
    return at->second;
  }

  int64_t divisor(const Expression& e) {
    const int64_t d = (*this)(e.node().args[1]);
    if (d == 0) fail<Error>("[Expression] division by zero in {}", e.to_string());
    return d;
  }
  int64_t quotient(const Expression& e) {
    const int64_t a = (*this)(e.node().args[0]), b = divisor(e);
    return b == -1 ? narrow(-int128{a}, e) : symbolic::floor_div(a, b);
  }
  int64_t remainder(const Expression& e) {
    const int64_t a = (*this)(e.node().args[0]), b = divisor(e);
    return symbolic::floor_mod(a, b);
  }

  int64_t product(const Expression& e) {
    int128 value = 1;
    bool zero = false;
    for (const Expression& f : e.node().args) zero |= (*this)(f) == 0;  // also reports divisions by zero
    if (zero) return 0;
    for (const Expression& f : e.node().args) value = int128{narrow(value, e)} * (*this)(f);
    return narrow(value, e);
  }

  int128 sum(const Expression& e) {
    constexpr int128 kLimit = int128{1} << 125;
    int128 value = e.node().value;
    for (const Term& t : e.node().terms) {
      value += int128{t.coefficient} * (*this)(t.monomial);
      if (value > kLimit || value < -kLimit) (void)narrow(value, e);
    }
    return value;
  }

  int64_t fold(const Node& n) {
    int64_t value = (*this)(n.args[0]);
    for (size_t i = 1; i < n.args.size(); ++i) {
      const int64_t next = (*this)(n.args[i]);
      switch (n.kind) {
        case Kind::Min:
          value = std::min(value, next);
          break;
        case Kind::Max:
          value = std::max(value, next);
          break;
        case Kind::And:
          value &= next;
          break;
        default:
          value |= next;
          break;
      }
    }
    return value;
  }

  const DimMap& dims_;
  std::span<const int64_t> indices_;
  std::unordered_map<const Node*, int64_t> known_;
};

double evaluate_float(const Expression& e, const std::map<std::string, double, std::less<>>& dims) {
  const Node& n = e.node();
  const auto at = [&](size_t i) { return evaluate_float(n.args[i], dims); };
  switch (n.kind) {
    case Kind::Constant:
      return static_cast<double>(n.value);
    case Kind::Dim:
    case Kind::Flat: {
      const std::string name = n.kind == Kind::Flat ? "z" : n.name;
      const auto found = dims.find(name);
      if (found == dims.end()) unbound(name, dims);
      return found->second;
    }
    case Kind::Index:
      fail<Error>("[Expression] index variable i{} has no value among real numbers; substitute it first",
                  n.value);
    case Kind::FloorDiv:
    case Kind::Mod: {
      const double a = at(0), b = at(1);
      if (b == 0) fail<Error>("[Expression] division by zero in {}", e.to_string());
      return n.kind == Kind::FloorDiv ? a / b : a - b * std::floor(a / b);
    }
    case Kind::Negative:
      return at(0) < 0 ? 1 : 0;
    case Kind::Sum: {
      double value = static_cast<double>(n.value);
      for (const Term& t : n.terms)
        value += static_cast<double>(t.coefficient) * evaluate_float(t.monomial, dims);
      return value;
    }
    default:
      break;
  }
  double value = at(0);
  for (size_t i = 1; i < n.args.size(); ++i) {
    const double next = at(i);
    switch (n.kind) {
      case Kind::Min:
        value = std::min(value, next);
        break;
      case Kind::Max:
        value = std::max(value, next);
        break;
      case Kind::Product:
        value *= next;
        break;
      case Kind::And:
        value = static_cast<double>(static_cast<int64_t>(value) & static_cast<int64_t>(next));
        break;
      default:
        value = static_cast<double>(static_cast<int64_t>(value) | static_cast<int64_t>(next));
        break;
    }
  }
  return value;
}

// Rebuilds a formula bottom-up with leaves replaced; `replace` returns empty for what stays.
template <class Replace>
class Substitution {
 public:
  Substitution(Replace replace, bool extents) : replace_(replace), extents_(extents) {}

  Expression operator()(const Expression& e) {
    const Node& n = e.node();
    if (!n.uses_dim && !n.uses_index && !n.uses_flat) return e;
    if (n.size < kRememberFrom) return rebuild(e);
    if (const auto at = known_.find(&n); at != known_.end()) return at->second;
    const Expression result = rebuild(e);
    known_.emplace(&n, result);
    return result;
  }

 private:
  Expression rebuild(const Expression& e) {
    const Node& n = e.node();
    if (const std::optional<Expression> replaced = replace_(e)) return *replaced;
    const auto arg = [&](size_t i) { return (*this)(n.args[i]); };
    switch (n.kind) {
      case Kind::Constant:
      case Kind::Dim:
      case Kind::Flat:
        return e;
      case Kind::Index:
        return extents_ ? Expression::index(static_cast<int>(n.value), arg(0)) : e;
      case Kind::FloorDiv:
        return arg(0) / arg(1);
      case Kind::Mod:
        return arg(0) % arg(1);
      case Kind::Negative:
        return symbolic::negative(arg(0));
      case Kind::Sum:
        return sum(e);
      default:
        return fold(e);
    }
  }

  /// One sum of all replaced terms: adding them one by one would leave every partial sum behind as a node.
  Expression sum(const Expression& e) {
    symbolic::Polynomial result;
    result.constant = e.node().value;
    result.terms.reserve(e.node().terms.size());
    bool same = true;
    for (const Term& t : e.node().terms) {
      const Expression monomial = (*this)(t.monomial);
      same = same && monomial == t.monomial;
      result.add(monomial, t.coefficient);
    }
    return same ? e : std::move(result).build();
  }

  Expression fold(const Expression& e) {
    const Node& n = e.node();
    std::vector<Expression> args;
    args.reserve(n.args.size());
    for (const Expression& a : n.args) args.push_back((*this)(a));
    if (args == n.args) return e;
    Expression value = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
      switch (n.kind) {
        case Kind::Min:
          value = value.min(args[i]);
          break;
        case Kind::Max:
          value = value.max(args[i]);
          break;
        case Kind::And:
          value = value & args[i];
          break;
        case Kind::Or:
          value = value | args[i];
          break;
        default:
          value *= args[i];
          break;
      }
    }
    return value;
  }

  Replace replace_;
  bool extents_;
  std::unordered_map<const Node*, Expression> known_;
};

}  // namespace

int64_t Expression::exec(const DimMap& dims, std::span<const int64_t> index_values) const {
  return Evaluation(dims, index_values)(*this);
}

double Expression::exec_float(const std::map<std::string, double, std::less<>>& dims) const {
  return evaluate_float(*this, dims);
}

Expression Expression::substitute(std::string_view dim_name, const Expression& value) const {
  const auto replace = [&](const Expression& e) -> std::optional<Expression> {
    if (kind_of(e) != Kind::Dim || e.node().name != dim_name) return std::nullopt;
    if (const auto number = value.constant()) check_facts(e.node(), *number);
    return value;
  };
  return Substitution(replace, true)(*this);
}

Expression Expression::substitute(const DimMap& dims) const {
  if (dims.empty()) return *this;
  const auto replace = [&](const Expression& e) -> std::optional<Expression> {
    if (kind_of(e) != Kind::Dim) return std::nullopt;
    const auto at = dims.find(e.node().name);
    if (at == dims.end()) return std::nullopt;
    check_facts(e.node(), at->second);
    return Expression(at->second);
  };
  return Substitution(replace, true)(*this);
}

namespace {

Expression with_indices(const Expression& formula, std::span<const Expression> values) {
  const auto replace = [&](const Expression& e) -> std::optional<Expression> {
    if (!e.node().uses_index) return e;
    if (kind_of(e) != Kind::Index) return std::nullopt;
    const auto axis = static_cast<size_t>(e.node().value);
    return axis < values.size() ? values[axis] : e;
  };
  return Substitution(replace, false)(formula);
}

/// What substitute_indices made of formulas of few axes: composing kernels replaces the same index variables in the
/// same formulas again and again. By thread and direct-mapped, as Memo.
class IndexSubstitutions {
 public:
  static constexpr int kMostAxes = 6;

  /// The entry for a formula and what its axes become. Its result is set if it is known.
  struct Entry {
    const Node* formula = nullptr;
    std::array<const Node*, kMostAxes> values{};  ///< by axis that occurs; null: it stays
    const Node* result = nullptr;
  };
  static Entry& of(const Node& formula, std::span<const Expression> values) {
    constexpr size_t kSize = 1024;
    static thread_local const auto table = std::make_unique<std::array<Entry, kSize>>();
    Entry asked{.formula = &formula};
    uint64_t hash = formula.hash;
    size_t count = 0;
    for (uint64_t left = formula.indices; left != 0; left &= left - 1) {
      const auto axis = static_cast<size_t>(std::countr_zero(left));
      const Node* value = axis < values.size() ? &values[axis].node() : nullptr;
      asked.values[count++] = value;
      hash = combine(hash, value != nullptr ? value->hash : 0);
    }
    Entry& entry = (*table)[hash % kSize];
    if (entry.formula != asked.formula || entry.values != asked.values) entry = asked;
    return entry;
  }
};

}  // namespace

Expression Expression::substitute_indices(std::span<const Expression> values) const {
  if (!node_->uses_index) return *this;
  if (node_->kind == Kind::Index) {
    const auto axis = static_cast<size_t>(node_->value);
    return axis < values.size() ? values[axis] : *this;
  }
  const bool is_known_by_bits = (node_->indices >> symbolic::kLastIndexBit) == 0;
  if (!is_known_by_bits || std::popcount(node_->indices) > IndexSubstitutions::kMostAxes)
    return with_indices(*this, values);
  if (const Node* known = IndexSubstitutions::of(*node_, values).result) return Node::wrap(known);
  const Expression result = with_indices(*this, values);
  IndexSubstitutions::of(*node_, values).result = &result.node();
  return result;
}

Expression Expression::substitute_flat_index(const Expression& value) const {
  if (!node_->uses_flat) return *this;
  const auto replace = [&](const Expression& e) -> std::optional<Expression> {
    if (!e.node().uses_flat) return e;
    if (kind_of(e) != Kind::Flat) return std::nullopt;
    return value;
  };
  return Substitution(replace, false)(*this);
}

}  // namespace luminal
