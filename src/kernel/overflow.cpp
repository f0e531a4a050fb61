#include "kernel/overflow.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "base/fail.h"
#include "kernel/fetch.h"
#include "scalar/interpreter.h"
#include "scalar/monoid.h"

namespace luminal::kernel {
namespace {

/// An element of any dtype as a number; of those that are no floats nothing overflows.
double number_at(const TensorData& data, int64_t i) {
  return visit_dtype(data.dtype, [&]<class T>(T) {
    const T element = data.as<T>()[static_cast<size_t>(i)];
    if constexpr (is_stored_float<T>)
      return static_cast<double>(static_cast<float>(element));
    else
      return static_cast<double>(element);
  });
}

double largest_of(Dtype dtype) {
  return dtype == Dtype::F64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

}  // namespace

class OverflowFinder::Elements {
 public:
  Elements(const KernelSpec& spec, std::span<const TensorData* const> slots, const DimMap& dims,
           int64_t most_terms)
      : spec_(spec),
        slots_(slots.begin(), slots.end()),
        dims_(dims),
        places_(spec.outputs().size()),
        most_terms_(most_terms),
        terms_left_(most_terms) {
    for (const Expression& e : spec.extents()) sizes_.push_back(e.exec(dims));
    for (const Value& v : spec.values()) {
      Known& known = values_.emplace_back(v, sizes_);
      for (const Operand& o : v.operands) {
        auto& reader = known.readers.emplace_back();
        if (o.kind != Operand::Kind::Value) reader.emplace(o, slots_, dims_);
      }
    }
  }

  std::optional<bool> overflows(size_t output, int64_t position) {
    const Output& o = spec_.outputs()[output];
    const bool overflowed = element(static_cast<size_t>(o.value), coordinates(output, position)).overflowed;
    return terms_left_ < 0 ? std::nullopt : std::optional(overflowed);
  }
  [[nodiscard]] int64_t terms() const { return most_terms_ - terms_left_; }

 private:
  struct Element {
    std::array<std::byte, 8> bits{};
    bool overflowed = false;  ///< it, or what it is made of
  };
  struct Known {
    Known(const Value& value, std::span<const int64_t> sizes)
        : outer(value.axes, sizes), inner(value.reduced, sizes), body(value.body) {}
    IterationSpace outer, inner;
    ScalarInterpreter body;
    std::vector<std::optional<OperandReader>> readers;  ///< by operand; none where that is a value
    std::unordered_map<int64_t, Element> elements;      ///< by position in `outer`
  };
  struct Terms {
    std::vector<TensorData> operands;
    TensorData results;
    std::vector<bool> overflowed;
  };

  /// Where an output's element comes from.
  std::vector<int64_t> coordinates(size_t output, int64_t position) {
    const Output& o = spec_.outputs()[output];
    const IterationSpace& space = values_[static_cast<size_t>(o.value)].outer;
    std::vector<int64_t> at(sizes_.size(), 0);
    std::vector<int64_t>& places = places_[output];  // element -> number in `space`
    if (places.empty()) {
      places.resize(static_cast<size_t>(space.count()));
      for (int64_t i = 0; i < space.count(); ++i, space.step(at))
        places[static_cast<size_t>(o.index.exec(dims_, at))] = i;
    }
    const std::vector<int>& axes = spec_.values()[static_cast<size_t>(o.value)].axes;
    int64_t rest = places[static_cast<size_t>(position)];
    for (size_t k = axes.size(); k-- > 0;) {
      const auto axis = static_cast<size_t>(axes[k]);
      at[axis] = rest % sizes_[axis];
      rest /= sizes_[axis];
    }
    return at;
  }

  const Element& element(size_t value, const std::vector<int64_t>& at) {
    Known& known = values_[value];
    const auto [found, fresh] = known.elements.try_emplace(known.outer.position(at));
    if (fresh && terms_left_ >= 0) found->second = computed(value, at);
    return found->second;
  }

  Element computed(size_t value, const std::vector<int64_t>& at) {
    const Value& v = spec_.values()[value];
    const Terms terms = terms_of(value, at);
    Element result;
    for (const bool overflowed : terms.overflowed) result.overflowed = result.overflowed || overflowed;
    if (terms_left_ < 0) return result;
    if (!v.monoid) {
      std::memcpy(result.bits.data(), terms.results.bytes.data(), terms.results.bytes.size());
      return result;
    }
    const FoldLoops loops = fold_loops(*v.monoid, v.dtype());
    alignas(8) std::byte accumulator[8];
    loops.fill(accumulator, 1);
    loops.fold_all(accumulator, terms.results.bytes.data(), terms.results.element_count());
    loops.finish(accumulator, result.bits.data(), 1);
    result.overflowed = result.overflowed || part_overflows(v, terms);
    return result;
  }

  /// The terms of a value's fold; of a value without one, the value.
  Terms terms_of(size_t value, std::vector<int64_t> at) {
    const Value& v = spec_.values()[value];
    const Known& known = values_[value];
    const int64_t count = known.inner.count();
    Terms terms{.operands = {},
                .results = TensorData(v.dtype(), {count}),
                .overflowed = std::vector<bool>(static_cast<size_t>(count), false)};
    terms_left_ -= count;
    if (terms_left_ < 0) return terms;
    std::vector<const void*> inputs;
    for (const Operand& o : v.operands) {
      terms.operands.emplace_back(o.dtype, std::vector<int64_t>{count});
      inputs.push_back(terms.operands.back().bytes.data());
    }
    known.inner.start(at);
    for (int64_t k = 0; k < count; ++k, known.inner.step(at))
      for (size_t j = 0; j < v.operands.size(); ++j) {
        const Operand& o = v.operands[j];
        const auto size = static_cast<size_t>(element_bytes(o.dtype));
        std::byte* place = terms.operands[j].bytes.data() + static_cast<size_t>(k) * size;
        if (known.readers[j]) {
          known.readers[j]->read(at, place);
          continue;
        }
        const Element& read = element(static_cast<size_t>(o.value), at);
        std::memcpy(place, read.bits.data(), size);
        if (read.overflowed) terms.overflowed[static_cast<size_t>(k)] = true;
      }
    void* out = terms.results.bytes.data();
    known.body(count, inputs, {}, std::span(&out, 1));
    return terms;
  }

  /// Whether a sum or a product leaves the range of its dtype in some order of its terms.
  static bool part_overflows(const Value& v, const Terms& terms) {
    if (!is_float(v.dtype())) return false;
    const double largest = largest_of(v.dtype());
    double sum = 0, log2_grows = 0, log2_shrinks = 0;
    for (int64_t k = 0; k < terms.results.element_count(); ++k) {
      const double term = std::abs(number_at(terms.results, k));
      double most = 0;
      bool is_given = true;  // each operand is a number
      for (const TensorData& operand : terms.operands) {
        const double x = std::abs(number_at(operand, k));
        is_given = is_given && std::isfinite(x);
        if (std::isfinite(x)) most = std::max(most, x);
      }
      if (v.monoid == Monoid::Add && !std::isfinite(term) && is_given) return true;
      if (std::isfinite(term)) {
        // A sum that follows its maximum has terms as large as what they are made of for a while.
        sum += v.online ? std::max(term, most) : term;
        (term > 1 ? log2_grows : log2_shrinks) += term > 0 ? std::log2(term) : 0;
      }
    }
    if (v.monoid == Monoid::Add) return sum > largest;
    // What shrinks first may come to 0, and what grows to an infinity.
    const double range = std::log2(largest);
    return v.monoid == Monoid::Mul && (log2_grows > range || -log2_shrinks > range - 2);
  }

  const KernelSpec& spec_;
  const std::vector<const TensorData*> slots_;
  const DimMap dims_;
  std::vector<int64_t> sizes_;
  std::vector<Known> values_;
  std::vector<std::vector<int64_t>> places_;  ///< by output; empty: not asked for yet
  int64_t most_terms_;
  int64_t terms_left_;  ///< below 0: what is known is not all
};

OverflowFinder::OverflowFinder(const KernelSpec& spec, std::span<const TensorData* const> slots,
                               const DimMap& dims, int64_t most_terms) {
  LUMINAL_CHECK(slots.size() == spec.slots().size(), "{} arrays for {} slots", slots.size(),
                spec.slots().size());
  elements_ = std::make_unique<Elements>(spec, slots, dims, most_terms);
}
OverflowFinder::~OverflowFinder() = default;

std::optional<bool> OverflowFinder::overflows(size_t output, int64_t position) {
  return elements_->overflows(output, position);
}
int64_t OverflowFinder::terms() const { return elements_->terms(); }

}  // namespace luminal::kernel
