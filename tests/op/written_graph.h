#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "luminal/luminal.h"
#include "unit/search/pipeline.h"

namespace luminal::test {

/// Multiples of 1/8 between -1 and 1: sums of products of a few of them are exact in f32.
inline void fill(GraphTensor x, uint64_t seed) {
  std::vector<int64_t> dims;
  for (const Expression& d : x.dims()) dims.push_back(*d.constant());
  TensorData data(x.dtype(), dims);
  std::mt19937_64 engine(seed);
  visit_dtype(x.dtype(), [&]<class T>(T) {
    for (T& v : data.as<T>()) v = static_cast<T>(static_cast<double>(engine() % 17) / 8 - 1);
  });
  x.set(std::move(data));
}

/// A random graph that writes itself down: `text()` is C++ that builds it again, so that a failure can be
/// pasted as a test.
class WrittenGraph {
 public:
  explicit WrittenGraph(uint64_t seed) : engine_(seed) {}

  Graph cx;
  [[nodiscard]] const std::vector<GraphTensor>& results() const { return results_; }
  [[nodiscard]] std::string text() const {
    std::vector<std::string> names;
    for (const GraphTensor& r : results_) names.push_back(name(r));
    return fmt::format("\n  Graph cx;\n{}  expect_fast_plan(cx, {{{}}});\n", text_, fmt::join(names, ", "));
  }

 protected:
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  void shuffle(T& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(between(0, static_cast<int64_t>(i) - 1))]);
  }
  template <class T>
  static std::string list(const T& values) {
    std::string text;
    for (const auto& v : values) {
      if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>)
        text += (text.empty() ? "" : ", ") + std::to_string(v);
      else
        text += (text.empty() ? "" : ", ") + v.to_string();
    }
    return "{" + text + "}";
  }

  GraphTensor input(const Shape& dims) {
    const GraphTensor x = named(cx.tensor(dims), "cx.tensor(" + list(dims) + ")");
    const auto seed = static_cast<uint64_t>(names_);
    text_ += "  fill(" + name(x) + ", " + std::to_string(seed) + ");\n";
    fill(x, seed);
    return x;
  }
  /// `tensor` under a name of its own, and how it is written.
  GraphTensor named(GraphTensor tensor, const std::string& written) {
    known_.push_back(tensor);
    text_ += "  auto x" + std::to_string(names_++) + " = " + written + ";\n";
    return tensor;
  }
  [[nodiscard]] std::string name(const GraphTensor& tensor) const {
    for (size_t k = known_.size(); k-- > 0;)
      if (known_[k].edge() == tensor.edge()) return "x" + std::to_string(k);
    return "?";
  }
  void result(GraphTensor tensor) {
    text_ += "  " + name(tensor) + ".retrieve();\n";
    results_.push_back(tensor.retrieve());
  }

 private:
  std::mt19937_64 engine_;
  std::string text_;
  int names_ = 0;
  std::vector<GraphTensor> known_, results_;
};

/// Values on `cpu` in Fast mode are the reference's. Returns the report of the plan.
inline CompileReport run_beside_reference(Graph& cx, const std::vector<GraphTensor>& results, double error) {
  cx.set_device("reference");
  cx.execute();
  std::vector<TensorData> wanted;
  for (const GraphTensor& r : results) wanted.push_back(*cx.value(r.edge().source));
  cx.set_device("cpu");
  auto run = cx.compile(Fast{});
  run();
  for (size_t k = 0; k < wanted.size(); ++k) {
    double scale = 1;
    for (const double x : search::test::elements(wanted[k]))
      if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
    search::test::expect_near(*cx.value(results[k].edge().source), wanted[k], error * scale, "result");
  }
  return run.details();
}

}  // namespace luminal::test
