#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/expression.h"
#include "luminal/monoid.h"
#include "luminal/scalar.h"
#include "luminal/shape_tracker.h"

/// What one fused kernel computes, independent of how it was spelled and of how it will be run.
///
///   kernel f32[32,1000]                                   // x.softmax(-1)
///     r in 32:
///       m = max j in 1000: X[r,j]
///       l = sum j in 1000: exp2((X[r,j] - m) * 1.442695)
///       j in 1000: Y[r,j] = exp2((X[r,j] - m) * 1.442695) * recip(l)
///
/// A spec is a list of *values*. A value has free axes, on which it depends, and perhaps reduced axes, over
/// which a monoid folds its body. It sits in the scope that binds exactly its free axes: `m` above is
/// computed once for each r. A value that depends on an axis another value reduces over (attention's scores)
/// sits inside that reduction. The tree of scopes that is printed follows from the axes alone. Bodies read
/// *operands*: loads from the slots through index expressions, earlier values at the same coordinates, and
/// integers made of coordinates. There are no index maps between values: what is read through a map has been
/// instantiated at the mapped coordinates.
///
/// Axis k is the index variable i<k> of its extent in all expressions. Specs are canonical (see canonical.h),
/// so equal computations are mostly equal specs; immutable; cheap to copy; they name no op.
namespace luminal::kernel {

using Mask = ShapeTracker::Mask;

/// What a body reads as input k.
struct Operand {
  enum class Kind : uint8_t {
    Load,   ///< element `index` of the buffer in `slot`; the first mask whose predicate is 0 gives its fill
            ///< instead (nothing is read then)
    Value,  ///< an earlier value of the spec, at the same coordinates
    Index,  ///< the integer `index`, as I64
  };
  Kind kind = Kind::Load;
  Dtype dtype = Dtype::F32;
  int slot = -1;            ///< Load
  int value = -1;           ///< Value: position in `values`
  Expression index = 0;     ///< Load, Index: over axis variables and dims
  std::vector<Mask> masks;  ///< Load
  friend bool operator==(const Operand&, const Operand&) = default;
};

struct Value {
  std::vector<int> axes;         ///< free axes, ascending
  std::vector<int> reduced;      ///< ascending; empty exactly if there is no monoid
  std::optional<Monoid> monoid;  ///< folds the body over the reduced axes, in any order
  ScalarFunction
      body;  ///< one output; input k is operands[k]; no coordinates. Its dtype is the accumulator's.
  std::vector<Operand> operands;
  /// A sum that may be computed before what its terms depend on is known: while a maximum still rises (kernel/online.h),
  /// what has been added is multiplied by the factor that the new one asks for; deviations from a mean are added from the
  /// mean of a part (kernel/deviations.h). A permission that nobody has to use (relaxed math).
  bool online = false;
  /// Terms of the sum are 0 where a mask makes one of their factors 0, whatever the others hold there (relaxed
  /// math). A permission, too.
  bool masked_terms_vanish = false;
  [[nodiscard]] Dtype dtype() const { return body[body.outputs()[0]].dtype; }
  friend bool operator==(const Value&, const Value&) = default;
};

/// A buffer the kernel reads.
struct Slot {
  Dtype dtype = Dtype::F32;
  Expression elements = 1;  ///< of the whole buffer
  /// What lies there stays the same from launch to launch, as weights do: what a kernel makes of frozen slots alone may
  /// be kept. The kernels of a plan know it, no law asks for it.
  bool is_frozen = false;
  friend bool operator==(const Slot&, const Slot&) = default;
};

/// A dense buffer the kernel writes: element `index` (over the value's free axes; a bijection onto 0 ..
/// elements-1) takes the value. The first output is the kernel's result, others are exports.
struct Output {
  int value = -1;
  Expression index = 0;
  Expression elements = 1;
  friend bool operator==(const Output&, const Output&) = default;
};

/// The parts of a spec while it is built. Errors of `KernelSpec(parts)`: InternalError that says which
/// promise the parts break.
struct SpecParts {
  std::vector<Expression> extents;  ///< by axis
  std::vector<Slot> slots;
  std::vector<Value> values;  ///< operands before their readers
  std::vector<Output> outputs;
  /// Of the content; equal in every process.
  [[nodiscard]] uint64_t hash() const;
  friend bool operator==(const SpecParts&, const SpecParts&) = default;
};

class KernelSpec {
 public:
  KernelSpec() = default;
  /// Takes the parts as they stand and checks them; `canonical()` (canonical.h) is what users of specs call.
  explicit KernelSpec(SpecParts parts);

  [[nodiscard]] const SpecParts& parts() const { return *parts_; }
  [[nodiscard]] std::span<const Expression> extents() const { return parts_->extents; }
  [[nodiscard]] std::span<const Slot> slots() const { return parts_->slots; }
  [[nodiscard]] std::span<const Value> values() const { return parts_->values; }
  [[nodiscard]] std::span<const Output> outputs() const { return parts_->outputs; }
  [[nodiscard]] const Value& result() const {
    return parts_->values[static_cast<size_t>(parts_->outputs[0].value)];
  }
  /// Free axes of the outputs, ascending: what may run in parallel.
  [[nodiscard]] std::vector<int> parallel_axes() const;
  /// Names of the dims in it, sorted.
  [[nodiscard]] std::vector<std::string> symbols() const;
  [[nodiscard]] bool empty() const { return parts_ == nullptr; }

  /// Of the content; equal in every process. Part of cache keys.
  [[nodiscard]] uint64_t hash() const { return hash_; }
  friend bool operator==(const KernelSpec& a, const KernelSpec& b) {
    return a.parts_ == b.parts_ || (a.hash_ == b.hash_ && a.parts_ && b.parts_ && *a.parts_ == *b.parts_);
  }
  /// The text of the example above: slots A, B, ... in order, outputs Y, Y1, ..., scopes indented.
  [[nodiscard]] std::string to_string() const;
  /// All of it as JSON text, and back. Errors (parse): FormatError that says what is wrong where.
  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] static KernelSpec parse_json(std::string_view text);

 private:
  std::shared_ptr<const SpecParts> parts_;
  uint64_t hash_ = 0;
};

/// The same computation with other frozen slots (Slot::is_frozen), those that `is_frozen` says by slot.
[[nodiscard]] KernelSpec with_frozen(const KernelSpec& spec, const std::vector<bool>& is_frozen);
/// The same computation with none: how encode, laws and the cover know it.
[[nodiscard]] KernelSpec without_frozen(const KernelSpec& spec);

}  // namespace luminal::kernel

template <>
struct std::hash<luminal::kernel::KernelSpec> {
  size_t operator()(const luminal::kernel::KernelSpec& s) const noexcept {
    return static_cast<size_t>(s.hash());
  }
};
