#include "ops/lowering_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "luminal/error.h"
#include "scalar/interpreter.h"

namespace luminal::ops {
namespace {

constexpr double kPlainNumbers[] = {-2.5, -1, -0.25, 0, 0.5, 1, 3};

/// The number as an element of T, the nearest one for integers.
template <class T>
T element_of(double x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (std::isnan(x)) return 0;
    if (x <= static_cast<double>(std::numeric_limits<T>::lowest())) return std::numeric_limits<T>::lowest();
    if (x >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(x);
  } else {
    return static_cast<T>(x);
  }
}

/// Each sample, beside each other one if there are several inputs.
std::vector<TensorData> sample_inputs(std::span<const double> samples, std::span<const Dtype> dtypes) {
  const size_t n = samples.size(), count = dtypes.size() > 1 ? n * n : n;
  std::vector<TensorData> inputs;
  for (size_t k = 0; k < dtypes.size(); ++k) {
    TensorData& data = inputs.emplace_back(dtypes[k], std::vector<int64_t>{static_cast<int64_t>(count)});
    visit_dtype(dtypes[k], [&]<class T>(T) {
      for (size_t i = 0; i < count; ++i) data.as<T>()[i] = element_of<T>(samples[k % 2 == 0 ? i % n : i / n]);
    });
  }
  return inputs;
}

double element_at(const TensorData& data, size_t i) {
  return visit_dtype(data.dtype, [&]<class T>(T) { return static_cast<double>(data.as<T>()[i]); });
}

/// One unit in the last place of `x`.
double unit_of(Dtype dtype, double x) {
  const int least = info(dtype).least_exponent;
  return std::ldexp(1.0, std::max(x == 0 ? least : std::ilogb(x), least) - info(dtype).digits + 1);
}

/// The record's bound and the kernel's own error; halves are rounded from results that may differ in f32's
/// last place, and in f64 functions are a little less accurate.
double allowed_units(const OpDef& op, Dtype dtype) {
  if (op.ulp <= 0.5) return 0;
  if (dtype == Dtype::F64) return op.ulp + 2.99;
  return dtype == Dtype::F32 ? op.ulp + 0.5 : 1;
}

bool agree(const OpDef& op, Dtype dtype, double got, double wanted) {
  if (got == wanted || (std::isnan(got) && std::isnan(wanted))) return true;
  if (!is_float(dtype) || !std::isfinite(got) || !std::isfinite(wanted)) return false;
  return std::abs(got - wanted) <= allowed_units(op, dtype) * unit_of(dtype, wanted);
}

std::string difference(const OpDef& op, std::span<const Dtype> dtypes, Dtype out,
                       const Attributes& attributes) {
  ScalarBuilder b;
  std::vector<Scalar> arguments;
  for (size_t k = 0; k < dtypes.size(); ++k) arguments.push_back(b.input(static_cast<int>(k), dtypes[k]));
  const ScalarFunction function = b.finish(op.lower(b, arguments, attributes));
  const Dtype made = function[function.outputs()[0]].dtype;
  if (made != out)
    return fmt::format("its lowering makes {} and its type rule (infer) {}", name(made), name(out));
  const ElementKernel kernel = op.elementwise(dtypes, out);
  if (kernel == nullptr) return "its type rule (infer) takes them and `elementwise` has no kernel for them";

  std::vector<double> samples = op.samples;
  samples.insert(samples.end(), std::begin(kPlainNumbers), std::end(kPlainNumbers));
  const std::vector<TensorData> inputs = sample_inputs(samples, dtypes);
  const int64_t count = inputs[0].element_count();
  std::vector<const void*> pointers;
  for (const TensorData& input : inputs) pointers.push_back(input.bytes.data());
  TensorData wanted(out, {count}), got(out, {count});
  kernel(pointers.data(), wanted.bytes.data(), count, attributes);
  void* results = got.bytes.data();
  ScalarInterpreter{function}(count, pointers, {}, std::span(&results, 1));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const double lowered = element_at(got, i), evaluated = element_at(wanted, i);
    if (agree(op, out, lowered, evaluated)) continue;
    std::vector<double> at;
    for (const TensorData& input : inputs) at.push_back(element_at(input, i));
    return fmt::format(
        "of ({}) its lowering (lower) makes {} and its kernel (elementwise) {}, further apart than its "
        "bound of {} units in the last place (ulp)",
        fmt::join(at, ", "), lowered, evaluated, op.ulp);
  }
  return {};
}

/// With inputs of these dtypes; nothing if the op does not take them.
std::optional<std::string> fault_with(const OpDef& op, const std::vector<Dtype>& dtypes,
                                      const Attributes& attributes) {
  std::vector<TensorType> types;
  for (const Dtype dtype : dtypes) types.push_back({dtype, {}});
  Dtype out{};
  try {
    out = op.infer(types, attributes).at(0).dtype;
  } catch (const Error&) {
    return std::nullopt;
  }
  try {
    return difference(op, dtypes, out, attributes);
  } catch (const Error& error) {
    return fmt::format("its lowering fails: {}", error.what());
  }
}

}  // namespace

std::string lowering_fault(const OpDef& op) {
  const size_t arity = op.arity < 0 ? 2 : static_cast<size_t>(op.arity);
  bool taken = false;
  const std::vector<Attributes> variants = op.variants.empty() ? std::vector<Attributes>(1) : op.variants;
  for (const Attributes& attributes : variants)
    for (const Dtype dtype : kPlainDtypes)
      for (size_t conditions = 0; conditions < (size_t{1} << arity); ++conditions) {
        // Inputs are of one dtype, or some are bool beside it.
        std::vector<Dtype> dtypes;
        for (size_t k = 0; k < arity; ++k) dtypes.push_back((conditions >> k & 1) != 0 ? Dtype::Bool : dtype);
        const auto fault = fault_with(op, dtypes, attributes);
        if (!fault) continue;
        taken = true;
        if (fault->empty()) continue;
        std::vector<std::string_view> names;
        for (const Dtype each : dtypes) names.push_back(name(each));
        return fmt::format("for {}, {}", fmt::join(names, ", "), *fault);
      }
  if (!taken)
    return "its type rule (infer) takes no inputs of one dtype, so its lowering cannot be checked; give "
           "`variants` "
           "with the attributes it asks for";
  return {};
}

}  // namespace luminal::ops
