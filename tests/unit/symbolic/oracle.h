#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "luminal/expression.h"

/// An independent meaning of formulas: plain trees evaluated in 128 bits with Python's floor semantics, and a
/// generator of random ones. Nothing here knows how expressions are represented.
namespace luminal::oracle {

__extension__ typedef __int128 Wide;

/// Values of all variables at once: dims by name, index variables, z.
struct Assignment {
  DimMap dims;  // includes "z"
  std::vector<int64_t> indices;
};

struct Variable {
  Expression expression;
  std::string name;  // dim name, "z", or "" for an index variable
  int axis = -1;
  DimFacts facts;
};

struct Tree {
  char op = '#';  // '#' constant, 'v' variable, else + - * / % m M < g & | n(egate) c(eil_div)
  int64_t value = 0;
  size_t variable = 0;
  std::shared_ptr<Tree> left, right;
};

inline std::shared_ptr<Tree> node(char op, std::shared_ptr<Tree> left, std::shared_ptr<Tree> right) {
  auto t = std::make_shared<Tree>();
  t->op = op;
  t->left = std::move(left);
  t->right = std::move(right);
  return t;
}

inline Wide floor_div(Wide a, Wide b) {
  Wide q = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --q;
  return q;
}

/// Empty after a division by zero or where values grow beyond what 64 bits hold comfortably.
inline std::optional<Wide> evaluate(const Tree& t, const std::vector<Variable>& variables,
                                    const Assignment& a) {
  if (t.op == '#') return t.value;
  if (t.op == 'v') {
    const Variable& v = variables[t.variable];
    return v.axis >= 0 ? a.indices[static_cast<size_t>(v.axis)] : a.dims.find(v.name)->second;
  }
  const auto x = evaluate(*t.left, variables, a);
  if (!x) return std::nullopt;
  if (t.op == 'n') return -*x;
  const auto y = evaluate(*t.right, variables, a);
  if (!y) return std::nullopt;
  if ((t.op == '/' || t.op == '%' || t.op == 'c') && *y == 0) return std::nullopt;
  Wide r = 0;
  switch (t.op) {
    case '+':
      r = *x + *y;
      break;
    case '-':
      r = *x - *y;
      break;
    case '*':
      r = *x * *y;
      break;
    case '/':
      r = floor_div(*x, *y);
      break;
    case '%':
      r = *x - *y * floor_div(*x, *y);
      break;
    case 'c':
      r = -floor_div(-*x, *y);
      break;
    case 'm':
      r = *x < *y ? *x : *y;
      break;
    case 'M':
      r = *x > *y ? *x : *y;
      break;
    case '<':
      r = *x < *y;
      break;
    case 'g':
      r = *x >= *y;
      break;
    case '&':
      r = *x & *y;
      break;
    case '|':
      r = *x | *y;
      break;
    default:
      throw std::logic_error("unknown operator");
  }
  constexpr Wide kLimit = Wide{1} << 52;
  if (r > kLimit || r < -kLimit) return std::nullopt;
  return r;
}

inline Expression build(const Tree& t, const std::vector<Variable>& variables) {
  if (t.op == '#') return t.value;
  if (t.op == 'v') return variables[t.variable].expression;
  const Expression x = build(*t.left, variables);
  if (t.op == 'n') return -x;
  const Expression y = build(*t.right, variables);
  switch (t.op) {
    case '+':
      return x + y;
    case '-':
      return x - y;
    case '*':
      return x * y;
    case '/':
      return x / y;
    case '%':
      return x % y;
    case 'c':
      return x.ceil_div(y);
    case 'm':
      return x.min(y);
    case 'M':
      return x.max(y);
    case '<':
      return x.lt(y);
    case 'g':
      return x.gte(y);
    case '&':
      return x & y;
    default:
      return x | y;
  }
}

inline std::string print(const Tree& t, const std::vector<Variable>& variables) {
  if (t.op == '#') return std::to_string(t.value);
  if (t.op == 'v') return variables[t.variable].expression.to_text();
  if (t.op == 'n') return "(-" + print(*t.left, variables) + ")";
  return "(" + print(*t.left, variables) + " " + t.op + " " + print(*t.right, variables) + ")";
}

/// Dims with all kinds of facts; index variables whose extents are constant, a dim, a sum and a product.
inline std::vector<Variable> dims() {
  const auto dim = [](const char* name, DimFacts f) {
    return Variable{Expression::dim(name, f), name, -1, f};
  };
  return {dim("s", {}),
          dim("t", {.min = 1}),
          dim("u", {.multiple_of = 4}),
          dim("v", {.min = -5, .max = 5}),
          dim("w", {.min = 2, .max = 8, .multiple_of = 2}),
          {Expression::flat_index(), "z", -1, {}}};
}
inline std::vector<Variable> dims_and_indices() {
  std::vector<Variable> all = dims();
  const Expression s = "s", t = Expression::dim("t", {.min = 1});
  const auto index = [&](int axis, const Expression& extent) {
    all.push_back({Expression::index(axis, extent), "", axis, {}});
  };
  index(0, s);
  index(1, t);
  index(2, 4);
  index(3, s + 2);
  index(4, s * t);
  index(5, 6);
  return all;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    // Written out: the standard distributions differ between libraries.
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(between(0, static_cast<int64_t>(from.size()) - 1))];
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(between(0, static_cast<int64_t>(i) - 1))]);
  }

  /// A value that the facts allow, near their ends or small.
  int64_t value_of(const DimFacts& f, int64_t least) {
    const int64_t m = f.multiple_of, low = std::max(f.min, least);
    const int64_t high = std::min(f.max, low + 40);
    const int64_t first = (low + (m - 1) * (low > 0)) / m * m;
    return first + between(0, (high - first) / m) * m;
  }

  /// All variables at once; extents are at least 1 if `indices` are wanted.
  Assignment assignment(const std::vector<Variable>& variables, bool indices) {
    Assignment a;
    for (const Variable& v : variables)
      if (v.axis < 0)
        a.dims[v.name] =
            chance(20) && !indices
                ? v.facts.min
                : value_of(v.facts, indices ? std::max<int64_t>(v.facts.min, v.name == "s" ? 1 : v.facts.min)
                                            : v.facts.min);
    if (indices) {
      const int64_t s = a.dims["s"], t = a.dims["t"];
      for (int64_t extent : {s, t, int64_t{4}, s + 2, s * t, int64_t{6}})
        a.indices.push_back(chance(15) ? extent - 1 : between(0, extent - 1));
    }
    return a;
  }

  std::shared_ptr<Tree> tree(const std::vector<Variable>& variables, int depth) {
    auto t = std::make_shared<Tree>();
    if (depth == 0 || chance(15)) {
      if (chance(35)) {
        t->value = chance(70) ? between(-4, 8) : pick(std::vector<int64_t>{12, 16, -7, 24, 3, 100, 63});
      } else {
        t->op = 'v';
        t->variable = static_cast<size_t>(between(0, static_cast<int64_t>(variables.size()) - 1));
      }
      return t;
    }
    static constexpr char kOps[] = "+++---****//////%%%%%%mM<g&|nc";
    t->op = kOps[between(0, sizeof(kOps) - 2)];
    t->left = tree(variables, depth - 1);
    t->right = tree(variables, depth - 1);
    if ((t->op == '/' || t->op == '%') && chance(60)) {  // mostly by something that is not 0
      t->right = std::make_shared<Tree>();
      t->right->value = pick(std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12, -1, -2, -3, -4});
    }
    return t;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace luminal::oracle
