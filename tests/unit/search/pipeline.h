#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "kernel/cost.h"
#include "kernel/evaluate.h"
#include "luminal/graph.h"
#include "luminal/graph_tensor.h"
#include "luminal/reference.h"
#include "search/cover/cover.h"
#include "search/saturate/language.h"
#include "search/saturate/saturated_graph.h"

/// The search without a device: graph, program, e-graph, cover, and an evaluation of covers by the definition
/// of specs.
namespace luminal::test {}
namespace luminal::search::test {

using namespace luminal::test;  // one `test` for those who are in luminal::search

struct Searched {
  KernelGraph kernel_graph;
  std::shared_ptr<SpecStore> store;
  std::unique_ptr<Language> language;
  std::vector<egraph::Value> classes;
  size_t rows_before = 0, rows_after = 0;
  egraph::Report report;
  SaturatedGraph saturated;

  [[nodiscard]] const egraph::RuleReport* rule(std::string_view name) const {
    for (const auto& each : report.rules)
      if (each.name == name) return &each;
    return nullptr;
  }
};

inline Searched search(const Graph& graph, const SearchOptions& options = {}, bool everything = false) {
  Searched s{.kernel_graph = encode(graph, everything, options.math),
             .store = std::make_shared<SpecStore>(options.math)};
  s.language = std::make_unique<Language>(options, s.store);
  s.classes = s.language->load(s.kernel_graph);
  s.rows_before = s.language->kernel_count();
  s.report = s.language->saturate();
  s.rows_after = s.language->kernel_count();
  s.saturated = read_classes(*s.language, s.kernel_graph, s.classes);
  return s;
}

inline SpecCost roofline(DimMap dims = {}) {
  return [dims = std::move(dims)](const kernel::KernelSpec& spec) {
    return kernel::predicted_us(spec, dims, kernel::MachineLimits());
  };
}

using Formula = std::function<GraphTensor(Graph&)>;

/// The one kernel that a formula is at these sizes.
inline kernel::KernelSpec one_kernel_of(const Formula& formula, const DimMap& sizes = {}) {
  Graph cx;
  (void)formula(cx).retrieve();
  const Searched s = search(cx);
  const Cover cover = find_cover(s.saturated.cover, *s.store, roofline(sizes), {});
  EXPECT_EQ(cover.kernels.size(), 1U);
  return s.store->at(cover.kernels[0].spec);
}

/// Values of classes, computed launch by launch.
class Evaluation {
 public:
  Evaluation(Graph& graph, const Searched& searched) : graph_(graph), s_(searched) {
    values_.resize(s_.saturated.cover.classes.size());
    for (size_t t = 0; t < s_.kernel_graph.tensors.size(); ++t)
      if (s_.kernel_graph.tensors[t].kind == KernelGraph::Tensor::Kind::Input)
        values_[at(s_.saturated.class_of[t])] =
            std::make_unique<TensorData>(*graph.value(*s_.kernel_graph.tensors[t].value));
  }
  [[nodiscard]] bool has(int c) const { return values_[at(c)] != nullptr; }
  [[nodiscard]] const TensorData& of(int c) const { return *values_[at(c)]; }
  [[nodiscard]] const TensorData& of_tensor(TensorId id) const { return of(s_.saturated.class_of[at(id)]); }

  void kernel(SpecId spec, const std::vector<int>& inputs, const std::vector<int>& outputs) {
    std::vector<TensorData> slots;
    for (const int c : inputs) slots.push_back(of(c));
    auto results = kernel::evaluate(s_.store->at(spec), slots, graph_.dims());
    ASSERT_EQ(results.size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      values_[at(outputs[i])] = std::make_unique<TensorData>(std::move(results[i]));
  }
  void host(int number) {
    const KernelGraph::Host& host = s_.kernel_graph.hosts[at(number)];
    const Node& node = graph_.node(host.node);
    std::vector<TensorData> inputs;
    for (const TensorId id : host.inputs) {
      inputs.push_back(of_tensor(id));
      inputs.back().dims = exec(s_.kernel_graph.tensors[at(id)].type.dims, graph_.dims());
    }
    auto outputs = evaluate_op(*node.op, node.attributes, inputs, graph_.dims(), graph_.step());
    for (size_t i = 0; i < host.outputs.size(); ++i)
      values_[at(s_.saturated.class_of[at(host.outputs[i])])] =
          std::make_unique<TensorData>(std::move(outputs[i]));
  }
  void cover(const Cover& cover) {
    for (const CoverStep& step : cover.steps) {
      if (step.host >= 0) {
        host(step.host);
        continue;
      }
      const CoverKernel& own = cover.kernels[at(step.kernel)];
      for (const int c : own.inputs) ASSERT_TRUE(has(c)) << "class " << c << " is read before it is made";
      kernel(own.spec, own.inputs, own.outputs);
    }
  }

 private:
  template <class T>
  static size_t at(T i) {
    return static_cast<size_t>(i);
  }
  Graph& graph_;
  const Searched& s_;
  std::vector<std::unique_ptr<TensorData>> values_;
};

/// The elements as doubles.
inline std::vector<double> elements(const TensorData& data) {
  std::vector<double> list;
  visit_dtype(data.dtype, [&]<class T>(T) {
    for (const T& x : data.as<T>()) list.push_back(static_cast<double>(x));
  });
  return list;
}

/// Equal where not finite, and within `error` elsewhere.
inline void expect_near(const TensorData& got, const TensorData& wanted, double error,
                        const std::string& what) {
  ASSERT_EQ(got.dtype, wanted.dtype) << what;
  const auto a = elements(got), b = elements(wanted);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i]))
      ASSERT_TRUE(std::isnan(a[i])) << what << " element " << i << " is " << a[i] << ", not NaN";
    else if (std::isinf(b[i]))
      ASSERT_EQ(a[i], b[i]) << what << " element " << i;
    else
      ASSERT_NEAR(a[i], b[i], error) << what << " element " << i;
  }
}

}  // namespace luminal::search::test
