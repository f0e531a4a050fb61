#include "codegen/index_code.h"

#include <algorithm>
#include <array>

#include "base/fail.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"

namespace luminal::codegen {
namespace {

constexpr size_t kStack = 64;

int64_t wrapped(uint64_t x) { return static_cast<int64_t>(x); }

int64_t divided(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped(uint64_t{0} - static_cast<uint64_t>(a)) : symbolic::floor_div(a, b);
}

}  // namespace

IndexCode::IndexCode(const Expression& e, std::span<const std::string> dims) { append(e, dims, 0); }

void IndexCode::push(Op op, int64_t value, size_t depth) {
  LUMINAL_CHECK(depth < kStack, "a formula nests deeper than {}", kStack);
  steps_.push_back({op, value});
}

void IndexCode::append(const Expression& e, std::span<const std::string> dims, size_t depth) {
  using symbolic::Kind;
  const symbolic::Node& n = e.node();
  const auto fold = [&](Op op) {
    append(n.args[0], dims, depth);
    for (size_t i = 1; i < n.args.size(); ++i) {
      append(n.args[i], dims, depth + 1);
      push(op, 0, depth);
    }
  };
  switch (n.kind) {
    case Kind::Constant:
      return push(Op::Constant, n.value, depth);
    case Kind::Dim: {
      const auto at = std::ranges::find(dims, n.name);
      LUMINAL_CHECK(at != dims.end(), "dim {} of {}", n.name, e.to_string());
      return push(Op::Dim, at - dims.begin(), depth);
    }
    case Kind::Index:
      return push(Op::Variable, n.value, depth);
    case Kind::Flat:
      LUMINAL_CHECK(false, "the flat index in {}", e.to_string());
      return;
    case Kind::FloorDiv:
      return fold(Op::Div);
    case Kind::Mod:
      return fold(Op::Mod);
    case Kind::Min:
      return fold(Op::Min);
    case Kind::Max:
      return fold(Op::Max);
    case Kind::And:
      return fold(Op::And);
    case Kind::Or:
      return fold(Op::Or);
    case Kind::Product:
      return fold(Op::Mul);
    case Kind::Negative:
      append(n.args[0], dims, depth);
      return push(Op::Negative, 0, depth);
    case Kind::Sum:
      break;
  }
  push(Op::Constant, n.value, depth);
  for (const symbolic::Term& t : n.terms) {
    append(t.monomial, dims, depth + 1);
    if (t.coefficient != 1) {
      push(Op::Constant, t.coefficient, depth + 2);
      push(Op::Mul, 0, depth + 1);
    }
    push(Op::Add, 0, depth);
  }
}

int64_t IndexCode::operator()(std::span<const int64_t> dims, std::span<const int64_t> variables) const {
  std::array<int64_t, kStack> stack;
  size_t top = 0;
  for (const Step& s : steps_) {
    if (s.op <= Op::Variable) {
      const auto at = static_cast<size_t>(s.value);
      stack[top++] = s.op == Op::Constant ? s.value : s.op == Op::Dim ? dims[at] : variables[at];
      continue;
    }
    int64_t& a = stack[s.op == Op::Negative ? top - 1 : top - 2];
    const int64_t b = stack[top - 1];
    switch (s.op) {
      case Op::Add:
        a = wrapped(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        break;
      case Op::Mul:
        a = wrapped(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
        break;
      case Op::Div:
        a = divided(a, b);
        break;
      case Op::Mod:
        a = b == 0 ? 0 : symbolic::floor_mod(a, b);
        break;
      case Op::Min:
        a = std::min(a, b);
        break;
      case Op::Max:
        a = std::max(a, b);
        break;
      case Op::And:
        a &= b;
        break;
      case Op::Or:
        a |= b;
        break;
      case Op::Negative:
        a = a < 0 ? 1 : 0;
        continue;
      case Op::Constant:
      case Op::Dim:
      case Op::Variable:
        continue;  // pushed above
    }
    --top;
  }
  return top == 0 ? 0 : stack[0];
}

}  // namespace luminal::codegen
