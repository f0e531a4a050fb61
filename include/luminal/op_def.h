#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "luminal/attributes.h"
#include "luminal/monoid.h"
#include "luminal/scalar.h"
#include "luminal/tensor_data.h"

/// The record of a primitive op. Everything that Luminal knows of an op is in its one record; registry,
/// printers, e-graph symbols, tests and docs are derived from it, and nothing else names an op.
///
///   const OpDef kExp2 = {
///       .name = "exp2",
///       .arity = 1,
///       .traits = Trait::Elementwise | Trait::Monotone,
///       .infer = [](std::span<const TensorType> in, const Attributes&) { return std::vector{in[0]}; },
///       .elementwise = [](std::span<const Dtype> in, Dtype) -> ElementKernel {  // the oracle, per dtype
///         if (in[0] != Dtype::F32) return nullptr;
///         return [](const void* const* x, void* y, int64_t count, const Attributes&) {
///           std::transform(static_cast<const float*>(x[0]), static_cast<const float*>(x[0]) + count,
///                          static_cast<float*>(y), [](float each) { return std::exp2(each); });
///         };
///       },
///       .gradient = [](Gradient& g) { g.to(0, g.upstream() * g.output() * std::numbers::ln2); },
///       .lower = [](ScalarBuilder& b, std::span<const Scalar> x, const Attributes&) {
///         return math::exp2(b, x[0]);
///       },
///       .ulp = 2,
///       .samples = {-126, -1, 0, 1, 127},
///       .doc = "2 raised to x, elementwise.",
///   };
///
/// A program may register its own records (register_op) and use them like the built-in ones.
namespace luminal {

class Gradient;

/// Bit set of facts that rules, passes and tests go by.
enum class Trait : uint32_t {
  None = 0,
  Elementwise = 1U << 0,  ///< out[i] depends on in[i] alone; all dims are equal
  Commutative = 1U << 1,
  Associative = 1U << 2,        ///< over the reals
  Idempotent = 1U << 3,         ///< f(x, x) = x
  Monotone = 1U << 4,           ///< non-decreasing in each input
  Leaf = 1U << 5,               ///< no inputs
  SideEffect = 1U << 6,         ///< never removed, merged or reordered against other side effects
  Opaque = 1U << 7,             ///< passes and rules do not look inside, nothing fuses across
  Stateful = 1U << 8,           ///< its value differs from run to run: never folded
  NotDifferentiable = 1U << 9,  ///< a gradient that reaches it is an error
  ZeroGradient = 1U << 10,      ///< constant almost everywhere: gradients stop here silently, as in PyTorch
                                ///< (floor, comparisons)
  Overwrites = 1U << 11,        ///< its evaluation writes every element of its outputs and reads none of them
  PassesOn = 1U << 12,          ///< its output is its input: a plan needs no place and no launch for it
};
[[nodiscard]] constexpr Trait operator|(Trait a, Trait b) {
  return static_cast<Trait>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
[[nodiscard]] constexpr bool has(Trait set, Trait one) {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(one)) != 0;
}

/// Dtype and dims of one value.
struct TensorType {
  Dtype dtype = Dtype::F32;
  Shape dims;
  [[nodiscard]] std::string to_string() const;  ///< "f32[4, 128]"
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Shape and dtype rule. Errors: ShapeError, DtypeError, thrown when the op is added.
using InferRule =
    std::function<std::vector<TensorType>(std::span<const TensorType> inputs, const Attributes& attributes)>;

/// Evaluates `count` elements of dense arrays; the oracle of an elementwise op.
using ElementKernel = void (*)(const void* const* inputs, void* output, int64_t count,
                               const Attributes& attributes);
/// The kernel for these dtypes, or nullptr if the op does not take them.
using ElementKernels = std::function<ElementKernel(std::span<const Dtype> inputs, Dtype output)>;

/// The value of a leaf that is a formula instead of data: one number, or an integer over the flat index z of
/// its elements and named dims.
using LeafFormula = std::function<std::variant<Number, Expression>(const Attributes&)>;

/// What an op with its own evaluation (gather, random, user code) sees at run time.
struct EvalContext {
  std::span<const TensorData* const> inputs;  ///< dense, views already applied
  std::span<TensorData> outputs;              ///< allocated with their dims; zeros unless the op Overwrites
  const Attributes& attributes;
  const DimMap& dims;  ///< sizes of the named dims in this run
  uint64_t step;       ///< how many runs came before
};
using Evaluation = std::function<void(EvalContext&)>;

using GradientRule = std::function<void(Gradient&)>;
/// The op over one element in scalar IR, for elementwise ops.
using Lowering = std::function<Scalar(ScalarBuilder&, std::span<const Scalar> inputs, const Attributes&)>;

struct OpDef {
  std::string_view name = {};
  int arity = 1;  ///< -1: any number
  Trait traits = Trait::None;
  InferRule infer = {};
  // Exactly one of the next three is set (none for inputs): how the reference evaluates the op.
  ElementKernels elementwise = {};
  std::optional<Monoid> monoid = {};  ///< of reductions: folds away the axes in the attribute "axes"
  Evaluation evaluate = {};
  GradientRule gradient = {};    ///< empty: see the traits
  Lowering lower = {};           ///< empty for ops that are not elementwise
  LeafFormula formula = {};      ///< of leaves that are one; empty for data
  double flops_per_element = 1;  ///< of the output; of the input for reductions
  int positions_input = -1;      ///< the input that says where in the first one (ops/indexing.h); -1: none
  double ulp = 0;  ///< error bound of `lower` against the exact result, in units in the last place of f32
  std::vector<double> samples = {};       ///< interesting inputs for tests, beside plain ones
  std::vector<Attributes> variants = {};  ///< attributes that tests run it with, beside "axes"; empty: none
  std::string_view doc = {};

  [[nodiscard]] bool is(Trait trait) const { return has(traits, trait); }
};

/// False for ops whose value is given from outside: inputs.
[[nodiscard]] inline bool is_computed(const OpDef& op) { return op.elementwise || op.monoid || op.evaluate; }

/// All ops: the built-in ones and those registered at run time, sorted by name.
[[nodiscard]] std::vector<const OpDef*> all_ops();
/// Errors: Error that offers the nearest name.
[[nodiscard]] const OpDef& find_op(std::string_view name);
/// Makes an op of the program's own known by name. The record is checked and must live as long as the
/// program. Errors: Error if the name is taken or the record contradicts itself.
void register_op(const OpDef& op);

}  // namespace luminal
