#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/ops.h"

namespace luminal::test {

/// A random graph with views, reductions, elementwise ops of several dtypes, many constants that laws look
/// for, and several outputs. The same seed builds the same graph again.
///
/// Two kinds. Wild: special values everywhere (infinities, NaN, signed zeros, subnormal numbers), every op;
/// results are compared bit by bit. Tame: each tensor carries bounds of its values and of its rounding error,
/// and only ops that are smooth there are used, so that laws over the reals have a bound to be held to.
class RandomGraph {
 public:
  enum class Kind { Wild, Tame };
  struct Item {
    GraphTensor tensor;
    double low = 0, high = 0;  ///< tame: bounds of the values
    double error = 0;          ///< tame: bound of the rounding error, also after laws over the reals
  };

  RandomGraph(uint64_t seed, Kind kind, int steps = 24) : random_(seed), kind_(kind) {
    add_inputs();
    for (int i = 0; i < steps; ++i) add_step();
    const size_t outputs = 1 + random_() % 4;
    for (size_t i = 0; i < outputs; ++i) {
      const size_t at = i == 0 ? items_.size() - 1 : random_() % items_.size();
      items_[at].tensor.retrieve();
      outputs_.push_back(items_[at]);
    }
  }

  Graph& graph() { return graph_; }
  [[nodiscard]] const std::vector<Item>& outputs() const { return outputs_; }

 private:
  static constexpr double kLargest = 1e3;

  size_t below(size_t n) { return random_() % n; }
  bool chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  [[nodiscard]] bool tame() const { return kind_ == Kind::Tame; }
  static double unit(Dtype dtype) {
    return dtype == Dtype::F64 ? 0x1p-53 : dtype == Dtype::F32 ? 0x1p-24 : 0x1p-8;
  }

  void add_inputs() {
    const std::vector<Dtype> dtypes =
        tame() ? std::vector{Dtype::F64, Dtype::F32} : std::vector(kPlainDtypes.begin(), kPlainDtypes.end());
    for (int i = 0; i < 3; ++i) {
      const Dtype dtype = i == 0 ? dtypes[0] : dtypes[below(dtypes.size())];
      Shape dims;
      std::vector<int64_t> sizes;
      for (size_t axis = below(3) + 1; axis > 0; --axis) sizes.push_back(1 + static_cast<int64_t>(below(4)));
      for (const int64_t size : sizes) dims.emplace_back(size);
      GraphTensor input = graph_.tensor(dims, dtype);
      TensorData data(dtype, sizes);
      visit_dtype(dtype, [&]<class T>(T) {
        for (T& value : data.as<T>()) value = static_cast<T>(input_value(is_float(dtype)));
      });
      input.set(std::move(data));
      items_.push_back({input, -2, 2, 2 * unit(dtype)});
    }
    if (chance(30)) items_.push_back({graph_.uniform({2, 3}), 0, 1, unit(Dtype::F32)});
  }

  double input_value(bool floating) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    static constexpr double kSpecial[] = {
        0.0,   -0.0,      1.0,  -1.0,  kInf,  -kInf, std::numeric_limits<double>::quiet_NaN(),
        1e-40, 0x1p-1074, 3e38, -6e-8, 65504, 0.5,   -3};
    if (!tame() && floating && chance(30)) return kSpecial[below(std::size(kSpecial))];
    if (!floating) return static_cast<double>(below(9)) - (chance(50) ? 4 : 0);
    return static_cast<double>(random_() % 4000) / 1000.0 - 2;
  }

  Item& pick() {
    return items_[chance(50) ? items_.size() - 1 - below(std::min<size_t>(items_.size(), 4))
                             : below(items_.size())];
  }

  void add(GraphTensor tensor, double low = 0, double high = 0, double error = 0) {
    const double scale = std::max(std::abs(low), std::abs(high));
    // A law over the reals may round once more, and at another place: four roundings cover each op.
    if (is_float(tensor.dtype())) error += 4 * unit(tensor.dtype()) * scale;
    items_.push_back({std::move(tensor), low, high, error});
  }

  /// A constant of the same type, broadcast: mostly one that some law looks for.
  Item constant_like(const Item& like) {
    static constexpr double kTame[] = {0.0, -0.0, 1.0, 1.0, -1.0, 2.0, 0.5, 3.0, -1.5};
    static constexpr double kWild[] = {0.0,
                                       -0.0,
                                       1.0,
                                       -1.0,
                                       2.0,
                                       0.5,
                                       3.0,
                                       1e30,
                                       1e-30,
                                       std::numeric_limits<double>::infinity(),
                                       -std::numeric_limits<double>::infinity(),
                                       std::numeric_limits<double>::quiet_NaN()};
    const Dtype dtype = like.tensor.dtype();
    Number value = tame() ? kTame[below(std::size(kTame))] : kWild[below(std::size(kWild))];
    if (dtype == Dtype::Bool)
      value = below(2) == 1;
    else if (!is_float(dtype))
      value = static_cast<int64_t>(below(4)) - (is_signed(dtype) ? 1 : 0);
    const double real = value.as<double>();
    return {graph_.full(like.tensor.dims(), value, dtype), real, real, 0};
  }

  Item partner(const Item& like) {
    if (chance(45)) return constant_like(like);
    for (int tries = 0; tries < 6; ++tries) {
      const Item& other = pick();
      if (other.tensor.dtype() == like.tensor.dtype() && other.tensor.dims() == like.tensor.dims())
        return other;
    }
    return chance(50) ? like : constant_like(like);
  }

  GraphTensor apply(const OpDef& op, const std::vector<GraphTensor>& inputs, Attributes attributes = {}) {
    OpBuilder builder = graph_.add_op(op);
    for (const GraphTensor& input : inputs) builder.input(input);
    for (const auto& [key, value] : attributes.entries()) builder.attribute(key, value);
    return builder.finish();
  }

  void add_step() {
    const Item item = pick();  // a copy: adding moves the list
    switch (below(10)) {
      case 0:
      case 1:
        return add_unary(item);
      case 2:
      case 3:
      case 4:
        return add_binary(item);
      case 5:
        return add_reduction(item);
      case 6:
        return add_choice(item);
      case 7:
        return add_cast(item);
      default:
        return add_view(item);
    }
  }

  void add_unary(const Item& x) {
    if (!is_float(x.tensor.dtype())) return;
    const double scale = std::max(std::abs(x.low), std::abs(x.high));
    const auto both = [&](const OpDef& op) { return apply(op, {apply(op, {x.tensor})}); };
    if (!tame()) {
      const OpDef* ops[] = {&kRecip, &kLog2, &kExp2, &kSin, &kSqrt, &kFloor, &kTanh, &kExp, &kDetach};
      const OpDef& op = *ops[below(std::size(ops))];
      return add(chance(30) ? both(op) : apply(op, {x.tensor}));
    }
    if (x.low > 0.2 && chance(60)) {
      if (chance(40)) return add(apply(kRecip, {x.tensor}), 1 / x.high, 1 / x.low, x.error / (x.low * x.low));
      if (chance(40)) return add(both(kRecip), x.low, x.high, x.error + 8 * unit(x.tensor.dtype()) * scale);
      if (chance(30))
        return add(apply(kExp2, {apply(kLog2, {x.tensor})}), x.low, x.high,
                   x.error + 40 * unit(x.tensor.dtype()) * scale);
      return add(apply(kLog2, {x.tensor}), std::log2(x.low), std::log2(x.high), x.error / x.low * 1.5);
    }
    if (scale <= 4 && chance(70)) {
      const double high = std::exp2(x.high);
      if (chance(40))
        return add(apply(kLog2, {apply(kExp2, {x.tensor})}), x.low, x.high,
                   x.error + 40 * unit(x.tensor.dtype()) * (1 + scale));
      return add(apply(kExp2, {x.tensor}), std::exp2(x.low), high, x.error * high);
    }
    add(apply(kSin, {x.tensor}), -1, 1, x.error);
  }

  void add_binary(const Item& x) {
    const Item y = partner(x);
    const bool swapped = chance(50);
    const std::vector<GraphTensor> inputs =
        swapped ? std::vector{y.tensor, x.tensor} : std::vector{x.tensor, y.tensor};
    const Dtype dtype = x.tensor.dtype();
    if (!tame()) return add_wild_binary(inputs, dtype);
    const double scale_x = std::max(std::abs(x.low), std::abs(x.high)),
                 scale_y = std::max(std::abs(y.low), std::abs(y.high));
    switch (below(4)) {
      case 0:
        if (scale_x + scale_y > kLargest) return;
        // Partial sums of joined constants are no larger than this either.
        return add(apply(kAdd, inputs), x.low + y.low, x.high + y.high,
                   x.error + y.error + 4 * unit(dtype) * (scale_x + scale_y));
      case 1: {
        if (scale_x * scale_y > kLargest) return;
        const double corners[] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
        return add(apply(kMul, inputs), *std::ranges::min_element(corners),
                   *std::ranges::max_element(corners), scale_x * y.error + scale_y * x.error);
      }
      case 2:
        return add(apply(kMax, inputs, {{"ties", std::string("split")}}), std::max(x.low, y.low),
                   std::max(x.high, y.high), std::max(x.error, y.error));
      default: {
        if (y.low <= 0.4) return;
        const double corners[] = {x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high};
        return add(apply(kDiv, {x.tensor, y.tensor}), *std::ranges::min_element(corners),
                   *std::ranges::max_element(corners), x.error / y.low + scale_x * y.error / (y.low * y.low));
      }
    }
  }

  void add_wild_binary(const std::vector<GraphTensor>& inputs, Dtype dtype) {
    const bool integer = is_integer(dtype), boolean = dtype == Dtype::Bool;
    std::vector<const OpDef*> ops = {&kAdd, &kMul, &kMax};
    if (is_float(dtype)) ops.insert(ops.end(), {&kDiv, &kMod, &kPow});
    if (integer) ops.insert(ops.end(), {&kIntDiv, &kMod, &kShift});
    if (boolean) ops.clear();
    if (integer || boolean) ops.insert(ops.end(), {&kAnd, &kOr, &kXor});
    if (chance(20)) ops = {&kLessThan};
    const OpDef& op = *ops[below(ops.size())];
    add(apply(op, inputs, &op == &kMax ? Attributes{{"ties", std::string("split")}} : Attributes{}));
    if (chance(15))
      add(apply(op, {inputs[1], inputs[0]},
                &op == &kMax ? Attributes{{"ties", std::string("split")}} : Attributes{}));
  }

  void add_reduction(const Item& x) {
    const int rank = x.tensor.rank();
    if (rank == 0 || x.tensor.dtype() == Dtype::Bool) return;
    std::vector<int64_t> axes;
    int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis)
      if (chance(50)) {
        axes.push_back(axis);
        count *= *x.tensor.dims()[static_cast<size_t>(axis)].constant();
      }
    const auto n = static_cast<double>(count);
    if (axes.empty()) return;
    const double scale = std::max(std::abs(x.low), std::abs(x.high));
    if (chance(40)) {
      if (tame() && count == 0) return;
      return add(apply(kMaxReduce, {x.tensor}, {{"axes", axes}, {"ties", std::string("split")}}), x.low,
                 x.high, x.error);
    }
    if (!tame() && chance(30)) return add(apply(kProdReduce, {x.tensor}, {{"axes", axes}}));
    if (n * scale > kLargest) return;
    add(apply(kSumReduce, {x.tensor}, {{"axes", axes}}), n * x.low, n * x.high,
        n * x.error + n * unit(x.tensor.dtype()) * scale);
  }

  void add_choice(const Item& x) {
    const Item y = partner(x);
    Item condition = constant_like({graph_.full(x.tensor.dims(), false, Dtype::Bool)});
    if (!tame() && chance(50)) condition.tensor = apply(kLessThan, {x.tensor, y.tensor});
    add(apply(kWhere, {condition.tensor, x.tensor, y.tensor}), std::min(x.low, y.low),
        std::max(x.high, y.high), std::max(x.error, y.error));
  }

  void add_cast(const Item& x) {
    static constexpr Dtype kTame[] = {Dtype::F32, Dtype::F64};
    const Dtype to = tame() ? kTame[below(2)] : kPlainDtypes[below(kPlainDtypes.size())];
    const GraphTensor cast = apply(kCast, {x.tensor}, {{"dtype", to}});
    add(cast, x.low, x.high, x.error);
    if (chance(50))
      add(apply(kCast, {cast}, {{"dtype", x.tensor.dtype()}}), x.low, x.high, x.error + items_.back().error);
  }

  void add_view(const Item& x) {
    const GraphTensor& t = x.tensor;
    const int rank = t.rank();
    const int axis = rank > 0 ? static_cast<int>(below(static_cast<size_t>(rank))) : 0;
    Item moved = x;
    switch (below(7)) {
      case 0:
        if (rank < 2) return;
        moved.tensor = t.transpose(0, axis);
        break;
      case 1:
        if (rank > 3) return;
        moved.tensor = t.expand_dim(axis, 1 + static_cast<int64_t>(below(3)));
        break;
      case 2: {
        if (rank == 0) return;
        const Number fill =
            is_float(t.dtype()) ? Number(chance(50) ? 0.0 : 1.0) : Number(static_cast<int64_t>(below(2)));
        moved.tensor =
            t.pad_along(axis, static_cast<int64_t>(below(2)), static_cast<int64_t>(below(2)), fill);
        moved.low = std::min(moved.low, 0.0);
        moved.high = std::max(moved.high, 1.0);
        break;
      }
      case 3:
        if (rank == 0) return;
        moved.tensor = t.slice_along(axis, static_cast<int64_t>(below(2)), t.dim(axis));
        break;
      case 4:
        moved.tensor = t.reshape({element_count(t.dims())});
        break;
      case 5:
        if (rank == 0) return;
        moved.tensor = t.flip(axis);
        break;
      default:
        moved.tensor = t.unsqueeze(axis);
    }
    if (moved.tensor.rank() > 4 || *element_count(moved.tensor.dims()).constant() > 2000) return;
    items_.push_back(moved);
  }

  std::mt19937_64 random_;
  Kind kind_;
  Graph graph_;
  std::vector<Item> items_, outputs_;
};

}  // namespace luminal::test
