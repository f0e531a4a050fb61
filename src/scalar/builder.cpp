#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/fail.h"
#include "base/hash.h"
#include "luminal/scalar.h"
#include "scalar/element.h"
#include "scalar/fold.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

template <class T>
uint64_t raw_bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);  // little-endian hosts
  return bits;
}

/// By value, as the node Convert; F16 and BF16 by way of F32.
template <class From>
uint64_t converted_bits(Dtype to, From value) {
  return visit_dtype(to, [&]<class T>(T) -> uint64_t {
    if constexpr (std::is_same_v<T, bool>)
      return element::Truth::apply(value);
    else if constexpr (is_stored_float<T>)
      return raw_bits(T(element::Convert<float>::apply(value)));
    else
      return raw_bits(element::Convert<T>::apply(value));
  });
}

/// The first two operands of a commutative operation may stand in any order.
uint64_t hash_of(const ScalarNode& n) {
  const uint64_t head =
      static_cast<uint64_t>(n.op) << 8 | static_cast<uint64_t>(n.dtype) | uint64_t{n.operands[2].index} << 32;
  const uint64_t a = n.operands[0].index, b = n.operands[1].index;
  const uint64_t pair = is_commutative(n.op) ? std::min(a, b) | std::max(a, b) << 32 : a | b << 32;
  return mix(mix(head ^ n.payload * 0x9e3779b97f4a7c15ULL) + pair);
}

bool is_same(const ScalarNode& a, const ScalarNode& b) {
  if (a == b) return true;
  return a.op == b.op && is_commutative(a.op) && a.dtype == b.dtype && a.payload == b.payload &&
         a.operands[0] == b.operands[1] && a.operands[1] == b.operands[0] && a.operands[2] == b.operands[2];
}

constexpr size_t kFewNodes = 8;     // looked through one by one
constexpr size_t kUsualNodes = 16;  // room from the start: bodies of most kernels fit

/// Into a table with room for it.
void enter(std::vector<uint32_t>& table, uint32_t index, uint64_t hash) {
  const size_t mask = table.size() - 1;
  size_t at = hash & mask;
  while (table[at] != 0) at = (at + 1) & mask;
  table[at] = index + 1;
}

}  // namespace

uint64_t bits_of(Dtype dtype, const Number& value) {
  return value.is_integer() ? converted_bits(dtype, value.as<int64_t>())
                            : converted_bits(dtype, value.as<double>());
}

/// A node with the same result; no node's index if there is none.
Scalar ScalarBuilder::find(const ScalarNode& node, uint64_t hash) const {
  if (table_.empty()) {
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (is_same(nodes_[i], node)) return {static_cast<uint32_t>(i)};
    return {};
  }
  const size_t mask = table_.size() - 1;
  for (size_t at = hash & mask; table_[at] != 0; at = (at + 1) & mask)
    if (is_same(nodes_[table_[at] - 1], node)) return {table_[at] - 1};
  return {};
}

void ScalarBuilder::remember(uint32_t index, uint64_t hash) {
  if (table_.empty() && nodes_.size() <= kFewNodes) return;
  if (2 * nodes_.size() <= table_.size())
    enter(table_, index, hash);
  else
    make_table(2 * nodes_.size());
}

void ScalarBuilder::make_table(size_t nodes) {
  table_.assign(std::bit_ceil(2 * nodes), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) enter(table_, static_cast<uint32_t>(i), hash_of(nodes_[i]));
}

void ScalarBuilder::reserve(size_t nodes) {
  if (nodes > nodes_.capacity()) nodes_.reserve(std::max(nodes, 2 * nodes_.capacity()));
  if (nodes > kFewNodes && 2 * nodes > table_.size()) make_table(nodes);
}

Scalar ScalarBuilder::input(int slot, Dtype dtype) {
  return make(
      {.op = ScalarOp::Input, .dtype = dtype, .operands = {}, .payload = static_cast<uint64_t>(slot)});
}

Scalar ScalarBuilder::coordinate(int axis) {
  return make({.op = ScalarOp::Coordinate,
               .dtype = Dtype::I64,
               .operands = {},
               .payload = static_cast<uint64_t>(axis)});
}

Scalar ScalarBuilder::constant_bits(Dtype dtype, uint64_t bits) {
  return make({.op = ScalarOp::Constant, .dtype = dtype, .operands = {}, .payload = bits});
}
Scalar ScalarBuilder::real_constant(Dtype dtype, double value) {
  return constant_bits(dtype, bits_of(dtype, value));
}
Scalar ScalarBuilder::integer_constant(Dtype dtype, int64_t value) {
  return constant_bits(dtype, bits_of(dtype, value));
}

Scalar ScalarBuilder::make(const ScalarNode& node) {
  const int count = arity(node.op);
  OperandTypes types{};
  for (int k = 0; k < count; ++k) {
    const Scalar operand = node.operands[static_cast<size_t>(k)];
    LUMINAL_CHECK(operand.index < nodes_.size(), "{}: operand {} is not a node of this builder, which has {}",
                  name(node.op), operand.index, nodes_.size());
    types[static_cast<size_t>(k)] = dtype(operand);
  }
  if (const std::string problem = type_problem(node, types); !problem.empty()) {
    std::string operands;
    for (int k = 0; k < count; ++k) operands += fmt::format(" {}", name(types[static_cast<size_t>(k)]));
    fail<DtypeError>("[{}] cannot give {}{}{}: {}", name(node.op), name(node.dtype), count > 0 ? " from" : "",
                     operands, problem);
  }
  return add_checked(node);
}

Scalar ScalarBuilder::add_checked(ScalarNode node) {
  if (is_commutative(node.op)) {
    auto& [a, b, c] = node.operands;
    if (is_constant(a) && !is_constant(b)) std::swap(a, b);
  }
  const uint64_t hash = hash_of(node);
  if (const Scalar known = find(node, hash); known != Scalar{}) return known;
  if (const auto simpler = fold(*this, node)) return *simpler;
  if (nodes_.empty()) nodes_.reserve(kUsualNodes);
  nodes_.push_back(node);
  const Scalar made{static_cast<uint32_t>(nodes_.size() - 1)};
  remember(made.index, hash);
  return made;
}

Scalar ScalarBuilder::unary(ScalarOp op, Scalar a) {
  const Dtype type = dtype(a);
  if (is_half(type)) return convert(unary(op, convert(a, Dtype::F32)), type);
  return make({.op = op, .dtype = type, .operands = {a, Scalar{}, Scalar{}}});
}

Scalar ScalarBuilder::arithmetic(ScalarOp op, Scalar a, Scalar b) {
  const Dtype type = dtype(a);
  if (is_half(type) && dtype(b) == type)
    return convert(arithmetic(op, convert(a, Dtype::F32), convert(b, Dtype::F32)), type);
  return make({.op = op, .dtype = type, .operands = {a, b, Scalar{}}});
}

Scalar ScalarBuilder::fma(Scalar a, Scalar b, Scalar c) {
  const Dtype type = dtype(a);
  if (is_half(type) && dtype(b) == type && dtype(c) == type)
    return convert(fma(convert(a, Dtype::F32), convert(b, Dtype::F32), convert(c, Dtype::F32)), type);
  return make({.op = ScalarOp::Fma, .dtype = type, .operands = {a, b, c}});
}

Scalar ScalarBuilder::compare(ScalarOp op, Scalar a, Scalar b) {
  if (is_half(dtype(a)) && dtype(b) == dtype(a))
    return compare(op, convert(a, Dtype::F32), convert(b, Dtype::F32));
  return make({.op = op, .dtype = Dtype::Bool, .operands = {a, b, Scalar{}}});
}

Scalar ScalarBuilder::select(Scalar condition, Scalar if_true, Scalar if_false) {
  return make({.op = ScalarOp::Select, .dtype = dtype(if_true), .operands = {condition, if_true, if_false}});
}

Scalar ScalarBuilder::convert(Scalar a, Dtype to) {
  const Dtype from = dtype(a);
  if (from == to) return a;
  const bool by_way_of_f32 = (is_half(from) && to != Dtype::F32) || (is_half(to) && from != Dtype::F32);
  if (by_way_of_f32) return convert(convert(a, Dtype::F32), to);
  return make({.op = ScalarOp::Convert, .dtype = to, .operands = {a, Scalar{}, Scalar{}}});
}

Scalar ScalarBuilder::bitcast(Scalar a, Dtype to) {
  if (dtype(a) == to) return a;
  return make({.op = ScalarOp::Bitcast, .dtype = to, .operands = {a, Scalar{}, Scalar{}}});
}

namespace {

/// b's sign on a's magnitude.
Scalar copy_sign(ScalarBuilder& b, Scalar magnitude, Scalar sign) {
  const Dtype real = b.dtype(magnitude), word = real == Dtype::F32 ? Dtype::I32 : Dtype::I64;
  const Scalar mask = b.constant_bits(word, uint64_t{1} << (width_bits(word) - 1));
  const Scalar sign_bit = b.bit_and(b.bitcast(sign, word), mask);
  return b.bitcast(b.bit_or(b.bitcast(b.abs(magnitude), word), sign_bit), real);
}

struct DivMod {
  Scalar quotient, rest;
};

/// NumPy's divmod of floats (npy_divmod): the rest is exact but for one addition.
DivMod float_divmod(ScalarBuilder& b, Scalar x, Scalar y) {
  const Dtype type = b.dtype(x);
  const Scalar zero = b.constant(type, 0), one = b.constant(type, 1), half = b.constant(type, 0.5);
  const Scalar rest = b.remainder(x, y);
  const Scalar no_rest = b.eq(rest, zero);
  const Scalar signs_differ = b.bit_xor(b.lt(y, zero), b.lt(rest, zero));
  const Scalar borrow = b.bit_and(signs_differ, b.bit_not(no_rest));
  const Scalar near = b.div(b.sub(x, rest), y);
  const Scalar quotient = b.select(borrow, b.sub(near, one), near);
  const Scalar down = b.floor(quotient);
  const Scalar whole = b.select(b.gt(b.sub(quotient, down), half), b.add(down, one), down);
  const Scalar signed_zero = copy_sign(b, zero, b.div(x, y));
  return {.quotient = b.select(b.eq(quotient, zero), signed_zero, whole),
          .rest = b.select(no_rest, copy_sign(b, zero, y), b.select(borrow, b.add(rest, y), rest))};
}

}  // namespace

Scalar ScalarBuilder::floor_div(Scalar a, Scalar b) {
  const Dtype type = dtype(a);
  if (is_half(type) && dtype(b) == type)
    return convert(floor_div(convert(a, Dtype::F32), convert(b, Dtype::F32)), type);
  if (!is_real(type) || dtype(b) != type) return arithmetic(ScalarOp::FloorDiv, a, b);
  return select(eq(b, constant(type, 0)), div(a, b), float_divmod(*this, a, b).quotient);
}

Scalar ScalarBuilder::floor_mod(Scalar a, Scalar b) {
  const Dtype type = dtype(a);
  if (is_half(type) && dtype(b) == type)
    return convert(floor_mod(convert(a, Dtype::F32), convert(b, Dtype::F32)), type);
  if (!is_real(type) || dtype(b) != type) return arithmetic(ScalarOp::FloorMod, a, b);
  return float_divmod(*this, a, b).rest;
}

std::vector<Scalar> ScalarBuilder::inline_function(const ScalarFunction& f, std::span<const Scalar> inputs,
                                                   std::span<const Scalar> coordinates) {
  reserve(nodes_.size() + f.nodes().size());
  static thread_local std::vector<Scalar> here;  // keeps its memory
  here.assign(f.nodes().size(), Scalar{});
  for (size_t i = 0; i < f.nodes().size(); ++i) {
    ScalarNode n = f.nodes()[i];
    if (n.op == ScalarOp::Input || n.op == ScalarOp::Coordinate) {
      const auto with = n.op == ScalarOp::Input ? inputs : coordinates;
      if (n.payload >= with.size() || dtype(with[n.payload]) != n.dtype)
        fail<DtypeError>("[inline_function] {} {} is {}; {}", name(n.op), n.payload, name(n.dtype),
                         n.payload >= with.size() ? fmt::format("only {} are given", with.size())
                                                  : fmt::format("{} is given", name(dtype(with[n.payload]))));
      here[i] = with[n.payload];
      continue;
    }
    for (int k = 0; k < arity(n.op); ++k)
      n.operands[static_cast<size_t>(k)] = here[n.operands[static_cast<size_t>(k)].index];
    here[i] = add_checked(n);  // as it was in the function
  }
  std::vector<Scalar> outputs;
  for (const Scalar s : f.outputs()) outputs.push_back(here[s.index]);
  return outputs;
}

ScalarFunction ScalarBuilder::finish(std::span<const Scalar> outputs) const {
  constexpr uint32_t kNone = ~uint32_t{0};
  static thread_local std::vector<uint32_t> number;  // both keep their memory
  number.assign(nodes_.size(), kNone);
  static thread_local std::vector<std::pair<uint32_t, int>> stack;  // node, operands already visited
  stack.clear();
  std::vector<ScalarNode> order;
  order.reserve(nodes_.size());
  const auto visit = [&](Scalar root) {
    LUMINAL_CHECK(root.index < nodes_.size(), "output {} of a builder with {} nodes", root.index,
                  nodes_.size());
    if (number[root.index] == kNone) stack.emplace_back(root.index, 0);
    while (!stack.empty()) {
      auto& [index, visited] = stack.back();
      const ScalarNode& n = nodes_[index];
      if (visited < arity(n.op)) {
        const uint32_t next = n.operands[static_cast<size_t>(visited++)].index;
        if (number[next] == kNone) stack.emplace_back(next, 0);
        continue;
      }
      ScalarNode copy = n;
      for (int k = 0; k < visited; ++k)
        copy.operands[static_cast<size_t>(k)] = {number[n.operands[static_cast<size_t>(k)].index]};
      number[index] = static_cast<uint32_t>(order.size());
      order.push_back(copy);
      stack.pop_back();
    }
  };
  std::vector<Scalar> renumbered;
  for (const Scalar s : outputs) {
    visit(s);
    renumbered.push_back({number[s.index]});
  }
  return {ScalarFunction::Checked{}, std::move(order), std::move(renumbered)};
}

}  // namespace luminal
