#include "luminal/shape_tracker.h"

#include <algorithm>

#include "base/fail.h"
#include "base/hash.h"
#include "symbolic/movement.h"
#include "symbolic/node.h"

namespace luminal {

using symbolic::coordinates;
using symbolic::is_constant;

MovementStep MovementStep::adjoint() const {
  if (!invertible) throw InternalError(fmt::format("step {}({}) has no adjoint", name, detail));
  MovementStep s;
  constexpr std::string_view kMark = "adjoint ";
  s.name = std::string(kMark) + name;
  s.detail = detail;
  s.in_dims = out_dims;
  s.out_dims = in_dims;
  s.out_dims.insert(s.out_dims.end(), free_dims.begin(), free_dims.end());
  s.in_of_out = out_of_in;
  s.out_valid = in_valid;
  s.out_of_in = in_of_out;
  s.out_of_in.insert(s.out_of_in.end(), free_of_out.begin(), free_of_out.end());
  s.in_valid = out_valid;
  s.conditions = conditions;
  return s;
}

ShapeTracker ShapeTracker::contiguous(Shape dims) {
  for (const Expression& d : dims)
    if (d.range().max < 0)
      fail<ShapeError>("[contiguous] dim {} of {} is negative; sizes must be at least 0", d.to_string(),
                       luminal::to_string(dims));
  symbolic::check_countable("contiguous", dims);
  ShapeTracker v;
  v.index_ = symbolic::flatten(dims, coordinates(dims));
  v.physical_elements_ = element_count(dims);
  v.physical_dims_ = dims;
  v.dims_ = std::move(dims);
  return v;
}

ShapeTracker ShapeTracker::new_strided(Shape dims, std::span<const Expression> strides) {
  if (strides.size() != dims.size())
    fail<ShapeError>("[new_strided] {} strides for {}; give one for each axis", strides.size(),
                     luminal::to_string(dims));
  Expression elements = 1, any = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (strides[k].range().max < 0)
      fail<ShapeError>(
          "[new_strided] stride {} of axis {} is negative; flip the axis of a plain view instead",
          strides[k].to_string(), k);
    elements += (dims[k] - 1).max(0) * strides[k];
    any = any & dims[k].gte(1);
  }
  elements *= any;  // an empty view reaches nothing
  return contiguous({elements}).apply(symbolic::strided_step(elements, std::move(dims), strides));
}

ShapeTracker ShapeTracker::fake(Shape dims) {
  ShapeTracker v;
  for (size_t k = 0; k < dims.size(); ++k) v = v.expand(static_cast<int>(k), dims[k]);
  return v;
}

ShapeTracker ShapeTracker::with(MovementStep step) const {
  symbolic::check_countable(step.name, step.out_dims);
  ShapeTracker v = *this;
  v.dims_ = step.out_dims;
  v.index_ = index_.substitute_indices(step.in_of_out);
  v.masks_.clear();
  // The step's own padding hides whatever lies beneath; neighbours of one fill are one mask.
  const auto add = [&v](const Expression& predicate, const Number& fill) {
    if (is_constant(predicate, 1)) return;
    if (!v.masks_.empty() && is_constant(v.masks_.back().predicate, 0)) return;
    if (!v.masks_.empty() && v.masks_.back().fill == fill)
      v.masks_.back().predicate = v.masks_.back().predicate & predicate;
    else
      v.masks_.push_back({predicate, fill});
  };
  add(step.out_valid, step.fill);
  for (const Mask& m : masks_) add(m.predicate.substitute_indices(step.in_of_out), m.fill);
  v.steps_.push_back(std::move(step));
  return v;
}

ShapeTracker ShapeTracker::apply(const MovementStep& step) const {
  bool fits = step.in_dims.size() == dims_.size();
  for (size_t k = 0; fits && k < dims_.size(); ++k) {
    const Expression &have = dims_[k], &want = step.in_dims[k];
    fits = have == want || !(Expression::known_less(have, want) || Expression::known_less(want, have));
  }
  if (!fits)
    fail<ShapeError>("[{}] the step takes {}, the view has {}; build the step for the view's dims", step.name,
                     luminal::to_string(step.in_dims), luminal::to_string(dims_));
  return with(step);
}

ShapeTracker ShapeTracker::then(const ShapeTracker& next) const {
  if (next.steps_.empty() && next.physical_dims_ == dims_) return *this;
  ShapeTracker v = *this;
  for (const MovementStep& s : next.steps_) v = v.apply(s);
  if (next.steps_.empty() && next.dims_.size() != dims_.size())
    fail<ShapeError>("[then] the second view reads {}, the first has {}",
                     luminal::to_string(next.physical_dims_), luminal::to_string(dims_));
  return v;
}

ShapeTracker ShapeTracker::permute(std::span<const int> order) const {
  MovementStep s = symbolic::permute_step(dims_, order);
  if (s.in_of_out == coordinates(dims_) && s.out_dims == dims_) return *this;
  return with(std::move(s));
}
ShapeTracker ShapeTracker::expand(int axis, const Expression& size) const {
  return with(symbolic::expand_step(dims_, axis, size));
}
ShapeTracker ShapeTracker::merge_dims(int first, int last) const {
  MovementStep s = symbolic::merge_step(dims_, first, last);
  return s.out_dims.size() == dims_.size() ? *this : with(std::move(s));
}
ShapeTracker ShapeTracker::split_dims(int axis, const Expression& inner) const {
  return with(symbolic::split_step(dims_, axis, inner));
}
ShapeTracker ShapeTracker::reshape(Shape dims) const {
  MovementStep s = symbolic::reshape_step(dims_, std::move(dims));
  return s.out_dims == dims_ ? *this : with(std::move(s));
}
ShapeTracker ShapeTracker::slice(Pairs ranges) const {
  MovementStep s = symbolic::slice_step(dims_, ranges);
  return s.out_dims == dims_ && s.in_of_out == coordinates(dims_) && s.conditions.empty()
             ? *this
             : with(std::move(s));
}
ShapeTracker ShapeTracker::slice_along(int axis, const Expression& start, const Expression& end,
                                       const Expression& step) const {
  MovementStep s = symbolic::slice_along_step(dims_, axis, start, end, step);
  return s.out_dims == dims_ && s.in_of_out == coordinates(dims_) && s.conditions.empty()
             ? *this
             : with(std::move(s));
}
ShapeTracker ShapeTracker::pad(Pairs amounts, Number fill) const {
  MovementStep s = symbolic::pad_step(dims_, amounts, fill);
  const bool nothing = std::ranges::all_of(
      amounts, [](const auto& p) { return is_constant(p.first, 0) && is_constant(p.second, 0); });
  return nothing ? *this : with(std::move(s));
}
ShapeTracker ShapeTracker::unsqueeze(int axis) const { return with(symbolic::unsqueeze_step(dims_, axis)); }
ShapeTracker ShapeTracker::squeeze(int axis) const { return with(symbolic::squeeze_step(dims_, axis)); }
ShapeTracker ShapeTracker::select(int axis, const Expression& position) const {
  return with(symbolic::select_step(dims_, axis, position));
}
ShapeTracker ShapeTracker::flip(int axis) const { return with(symbolic::flip_step(dims_, axis)); }
ShapeTracker ShapeTracker::pool(int axis, const Expression& window, const Expression& stride,
                                const Expression& dilation) const {
  return with(symbolic::pool_step(dims_, axis, window, stride, dilation));
}

Expression ShapeTracker::valid_expression() const {
  Expression valid = 1;
  for (const Mask& m : masks_) valid = valid & m.predicate;
  return valid;
}

std::optional<ShapeTracker::Strided> ShapeTracker::as_strided() const {
  if (!masks_.empty()) return std::nullopt;
  const auto affine = index_.as_affine();
  if (!affine) return std::nullopt;
  Strided result{.offset = affine->constant, .strides = std::vector<Expression>(dims_.size())};
  for (const auto& [axis, coefficient] : affine->coefficients)
    result.strides[static_cast<size_t>(axis)] = coefficient;
  return result;
}

std::vector<Expression> ShapeTracker::strides() const {
  auto strided = as_strided();
  if (!strided || !is_constant(strided->offset, 0)) return {};
  if (!is_contiguous()) return std::move(strided->strides);
  // Axes of size 1 have no stride of their own; the row-major one is what readers expect.
  Expression inner = 1;
  for (size_t k = dims_.size(); k-- > 0;) {
    strided->strides[k] = inner;
    inner *= dims_[k];
  }
  return std::move(strided->strides);
}

bool ShapeTracker::is_contiguous() const {
  return masks_.empty() && index_ == symbolic::flatten(dims_, coordinates(dims_)) &&
         Expression::known_equal(n_elements(), physical_elements_);
}

bool ShapeTracker::is_identity() const { return dims_ == physical_dims_ && is_contiguous(); }

Expression ShapeTracker::n_physical_elements() const { return physical_elements_; }

std::vector<size_t> ShapeTracker::shape_usize() const {
  std::vector<size_t> sizes;
  for (const Expression& d : dims_) {
    const auto size = d.to_usize();
    if (!size)
      fail<ShapeError>("[shape_usize] dim {} of {} is symbolic; put sizes in with resolve_global_dyn_dims",
                       d.to_string(), luminal::to_string(dims_));
    sizes.push_back(*size);
  }
  return sizes;
}

void ShapeTracker::check(const DimMap& dims) const {
  for (const MovementStep& s : steps_)
    for (const auto& [condition, message] : s.conditions) {
      if (condition.exec(dims) != 0) continue;
      std::string sizes;
      for (const std::string& name : condition.to_symbols())
        sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : ", ", name, dims.find(name)->second);
      fail<ShapeError>("{} (at {})", message, sizes);
    }
}

namespace {

void resolve(Shape& shape, const DimMap& dims) {
  for (Expression& e : shape) e = e.substitute(dims);
}

MovementStep resolved(MovementStep s, const DimMap& dims) {
  for (Shape* part : {&s.in_dims, &s.free_dims, &s.out_dims, &s.in_of_out, &s.free_of_out, &s.out_of_in})
    resolve(*part, dims);
  s.out_valid = s.out_valid.substitute(dims);
  s.in_valid = s.in_valid.substitute(dims);
  for (auto& [condition, message] : s.conditions) {
    condition = condition.substitute(dims);
    if (is_constant(condition, 0)) {
      std::string sizes;
      for (const auto& [name, size] : dims)
        sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : ", ", name, size);
      fail<ShapeError>("{} (at {})", message, sizes);
    }
  }
  std::erase_if(s.conditions, [](const auto& c) { return is_constant(c.first, 1); });
  return s;
}

}  // namespace

ShapeTracker ShapeTracker::resolve_global_dyn_dims(const DimMap& dims) const {
  ShapeTracker v;
  v.dims_ = dims_;
  v.physical_dims_ = physical_dims_;
  resolve(v.dims_, dims);
  resolve(v.physical_dims_, dims);
  v.physical_elements_ = physical_elements_.substitute(dims);
  v.index_ = index_.substitute(dims);
  for (const Mask& m : masks_) {
    Mask r{m.predicate.substitute(dims), m.fill};
    if (is_constant(r.predicate, 1)) continue;
    v.masks_.push_back(r);
    if (is_constant(r.predicate, 0)) break;
  }
  for (const MovementStep& s : steps_) v.steps_.push_back(resolved(s, dims));
  return v;
}

Expression ShapeTracker::flatten_strides(std::span<const Expression> ranges,
                                         std::span<const Expression> strides) {
  if (ranges.size() != strides.size())
    fail<ShapeError>("[flatten_strides] {} ranges and {} strides; give one stride for each range",
                     ranges.size(), strides.size());
  Expression index = 0;
  const auto at = symbolic::unflatten(ranges, Expression::flat_index());
  for (size_t k = 0; k < ranges.size(); ++k) index += at[k] * strides[k];
  return index;
}

std::string ShapeTracker::to_string() const {
  std::string text = luminal::to_string(dims_) + " = " + luminal::to_string(physical_dims_);
  for (const MovementStep& s : steps_) text += fmt::format(".{}({})", s.name, s.detail);
  return text;
}

uint64_t ShapeTracker::hash() const {
  uint64_t h = combine(dims_.size(), index_.hash());
  for (const Expression& d : dims_) h = combine(h, d.hash());
  for (const Expression& d : physical_dims_) h = combine(h, d.hash());
  for (const Mask& m : masks_) h = combine(combine(h, m.predicate.hash()), m.fill.hash());
  return h;
}

bool operator==(const ShapeTracker& a, const ShapeTracker& b) {
  return a.index_ == b.index_ && a.dims_ == b.dims_ && a.physical_dims_ == b.physical_dims_ &&
         a.masks_ == b.masks_;
}

}  // namespace luminal
