#include "kernel/evaluate.h"

#include <algorithm>
#include <functional>

#include "base/fail.h"
#include "kernel/axes.h"
#include "luminal/quantized.h"
#include "scalar/interpreter.h"

namespace luminal::kernel {
namespace {

/// All coordinates of a box in row-major order, in the full vector of axes.
class Walk {
 public:
  Walk(std::vector<int> axes, std::span<const int64_t> sizes) : axes_(std::move(axes)), sizes_(sizes) {
    for (const int a : axes_) count_ *= sizes_[static_cast<size_t>(a)];
  }
  [[nodiscard]] int64_t count() const { return count_; }
  void start(std::span<int64_t> at) const {
    for (const int a : axes_) at[static_cast<size_t>(a)] = 0;
  }
  void step(std::span<int64_t> at) const {
    for (size_t k = axes_.size(); k-- > 0;) {
      const auto a = static_cast<size_t>(axes_[k]);
      if (++at[a] < sizes_[a]) return;
      at[a] = 0;
    }
  }
  [[nodiscard]] int64_t position(std::span<const int64_t> at) const {
    int64_t p = 0;
    for (const int a : axes_) p = p * sizes_[static_cast<size_t>(a)] + at[static_cast<size_t>(a)];
    return p;
  }

 private:
  std::vector<int> axes_;
  std::span<const int64_t> sizes_;
  int64_t count_ = 1;
};

template <class T>
T neutral(Combiner combiner) {
  if (combiner == Combiner::Mul) return T(1);
  if (combiner == Combiner::Add) return T(0);
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

class Evaluator {
 public:
  Evaluator(const KernelSpec& spec, std::span<const TensorData> slots, const DimMap& dims)
      : spec_(spec), slots_(slots), dims_(dims) {
    LUMINAL_CHECK(slots.size() == spec.slots().size(), "{} arrays for {} slots", slots.size(),
                  spec.slots().size());
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
    const Walk outer(v.axes, sizes_), inner(v.reduced, sizes_);
    TensorData result(v.dtype(), {outer.count()});
    const ScalarInterpreter run(v.body);
    const int64_t terms = inner.count();
    std::vector<TensorData> arrays;
    for (const Operand& o : v.operands) arrays.emplace_back(o.dtype, std::vector<int64_t>{terms});
    TensorData folded(v.dtype(), {terms});
    std::vector<const void*> inputs;
    for (TensorData& a : arrays) inputs.push_back(a.bytes.data());
    std::vector<int64_t> at(sizes_.size(), 0);
    for (int64_t i = 0; i < outer.count(); ++i, outer.step(at)) {
      inner.start(at);
      for (int64_t k = 0; k < terms; ++k, inner.step(at))
        for (size_t j = 0; j < arrays.size(); ++j) fetch(v.operands[j], at, arrays[j], k);
      void* out = folded.bytes.data();
      run(terms, inputs, {}, std::span(&out, 1));
      fold(v.combiner, folded, result, i);
    }
    return result;
  }

  void fetch(const Operand& o, std::span<const int64_t> at, TensorData& to, int64_t k) {
    const auto size = static_cast<size_t>(element_bytes(o.dtype));
    std::byte* place = to.bytes.data() + static_cast<size_t>(k) * size;
    if (o.kind == Operand::Kind::Index) {
      const int64_t value = o.index.exec(dims_, at);
      std::memcpy(place, &value, size);
      return;
    }
    if (o.kind == Operand::Kind::Value) {
      const Value& w = spec_.values()[static_cast<size_t>(o.value)];
      const int64_t p = Walk(w.axes, sizes_).position(at);
      std::memcpy(place, values_[static_cast<size_t>(o.value)].bytes.data() + static_cast<size_t>(p) * size,
                  size);
      return;
    }
    for (const Mask& m : o.masks) {
      if (m.predicate.exec(dims_, at) != 0) continue;
      visit_dtype(o.dtype, [&]<class T>(T) {
        ScalarBuilder b;
        const uint64_t bits = b[number_constant(b, o.dtype, m.fill)].payload;
        std::memcpy(place, &bits, sizeof(T));
      });
      return;
    }
    const TensorData& slot = slots_[static_cast<size_t>(o.slot)];
    const int64_t index = o.index.exec(dims_, at);
    LUMINAL_CHECK(index >= 0 && index < slot.element_count(), "load {} of slot {} reads element {} of {}",
                  o.index.to_string(), o.slot, index, slot.element_count());
    if (is_quantized(slot.dtype))
      dequantize(slot.dtype, slot.bytes.data(), index, std::span(reinterpret_cast<float*>(place), 1));
    else
      std::memcpy(place, slot.bytes.data() + static_cast<size_t>(index) * size, size);
  }

  static void fold(Combiner combiner, const TensorData& terms, TensorData& result, int64_t at) {
    visit_dtype(result.dtype, [&]<class T>(T) {
      T* to = result.as<T>().data() + at;
      const auto from = terms.as<T>();
      if (combiner == Combiner::None) {
        *to = from[0];
      } else if constexpr (std::is_same_v<T, bool>) {
        LUMINAL_CHECK(combiner == Combiner::Max, "{} of bool", name_of(combiner));
        *to = std::ranges::count(from, true) > 0;
      } else if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
        LUMINAL_CHECK(combiner == Combiner::Max, "{} of half precision", name_of(combiner));
        float most = neutral<float>(combiner);
        for (const T x : from) most = element::Maximum::apply(most, static_cast<float>(x));
        *to = T(most);
      } else {
        using Wide = std::conditional_t<std::is_floating_point_v<T>, double, T>;
        auto total = neutral<Wide>(combiner);
        for (const T x : from) {
          const auto wide = static_cast<Wide>(x);
          if (combiner == Combiner::Add) total = element::Add::apply(total, wide);
          if (combiner == Combiner::Mul) total = element::Mul::apply(total, wide);
          if (combiner == Combiner::Max) total = element::Maximum::apply(total, wide);
        }
        *to = static_cast<T>(total);
      }
    });
  }

  [[nodiscard]] TensorData store(const Output& o) const {
    const Value& v = spec_.values()[static_cast<size_t>(o.value)];
    const TensorData& from = values_[static_cast<size_t>(o.value)];
    TensorData result(v.dtype(), {o.elements.exec(dims_)});
    const Walk walk(v.axes, sizes_);
    const auto size = static_cast<size_t>(element_bytes(v.dtype()));
    LUMINAL_CHECK(walk.count() == result.element_count(), "{} elements stored in {}", walk.count(),
                  result.element_count());
    std::vector<int64_t> at(sizes_.size(), 0);
    std::vector<bool> written(static_cast<size_t>(walk.count()), false);
    for (int64_t i = 0; i < walk.count(); ++i, walk.step(at)) {
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
  std::span<const TensorData> slots_;
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
