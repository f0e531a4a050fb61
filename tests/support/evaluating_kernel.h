#pragma once
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernel/evaluate.h"
#include "search/verification/test_inputs.h"
#include "search/verification/verify.h"
#include "support/plain_kernel.h"

namespace luminal::test {

/// What to do with the outputs of a kernel, one after the other, whose first input begins with this number.
using Change = std::function<void(float first_input, std::span<float> made)>;

/// A kernel of one task that evaluates a spec and then makes a change. Counts its runs.
inline std::shared_ptr<PlainKernel> evaluating(const kernel::KernelSpec& spec, Change change = {},
                                               std::atomic<int>* runs = nullptr) {
  return std::make_shared<PlainKernel>(1, [=](void* const* buffers, int64_t) {
    std::vector<TensorData> slots;
    for (const kernel::Slot& slot : spec.slots()) {
      TensorData& data = slots.emplace_back(slot.dtype, std::vector{slot.elements.exec({})});
      std::memcpy(data.bytes.data(), buffers[slots.size() - 1], data.bytes.size());
    }
    std::vector<TensorData> made = kernel::evaluate(spec, slots);
    for (size_t o = 0; o < made.size(); ++o) {
      if (change) change(slots[0].as<float>()[0], made[o].as<float>());
      std::memcpy(buffers[slots.size() + o], made[o].bytes.data(), made[o].bytes.size());
    }
    if (runs != nullptr) ++*runs;
  });
}

/// An element of a matrix that no sample of a suite with these sizes sees.
inline size_t unseen_element(int64_t rows, int64_t columns) {
  const search::SuiteOptions options;
  const auto seen = search::covering_positions({rows, columns}, options.samples, rows * columns, options.seed,
                                               options.tiles);
  int64_t element = 100;
  while (std::ranges::find(seen, element) != seen.end()) ++element;
  return static_cast<size_t>(element);
}

}  // namespace luminal::test
