#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/call_site.h"
#include "base/fail.h"
#include "luminal/graph.h"
#include "luminal/nn/init.h"
#include "luminal/nn/module.h"

/// What modules are built with: weights as named graph inputs that hold their first values, and state that
/// the graph itself updates.
namespace luminal::nn {

/// A graph input whose first values `make` gives when they are needed, converted to `dtype`.
[[nodiscard]] GraphTensor make_weight(const GraphSite& cx, std::string name, Dtype dtype,
                                      const std::vector<int64_t>& dims, std::function<TensorData()> make);

/// U(-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's default for Linear and Conv (its kaiming_uniform with
/// a = sqrt(5) comes to the same bound).
[[nodiscard]] GraphTensor fan_in_weight(const GraphSite& cx, std::string name, std::vector<int64_t> dims,
                                        int64_t fan_in, Dtype dtype);
[[nodiscard]] GraphTensor constant_weight(const GraphSite& cx, std::string name, std::vector<int64_t> dims,
                                          double value, Dtype dtype);

/// What a state will hold after the run as far as the graph says so far: a module that is applied twice
/// updates its state twice, the second time from where the first left it.
[[nodiscard]] GraphTensor latest(const GraphTensor& state);

/// The dtype in which statistics of `dtype` are computed: f32 for f16 and bf16.
[[nodiscard]] inline GraphTensor widened(const GraphTensor& x) {
  return x.cast(accumulation_dtype(x.dtype()));
}

/// Errors: Error if a module's size is below 1: "[Linear] in=0; give at least 1".
void check_size(std::string_view module, std::string_view what, int64_t size);
/// Errors: DtypeError if a module's weights would not be floats.
void check_float(std::string_view module, Dtype dtype);
/// Errors: Error if `p` is no probability.
void check_probability(std::string_view module, double p);

/// Whether a size is known, and which.
[[nodiscard]] inline bool known_to_be(const Expression& size, int64_t wanted) {
  return Expression::known_equal(size, Expression(wanted));
}

}  // namespace luminal::nn
