#include "graph/view_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/fail.h"
#include "graph/data_input.h"
#include "graph/index_evaluator.h"
#include "graph/materialize.h"
#include "symbolic/node.h"

namespace luminal {

using symbolic::Kind;

namespace {
constexpr int64_t kTogether = 1024;  ///< elements whose places are found at once
}

// --- Making a reader

ViewReader::ViewReader(const ShapeTracker& view, const DimMap& dims) : dims_(exec(view.dims(), dims)) {
  view.check(dims);
  for (const int64_t size : dims_) count_ *= size;
  buffer_elements_ = view.n_physical_elements().exec(dims);
  general_index_ = view.index_expression().substitute(dims);
  index_ = affine(general_index_);
  for (const ShapeTracker::Mask& mask : view.masks()) masks_.push_back(make_mask(mask, dims));
  if (is_affine()) merge_axes();
  direct_ = index_ && masks_.empty() && index_->constant == 0 && count_ == buffer_elements_ &&
            (dims_.empty() || (dims_.size() == 1 && index_->strides[0] == 1));
}

std::optional<ViewReader::Affine> ViewReader::affine(const Expression& e) const {
  const auto form = e.as_affine();
  if (!form || !form->constant.constant()) return std::nullopt;
  Affine result{*form->constant.constant(), std::vector<int64_t>(dims_.size(), 0)};
  for (const auto& [axis, coefficient] : form->coefficients) {
    if (!coefficient.constant()) return std::nullopt;
    result.strides.at(static_cast<size_t>(axis)) = *coefficient.constant();
  }
  return result;
}

/// A conjunction of e < 0 with affine e becomes conditions -e - 1 >= 0.
ViewReader::Mask ViewReader::make_mask(const ShapeTracker::Mask& mask, const DimMap& dims) const {
  Mask result{.conditions = {}, .predicate = std::nullopt, .fill = mask.fill};
  const Expression predicate = mask.predicate.substitute(dims);
  std::vector<Expression> parts{predicate};
  if (predicate.node().kind == Kind::And) parts = predicate.node().args;
  for (const Expression& part : parts) {
    std::optional<Affine> condition;
    if (part.node().kind == Kind::Negative) condition = affine(-part.node().args[0] - 1);
    if (!condition) {
      result.conditions.clear();
      result.predicate = predicate;
      return result;
    }
    result.conditions.push_back(*condition);
  }
  return result;
}

bool ViewReader::is_affine() const {
  return index_ && std::ranges::none_of(masks_, [](const Mask& mask) { return mask.predicate.has_value(); });
}

template <class Reader>
auto ViewReader::affine_parts(Reader& reader) {
  std::vector parts{&*reader.index_};
  for (auto& mask : reader.masks_)
    for (auto& condition : mask.conditions) parts.push_back(&condition);
  return parts;
}

void ViewReader::merge_axes() {
  const std::vector<Affine*> parts = affine_parts(*this);
  const auto drop = [&](size_t axis) {
    dims_.erase(dims_.begin() + static_cast<std::ptrdiff_t>(axis));
    for (Affine* part : parts) part->strides.erase(part->strides.begin() + static_cast<std::ptrdiff_t>(axis));
  };
  for (size_t axis = dims_.size(); axis-- > 0;)
    if (dims_[axis] == 1) drop(axis);
  for (size_t axis = dims_.size(); axis-- > 1;) {
    const bool one_behind_the_other = std::ranges::all_of(parts, [&](const Affine* part) {
      return part->strides[axis - 1] == part->strides[axis] * dims_[axis];
    });
    if (!one_behind_the_other) continue;
    dims_[axis - 1] *= dims_[axis];
    for (Affine* part : parts) part->strides[axis - 1] = part->strides[axis];
    drop(axis);
  }
}

namespace {

/// Coordinates of a position in dims.
void find_coordinates(int64_t position, std::span<const int64_t> dims, std::span<int64_t> coordinates) {
  for (size_t axis = dims.size(); axis-- > 1;) {
    coordinates[axis] = position % dims[axis];
    position /= dims[axis];
  }
  if (!dims.empty()) coordinates[0] = position;
}

/// Coordinates of the position `count` further on, in the same row or at the beginning of the next one.
void advance(int64_t count, std::span<const int64_t> dims, std::span<int64_t> coordinates) {
  if (coordinates.empty()) return;
  coordinates.back() += count;
  for (size_t axis = coordinates.size(); axis-- > 1 && coordinates[axis] == dims[axis];) {
    coordinates[axis] = 0;
    ++coordinates[axis - 1];
  }
}

int64_t value_at(int64_t constant, std::span<const int64_t> strides, std::span<const int64_t> at) {
  return std::inner_product(at.begin(), at.end(), strides.begin(), constant);
}

}  // namespace

/// Elements of a run that a mask lets through.
struct ViewReader::Run {
  int64_t begin, end;
  const Number* fill;  ///< of the others
};

/// Walks along rows and knows what the affine parts of a reader are where it stands: the index first, then the
/// conditions of all masks. From one row to the next each changes by a number that depends on the axis that counts up.
class ViewReader::RowWalk {
 public:
  explicit RowWalk(const ViewReader& reader)
      : dims_(reader.dims_),
        at_(dims_.size()),
        step_digits_(dims_.size()),
        parts_(affine_parts(reader)),
        values_(parts_.size()) {
    for (size_t axis = 0; axis + 1 < dims_.size(); ++axis)
      for (const Affine* part : parts_) {
        int64_t jump = part->strides[axis];
        for (size_t inner = axis + 1; inner + 1 < dims_.size(); ++inner)
          jump -= (dims_[inner] - 1) * part->strides[inner];
        jumps_.push_back(jump);
      }
  }
  void seek(int64_t position) {
    if (position == position_) return;
    // Positions often lie equally far apart, as along an axis: what is added digit by digit needs no division.
    if (const int64_t step = position - position_; position_ >= 0 && step > 0) {
      if (step != step_) find_coordinates(step_ = step, dims_, step_digits_);
      add_to_coordinates();
    } else {
      find_coordinates(position, dims_, at_);
    }
    position_ = position;
    for (size_t p = 0; p < parts_.size(); ++p)
      values_[p] = value_at(parts_[p]->constant, parts_[p]->strides, at_);
  }
  [[nodiscard]] int64_t left_of_row() const { return dims_.empty() ? 1 : dims_.back() - at_.back(); }
  [[nodiscard]] std::span<const int64_t> values() const { return values_; }
  [[nodiscard]] int64_t step(size_t part) const { return dims_.empty() ? 0 : parts_[part]->strides.back(); }
  /// By no more than is left of the row; then at the beginning of the next one.
  void advance(int64_t count) {
    position_ += count;
    if (dims_.empty()) return;
    if (count < left_of_row() || dims_.size() == 1) {
      at_.back() += count;
      for (size_t p = 0; p < parts_.size(); ++p) values_[p] += count * step(p);
      return;
    }
    const int64_t begin = std::exchange(at_.back(), 0);
    size_t axis = dims_.size() - 2;
    while (++at_[axis] == dims_[axis] && axis > 0) at_[axis--] = 0;
    for (size_t p = 0; p < parts_.size(); ++p)
      values_[p] += jumps_[axis * parts_.size() + p] - begin * step(p);
  }

 private:
  void add_to_coordinates() {
    int64_t carry = 0;
    for (size_t axis = dims_.size(); axis-- > 1;) {
      at_[axis] += step_digits_[axis] + carry;
      carry = at_[axis] >= dims_[axis] ? 1 : 0;
      at_[axis] -= carry * dims_[axis];
    }
    if (!dims_.empty()) at_[0] += step_digits_[0] + carry;
  }

  const std::vector<int64_t>& dims_;
  std::vector<int64_t> at_;
  int64_t step_ = 0;  ///< between the positions sought last, where it was not back
  std::vector<int64_t> step_digits_;
  std::vector<const Affine*> parts_;
  std::vector<int64_t> values_;  ///< by part
  std::vector<int64_t> jumps_;   ///< by axis but the last, and part
  int64_t position_ = -1;
};

void ViewReader::masks_along(const RowWalk& walk, int64_t length, std::vector<Run>& runs) const {
  runs.clear();
  size_t part = 1;
  for (const Mask& mask : masks_) {
    Run run{.begin = 0, .end = length, .fill = &mask.fill};
    for (size_t k = 0; k < mask.conditions.size(); ++k, ++part) {  // value + k * step >= 0
      const int64_t value = walk.values()[part], step = walk.step(part);
      if (step > 0 && value < 0)
        run.begin = std::max(run.begin, (-value + step - 1) / step);
      else if (step < 0 && value >= 0)
        run.end = std::min(run.end, value / -step + 1);
      else if (value < 0)
        run.end = 0;
    }
    runs.push_back(run);
  }
}

ViewReader::Places ViewReader::places(std::span<const int64_t> positions) const {
  return is_affine() ? places_by_runs(positions) : places_of_any(positions);
}

ViewReader::Places ViewReader::places_of_any(std::span<const int64_t> positions) const {
  Places places;
  std::vector<int64_t> at(dims_.size()), found;
  std::vector<std::vector<int64_t>> coordinates(dims_.size());
  for (size_t first = 0; first < positions.size(); first += size_t{kTogether}) {
    const auto some = positions.subspan(first, std::min(size_t{kTogether}, positions.size() - first));
    for (auto& along : coordinates) along.clear();
    for (const int64_t position : some) {
      find_coordinates(position, dims_, at);
      for (size_t axis = 0; axis < at.size(); ++axis) coordinates[axis].push_back(at[axis]);
    }
    evaluate(coordinates, some.size(), found);
    for (size_t i = 0; i < some.size(); ++i) {
      if (found[i] >= 0) {
        places.indices.push_back(found[i]);
      } else {
        places.fills.resize(positions.size());
        places.fills[first + i] = &hiding(found[i]).fill;
      }
    }
  }
  return places;
}

void ViewReader::evaluate(std::span<const std::vector<int64_t>> coordinates, size_t count,
                          std::vector<int64_t>& found) const {
  IndexEvaluator evaluator(coordinates, count);
  const auto value_of = [&](const Affine& form) { return evaluator.affine(form.constant, form.strides); };
  constexpr int64_t kNowhere = INT64_MIN;  // a negative place, which only a mask can excuse
  found = index_ ? value_of(*index_) : evaluator.evaluate(general_index_);
  for (int64_t& index : found)
    if (index < 0 || index >= buffer_elements_) index = kNowhere;
  for (size_t m = masks_.size(); m-- > 0;) {  // the first one that hides an element counts
    const Mask& mask = masks_[m];
    const auto hide = [&](size_t i) { found[i] = -1 - static_cast<int64_t>(m); };
    if (mask.predicate) {
      const std::vector<int64_t>& shows = evaluator.evaluate(*mask.predicate);
      for (size_t i = 0; i < count; ++i)
        if (shows[i] == 0) hide(i);
    }
    for (const Affine& condition : mask.conditions) {
      const std::vector<int64_t> values = value_of(condition);
      for (size_t i = 0; i < count; ++i)
        if (values[i] < 0) hide(i);
    }
  }
  for (const int64_t index : found)
    LUMINAL_CHECK(index != kNowhere, "an element outside of a buffer of {}", buffer_elements_);
}

ViewReader::Places ViewReader::places_by_runs(std::span<const int64_t> positions) const {
  Places places;
  places.indices.resize(positions.size());
  int64_t* next = places.indices.data();
  std::vector<Run> runs;
  RowWalk walk(*this);
  const int64_t step = walk.step(0);
  for (size_t first = 0, length = 1; first < positions.size(); first += length) {
    walk.seek(positions[first]);
    const auto most = std::min(static_cast<size_t>(walk.left_of_row()), positions.size() - first);
    const auto follows = [&](size_t k) {
      return positions[first + k] == positions[first] + static_cast<int64_t>(k);
    };
    for (length = 1; length < most && follows(length);) ++length;
    const int64_t index = walk.values()[0];
    const auto count = static_cast<int64_t>(length);
    masks_along(walk, count, runs);
    int64_t begin = 0, end = count;  // of what all masks let through
    for (const Run& run : runs) begin = std::max(begin, run.begin), end = std::min(end, run.end);
    for (int64_t k = begin; k < end; ++k) *next++ = index + k * step;
    if (end - begin < count) {
      places.fills.resize(positions.size());
      for (int64_t k = 0; k < count; ++k) {
        const auto hides = [k](const Run& run) { return k < run.begin || k >= run.end; };
        if (const auto run = std::ranges::find_if(runs, hides); run != runs.end())
          places.fills[first + static_cast<size_t>(k)] = run->fill;
      }
    }
    walk.advance(count);
  }
  places.indices.resize(static_cast<size_t>(next - places.indices.data()));
  return places;
}

double ViewReader::cost() const {
  constexpr double kRowCost = 20, kScatteredCost = 3, kGeneralCost = 30;
  const auto row = static_cast<double>(dims_.empty() ? 1 : std::max<int64_t>(1, dims_.back()));
  if (!is_affine()) return kGeneralCost + kRowCost / row;
  const int64_t stride = dims_.empty() ? 0 : index_->strides.back();
  return (stride == 0 || stride == 1 ? 1 : kScatteredCost) + kRowCost / row;
}

// --- Reading

ViewCursor::ViewCursor(const ViewReader& reader, int64_t start)
    : reader_(&reader), position_(start), coordinates_(reader.dims_.size(), 0) {
  for (size_t axis = coordinates_.size(); axis-- > 0 && start > 0;) {
    coordinates_[axis] = start % reader.dims_[axis];
    start /= reader.dims_[axis];
  }
}

void ViewCursor::read(const void* buffer, Dtype dtype, int64_t count, void* out) {
  LUMINAL_CHECK(position_ + count <= reader_->count_, "reading {} elements at {} of {}", count, position_,
                reader_->count_);
  auto* place = static_cast<std::byte*>(out);
  const int64_t width = element_bytes(dtype);
  const bool is_affine = reader_->is_affine();
  while (count > 0) {
    const int64_t now = std::min(is_affine ? left_of_row() : left_of_found(count), count);
    if (is_affine) {
      read_row(static_cast<const std::byte*>(buffer), dtype, now, place);
      advance(now);
    } else {
      read_found(static_cast<const std::byte*>(buffer), dtype, now, place);
    }
    position_ += now;
    place += now * width;
    count -= now;
  }
}

int64_t ViewCursor::left_of_row() const {
  return reader_->dims_.empty() ? 1 : reader_->dims_.back() - coordinates_.back();
}

void ViewCursor::advance(int64_t count) { luminal::advance(count, reader_->dims_, coordinates_); }

namespace {

struct Interval {
  int64_t begin, end;
};

/// The j in [0, count) with base + stride * j >= 0.
Interval satisfied(int64_t base, int64_t stride, int64_t count) {
  if (stride == 0) return base >= 0 ? Interval{0, count} : Interval{0, 0};
  if (stride > 0) return {base >= 0 ? 0 : std::min(count, (-base + stride - 1) / stride), count};
  return {0, base < 0 ? 0 : std::min(count, base / -stride + 1)};
}

template <class T>
void copy_strided(const T* source, int64_t stride, int64_t count, T* out) {
  if (stride == 1)
    std::memcpy(out, source, static_cast<size_t>(count) * sizeof(T));
  else if (stride == 0)
    std::fill_n(out, count, *source);
  else
    for (int64_t i = 0; i < count; ++i) out[i] = source[i * stride];
}

template <class T>
T fill_word(Number fill, Dtype dtype) {
  T word{};
  visit_dtype(dtype, [&](auto tag) {
    const auto value = fill_value<decltype(tag)>(fill);
    if constexpr (sizeof(value) == sizeof(T)) std::memcpy(&word, &value, sizeof(T));
  });
  return word;
}

}  // namespace

void ViewCursor::read_row(const std::byte* buffer, Dtype dtype, int64_t count, std::byte* out) {
  const auto at = [&](const ViewReader::Affine& affine) {
    return std::inner_product(coordinates_.begin(), coordinates_.end(), affine.strides.begin(),
                              affine.constant);
  };
  const auto inner = [](const ViewReader::Affine& affine) {
    return affine.strides.empty() ? 0 : affine.strides.back();
  };
  visit_word(dtype, [&](auto word) {
    using T = decltype(word);
    T* target = reinterpret_cast<T*>(out);
    // The first mask in the list decides, so inner intervals are cut from what the outer ones leave.
    Interval valid{0, count};
    for (const ViewReader::Mask& mask : reader_->masks_) {
      Interval inside = valid;
      for (const ViewReader::Affine& condition : mask.conditions) {
        const Interval part = satisfied(at(condition), inner(condition), count);
        inside = {std::max(inside.begin, part.begin), std::min(inside.end, part.end)};
      }
      inside.end = std::max(inside.begin, inside.end);
      if (inside.begin > valid.begin || inside.end < valid.end) {
        const T fill = fill_word<T>(mask.fill, dtype);
        if (inside.begin >= inside.end) {
          std::fill(target + valid.begin, target + valid.end, fill);
          return;
        }
        std::fill(target + valid.begin, target + inside.begin, fill);
        std::fill(target + inside.end, target + valid.end, fill);
      }
      valid = inside;
    }
    if (valid.begin >= valid.end) return;
    const int64_t stride = inner(*reader_->index_);
    const T* source = reinterpret_cast<const T*>(buffer) + at(*reader_->index_) + stride * valid.begin;
    copy_strided(source, stride, valid.end - valid.begin, target + valid.begin);
  });
}

/// Places are found for some elements more than are wanted: who reads short rows asks often.
int64_t ViewCursor::left_of_found(int64_t wanted) {
  if (next_found_ == found_.size()) {
    const int64_t twice = 2 * static_cast<int64_t>(found_.size());
    find(std::min(std::clamp(twice, std::min(wanted, kTogether), kTogether), reader_->count_ - position_));
    next_found_ = 0;
  }
  return static_cast<int64_t>(found_.size() - next_found_);
}

void ViewCursor::find(int64_t count) {
  along_.resize(coordinates_.size());
  for (auto& along : along_) along.resize(static_cast<size_t>(count));
  for (int64_t done = 0, length = 0; done < count; done += length) {
    length = std::min(left_of_row(), count - done);
    for (size_t axis = 0; axis < along_.size(); ++axis) {
      const auto part =
          std::span(along_[axis]).subspan(static_cast<size_t>(done), static_cast<size_t>(length));
      if (axis + 1 == along_.size())
        std::iota(part.begin(), part.end(), coordinates_[axis]);
      else
        std::ranges::fill(part, coordinates_[axis]);
    }
    advance(length);
  }
  reader_->evaluate(along_, static_cast<size_t>(count), found_);
}

void ViewCursor::read_found(const std::byte* buffer, Dtype dtype, int64_t count, std::byte* out) {
  const auto found = std::span(found_).subspan(next_found_, static_cast<size_t>(count));
  next_found_ += found.size();
  visit_word(dtype, [&](auto word) {
    using T = decltype(word);
    const T* source = reinterpret_cast<const T*>(buffer);
    T* target = reinterpret_cast<T*>(out);
    for (size_t i = 0; i < found.size(); ++i)
      target[i] = found[i] >= 0 ? source[found[i]] : fill_word<T>(reader_->hiding(found[i]).fill, dtype);
  });
}

TensorData materialize(const TensorData& buffer, const ShapeTracker& view, const DimMap& dims) {
  const ViewReader reader(view, dims);
  if (reader.buffer_elements() != buffer.element_count())
    fail<ShapeError>(
        "[data] the value holds {} elements, but at the current sizes its view reads {}; read it before "
        "sizes change",
        buffer.element_count(), reader.buffer_elements());
  TensorData result(buffer.dtype, exec(view.dims(), dims));
  if (reader.count() > 0)
    ViewCursor(reader, 0).read(buffer.bytes.data(), buffer.dtype, reader.count(), result.bytes.data());
  return result;
}

}  // namespace luminal
