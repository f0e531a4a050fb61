#include "kernel/evaluate.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"
#include "kernel/fetch.h"
#include "luminal/quantized.h"
#include "scalar/interpreter.h"
#include "scalar/monoid.h"

namespace luminal::kernel {
namespace {

class Evaluator {
 public:
  Evaluator(const KernelSpec& spec, std::span<const TensorData> slots, const DimMap& dims)
      : spec_(spec), dims_(dims) {
    LUMINAL_CHECK(slots.size() == spec.slots().size(), "{} arrays for {} slots", slots.size(),
                  spec.slots().size());
    decoded_.reserve(slots.size());
    for (const TensorData& slot : slots)
      slots_.push_back(is_quantized(slot.dtype) ? &decoded_.emplace_back(dequantize(slot)) : &slot);
    for (const Expression& e : spec.extents()) sizes_.push_back(e.exec(dims));
  }

  std::vector<TensorData> run() {
    for (const Value& v : spec_.values()) values_.push_back(compute(v));
    std::vector<TensorData> outputs;
    for (const Output& o : spec_.outputs()) outputs.push_back(store(o));
    return outputs;
  }

 private:
  /// Every element of a value over its free axes, dense.
  TensorData compute(const Value& v) {
    const IterationSpace outer(v.axes, sizes_), inner(v.reduced, sizes_);
    TensorData result(v.dtype(), {outer.count()});
    const ScalarInterpreter run(v.body);
    const int64_t terms = inner.count();
    std::vector<TensorData> arrays;
    std::vector<OperandSource> sources;
    for (const Operand& o : v.operands) {
      arrays.emplace_back(o.dtype, std::vector<int64_t>{terms});
      sources.push_back(source_of(o));
    }
    TensorData folded(v.dtype(), {terms});
    std::vector<const void*> inputs;
    for (TensorData& a : arrays) inputs.push_back(a.bytes.data());
    std::vector<int64_t> at(sizes_.size(), 0);
    for (int64_t i = 0; i < outer.count(); ++i, outer.step(at)) {
      inner.start(at);
      for (int64_t k = 0; k < terms; ++k, inner.step(at))
        for (size_t j = 0; j < arrays.size(); ++j) read(sources[j], at, arrays[j], k);
      void* out = folded.bytes.data();
      run(terms, inputs, {}, std::span(&out, 1));
      fold(v.monoid, folded, result, i);
    }
    return result;
  }

  /// A slot, or an earlier value.
  struct OperandSource {
    std::optional<OperandReader> reader;
    std::optional<IterationSpace> space;
    const TensorData* value = nullptr;
  };
  [[nodiscard]] OperandSource source_of(const Operand& o) const {
    OperandSource source;
    if (o.kind != Operand::Kind::Value) {
      source.reader.emplace(o, slots_, dims_);
    } else {
      source.space.emplace(spec_.values()[static_cast<size_t>(o.value)].axes, sizes_);
      source.value = &values_[static_cast<size_t>(o.value)];
    }
    return source;
  }

  static void read(const OperandSource& from, std::span<const int64_t> at, TensorData& to, int64_t k) {
    const auto size = static_cast<size_t>(element_bytes(to.dtype));
    std::byte* place = to.bytes.data() + static_cast<size_t>(k) * size;
    if (from.reader) return from.reader->read(at, place);
    const auto position = static_cast<size_t>(from.space->position(at));
    std::memcpy(place, from.value->bytes.data() + position * size, size);
  }

  /// Of a value without a monoid, the only term.
  static void fold(std::optional<Monoid> monoid, const TensorData& terms, TensorData& result, int64_t at) {
    const int64_t bytes = element_bytes(result.dtype);
    std::byte* to = result.bytes.data() + at * bytes;
    if (!monoid) {
      std::memcpy(to, terms.bytes.data(), static_cast<size_t>(bytes));
      return;
    }
    const FoldLoops loops = fold_loops(*monoid, result.dtype);
    alignas(8) std::byte accumulator[8];
    loops.fill(accumulator, 1);
    loops.fold_all(accumulator, terms.bytes.data(), terms.element_count());
    loops.finish(accumulator, to, 1);
  }

  [[nodiscard]] TensorData store(const Output& o) const {
    const Value& v = spec_.values()[static_cast<size_t>(o.value)];
    const TensorData& from = values_[static_cast<size_t>(o.value)];
    TensorData result(v.dtype(), {o.elements.exec(dims_)});
    const IterationSpace space(v.axes, sizes_);
    const auto size = static_cast<size_t>(element_bytes(v.dtype()));
    LUMINAL_CHECK(space.count() == result.element_count(), "{} elements stored in {}", space.count(),
                  result.element_count());
    std::vector<int64_t> at(sizes_.size(), 0);
    std::vector<bool> written(static_cast<size_t>(space.count()), false);
    for (int64_t i = 0; i < space.count(); ++i, space.step(at)) {
      const int64_t index = o.index.exec(dims_, at);
      LUMINAL_CHECK(index >= 0 && index < result.element_count() && !written[static_cast<size_t>(index)],
                    "output {} writes element {} of {}, or twice", o.index.to_string(), index,
                    result.element_count());
      written[static_cast<size_t>(index)] = true;
      std::memcpy(result.bytes.data() + static_cast<size_t>(index) * size,
                  from.bytes.data() + static_cast<size_t>(i) * size, size);
    }
    return result;
  }

  const KernelSpec& spec_;
  std::vector<TensorData> decoded_;  ///< those of blocks
  std::vector<const TensorData*> slots_;
  const DimMap& dims_;
  std::vector<int64_t> sizes_;
  std::vector<TensorData> values_;
};

}  // namespace

std::vector<TensorData> evaluate(const KernelSpec& spec, std::span<const TensorData> slots,
                                 const DimMap& dims) {
  return Evaluator(spec, slots, dims).run();
}

}  // namespace luminal::kernel
