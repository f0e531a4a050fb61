#pragma once
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "luminal/autograd.h"
#include "luminal/graph.h"
#include "luminal/scan.h"

namespace luminal::test {

/// A random graph over a batch whose size is known at run time only: elementwise ops, views, reductions over
/// any axes, contractions, softmax-like rows, several outputs. Every tensor carries a bound of its values and
/// of its rounding error in f32 for batches up to `kLargest`.
class SymbolicGraph {
 public:
  static constexpr int64_t kLargest = 40;
  struct Item {
    GraphTensor tensor;
    double bound = 1, error = 0;
  };

  explicit SymbolicGraph(uint64_t seed, int steps = 14, Dtype dtype = Dtype::F32)
      : random_(seed), dtype_(dtype) {
    for (const Shape& dims : {Shape{"n", 6}, Shape{"n", 4, 6}, Shape{6, 5}, Shape{4, 6}})
      items_.push_back({input(dims), 1, 0});
    for (int i = 0; i < steps; ++i) add_step();
    for (size_t i = 0; i < 3; ++i) {
      Item& item = items_[i == 0 ? items_.size() - 1 : below(items_.size())];
      if (std::ranges::find(inputs_, item.tensor.node(), &GraphTensor::node) != inputs_.end()) continue;
      item.tensor.retrieve();
      outputs_.push_back(item);
    }
  }

  Graph& graph() { return graph_; }
  [[nodiscard]] const std::vector<Item>& outputs() const { return outputs_; }

  /// The gradients of the outputs' sum by all inputs that it depends on, to be retrieved.
  std::vector<GraphTensor> gradients() {
    if (outputs_.empty()) return {};
    GraphTensor loss = outputs_[0].tensor.sum();
    for (size_t i = 1; i < outputs_.size(); ++i) loss = loss + outputs_[i].tensor.sum();
    std::vector<GraphTensor> found = graph_.run_pass(Autograd(inputs_, loss));
    for (GraphTensor& gradient : found) gradient.retrieve();
    return found;
  }

  /// New data for a batch of `n`. In f64 no two of them are equal, nor their sums.
  void feed(int64_t n) {
    for (GraphTensor& input : inputs_) {
      TensorData data(dtype_, exec(input.dims(), {{"n", n}}));
      visit_dtype(dtype_, [&]<class T>(T) {
        for (T& value : data.template as<T>())
          value =
              static_cast<T>(dtype_ == Dtype::F64
                                 ? static_cast<double>(random_() >> 11) * 0x1p-52 - 1
                                 : static_cast<double>(static_cast<int64_t>(random_() % 2001) - 1000) / 1000);
      });
      input.set(std::move(data));
    }
  }

 private:
  static constexpr double kUnit = 0x1p-24, kMost = 200;

  size_t below(size_t n) { return random_() % n; }
  GraphTensor input(const Shape& dims) { return inputs_.emplace_back(graph_.tensor(dims, dtype_)); }
  Item& pick() {
    return items_[below(2) == 0 ? items_.size() - 1 - below(std::min<size_t>(items_.size(), 4))
                                : below(items_.size())];
  }
  void add(GraphTensor tensor, double bound, double error) {
    if (bound > kMost || tensor.rank() > 4) return;
    items_.push_back({std::move(tensor), bound, error + 8 * kUnit * bound});
  }
  static double largest(const Expression& dim) { return static_cast<double>(dim.exec({{"n", kLargest}})); }

  void add_step() {
    const Item x = pick();
    const size_t kind = dtype_ == Dtype::F64 ? below(11) : below(9);
    switch (dtype_ != Dtype::F64 && kind == 8 ? 10 : kind) {  // indexing and loops in f64 alone
      case 0:
        return add(x.tensor.sin(), 1, x.error + 8 * kUnit);
      case 1:
        return x.bound > 4 ? void() : add(x.tensor.exp2(), std::exp2(x.bound), x.error * std::exp2(x.bound));
      case 2:
        return add(x.tensor.relu() * 0.5 + 0.25, x.bound / 2 + 0.25, x.error);
      case 3:
      case 4:
        return add_pair(x);
      case 5:
        return add_reduction(x);
      case 6:
        return add_contraction(x);
      case 7:
        return add_rows(x);
      case 8:
        return add_gather(x);
      case 9:
        return add_loop(x);
      default:
        return add_view(x);
    }
  }

  void add_pair(const Item& x) {
    for (int tries = 0; tries < 8; ++tries) {
      const Item& y = pick();
      if (y.tensor.dims() != x.tensor.dims()) continue;
      if (below(2) == 0) return add(x.tensor + y.tensor, x.bound + y.bound, x.error + y.error);
      return add(x.tensor * y.tensor, x.bound * y.bound, x.bound * y.error + y.bound * x.error);
    }
  }

  void add_reduction(const Item& x) {
    if (x.tensor.rank() == 0) return;
    const int axis = static_cast<int>(below(static_cast<size_t>(x.tensor.rank())));
    const double count = largest(x.tensor.dim(axis));
    if (below(3) == 0) return add(x.tensor.max(axis), x.bound, x.error);
    // The mean: bounds stay small.
    add(x.tensor.sum(axis) * (1 / count), x.bound, x.error + count * kUnit * x.bound);
  }

  void add_contraction(const Item& x) {
    if (x.tensor.rank() < 2) return;
    const Expression inner = x.tensor.dim(x.tensor.rank() - 1);
    for (int tries = 0; tries < 8; ++tries) {
      const Item& w = pick();
      if (w.tensor.rank() != 2 || w.tensor.dim(0) != inner) continue;
      const double count = largest(inner), bound = x.bound * w.bound;
      return add(x.tensor.matmul(w.tensor) * (1 / count), bound,
                 x.bound * w.error + w.bound * x.error + count * kUnit * bound);
    }
  }

  /// A row statistic read by every element of the row.
  void add_rows(const Item& x) {
    if (x.tensor.rank() == 0 || x.bound > 8) return;
    const int axis = x.tensor.rank() - 1;
    const double count = largest(x.tensor.dim(axis));
    add(x.tensor.softmax(axis), 1, 4 * x.error + (count + 16) * kUnit);
  }

  /// Places that a formula gives, of any size, or along the batch.
  void add_gather(const Item& x) {
    if (x.tensor.rank() == 0) return;
    const int axis = static_cast<int>(below(static_cast<size_t>(x.tensor.rank())));
    const Expression size = x.tensor.dim(axis), z = Expression::flat_index();
    const Expression dims[] = {5, "n", size};
    const GraphTensor index = graph_.iota((z * 3 + 1) % size.max(1), {dims[below(3)]});
    add(x.tensor.index_select(axis, index), x.bound, x.error);
  }

  /// A loop over the first axis, or what cumulates along any.
  void add_loop(const Item& x) {
    if (x.tensor.rank() == 0) return;
    const int axis = static_cast<int>(below(static_cast<size_t>(x.tensor.rank())));
    const double count = largest(x.tensor.dim(axis));
    if (below(2) == 0)
      return add(x.tensor.cumsum(axis) * (1 / count), x.bound, x.error + count * kUnit * x.bound);
    Shape state = x.tensor.dims();
    state.erase(state.begin());
    const auto loop =
        scan({graph_.zeros(state, dtype_)}, {x.tensor}, [](auto carry, auto element) -> ScanStep {
          const GraphTensor next = 0.5 * carry[0] + element[0];
          return {.carry = {next}, .outputs = {next.sin()}};
        });
    add(loop.outputs[0], 1, 2 * x.error + 8 * kUnit * x.bound);
  }

  void add_view(const Item& x) {
    const GraphTensor& t = x.tensor;
    if (t.rank() == 0) return;
    const int axis = static_cast<int>(below(static_cast<size_t>(t.rank())));
    switch (below(5)) {
      case 0:
        return add(t.transpose(0, axis), x.bound, x.error);
      case 1:
        return add(t.pad_along(axis, 1, static_cast<int64_t>(below(2))), x.bound, x.error);
      case 2:
        return t.dim(axis).constant() && *t.dim(axis).constant() > 2
                   ? add(t.slice_along(axis, 1, t.dim(axis)), x.bound, x.error)
                   : void();
      case 3:
        return add(t.expand_dim(axis, 3), x.bound, x.error);
      default:
        return add(t.flip(axis), x.bound, x.error);
    }
  }

  std::mt19937_64 random_;
  Dtype dtype_;
  Graph graph_;
  std::vector<GraphTensor> inputs_;
  std::vector<Item> items_, outputs_;
};

}  // namespace luminal::test
