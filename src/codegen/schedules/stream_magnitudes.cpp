#include "codegen/schedules/stream.h"

// Bounds on products inside the stream, |sum a * b| <= sum |a| * max |b| (Hoelder's inequality): what it takes to tell
// that a mask hides scores to which it is added (stream_skip.cpp).
namespace luminal::codegen::stream {

Id sum_of_magnitudes(StageBuilder& b, const Expression& count,
                     const std::function<Id(const Expression& position)>& packed) {
  // Twice: the product's own sum may have been rounded up, and this one down.
  const Id first = b.compute(ScalarOp::Abs, {packed(0)});
  const auto add = [&](const Expression& i, std::span<const Id> sum) {
    return std::vector<Id>{b.compute(ScalarOp::Add, {sum[0], b.compute(ScalarOp::Abs, {packed(i + 1)})})};
  };
  const Id sum = b.loop(count - 1, LoopKind::Serial, {first}, add)[0];
  return b.compute(ScalarOp::Add, {sum, sum});
}

Id greatest_magnitude(StageBuilder& b, const kernel::KernelSpec& spec, const Inner& inner,
                      const AxisGroup& streamed, int lanes, const Expression& first, const Expression& count,
                      std::span<const Expression> at) {
  const AxisGroup summed = group_of(spec.extents(), inner.summed);
  const kernel::Value& value = spec.values()[static_cast<size_t>(inner.value)];
  const auto along = [&](const Expression& position, std::span<const Id> now) {
    std::vector<Expression> here(at.begin(), at.end());
    streamed.place(first + position, here);
    const auto step = [&](const Expression& v, std::span<const Id> most) {
      Ramp ramp(b, summed, v * lanes, lanes, summed.size());
      for (const kernel::Operand& o : value.operands) ramp.prepare(o);
      std::map<int, Id> none;
      const Id x = ramp.widen(ramp.evaluate(spec, inner.read, value.operands, here, none));
      return std::vector<Id>{b.compute(ScalarOp::Maximum, {most[0], b.compute(ScalarOp::Abs, {x})})};
    };
    return b.loop(summed.size().ceil_div(lanes), LoopKind::Serial, {now[0]}, step);
  };
  const Id zero = b.constant({value.dtype(), lanes}, 0);
  return b.reduce(ScalarOp::Maximum, b.loop(count, LoopKind::Serial, {zero}, along)[0]);
}

}  // namespace luminal::codegen::stream
