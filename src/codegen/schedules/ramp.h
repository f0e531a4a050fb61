#pragma once
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "codegen/loop_ir.h"
#include "kernel/spec.h"

/// Consecutive elements of a spec as vector lanes: what Halide and TVM call a ramp.
///
///   AxisGroup pixels{{2, 3}, {14, 14}, {0, 0}};  // (y, x) in row-major order: 196 positions
///   Ramp ramp(b, pixels, 16 * i, 16, 196);       // lanes at 16*i .. 16*i + 15, those below 196
///   ramp.prepare(operand);
///   Id v = ramp.load(operand, at);               // at: coordinates of all other axes
///
/// One load may be a plain vector load, two masked ones (where the lanes pass the end of an image row that is
/// not followed by the next one in memory), a shorter one whose elements are repeated, or a gather: what the
/// index expression allows.
namespace luminal::codegen {

/// Axes fused into one, in row-major order, outermost first: its positions.
struct AxisGroup {
  std::vector<int> axes;
  std::vector<Expression> extents;
  std::vector<Expression> first;  ///< where each starts
  [[nodiscard]] Expression size() const { return element_count(extents); }
  /// Sets the coordinates of the axes at `position`.
  void place(const Expression& position, std::vector<Expression>& at) const;
  /// The position of these coordinates, where every axis starts at 0.
  [[nodiscard]] Expression position(std::span<const Expression> at) const;
};
/// The whole of these axes.
[[nodiscard]] AxisGroup group_of(std::span<const Expression> extents, std::vector<int> axes);

/// Elements from one position of a group to the next in an index expression: over the innermost axes that lie
/// evenly in memory, `inner` of the group's axes with `size` positions. Empty where even the last axis has no
/// constant stride.
struct Evenly {
  int64_t stride = 0;
  size_t inner = 0;
  Expression size = 1;
};
[[nodiscard]] std::optional<Evenly> evenly(const Expression& index, const AxisGroup& group);
/// An index whose innermost axes of the group lie on one element: `times` positions each, then on to the next
/// as `over` says of the axes outside.
struct Repeated {
  int64_t times = 1;
  Evenly over;
  size_t inner = 0;  ///< axes of the group that `over` takes in, those that repeat counted
};
/// Where vectors of `lanes`, each starting at a multiple of them, hold every element `times` times or not at
/// all. `even`: what evenly() says of the index.
[[nodiscard]] std::optional<Repeated> repeated(const Expression& index, const AxisGroup& group,
                                               const Evenly& even, int lanes);
/// Axes `from` .. `to` - 1 of a group.
[[nodiscard]] AxisGroup part_of(const AxisGroup& group, size_t from, size_t to);
/// Axes, counted from the innermost, over which all these formulas lie evenly in memory; at least 1.
[[nodiscard]] size_t even_axes(std::span<const Expression> formulas, const AxisGroup& group);
/// Whether the formula depends on an axis of the group.
[[nodiscard]] bool depends_on(const Expression& e, std::span<const int> axes);

class Ramp {
 public:
  /// Lanes at `start`, start + 1, ... of `group`; those not below `count` are off: they load 0 and store
  /// nothing.
  Ramp(StageBuilder& b, const AxisGroup& group, Expression start, int lanes, const Expression& count);
  /// A single element: `at` gives every coordinate.
  explicit Ramp(StageBuilder& b) : b_(&b) {}

  /// The caller has made sure that no lane passes the end of a row that lies evenly in memory: plain loads do
  /// where two masked ones would have to.
  void promise_unbroken() { unbroken_ = true; }
  /// Loads from here on see `place` (I64; a scalar, or one for each lane) as the coordinate of an axis that is none of the
  /// group's. Lanes that are not `there` are off.
  void assign(int axis, Id place, Id there);
  /// Computes here, once, what loads and stores inside later loops need of lane coordinates.
  void prepare(const kernel::Operand& operand);
  void prepare(const Expression& index);

  /// The operand's elements; a scalar if they do not differ. `at`: coordinates by axis, those of the group
  /// are ignored.
  Id load(const kernel::Operand& operand, std::span<const Expression> at) const;
  void store(int buffer, const Expression& index, Id value, std::span<const Expression> at,
             bool streaming = false) const;
  /// `value` of the spec at these elements; `known` holds values computed already and takes what is computed.
  Id value(const kernel::KernelSpec& spec, int value, std::span<const Expression> at,
           std::map<int, Id>& known) const;
  /// A body over operands. Inputs that the body does not read are not loaded.
  Id evaluate(const kernel::KernelSpec& spec, const ScalarFunction& body,
              std::span<const kernel::Operand> operands, std::span<const Expression> at,
              std::map<int, Id>& known) const;
  /// Fetches what lane 0 would load `further` positions behind where it is.
  void prefetch(const kernel::Operand& operand, const Expression& further,
                std::span<const Expression> at) const;
  /// As many lanes as the ramp has.
  Id widen(Id id) const;
  [[nodiscard]] int lanes() const { return lanes_; }
  /// Position of lane 0.
  [[nodiscard]] const Expression& start() const { return start_; }
  /// Lanes that are on; kNone for all.
  [[nodiscard]] Id inside() const { return inside_; }

 private:
  struct Access;
  [[nodiscard]] Access access(const Expression& index) const;
  [[nodiscard]] bool varies(const Expression& e) const;
  [[nodiscard]] bool depends_on_place(const Expression& e) const;
  void prepare_coordinates();
  Id coordinate(size_t k, Id position) const;
  Id both(Id a, Id b) const;
  Id mask_of(const Expression& predicate, std::span<const Expression> at) const;
  Id integers(const Expression& e, std::span<const Expression> at, Dtype type) const;
  Id sum_of(const Expression& e, std::span<const Expression> at, Dtype type) const;
  Id apply(ScalarOp op, Id a, Id b) const;
  Id read(const kernel::Operand& operand, Id mask, std::span<const Expression> at) const;
  Id read_repeated(const kernel::Operand& operand, const Access& access, Id mask,
                   std::span<const Expression> at) const;
  Id filled(const kernel::Operand& operand, Id loaded, std::span<const Id> holds) const;
  [[nodiscard]] Expression first_element(const Expression& index, const Access& access,
                                         std::span<const Expression> at) const;
  [[nodiscard]] Expression at_position(const Expression& index, const Expression& position,
                                       std::span<const Expression> at) const;

  StageBuilder* b_;
  AxisGroup group_;
  Expression start_ = 0, count_ = 0;
  int lanes_ = 1;
  Id inside_ = kNone;
  bool unbroken_ = false;
  Dtype coordinate_type_ = Dtype::I32;
  std::map<int, Id> coordinates_;  ///< by axis, once prepared
  std::vector<int> assigned_;      ///< axes whose coordinates are values
};

}  // namespace luminal::codegen
