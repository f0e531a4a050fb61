#include "search/verification/oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <unordered_set>

#include "base/fail.h"
#include "base/vector_clones.h"
#include "graph/data_input.h"
#include "graph/view_reader.h"
#include "luminal/quantized.h"
#include "luminal/reference.h"
#include "search/verification/float_format.h"
#include "search/verification/row_fold.h"

namespace luminal::search {
namespace {

/// Whether an element of T holds the value. What f64 itself rounds is below every bound here.
template <class T>
bool is_representable(double value) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
    return true;
  else
    return static_cast<double>(static_cast<float>(T(static_cast<float>(value)))) == value;
}

/// In which dtype values of `dtype` are held here.
Dtype held(Dtype dtype) { return is_float(dtype) || is_quantized(dtype) ? Dtype::F64 : dtype; }

Oracle::Samples empty_samples(Dtype dtype, size_t count) {
  Oracle::Samples samples{
      TensorData(held(dtype), {static_cast<int64_t>(count)}), {}, Oracle::Flags(count, 1), {}, {}};
  if (is_float(dtype)) samples.errors.assign(count, 0);
  return samples;
}

/// An element of the result of one operation as the graph stores it: rounding adds to the bound, what overflows is
/// an infinity.
template <class T>
void store_rounded(const FloatFormat& format, double ulp, Oracle::Samples& samples, size_t at) {
  double& value = samples.values.as<double>()[at];
  double& error = samples.errors[at];
  if (!std::isfinite(value)) {
    if (error != 0 && !(error > 0 && std::isnan(value))) samples.known[at] = false;
    error = 0;
    return;
  }
  if (!std::isfinite(error)) {
    samples.known[at] = false;
    error = 0;
    return;
  }
  // Correctly rounded and representable: not even rounding happens. So integers stay exact, and must match
  // exactly.
  if (error == 0 && ulp <= 0.5 && is_representable<T>(value)) return;
  error += std::max(ulp, 0.5) * 2 * format.roundoff * (std::abs(value) + error) + format.tiniest;
  if (std::abs(value) - error > format.largest) {
    value = std::copysign(std::numeric_limits<double>::infinity(), value);
    error = 0;
    samples.overflowed.resize(samples.known.size());
    samples.overflowed[at] = true;
  } else if (std::abs(value) + error > format.largest) {
    samples.known[at] = false;
  }
}

constexpr size_t kRoundedTogether = 64;

/// The same for up to `kRoundedTogether` elements if all are finite and stay so, as most are: without a branch several are looked
/// at at once. Otherwise nothing, and false.
template <class T>
LUMINAL_VECTOR_CLONES bool store_finite(const FloatFormat& format, double ulp, std::span<const double> values,
                                        std::span<double> errors) {
  const double relative = std::max(ulp, 0.5) * 2 * format.roundoff;
  const bool is_correctly_rounded = ulp <= 0.5;
  std::array<double, kRoundedTogether> rounded;
  int64_t off = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double size = std::abs(values[i]), error = errors[i];
    const double grown = error + (relative * (size + error) + format.tiniest);
    const bool is_exact =
        is_correctly_rounded & static_cast<bool>(error == 0) & is_representable<T>(values[i]);
    rounded[i] = is_exact ? 0 : grown;
    off |= size + grown <= format.largest ? 0 : 1;
  }
  if (off != 0) return false;
  std::copy_n(rounded.begin(), values.size(), errors.begin());
  return true;
}

void store_rounded(Dtype dtype, double ulp, Oracle::Samples& samples) {
  const FloatFormat format = format_of(dtype);
  visit_dtype(dtype, [&]<class T>(T) {
    const std::span<const double> values = samples.values.as<double>();
    const std::span<double> errors = samples.errors;
    for (size_t first = 0; first < errors.size(); first += kRoundedTogether) {
      const size_t count = std::min(kRoundedTogether, errors.size() - first);
      if (store_finite<T>(format, ulp, values.subspan(first, count), errors.subspan(first, count))) continue;
      for (size_t i = first; i < first + count; ++i) store_rounded<T>(format, ulp, samples, i);
    }
  });
}

/// Reads elements as T into an array.
template <class T>
void read_elements(const Elements& data, std::span<const int64_t> positions, TensorData& out) {
  visit_dtype(data.dtype, [&]<class S>(S) {
    const auto from = data.as<S>();
    const auto to = out.as<T>();
    for (size_t i = 0; i < positions.size(); ++i) {
      const S element = from[static_cast<size_t>(positions[i])];
      if constexpr (is_stored_float<S>)
        to[i] = static_cast<T>(static_cast<float>(element));
      else
        to[i] = static_cast<T>(element);
    }
  });
}

/// Elements of weights in blocks, each run of neighbours decoded at once: a check asks for few of them.
void read_blocks(const Elements& data, std::span<const int64_t> positions, std::span<double> out) {
  std::vector<float> run;
  for (size_t first = 0; first < positions.size(); first += run.size()) {
    size_t last = first + 1;
    while (last < positions.size() && positions[last] == positions[last - 1] + 1) ++last;
    run.resize(last - first);
    dequantize(data.dtype, data.bytes.data(), positions[first], run);
    std::ranges::copy(run, out.begin() + static_cast<ptrdiff_t>(first));
  }
}

/// What was read, in the places that no fill takes.
Oracle::Samples between(const Oracle::Samples& read, std::span<const Number* const> fills) {
  Oracle::Samples samples{TensorData(read.values.dtype, {static_cast<int64_t>(fills.size())}),
                          {},
                          Oracle::Flags(fills.size(), 1),
                          {},
                          {}};
  if (!read.errors.empty()) samples.errors.assign(fills.size(), 0);
  if (!read.overflowed.empty()) samples.overflowed.resize(fills.size());
  if (!read.unpromised.empty()) samples.unpromised.resize(fills.size());
  visit_dtype(samples.values.dtype, [&]<class T>(T) {
    if constexpr (!is_stored_float<T>) {
      const auto out = samples.values.as<T>();
      const auto in = read.values.as<T>();
      for (size_t i = 0, k = 0; i < fills.size(); ++i) out[i] = fills[i] ? fill_value<T>(*fills[i]) : in[k++];
    }
  });
  for (size_t i = 0, k = 0; i < fills.size(); ++i) {
    if (fills[i]) continue;
    if (!read.errors.empty()) samples.errors[i] = read.errors[k];
    if (!read.overflowed.empty()) samples.overflowed[i] = read.overflowed[k];
    if (!read.unpromised.empty()) samples.unpromised[i] = read.unpromised[k];
    samples.known[i] = read.known[k++];
  }
  return samples;
}

/// Each value moved by its error; infinities and NaN stay.
LUMINAL_VECTOR_CLONES void move_by(std::span<double> values, std::span<const double> errors, double sign) {
  const double nothing =
      std::copysign(0.0, -sign);  // times `sign` it is -0, which leaves zeros of both signs
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i], error = errors[i];
    const bool is_finite = std::abs(value) <= std::numeric_limits<double>::max(), moves = error != 0;
    values[i] = value + sign * ((is_finite & moves) ? error : nothing);
  }
}

LUMINAL_VECTOR_CLONES bool has_errors(const Oracle::Samples& samples) {
  int64_t found = 0;  // no early end: several are looked at at once
  for (const double error : samples.errors) found |= error != 0 ? 1 : 0;
  return found != 0;
}

void leave_known(std::span<uint8_t> flags, std::span<const uint8_t> known) {
  for (size_t i = 0; i < flags.size(); ++i) flags[i] &= known[i];
}

void mark(std::span<uint8_t> flags, std::span<const uint8_t> marked) {
  for (size_t i = 0; i < flags.size(); ++i) flags[i] |= marked[i];
}

}  // namespace

Oracle::Samples ask_within(const OracleBudget& budget, Oracle& oracle, const Value& value,
                           std::vector<int64_t>& positions) {
  // Of the last question: what it takes where nothing is known. Values that take the same are then asked for at the same
  // positions, and what they share is evaluated once.
  int64_t price = 0;
  const auto ask = [&](std::span<const int64_t> asked) {
    const int64_t before = oracle.operations();
    Oracle::Samples samples = oracle.at(value, asked);
    price = std::max<int64_t>(1, oracle.operations() - before + oracle.spared());
    return samples;
  };
  const int64_t operations = budget.operations;
  const size_t count = positions.size();
  const auto affordable = [&](int64_t cost) {
    return std::clamp<size_t>(static_cast<size_t>(operations / cost), 1, count);
  };
  const auto spread_over = [&](size_t number, size_t i) { return positions[i * count / number]; };

  oracle.allow(std::max(operations, budget.of_one));
  Oracle::Samples one = ask(std::span(positions).first(1));
  const auto only_one = [&] {
    positions.resize(1);
    return one;
  };
  if (count == 1) return one;
  const size_t about = affordable(price);
  // A second one tells what each further one takes: the first may be cheaper, or need what all of them need.
  constexpr int64_t kShare = 8;
  oracle.allow(about > 1 ? operations : operations / kShare);
  const int64_t price_of_one = price;
  try {
    // It is among those that are asked about if all of them take as much as the first.
    const size_t likely = std::max<size_t>(about, 2);
    std::ignore = ask(std::array{positions[0], spread_over(likely, likely / 2)});
    const size_t number = affordable(std::max<int64_t>(1, price - price_of_one));
    if (number == 1) return only_one();
    std::vector<int64_t> some;
    for (size_t i = 0; i < number; ++i) some.push_back(spread_over(number, i));
    oracle.allow(4 * operations);  // others may cost more than these two
    Oracle::Samples samples = ask(some);
    positions = std::move(some);
    return samples;
  } catch (const OracleLimit&) {
    return only_one();
  }
}

void Oracle::set_leaf(const Value& value, std::shared_ptr<const TensorData> data) {
  const TensorType& type = graph_.type(value);
  LUMINAL_CHECK(data->element_count() == element_count(type.dims).exec(dims_), "a leaf of {} elements for {}",
                data->element_count(), type.to_string());
  leaves_[value] = std::move(data);
  kept_rows_.clear();
  forget();
}

void Oracle::forget() {
  kept_.clear();
  cheap_.clear();
  kept_elements_ = 0;
}

void Oracle::forget_cheap(size_t answers) {
  for (; cheap_.size() > answers; cheap_.pop_back()) {
    const auto& [value, positions] = cheap_.back();
    kept_elements_ -= positions->size();
    std::erase_if(kept_.at(value), [&](const Kept& kept) { return kept.positions == positions; });
  }
}

void Oracle::share_leaves(const KnownElements& leaves, const Value& computed) {
  shared_ = &leaves;
  computed_ = computed;
}

std::optional<Elements> Oracle::known(const Value& value) const {
  if (const auto own = leaves_.find(value); own != leaves_.end()) return elements_of(*own->second);
  if (shared_ == nullptr || value == computed_) return std::nullopt;
  const auto shared = shared_->find(value);
  return shared == shared_->end() ? std::nullopt : std::optional(shared->second);
}

void Oracle::spend(int64_t operations) {
  operations_ += operations;
  if (operations_ > limit_)
    fail<OracleLimit>("[verify] evaluating these samples takes more than {} operations; take fewer samples",
                      allowed_);
}

/// What is kept spares each question its price once.
void Oracle::take_kept(Price& price) {
  if (price.question != question_) spared_ += price.operations;
  price.question = question_;
}

void Oracle::allow(int64_t operations) {
  allowed_ = operations;
  limit_ = operations_ + operations;
}

Oracle::Samples Oracle::leaf(const Elements& data, std::span<const int64_t> positions) const {
  if (is_quantized(data.dtype)) {
    Samples samples = empty_samples(Dtype::F32, positions.size());
    read_blocks(data, positions, samples.values.as<double>());
    return samples;
  }
  Samples samples = empty_samples(data.dtype, positions.size());
  visit_dtype(samples.values.dtype, [&]<class T>(T) {
    if constexpr (!is_stored_float<T>) read_elements<T>(data, positions, samples.values);
  });
  return samples;
}

Oracle::Samples Oracle::at(const Value& value, std::span<const int64_t> positions) {
  ++question_;
  spared_ = 0;
  return *answer(value, std::make_shared<const std::vector<int64_t>>(positions.begin(), positions.end()));
}

Oracle::Answer Oracle::answer(const Value& value, const Positions& positions) {
  const size_t count = positions->size();
  spend(static_cast<int64_t>(count));
  if (const auto data = known(value)) return std::make_shared<const Samples>(leaf(*data, *positions));
  if (const auto kept = kept_.find(value); kept != kept_.end())
    for (Kept& known : kept->second)
      if (known.positions == positions || *known.positions == *positions) {
        take_kept(known.price);
        return known.samples;
      }
  const int64_t operations_before = operations_, spared_before = spared_;
  Answer samples = std::make_shared<const Samples>(compute(value, positions));
  const int64_t cost = operations_ - operations_before, spared = spared_ - spared_before;
  constexpr size_t kMost = size_t{1} << 20;  // elements of some 25 bytes
  if (count > kMost) return samples;
  if (kept_elements_ + count > kMost) forget();
  kept_elements_ += count;
  kept_[value].push_back({.positions = positions, .samples = samples, .price = {cost + spared, question_}});
  constexpr int64_t kCheap = 16;  // operations for each element
  if (cost < kCheap * static_cast<int64_t>(count)) cheap_.emplace_back(value, positions);
  return samples;
}

Oracle::Samples Oracle::compute(const Value& value, const Positions& positions) {
  const Node& node = graph_.node(value.node);
  if (node.op->elementwise) return elementwise(node, positions);
  if (node.op->monoid) return reduction(value, *positions);
  if (!is_computed(*node.op) || !node.op->is(Trait::Leaf))
    fail<OracleGap>("[verify] {} #{} is neither a leaf nor computed element by element", node.op->name,
                    value.node.index);
  return leaf(elements_of(made(node)[static_cast<size_t>(value.output)]), *positions);
}

const std::vector<TensorData>& Oracle::made(const Node& node) {
  for (const auto& [like, outputs] : made_)
    if (like->op == node.op && like->attributes == node.attributes) return outputs;
  return made_.emplace_back(&node, evaluate_op(*node.op, node.attributes, {}, dims_, graph_.step())).second;
}

namespace {

/// Each of several equal numbers in a row once, and for each number the place of its own: elements of what is
/// broadcast along the last axes. None where that saves less than half.
std::optional<std::vector<size_t>> join_equal(std::vector<int64_t>& numbers) {
  size_t runs = 0;
  for (size_t i = 0; i < numbers.size(); ++i) runs += i == 0 || numbers[i] != numbers[i - 1] ? 1 : 0;
  if (2 * runs > numbers.size()) return std::nullopt;
  std::vector<size_t> place(numbers.size());
  size_t last = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && numbers[i] != numbers[last]) numbers[++last] = numbers[i];
    place[i] = last;
  }
  numbers.resize(runs);
  return place;
}

/// Element place[i] of what was read, for each i.
Oracle::Samples spread(const Oracle::Samples& read, std::span<const size_t> place) {
  Oracle::Samples samples{TensorData(read.values.dtype, {static_cast<int64_t>(place.size())}),
                          {},
                          Oracle::Flags(place.size()),
                          {},
                          {}};
  if (!read.errors.empty()) samples.errors.resize(place.size());
  if (!read.overflowed.empty()) samples.overflowed.resize(place.size());
  if (!read.unpromised.empty()) samples.unpromised.resize(place.size());
  const auto copy = [&](const auto& from, auto&& to) {
    for (size_t i = 0; i < place.size(); ++i) to[i] = from[place[i]];
  };
  visit_dtype(read.values.dtype, [&]<class T>(T) { copy(read.values.as<T>(), samples.values.as<T>()); });
  if (!read.errors.empty()) copy(read.errors, samples.errors);
  if (!read.overflowed.empty()) copy(read.overflowed, samples.overflowed);
  if (!read.unpromised.empty()) copy(read.unpromised, samples.unpromised);
  copy(read.known, samples.known);
  return samples;
}

}  // namespace

/// Elements of what an edge shows. Positions that padding made are fills.
Oracle::Answer Oracle::through(const Edge& edge, const Positions& positions) {
  const auto reader = readers_.try_emplace(&edge, edge.view, dims_).first;
  const ViewReader& view = reader->second;
  if (view.is_direct()) return answer(edge.source, positions);
  ViewReader::Places places = view.places(*positions);
  const std::optional<std::vector<size_t>> place = join_equal(places.indices);
  Answer read = answer(edge.source, std::make_shared<const std::vector<int64_t>>(std::move(places.indices)));
  if (place) read = std::make_shared<const Samples>(spread(*read, *place));
  if (!places.fills.empty()) read = std::make_shared<const Samples>(between(*read, places.fills));
  return read;
}

namespace {

/// Runs an elementwise op on arrays in the dtypes in which they are held; where the op takes the graph's own
/// dtypes only (it looks at bits), on values rounded to these.
TensorData run_kernel(const Node& node, std::span<const Dtype> own, std::span<const TensorData* const> inputs,
                      int64_t count) {
  std::vector<Dtype> dtypes;
  for (const TensorData* input : inputs) dtypes.push_back(input->dtype);
  const Dtype own_out = node.outputs[0].dtype;
  if (const ElementKernel kernel = node.op->elementwise(dtypes, held(own_out))) {
    TensorData out(held(own_out), {count});
    std::vector<const void*> pointers;
    for (const TensorData* input : inputs) pointers.push_back(input->bytes.data());
    kernel(pointers.data(), out.bytes.data(), count, node.attributes);
    return out;
  }
  std::vector<TensorData> rounded;
  std::vector<const void*> pointers;
  for (size_t k = 0; k < inputs.size(); ++k) rounded.push_back(convert(*inputs[k], own[k]));
  for (const TensorData& input : rounded) pointers.push_back(input.bytes.data());
  const ElementKernel kernel = node.op->elementwise(own, own_out);
  LUMINAL_CHECK(kernel != nullptr, "{} does not take its own dtypes", node.op->name);
  TensorData out(own_out, {count});
  kernel(pointers.data(), out.bytes.data(), count, node.attributes);
  return convert(out, held(own_out));
}

}  // namespace

namespace {

/// The ends of an operand's interval bound a result only if the function does not turn between them: the sine
/// of 1e20 +- 1e13 may be anything. Looked for at places within wide intervals.
void doubt_what_turns(const Oracle::Samples& input, Oracle::Samples& result,
                      const std::function<TensorData(const TensorData& moved)>& evaluate) {
  constexpr double kWide = 0.25;
  if (std::ranges::none_of(input.errors, [](double e) { return e > kWide; })) return;
  for (const double side : {-1.0, 1.0}) {
    std::vector<double> before(result.values.as<double>().begin(), result.values.as<double>().end());
    std::vector<int> direction(before.size(), 0);
    for (const double part : {0.137, 0.291, 0.413, 0.619, 0.853, 1.0}) {  // no multiples of each other
      TensorData moved = input.values;
      move_by(moved.as<double>(), input.errors, side * part);
      const TensorData there = evaluate(moved);
      const auto now = there.as<double>();
      for (size_t i = 0; i < before.size(); ++i) {
        const int step = now[i] > before[i] ? 1 : now[i] < before[i] ? -1 : 0;
        if (input.errors[i] > kWide && step * direction[i] < 0) result.known[i] = false;
        if (step != 0) direction[i] = step;
        before[i] = now[i];
      }
    }
  }
}

/// Errors that reach from `center` to `there`; where the distance is NaN they stay as they are. Whether it is nowhere.
LUMINAL_VECTOR_CLONES bool widen(std::span<double> errors, std::span<const double> center,
                                 std::span<const double> there) {
  int64_t nans = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    const double distance = std::abs(there[i] - center[i]);
    nans |= distance == distance ? 0 : 1;
    errors[i] = distance > errors[i] ? distance : errors[i];
  }
  return nans == 0;
}

}  // namespace

Oracle::Samples Oracle::elementwise(const Node& node, const Positions& positions) {
  std::vector<Answer> inputs;
  std::vector<Dtype> own;
  for (const Edge& edge : node.inputs) {
    inputs.push_back(through(edge, positions));
    own.push_back(graph_.type(edge.source).dtype);
  }
  const size_t samples = positions->size();
  const auto count = static_cast<int64_t>(samples);
  std::vector<const TensorData*> exact;
  for (const Answer& input : inputs) exact.push_back(&input->values);
  const Dtype dtype = node.outputs[0].dtype;
  Samples result{run_kernel(node, own, exact, count), {}, Flags(samples, 1), {}, {}};
  if (is_float(dtype)) result.errors.assign(samples, 0);
  for (const Answer& input : inputs) {
    leave_known(result.known, input->known);
    if (input->unpromised.empty()) continue;
    result.unpromised.resize(samples);
    mark(result.unpromised, input->unpromised);
  }

  // What the result is where operands lie elsewhere in their intervals.
  const auto include = [&](std::span<const TensorData* const> operands) {
    const TensorData there = run_kernel(node, own, operands, count);
    if (!is_float(dtype)) {
      const auto width = static_cast<size_t>(element_bytes(dtype));
      for (size_t i = 0; i < samples; ++i)
        if (std::memcmp(&there.bytes[i * width], &result.values.bytes[i * width], width) != 0)
          result.known[i] = false;
      return;
    }
    if (widen(result.errors, result.values.as<double>(), there.as<double>())) return;
    const auto now = there.as<double>();
    const auto center = result.values.as<double>();
    for (size_t i = 0; i < samples; ++i)
      if (std::isnan(now[i] - center[i]) && now[i] != center[i] &&
          !(std::isnan(now[i]) && std::isnan(center[i])))
        result.known[i] = false;
  };
  std::vector<size_t> moving;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (has_errors(*inputs[k])) moving.push_back(k);
  spend(count * (int64_t{1} << moving.size()));
  const auto include_moved = [&](const auto& operand_of) {
    std::vector<const TensorData*> operands = exact;
    for (size_t m = 0; m < moving.size(); ++m) operands[moving[m]] = operand_of(m);
    include(operands);
  };
  std::vector<std::array<TensorData, 2>> ends;  // of the moving operands' intervals
  for (const size_t k : moving) {
    auto& [low, high] = ends.emplace_back(std::array{inputs[k]->values, inputs[k]->values});
    move_by(low.as<double>(), inputs[k]->errors, -1);
    move_by(high.as<double>(), inputs[k]->errors, 1);
  }
  for (size_t corner = 0; !moving.empty() && corner < (size_t{1} << moving.size()); ++corner)
    include_moved([&](size_t m) { return &ends[m][corner >> m & 1]; });
  // The ends hide a pole between them: what is divided by 0 +- 1 may be anything.
  const auto may_be_zero = [](double value, double error) { return error != 0 && std::abs(value) <= error; };
  const auto has_zero = [&](size_t k) {
    const auto values = inputs[k]->values.as<double>();
    for (size_t i = 0; i < values.size(); ++i)
      if (may_be_zero(values[i], inputs[k]->errors[i])) return true;
    return false;
  };
  if (std::ranges::any_of(moving, has_zero))
    include_moved([&](size_t m) {
      const Samples& input = *inputs[moving[m]];
      TensorData& zeroed = ends[m][0] = input.values;
      const auto values = zeroed.as<double>();
      for (size_t i = 0; i < values.size(); ++i)
        if (may_be_zero(values[i], input.errors[i])) values[i] = 0;
      return &zeroed;
    });
  if (is_float(dtype) && node.inputs.size() == 1 && !has(node.op->traits, Trait::Monotone))
    doubt_what_turns(*inputs[0], result, [&](const TensorData& elsewhere) {
      const TensorData* pointer = &elsewhere;
      return run_kernel(node, own, {&pointer, 1}, count);
    });
  if (is_float(dtype)) store_rounded(dtype, node.op->ulp, result);
  return result;
}

/// Whether rows of the value can be evaluated a few at a time for the price of all together: no sums below it are shared
/// by rows.
bool Oracle::is_free_of_folds(const Value& value) const {
  std::vector<Value> open{value};
  std::unordered_set<Value> seen{value};
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    const Node& node = graph_.node(next.node);
    if (known(next) || node.op->is(Trait::Leaf)) continue;
    if (node.op->monoid) return false;
    for (const Edge& edge : node.inputs)
      if (seen.insert(edge.source).second) open.push_back(edge.source);
  }
  return true;
}

Oracle::Samples Oracle::reduction(const Value& value, std::span<const int64_t> positions) {
  const Node& node = graph_.node(value.node);
  // Each different row once.
  std::vector<int64_t> rows(positions.begin(), positions.end());
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const FoldedRows layout(exec(node.inputs[0].view.dims(), dims_),
                          node.attributes.get<std::vector<int64_t>>("axes"));
  const Samples by_row = kept_rows(value, layout, rows);
  std::vector<size_t> place;
  for (const int64_t position : positions)
    place.push_back(static_cast<size_t>(std::ranges::lower_bound(rows, position) - rows.begin()));
  return spread(by_row, place);
}

Oracle::Samples Oracle::kept_rows(const Value& value, const FoldedRows& layout,
                                  std::span<const int64_t> rows) {
  constexpr int64_t kLong = 256;  // shorter rows are folded about as fast as they are looked up
  const Node& node = graph_.node(value.node);
  if (layout.length() < kLong) return fold_rows(node, layout, rows);
  std::unordered_map<int64_t, KeptRow>& kept = kept_rows_[value];
  std::vector<int64_t> missing;
  for (const int64_t row : rows)
    if (const auto known = kept.find(row); known != kept.end())
      take_kept(known->second.price);
    else
      missing.push_back(row);
  const auto width = static_cast<size_t>(element_bytes(held(node.outputs[0].dtype)));
  if (!missing.empty()) {
    const int64_t before = operations_ + spared_;
    const Samples made = fold_rows(node, layout, missing);
    const Price price{(operations_ + spared_ - before) / static_cast<int64_t>(missing.size()), question_};
    for (size_t i = 0; i < missing.size(); ++i) {
      KeptRow row{.error = made.errors.empty() ? 0 : made.errors[i],
                  .is_known = made.known[i],
                  .is_unpromised = made.unpromised.empty() ? uint8_t{0} : made.unpromised[i],
                  .price = price};
      std::memcpy(row.value.data(), &made.values.bytes[i * width], width);
      kept.emplace(missing[i], row);
    }
    if (missing.size() == rows.size()) return made;
  }
  Samples all = empty_samples(node.outputs[0].dtype, rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const KeptRow& row = kept.at(rows[i]);
    std::memcpy(&all.values.bytes[i * width], row.value.data(), width);
    if (!all.errors.empty()) all.errors[i] = row.error;
    all.known[i] = row.is_known;
    if (row.is_unpromised == 0) continue;
    all.unpromised.resize(rows.size());
    all.unpromised[i] = 1;
  }
  return all;
}

Oracle::Samples Oracle::fold_rows(const Node& node, const FoldedRows& layout, std::span<const int64_t> rows) {
  const Edge& edge = node.inputs[0];
  const int64_t length = layout.length();
  spend(static_cast<int64_t>(rows.size()) * length);
  // What is evaluated together stays in the processor's cache.
  constexpr int64_t kTogether = 8192;
  const bool in_pieces = is_free_of_folds(edge.source);
  const int64_t piece = in_pieces ? std::min(length, kTogether) : length;
  const size_t rows_together =
      in_pieces ? static_cast<size_t>(kTogether / std::max(int64_t{1}, piece)) : rows.size();

  const Dtype dtype = node.outputs[0].dtype;
  Samples by_row = empty_samples(dtype, rows.size());
  RowFold fold(*node.op->monoid, dtype, held(graph_.type(edge.source).dtype), length,
               {.independent = independent_roundings, .small_integers = small_integers});
  for (size_t row = 0; row < rows.size(); row += rows_together) {
    const auto together = rows.subspan(row, std::min(rows_together, rows.size() - row));
    for (int64_t first = 0; first < length; first += piece) {
      const auto count = static_cast<size_t>(std::min(piece, length - first));
      const size_t before = cheap_.size();
      const Answer terms = through(edge, std::make_shared<const std::vector<int64_t>>(
                                             layout.positions(together, first, static_cast<int64_t>(count))));
      for (size_t r = 0; r < together.size(); ++r) {
        fold.add(*terms, r * count, count);
        if (first + piece >= length) fold.finish(by_row, row + r);
      }
      if (in_pieces) forget_cheap(before);
    }
    if (length == 0)
      for (size_t r = 0; r < together.size(); ++r) fold.finish(by_row, row + r);
  }
  if (!by_row.errors.empty()) store_rounded(dtype, 0.5, by_row);

  by_row.overflowed.clear();
  return by_row;
}

}  // namespace luminal::search
