#pragma once
#include <functional>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/scan.h"

/// Loops that tests run as one node and, to compare, laid out step by step.
namespace luminal::test {

using Tensors = std::vector<GraphTensor>;
using Loop = std::function<ScanResult(Tensors carry, Tensors sequences, const ScanBody& body, ScanOptions)>;

inline ScanResult as_scan(Tensors carry, Tensors sequences, const ScanBody& body, ScanOptions options) {
  return scan(std::move(carry), std::move(sequences), body, options);
}

/// What a scan stands for; of known length, at least 1.
inline ScanResult step_by_step(Tensors carry, const Tensors& sequences, const ScanBody& body,
                               const ScanOptions& options) {
  const int64_t length = (options.length ? *options.length : sequences.at(0).dim(0)).constant().value();
  std::vector<Tensors> outputs;
  for (int64_t done = 0; done < length; ++done) {
    Tensors elements;
    for (const GraphTensor& x : sequences) elements.push_back(x[options.reverse ? length - 1 - done : done]);
    ScanStep step = body(carry, elements);
    carry = step.carry;
    outputs.push_back(step.outputs);
  }
  if (options.reverse) std::ranges::reverse(outputs);
  ScanResult result{carry, {}};
  for (size_t i = 0; i < outputs.at(0).size(); ++i) {
    Tensors all;
    for (const Tensors& step : outputs) all.push_back(step[i]);
    result.outputs.push_back(stack(all));
  }
  return result;
}

/// All that a loop gives in one row.
inline GraphTensor in_a_row(const ScanResult& result, Dtype dtype) {
  Tensors parts;
  for (const auto* list : {&result.carry, &result.outputs})
    for (const GraphTensor& tensor : *list)
      parts.push_back(tensor.contiguous().reshape({element_count(tensor.dims())}).cast(dtype));
  return concat(parts, 0);
}

struct Recurrence {
  std::string name;
  std::vector<std::vector<int64_t>> inputs;  ///< sizes
  std::function<ScanResult(const Tensors& in, const Loop& loop, const ScanOptions& options)> make;
};

inline std::vector<Recurrence> recurrences() {
  std::vector<Recurrence> all;
  all.push_back({"filter", {{3}, {7, 3}}, [](const Tensors& in, const Loop& loop, const ScanOptions& o) {
                   return loop(
                       {in[0]}, {in[1]},
                       [](auto carry, auto x) -> ScanStep {
                         const GraphTensor next = carry[0] * 0.9 + x[0];
                         return {{next}, {next}};
                       },
                       o);
                 }});
  // Weights from outside, one seen through a view, and what is computed of them alone.
  all.push_back({"cell",
                 {{2, 4}, {2, 4}, {5, 2, 3}, {8, 3}, {8, 4}, {8}},
                 [](const Tensors& in, const Loop& loop, const ScanOptions& o) {
                   return loop(
                       {in[0], in[1]}, {in[2]},
                       [&](auto carry, auto x) -> ScanStep {
                         const GraphTensor gates =
                             x[0].matmul(in[3].t()) + carry[0].matmul(in[4].t()) + in[5] * 2;
                         const GraphTensor forget = gates.slice_along(1, 0, 4).sigmoid();
                         const GraphTensor fresh = gates.slice_along(1, 4, 8).tanh();
                         const GraphTensor cell = forget * carry[1] + (1 - forget) * fresh;
                         const GraphTensor hidden = cell.tanh();
                         return {{hidden, cell}, {hidden, forget.sum(1)}};
                       },
                       o);
                 }});
  // Carries that change places, an output that is an element, one that is a shared value, one seen turned.
  all.push_back({"exchange",
                 {{2, 2}, {2, 2}, {6, 2, 2}, {3}},
                 [](const Tensors& in, const Loop& loop, const ScanOptions& o) {
                   return loop(
                       {in[0], in[1]}, {in[2]},
                       [&](auto carry, auto x) -> ScanStep {
                         return {{carry[1], carry[0] + x[0]}, {x[0], in[3], carry[0].t()}};
                       },
                       o);
                 }});
  // A counter beside the state, positions inside a step, two sequences.
  all.push_back(
      {"counted", {{4}, {9, 4}, {9}}, [](const Tensors& in, const Loop& loop, const ScanOptions& o) {
         Graph cx = in[0].graph();
         return loop(
             {in[0], cx.constant(0, Dtype::I32)}, {in[1], in[2]},
             [](auto carry, auto x) -> ScanStep {
               Graph own = carry[0].graph();
               const GraphTensor even = (carry[1] % 2).eq(0);
               const GraphTensor place = own.arange(4).cast(x[0].dtype());
               const GraphTensor next = even.where(carry[0] + x[0] * x[1], carry[0] - place * x[1]);
               return {{next, carry[1] + 1}, {next.max(0)}};
             },
             o);
       }});
  all.push_back({"map", {{4, 3}, {3}}, [](const Tensors& in, const Loop& loop, const ScanOptions& o) {
                   return loop(
                       {}, {in[0]}, [&](auto, auto x) -> ScanStep { return {{}, {x[0] * in[1]}}; }, o);
                 }});
  all.push_back({"power", {{3}, {3, 3}}, [](const Tensors& in, const Loop& loop, ScanOptions o) {
                   o.length = 5;
                   return loop(
                       {in[0]}, {},
                       [&](auto carry, auto) -> ScanStep {
                         const GraphTensor next = in[1].matmul(carry[0].unsqueeze(1)).squeeze(1);
                         return {{next.sin()}, {}};
                       },
                       o);
                 }});
  // A loop in each step of a loop.
  all.push_back(
      {"nested", {{2}, {4, 3, 2}, {2}}, [](const Tensors& in, const Loop& loop, const ScanOptions& o) {
         return loop(
             {in[0]}, {in[1]},
             [&](auto carry, auto x) -> ScanStep {
               ScanResult inner = loop({carry[0]}, {x[0]},
                                       [&](auto state, auto y) -> ScanStep {
                                         const GraphTensor next = state[0] * in[2] + y[0] * carry[0];
                                         return {{next}, {next.sin()}};
                                       },
                                       {});
               return {inner.carry, {inner.outputs[0].sum(0)}};
             },
             o);
       }});
  return all;
}

}  // namespace luminal::test
