#include "search/verification/freivalds.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/fail.h"
#include "base/hash.h"
#include "codegen/schedules/contract.h"
#include "kernel/canonical.h"
#include "search/verification/test_inputs.h"
#include "search/verification/trial.h"

namespace luminal::search {
namespace {

using codegen::contract::Contraction;
using codegen::contract::Factor;
using kernel::KernelSpec;
using kernel::Operand;
using kernel::SpecParts;

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::ranges::sort(a);
  return a;
}

/// Builds the parts. All of them have the spec's axes; a dense tensor over some axes lies in their order.
class Splitter {
 public:
  Splitter(const KernelSpec& spec, const Contraction& c)
      : spec_(spec), c_(c), slots_(static_cast<int>(spec.slots().size())) {}

  SplitContraction split() const {
    const std::vector<int> of_right = joined(c_.batch, c_.summed), of_rows = joined(c_.batch, c_.rows);
    const std::vector<int>& of_sum = sum().axes;
    SplitContraction s;
    s.slots = slots_;
    for (const int a : of_sum) s.sum_type.dims.push_back(extent(a));
    s.sum_type.dtype = c_.dtype;
    s.column_count = count(c_.columns), s.right_count = count(of_right), s.row_count = count(of_rows);

    SpecParts only_sum = parts();
    only_sum.outputs = {dense_output(c_.sum, of_sum)};
    s.sum = canonical(std::move(only_sum));

    const std::span<const kernel::Output> outputs = spec_.outputs();
    const kernel::Output all = dense_output(c_.sum, of_sum);
    s.is_sum = outputs.size() == 1 && outputs[0] == all;

    SpecParts rest = parts();
    const Operand t = load(s.sum_tensor(), c_.dtype, of_sum);
    rest.values[static_cast<size_t>(c_.sum)] = {
        .axes = of_sum, .reduced = {}, .monoid = std::nullopt, .body = copied(), .operands = {t}};
    s.rest = canonical(std::move(rest));

    const Operand x = load(s.columns_tensor(), Dtype::F64, c_.columns);
    s.right_sums = products(c_.right, x, of_right, c_.columns);
    s.left_sums = products(c_.left, load(s.right_tensor(), Dtype::F64, of_right), of_rows, c_.summed);
    s.result_sums = products({copied(), {t}}, x, of_rows, c_.columns);
    return s;
  }

 private:
  [[nodiscard]] const kernel::Value& sum() const { return spec_.values()[static_cast<size_t>(c_.sum)]; }
  [[nodiscard]] Expression extent(int axis) const { return spec_.extents()[static_cast<size_t>(axis)]; }
  [[nodiscard]] Expression count(const std::vector<int>& axes) const {
    Expression product = 1;
    for (const int a : axes) product = product * extent(a);
    return product;
  }
  [[nodiscard]] Expression index(const std::vector<int>& axes) const {
    Expression at = 0;
    for (const int a : axes) at = at * extent(a) + Expression::index(a, extent(a));
    return at;
  }
  /// The spec's parts with slots for the tensors that come in between.
  [[nodiscard]] SpecParts parts() const {
    SpecParts made = spec_.parts();
    made.slots.push_back({c_.dtype, count(sum().axes)});
    made.slots.push_back({Dtype::F64, count(c_.columns)});
    made.slots.push_back({Dtype::F64, count(joined(c_.batch, c_.summed))});
    return made;
  }
  [[nodiscard]] Operand load(int slot, Dtype dtype, const std::vector<int>& axes) const {
    return {.kind = Operand::Kind::Load, .dtype = dtype, .slot = slot, .index = index(axes), .masks = {}};
  }
  [[nodiscard]] kernel::Output dense_output(int value, const std::vector<int>& axes) const {
    return {value, index(axes), count(axes)};
  }
  /// What is read, as it is.
  [[nodiscard]] ScalarFunction copied() const {
    ScalarBuilder b;
    return b.finish(b.input(0, c_.dtype));
  }
  static SplitContraction::Part canonical(SpecParts parts) {
    kernel::Canonical made = kernel::canonical(std::move(parts), {}, MathMode::Strict);
    return {std::move(made.spec), std::move(made.slots)};
  }
  /// Over `axes`: the sum over `reduced` of a factor times what `by` reads, in f64.
  [[nodiscard]] SplitContraction::Part products(const Factor& factor, const Operand& by,
                                                const std::vector<int>& axes,
                                                std::vector<int> reduced) const {
    ScalarBuilder b;
    std::vector<Scalar> inputs;
    for (size_t i = 0; i < factor.operands.size(); ++i)
      inputs.push_back(b.input(static_cast<int>(i), factor.operands[i].dtype));
    const Scalar term = b.convert(b.inline_function(factor.body, inputs)[0], Dtype::F64);
    const Scalar other = b.input(static_cast<int>(factor.operands.size()), Dtype::F64);
    std::ranges::sort(reduced);
    kernel::Value value{.axes = axes,
                        .reduced = std::move(reduced),
                        .monoid = Monoid::Add,
                        .body = b.finish(b.mul(term, other)),
                        .operands = factor.operands};
    value.operands.push_back(by);
    SpecParts made = parts();
    made.values.resize(static_cast<size_t>(c_.sum));  // what the factor reads comes before
    made.outputs = {dense_output(c_.sum, axes)};
    made.values.push_back(std::move(value));
    return canonical(std::move(made));
  }

  const KernelSpec& spec_;
  const Contraction& c_;
  int slots_;
};

}  // namespace

std::optional<SplitContraction> split_contraction(const KernelSpec& spec) {
  const std::optional<Contraction> c = codegen::contract::analyse(spec);
  if (!c || c->rows.empty() || c->columns.empty()) return std::nullopt;
  return Splitter(spec, *c).split();
}

namespace {

/// A suite of one kernel as one of two, the sum and the rest; without test cases.
VerificationSuite as_two(const VerificationSuite& suite, const SplitContraction& parts) {
  VerificationSuite two{
      .unit = suite.unit, .dims = suite.dims, .seed = suite.seed, .cases = {}, .graph = suite.graph};
  const Unit::Kernel whole = suite.unit.kernels[0];
  const auto sum = static_cast<int>(two.unit.tensors.size());
  two.unit.tensors.push_back({.type = parts.sum_type, .value = {}, .aliases = {}});
  const auto inputs = [&](const std::vector<int>& tensors) {
    std::vector<int> list;
    for (const int t : tensors)
      list.push_back(t == parts.sum_tensor() ? sum : whole.inputs[static_cast<size_t>(t)]);
    return list;
  };
  two.unit.kernels = {{.inputs = inputs(parts.sum.inputs), .outputs = {sum}},
                      {.inputs = inputs(parts.rest.inputs), .outputs = whole.outputs}};
  return two;
}

/// What a part's kernel, one of f64 sums, makes of tensors by number.
TensorData sums_of(const SplitContraction::Part& part, const backends::Kernel& kernel, const DimMap& dims,
                   std::span<const TensorData* const> tensors, int64_t elements) {
  std::vector<const TensorData*> inputs;
  for (const int t : part.inputs) inputs.push_back(tensors[static_cast<size_t>(t)]);
  const TrialOutput output{Dtype::F64, elements};
  const auto rig = make_rig(kernel, inputs, {&output, 1}, dims, {});
  rig->launch(Split::Whole);
  TensorData made(Dtype::F64, {elements});
  std::ranges::copy(rig->output(0), made.bytes.begin());
  return made;
}

/// Whole numbers below a sixteenth of the least that is not exact any more.
bool are_whole(const TensorData& data) {
  return visit_dtype(data.dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      constexpr double kMost = std::is_same_v<T, float> ? 0x1p20 : 0x1p49;
      return std::ranges::all_of(data.as<T>(),
                                 [](double x) { return std::rint(x) == x && std::abs(x) <= kMost; });
    } else {
      return std::is_integral_v<T>;
    }
  });
}

/// Whole numbers of either sign, no two of one magnitude and none 0: one wrong element of a row always shows, and so do
/// two that have changed places.
TensorData random_columns(int64_t count, uint64_t seed) {
  constexpr int64_t kRange = int64_t{1} << 15;
  const int64_t range = std::max(kRange, count);
  std::mt19937_64 random(seed);
  const auto any = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  TensorData x(Dtype::F64, {count});
  const std::span<double> values = x.as<double>();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t magnitude = any(range * i / count + 1, range * (i + 1) / count);
    values[static_cast<size_t>(i)] = static_cast<double>(any(0, 1) == 0 ? magnitude : -magnitude);
  }
  std::ranges::shuffle(values, random);
  return x;
}

}  // namespace

SplitVerifier::SplitVerifier(const VerificationSuite& about, const SplitKernels& kernels, size_t which,
                             int threads, Progress& progress)
    : about_{.unit = about.unit, .dims = about.dims, .seed = about.seed, .cases = {}, .graph = nullptr},
      kernels_(kernels),
      progress_(progress),
      both_{kernels.sums.at(which), kernels.rest},
      runs_(as_two(about, *kernels.parts), both_, {.threads = threads, .launches = 0}, progress) {}

Proof SplitVerifier::add(const VerificationCase& test_case) {
  VerificationCase two = test_case;
  two.tensors.emplace_back();
  two.derived.push_back(false);
  if (auto fault = runs_.add(two, nullptr, false)) return {.fault = std::move(fault)};
  return test_case.name == kInputKinds[0] ? prove_sum(about_, kernels_, test_case, made().back(), progress_)
                                          : Proof{};
}

Proof prove_sum(const VerificationSuite& about, const SplitKernels& kernels,
                const VerificationCase& test_case, const TensorData& sum, Progress& progress) {
  const SplitContraction& parts = *kernels.parts;
  std::vector<const TensorData*> tensors;
  for (const int t : about.unit.kernels[0].inputs)
    tensors.push_back(test_case.tensors[static_cast<size_t>(t)].get());
  const TensorData x = random_columns(parts.column_count.exec(about.dims), combine(about.seed, 0x4652));
  tensors.insert(tensors.end(), {&sum, &x});
  const TensorData right =
      sums_of(parts.right_sums, *kernels.right_sums, about.dims, tensors, parts.right_count.exec(about.dims));
  tensors.push_back(&right);
  ++progress;
  const int64_t rows = parts.row_count.exec(about.dims);
  const TensorData left = sums_of(parts.left_sums, *kernels.left_sums, about.dims, tensors, rows);
  const TensorData result = sums_of(parts.result_sums, *kernels.result_sums, about.dims, tensors, rows);
  ++progress;
  // That both are equal is no chance. That they are not is a fault where no sum was rounded: whole numbers of
  // which even the greatest sums are far from what the dtype holds.
  const bool exact = are_whole(right) && are_whole(left) && are_whole(sum);
  for (int64_t row = 0; row < rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const double is = result.as<double>()[at], must = left.as<double>()[at];
    if (is == must) continue;
    if (!exact) return {};
    return {.fault = Fault{.message = fmt::format(
                               "row {} of the sum times a random vector is {}, must be {} (Freivalds' check)",
                               row, is, must),
                           .data = test_case.name,
                           .position = row,
                           .got = is,
                           .expected = must}};
  }
  return {.fault = {}, .is_proven = true, .proven = sum.element_count()};
}

}  // namespace luminal::search
