#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/scan.h"

namespace luminal::test {

/// A random graph with views, reductions, elementwise ops of several dtypes, many constants that laws look
/// for, and several outputs. The same seed builds the same graph again.
///
/// Wild: special values everywhere (infinities, NaN, signed zeros, subnormal numbers), every op; results are
/// compared bit by bit. Tame: each tensor carries bounds of its values and of its rounding error, and only ops
/// that are smooth there are used, so that laws over the reals have a bound to be held to. Wide: tame, with all
/// plain dtypes but the small integers, products, rows with statistics, indexing, sorting and loops; decisions
/// (comparisons, positions, argmax) fall by integers, which carry no error.
class RandomGraph {
 public:
  enum class Kind { Wild, Tame, Wide };
  struct Item {
    GraphTensor tensor;
    double low = 0, high = 0;  ///< not wild: bounds of the values
    double error = 0;          ///< not wild: bound of the rounding error, also after laws over the reals
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
  [[nodiscard]] bool tame() const { return kind_ != Kind::Wild; }
  [[nodiscard]] bool wide() const { return kind_ == Kind::Wide; }
  static double unit(Dtype dtype) {
    return dtype == Dtype::F64 ? 0x1p-53 : dtype == Dtype::F32 ? 0x1p-24 : 0x1p-8;
  }

  void add_inputs() {
    const std::vector<Dtype> dtypes = wide()   ? std::vector{Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16,
                                                           Dtype::I32, Dtype::I64, Dtype::Bool}
                                      : tame() ? std::vector{Dtype::F64, Dtype::F32}
                                               : std::vector(kPlainDtypes.begin(), kPlainDtypes.end());
    for (int i = 0; i < (wide() ? 4 : 3); ++i) {
      const Dtype dtype = i == 0 ? dtypes[0] : wide() && i == 1 ? Dtype::I64 : dtypes[below(dtypes.size())];
      Shape dims;
      std::vector<int64_t> sizes;
      for (size_t axis = below(3) + 1; axis > 0; --axis)
        sizes.push_back(1 + static_cast<int64_t>(below(wide() ? 7 : 4)));
      for (const int64_t size : sizes) dims.emplace_back(size);
      GraphTensor input = graph_.tensor(dims, dtype);
      TensorData data(dtype, sizes);
      visit_dtype(dtype, [&]<class T>(T) {
        for (T& value : data.as<T>()) value = static_cast<T>(input_value(is_float(dtype)));
      });
      input.set(std::move(data));
      if (is_float(dtype) || !tame())
        items_.push_back({input, -2, 2, 2 * unit(dtype)});
      else
        items_.push_back({input, dtype == Dtype::Bool ? 0.0 : -4.0, dtype == Dtype::Bool ? 1.0 : 8.0, 0});
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
    if (tensor.dtype() == Dtype::F16) error += 0x1p-24;  // the step of subnormal numbers
    if (wide() && (tensor.rank() > 4 || *element_count(tensor.dims()).constant() > 2000)) return;
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
    if (wide() && chance(50)) return add_wide(item);
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
    if (dtype == Dtype::Bool) {
      const OpDef* ops[] = {&kAnd, &kOr, &kXor};
      return add(apply(*ops[below(3)], inputs), 0, 1);
    }
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
        if (!is_float(dtype)) return add_division(x, y);
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
    Item condition = wide() ? decision(x.tensor.dims())
                            : constant_like({graph_.full(x.tensor.dims(), false, Dtype::Bool)});
    if (!tame() && chance(50)) condition.tensor = apply(kLessThan, {x.tensor, y.tensor});
    add(apply(kWhere, {condition.tensor, x.tensor, y.tensor}), std::min(x.low, y.low),
        std::max(x.high, y.high), std::max(x.error, y.error));
  }

  void add_cast(const Item& x) {
    if (wide()) return add_wide_cast(x);
    static constexpr Dtype kTame[] = {Dtype::F32, Dtype::F64};
    const Dtype to = tame() ? kTame[below(2)] : kPlainDtypes[below(kPlainDtypes.size())];
    const GraphTensor cast = apply(kCast, {x.tensor}, {{"dtype", to}});
    add(cast, x.low, x.high, x.error);
    if (chance(50))
      add(apply(kCast, {cast}, {{"dtype", x.tensor.dtype()}}), x.low, x.high, x.error + items_.back().error);
  }

  // --- Wide

  /// Floor division and remainder, by what is not 0.
  void add_division(const Item& x, const Item& y) {
    if (!is_integer(x.tensor.dtype()) || y.low < 1) return;
    if (chance(50)) return add(apply(kMod, {x.tensor, y.tensor}), 0, y.high - 1);
    const double scale = std::max(std::abs(x.low), std::abs(x.high));
    add(apply(kIntDiv, {x.tensor, y.tensor}), -scale, scale);
  }

  /// Booleans of these dims that no rounding decides: from integers where there are some.
  Item decision(const Shape& dims) {
    for (const Item& item : items_) {
      if (!(item.tensor.dims() == dims) || chance(40)) continue;
      if (item.tensor.dtype() == Dtype::Bool) return item;
      if (is_integer(item.tensor.dtype()))
        return {apply(kLessThan, {item.tensor, constant_like(item).tensor}), 0, 1};
    }
    return {graph_.iota(Expression::flat_index() * 7 % 5, dims).lt(2), 0, 1};
  }

  void add_wide_cast(const Item& x) {
    static constexpr Dtype kFloats[] = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16};
    static constexpr Dtype kIntegers[] = {Dtype::I32, Dtype::I64};
    if (!is_float(x.tensor.dtype()) && chance(50))
      return add(x.tensor.cast(kIntegers[below(2)]), x.low, x.high);
    add(x.tensor.cast(kFloats[below(4)]), x.low, x.high, x.error);
  }

  void add_wide(const Item& x) {
    if (x.tensor.rank() == 0 || x.tensor.dtype() == Dtype::Bool) return;
    const auto axis = static_cast<int>(below(static_cast<size_t>(x.tensor.rank())));
    const auto size = static_cast<size_t>(*x.tensor.dim(axis).constant());
    if (size == 0) return;
    switch (below(9)) {
      case 0:
      case 1:
        return add_product(x);
      case 2:
        return add_statistics(x, axis);
      case 3:
      case 4:
        return add_gather(x, axis, size);
      case 5:
        return add_scatter(x, axis, size);
      case 6:
        return add_order(x, axis, size);
      case 7:
        return add_loop(x, axis, static_cast<double>(size));
      default: {
        const Item y = partner(x);
        const GraphTensor joined =
            chance(50) ? concat({x.tensor, y.tensor}, axis) : stack({x.tensor, y.tensor}, axis);
        return add(joined, std::min(x.low, y.low), std::max(x.high, y.high), std::max(x.error, y.error));
      }
    }
  }

  GraphTensor numbers(const Shape& dims, Dtype dtype, const std::function<double()>& draw) {
    GraphTensor x = graph_.tensor(dims, dtype);
    TensorData data(dtype, exec(dims, {}));
    visit_dtype(dtype, [&]<class T>(T) {
      for (T& value : data.as<T>()) value = static_cast<T>(draw());
    });
    x.set(std::move(data));
    return x;
  }

  /// A matrix product with new weights or with another tensor, and often an epilogue.
  void add_product(const Item& x) {
    const Dtype dtype = x.tensor.dtype();
    const Expression inner = x.tensor.dim(x.tensor.rank() - 1);
    const auto n = static_cast<double>(*inner.constant());
    const double scale = std::max(std::abs(x.low), std::abs(x.high));
    if (n * scale > kLargest) return;
    Item w{{}, -1, 1, 0};
    for (const Item& item : items_)
      if (item.tensor.rank() == 2 && item.tensor.dim(0) == inner && item.tensor.dtype() == dtype &&
          chance(50))
        w = item;
    if (!w.tensor.valid())
      w.tensor = numbers({inner, 1 + static_cast<int64_t>(below(6))}, dtype, [&] {
        return is_float(dtype) ? static_cast<double>(below(17)) / 8 - 1 : static_cast<double>(below(3)) - 1;
      });
    const double scale_w = std::max(std::abs(w.low), std::abs(w.high)), most = n * scale * scale_w;
    if (most > kLargest) return;
    const double error = n * (scale * w.error + scale_w * x.error) +
                         (is_float(dtype) ? 2 * n * unit(dtype) * scale * scale_w : 0);
    add(x.tensor.matmul(w.tensor), -most, most, error);
    if (chance(50)) return;
    const Item y = items_.back();
    if (is_float(dtype)) return add(y.tensor.relu() * 0.5, 0, most / 2, error);
    add(maximum(y.tensor, 0), 0, most);
  }

  void add_statistics(const Item& x, int axis) {
    const Dtype dtype = x.tensor.dtype();
    if (!is_float(dtype) || x.error > 0.01) return;
    const auto n = static_cast<double>(*x.tensor.dim(axis).constant());
    const double scale = std::max({std::abs(x.low), std::abs(x.high), 1.0}), rounding = 8 * n * unit(dtype);
    if (scale > 20) return;
    // In narrow floats each of the steps rounds.
    switch (below(4)) {
      case 0:
        return add(x.tensor.softmax(axis), 0, 1, 8 * (x.error + 2 * unit(dtype) * scale) + rounding);
      case 1:
        return add(x.tensor.logsumexp(axis), x.low, x.high + std::log(n),
                   x.error + (rounding + 8 * unit(dtype)) * scale);
      case 2:
        return add(x.tensor.var(axis, false, 0), 0, 4 * scale * scale,
                   8 * scale * (x.error + rounding * scale));
      default:
        // The variance is at least the epsilon, 1: roots and reciprocals are smooth there.
        return add(x.tensor.layer_norm(axis, 1.0), -2 * scale, 2 * scale,
                   (2 + 16 * scale * scale) * (x.error + rounding * scale));
    }
  }

  /// Positions below `size`: given, by a formula, or computed.
  GraphTensor positions(const Shape& dims, size_t size) {
    switch (below(3)) {
      case 0:
        return graph_.iota((Expression::flat_index() * (1 + static_cast<int64_t>(below(5))) +
                            static_cast<int64_t>(below(3))) %
                               static_cast<int64_t>(size),
                           dims);
      case 1:
        return (numbers(dims, Dtype::I64, [&] { return static_cast<double>(below(size)); }) * 5 + 3) %
               static_cast<int64_t>(size);
      default:
        return numbers(dims, Dtype::I32, [&] { return static_cast<double>(below(size)); });
    }
  }
  void add_gather(const Item& x, int axis, size_t size) {
    if (chance(50)) {
      Shape dims = x.tensor.dims();
      dims[static_cast<size_t>(axis)] = 1 + static_cast<int64_t>(below(6));
      return add(x.tensor.gather_elements(axis, positions(dims, size)), x.low, x.high, x.error);
    }
    Shape dims;
    for (size_t rank = below(3); rank > 0; --rank) dims.emplace_back(1 + static_cast<int64_t>(below(4)));
    add(x.tensor.index_select(axis, positions(dims, size)), x.low, x.high, x.error);
  }
  void add_scatter(const Item& x, int axis, size_t size) {
    const auto count = static_cast<int64_t>(1 + below(size));
    const GraphTensor updates = x.tensor.flip(axis).slice_along(axis, 0, count);
    const GraphTensor index = positions(updates.dims(), size);
    if (chance(50)) return add(x.tensor.scatter(axis, index, updates), x.low, x.high, x.error);
    const auto times = static_cast<double>(1 + count);
    const double scale = times * std::max(std::abs(x.low), std::abs(x.high));
    if (scale > kLargest) return;
    add(x.tensor.scatter_add(axis, index, updates), -scale, scale,
        times * x.error + (is_float(x.tensor.dtype()) ? times * unit(x.tensor.dtype()) * scale : 0));
  }

  /// Sorting moves no element by more than the error; positions are asked of integers alone.
  void add_order(const Item& x, int axis, size_t size) {
    const bool descending = chance(50);
    if (!is_float(x.tensor.dtype()) && chance(60)) {
      const auto last = static_cast<double>(size - 1);
      if (chance(50)) return add(x.tensor.argmax(axis), 0, last);
      return add(x.tensor.argsort(axis, descending), 0, last);
    }
    if (chance(50)) return add(x.tensor.sort(axis, descending), x.low, x.high, x.error);
    add(x.tensor.topk(static_cast<int64_t>(1 + below(size)), axis, descending).first, x.low, x.high, x.error);
  }

  void add_loop(const Item& x, int axis, double n) {
    const Dtype dtype = x.tensor.dtype();
    const double scale = std::max(std::abs(x.low), std::abs(x.high));
    const double rounding = is_float(dtype) ? unit(dtype) : 0;
    if (chance(40)) return add(x.tensor.cummax(axis), x.low, x.high, x.error);
    if (chance(40) || !is_float(dtype)) {
      if (n * scale > kLargest) return;
      return add(x.tensor.cumsum(axis), -n * scale, n * scale, n * x.error + n * n * rounding * scale);
    }
    Shape state = x.tensor.dims();
    state.erase(state.begin());
    const auto loop = scan({graph_.zeros(state, dtype)}, {x.tensor},
                           [](auto carry, auto element) -> ScanStep {
                             const GraphTensor next = 0.5 * carry[0] + element[0];
                             return {.carry = {next}, .outputs = {next + element[0]}};
                           },
                           {.reverse = chance(50)});
    add(chance(70) ? loop.outputs[0] : loop.carry[0], -3 * scale, 3 * scale,
        3 * x.error + 24 * rounding * scale);
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
