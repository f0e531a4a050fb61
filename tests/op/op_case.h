#pragma once
#include <functional>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "luminal/op_def.h"
#include "op/elements.h"

/// One instance of an op that the driver checks, made from the op's record: dtypes that its rule takes,
/// attributes from its variants, a shape, and the view through which each input is read.
namespace luminal::op_test {

/// How an input is read: the buffer has other dims, and a movement that gives the wanted ones.
enum class View { Direct, Permuted, Sliced, Padded, Broadcast, Flipped };
inline constexpr View kViews[] = {View::Direct, View::Permuted,  View::Sliced,
                                  View::Padded, View::Broadcast, View::Flipped};

/// Where the cases run: one line joins a device.
inline constexpr const char* kDevices[] = {
    "reference", "cpu",
    "deferred",  // tests/support/deferred_device.h
};

/// How many of an op's cases a plain run takes: a device that compiles takes longer for each.
[[nodiscard]] inline int64_t sample_of(std::string_view device, int64_t cases) {
  return device == kDevices[0] ? cases : device == "cpu" ? cases / 25 + 10 : cases / 250 + 4;
}

struct Case {
  const char* device = kDevices[0];
  const OpDef* op = nullptr;
  std::vector<Dtype> dtypes;
  int variant = 0;  ///< number in the record's list
  Attributes attributes;
  Shape dims;  ///< of every input; named dims take several sizes in turn
  View view = View::Direct;
  uint64_t seed = 1;

  /// "reference:pow:f64,f64:0:[a, 3]:permuted:7": with LUMINAL_OP_CASE set to it, only this case runs.
  [[nodiscard]] std::string to_string() const;
  /// For the head of a failure.
  [[nodiscard]] std::string replay() const { return "LUMINAL_OP_CASE=\"" + to_string() + "\""; }
};

/// Names of the ops that a trait makes fit for the driver: elementwise ones and reductions.
[[nodiscard]] std::vector<std::string> driven_ops();
/// All of them on all devices, for a test suite's parameters.
struct Driven {
  const char* device;
  std::string op;
};
[[nodiscard]] std::vector<Driven> driven();
[[nodiscard]] inline std::string name_of(const Driven& one) { return std::string(one.device) + "_" + one.op; }
/// All dtypes (one for each input) with variants that the op's rule takes, without shape and view.
[[nodiscard]] std::vector<Case> typed_cases(const OpDef& op, const char* device);
/// Typed cases times shapes times views (times sets of axes, for reductions).
[[nodiscard]] std::vector<Case> all_cases(const OpDef& op, const char* device, std::span<const Shape> shapes);
/// Calls `check` for each case, or only for the one in LUMINAL_OP_CASE.
void for_each_case(std::span<const Case> cases, const std::function<void(const Case&)>& check);

/// The buffer's dims beneath a view of these dims.
[[nodiscard]] Shape buffer_dims(View view, const Shape& dims);
/// The movement itself, on a tensor of buffer_dims.
[[nodiscard]] GraphTensor viewed(View view, const GraphTensor& buffer, const Shape& dims);
/// The same by plain indexing.
[[nodiscard]] TensorData viewed(View view, const TensorData& buffer, const std::vector<int64_t>& dims);

/// Values from the record's samples and a few random ones, by seed.
[[nodiscard]] TensorData sample_data(const OpDef& op, Dtype dtype, std::vector<int64_t> dims, uint64_t seed);
/// Elements of the first `inputs` tensors at `i`.
[[nodiscard]] std::vector<Exact> elements_at(std::span<const TensorData> inputs, int64_t i);

}  // namespace luminal::op_test
