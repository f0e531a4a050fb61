#include "symbolic/movement.h"

#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "symbolic/polynomial.h"

namespace luminal::symbolic {
namespace {

constexpr int kMaxRank = 64;  // far above what anyone writes; keeps a slip from filling memory

std::string list(std::span<const Expression> values) {
  std::string text;
  for (const Expression& v : values) text += (text.empty() ? "" : ", ") + v.to_string();
  return text;
}

std::string list(ShapeTracker::Pairs pairs) {
  std::string text;
  for (const auto& [a, b] : pairs)
    text += fmt::format("{}({}, {})", text.empty() ? "" : ", ", a.to_string(), b.to_string());
  return text;
}

MovementStep named(std::string name, std::string detail, const Shape& in, Shape out) {
  if (out.size() > kMaxRank)
    fail<ShapeError>("[{}] the result would have {} axes; at most {} are possible: merge some", name,
                     out.size(), kMaxRank);
  MovementStep s;
  s.name = std::move(name);
  s.detail = std::move(detail);
  s.in_dims = in;
  s.out_dims = std::move(out);
  return s;
}

// Coordinates of the pairs (input, free).
std::vector<Expression> pair_coordinates(const MovementStep& s) {
  Shape dims = s.in_dims;
  dims.insert(dims.end(), s.free_dims.begin(), s.free_dims.end());
  return coordinates(dims);
}

// Demands `condition`: known to fail is an error now, unknown is checked when sizes are known.
template <class... Args>
void demand(MovementStep& s, const Expression& condition, fmt::format_string<Args...> format,
            Args&&... args) {
  const auto known = condition.constant();
  if (known && *known != 0) return;
  std::string text = fmt::format("[{}] ", s.name) + fmt::format(format, std::forward<Args>(args)...);
  if (known) throw ShapeError(with_call_site(std::move(text)));
  s.conditions.emplace_back(condition, std::move(text));
}

Expression equal(const Expression& a, const Expression& b) {
  if (Expression::known_equal(a, b)) return 1;
  return a.gte(b) & b.gte(a);
}

void check_length(const char* op, size_t given, const Shape& dims) {
  if (given != dims.size())
    fail<ShapeError>("[{}] {} entries for the {} axes of {}; give one for each axis", op, given, dims.size(),
                     to_string(dims));
}

// The quotient of dims as a polynomial where there is one (s*4 / s is 4: at s = 0 nothing is left to index).
Expression divide_dims(const Expression& a, const Expression& b) {
  if (const auto exact = divide_exact(a, b)) return *exact;
  return a / b;
}

}  // namespace

int normal_axis(std::string_view op, int axis, int rank, const Shape& dims) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  if (rank == 0)
    fail<ShapeError>("[{}] axis {} of {}, which has no axes; unsqueeze first", op, axis, to_string(dims));
  fail<ShapeError>("[{}] axis {} is out of range for {}; use {} to {}", op, axis, to_string(dims), -rank,
                   rank - 1);
}

void check_countable(std::string_view op, std::span<const Expression> dims) {
  int64_t count = 1;
  bool overflows = false;
  for (const Expression& dim : dims) {
    const auto size = dim.constant();
    if (!size) continue;
    if (*size == 0) return;
    overflows = overflows || __builtin_mul_overflow(count, *size, &count);
  }
  if (overflows)
    fail<ShapeError>("[{}] {} has more elements than 64 bits count; use smaller sizes", op,
                     luminal::to_string(dims));
  constexpr int64_t kMost =
      std::numeric_limits<int64_t>::max() / 64;  // elements of any dtype, and room to add up
  if (count > kMost)
    fail<ShapeError>("[{}] {} takes more bytes than 64 bits count; use smaller sizes", op,
                     luminal::to_string(dims));
}

std::vector<Expression> coordinates(std::span<const Expression> dims) {
  std::vector<Expression> c;
  c.reserve(dims.size());
  for (const Expression& d : dims) c.push_back(Expression::index(static_cast<int>(c.size()), d));
  return c;
}

Expression flatten(std::span<const Expression> dims, std::span<const Expression> coordinates) {
  Expression flat = 0;
  for (size_t i = 0; i < dims.size(); ++i) flat = flat * dims[i] + coordinates[i];
  return flat;
}

std::vector<Expression> unflatten(std::span<const Expression> dims, const Expression& flat) {
  std::vector<Expression> c(dims.size());
  Expression inner = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const bool first = i == 0;  // lies within: its quotient needs no remainder
    const Expression quotient = flat / inner;
    c[i] = is_constant(dims[i], 1) ? constant(0) : first ? quotient : quotient % dims[i];
    inner *= dims[i];
  }
  return c;
}

MovementStep permute_step(const Shape& dims, std::span<const int> order) {
  check_length("permute", order.size(), dims);
  const int rank = static_cast<int>(dims.size());
  std::vector<int> axes;
  std::string detail;
  for (int a : order) {
    axes.push_back(normal_axis("permute", a, rank, dims));
    detail += fmt::format("{}{}", detail.empty() ? "" : ", ", axes.back());
  }
  for (int a = 0; a < rank; ++a)
    if (std::ranges::count(axes, a) != 1)
      fail<ShapeError>("[permute] order ({}) of {} does not name axis {} once; name each axis once", detail,
                       to_string(dims), a);
  Shape out;
  for (int a : axes) out.push_back(dims[static_cast<size_t>(a)]);
  MovementStep s = named("permute", detail, dims, std::move(out));
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  s.in_of_out.resize(dims.size());
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto from = static_cast<size_t>(axes[k]);
    s.in_of_out[from] = o[k];
    s.out_of_in.push_back(i[from]);
  }
  return s;
}

MovementStep expand_step(const Shape& dims, int axis, const Expression& size) {
  const int rank = static_cast<int>(dims.size());
  const auto at = static_cast<size_t>(normal_axis("expand", axis, rank + 1, dims));
  Shape out = dims;
  out.insert(out.begin() + static_cast<ptrdiff_t>(at), size);
  MovementStep s = named("expand", fmt::format("{}, {}", at, size.to_string()), dims, std::move(out));
  demand(s, size.gte(0), "size {} of the new axis is negative", size.to_string());
  s.free_dims = {size};
  const auto o = coordinates(s.out_dims), p = pair_coordinates(s);
  for (size_t k = 0; k < o.size(); ++k)
    if (k != at) s.in_of_out.push_back(o[k]);
  s.free_of_out = {o[at]};
  s.out_of_in.assign(p.begin(), p.end() - 1);
  s.out_of_in.insert(s.out_of_in.begin() + static_cast<ptrdiff_t>(at), p.back());
  return s;
}

MovementStep merge_step(const Shape& dims, int first, int last) {
  const int rank = static_cast<int>(dims.size());
  const auto a = static_cast<size_t>(normal_axis("merge_dims", first, rank, dims));
  const auto b = static_cast<size_t>(normal_axis("merge_dims", last, rank, dims));
  if (a > b)
    fail<ShapeError>(
        "[merge_dims] first axis {} comes after last axis {} of {}; permute before, or swap them", a, b,
        to_string(dims));
  const std::span merged(dims.begin() + static_cast<ptrdiff_t>(a),
                         dims.begin() + static_cast<ptrdiff_t>(b) + 1);
  Shape out(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(a));
  out.push_back(element_count(merged));
  out.insert(out.end(), dims.begin() + static_cast<ptrdiff_t>(b) + 1, dims.end());
  MovementStep s = named("merge_dims", fmt::format("{}, {}", a, b), dims, std::move(out));
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  s.in_of_out.assign(o.begin(), o.begin() + static_cast<ptrdiff_t>(a));
  for (Expression& c : unflatten(merged, o[a])) s.in_of_out.push_back(c);
  s.in_of_out.insert(s.in_of_out.end(), o.begin() + static_cast<ptrdiff_t>(a) + 1, o.end());
  s.out_of_in.assign(i.begin(), i.begin() + static_cast<ptrdiff_t>(a));
  s.out_of_in.push_back(flatten(merged, std::span(i).subspan(a, b - a + 1)));
  s.out_of_in.insert(s.out_of_in.end(), i.begin() + static_cast<ptrdiff_t>(b) + 1, i.end());
  return s;
}

MovementStep split_step(const Shape& dims, int axis, const Expression& inner) {
  const auto at = static_cast<size_t>(normal_axis("split_dims", axis, static_cast<int>(dims.size()), dims));
  const Expression& size = dims[at];
  if (inner.range().max <= 0)
    fail<ShapeError>("[split_dims] cannot split axis {} of {} by {}; use at least 1", at, to_string(dims),
                     inner.to_string());
  Shape out = dims;
  out[at] = divide_dims(size, inner);
  out.insert(out.begin() + static_cast<ptrdiff_t>(at) + 1, inner);
  MovementStep s = named("split_dims", fmt::format("{}, {}", at, inner.to_string()), dims, std::move(out));
  demand(s, equal(s.out_dims[at] * inner, size),
         "axis {} of {} is not divisible by {}; pad or slice it to a multiple", at, to_string(dims),
         inner.to_string());
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  s.in_of_out.assign(o.begin(), o.end());
  s.in_of_out[at] = o[at] * inner + o[at + 1];
  s.in_of_out.erase(s.in_of_out.begin() + static_cast<ptrdiff_t>(at) + 1);
  s.out_of_in.assign(i.begin(), i.end());
  s.out_of_in[at] = i[at] / inner;
  s.out_of_in.insert(s.out_of_in.begin() + static_cast<ptrdiff_t>(at) + 1, i[at] % inner);
  return s;
}

namespace {

// A run of input axes with as many elements as a run of output axes.
struct Group {
  size_t in_begin, in_end, out_begin, out_end;
};

// Cuts both shapes into the smallest groups whose products agree, so that the maps of each stay simple.
std::vector<Group> match_groups(const Shape& in, const Shape& out) {
  std::vector<Group> groups;
  size_t i = 0, o = 0;
  while (i < in.size() || o < out.size()) {
    Group g{i, i, o, o};
    Expression in_count = 1, out_count = 1;
    const auto take_in = [&] { in_count *= in[i++]; };
    const auto take_out = [&] { out_count *= out[o++]; };
    if (i < in.size()) take_in();
    if (o < out.size()) take_out();
    while (!(in_count == out_count)) {
      // Grow the side that is known to be smaller; otherwise the one that does not yet divide the other.
      const bool more_in = i < in.size(), more_out = o < out.size();
      if (!more_in && !more_out) break;
      const bool grow_out =
          more_out && (!more_in || divide_exact(in_count, out_count) ||
                       (!divide_exact(out_count, in_count) && Expression::known_less(out_count, in_count)));
      if (grow_out)
        take_out();
      else
        take_in();
    }
    g.in_end = i, g.out_end = o;
    groups.push_back(g);
  }
  return groups;
}

// One dim of -1 becomes what the other dims leave.
void infer_dim(const Shape& dims, Shape& to) {
  const auto is_open = [](const Expression& d) { return is_constant(d, -1); };
  const auto open = std::ranges::find_if(to, is_open);
  if (open == to.end()) return;
  if (std::find_if(open + 1, to.end(), is_open) != to.end())
    fail<ShapeError>("[reshape] more than one -1 in {}; give all sizes but one", to_string(to));
  const Expression total = element_count(dims);
  Expression known = 1;
  for (auto d = to.begin(); d != to.end(); ++d)
    if (d != open) known *= *d;
  if (is_constant(known, 0))
    fail<ShapeError>("[reshape] -1 in {} is ambiguous: the other dims hold no elements; give the size",
                     to_string(to));
  *open = divide_dims(total, known);
}

}  // namespace

MovementStep reshape_step(const Shape& dims, Shape to) {
  infer_dim(dims, to);
  MovementStep s = named("reshape", list(to), dims, to);
  for (const Expression& d : to)
    demand(s, d.gte(0), "dim {} of {} is negative; only one size may be -1", d.to_string(), to_string(to));
  const Expression in_count = element_count(dims), out_count = element_count(to);
  demand(s, equal(in_count, out_count),
         "{} holds {} elements, {} holds {}; a reshape keeps the number of elements", to_string(dims),
         in_count.to_string(), to_string(to), out_count.to_string());
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  s.in_of_out.resize(i.size());
  s.out_of_in.resize(o.size());
  for (const Group& g : match_groups(dims, to)) {
    const auto in_dims = std::span(dims).subspan(g.in_begin, g.in_end - g.in_begin);
    const auto out_dims = std::span(to).subspan(g.out_begin, g.out_end - g.out_begin);
    const auto in = std::span(i).subspan(g.in_begin, in_dims.size());
    const auto out = std::span(o).subspan(g.out_begin, out_dims.size());
    std::ranges::copy(unflatten(in_dims, flatten(out_dims, out)),
                      s.in_of_out.begin() + static_cast<ptrdiff_t>(g.in_begin));
    std::ranges::copy(unflatten(out_dims, flatten(in_dims, in)),
                      s.out_of_in.begin() + static_cast<ptrdiff_t>(g.out_begin));
  }
  return s;
}

namespace {

// A bound counted from the end becomes one from the start, as in Python; only constants are seen to be
// negative.
Expression from_start(const Expression& bound, const Expression& size) {
  return bound.range().max < 0 ? (size + bound).max(0) : bound;
}

// What one axis of a slice keeps: o -> start + o*step.
struct Kept {
  Expression start, size;
};

Kept kept_range(MovementStep& s, size_t axis, const Expression& from, const Expression& to,
                const Expression& step) {
  const Expression& size = s.in_dims[axis];
  const Expression start = from_start(from, size);
  Expression end = from_start(to, size);
  // Constants are clamped; a symbolic end is taken at its word and checked when sizes are known.
  if (end.constant() || Expression::known_less_equal(size, end))
    end = end.min(size);
  else if (!Expression::known_less_equal(end, size))
    demand(s, end.gte(size + 1).lt(1), "end {} of axis {} lies beyond {}; slice within the dim",
           end.to_string(), axis, size.to_string());
  if (!start.constant()) demand(s, start.gte(0), "start {} of axis {} is negative", start.to_string(), axis);
  const Expression length = end - start;
  return {start, (is_constant(step, 1) ? length : length.ceil_div(step)).max(0)};
}

// In: start + o*step. Out: where i is one of those.
void set_slice_maps(MovementStep& s, std::span<const Kept> kept, std::span<const Expression> steps) {
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  for (size_t a = 0; a < o.size(); ++a) {
    s.in_of_out.push_back(kept[a].start + o[a] * steps[a]);
    const Expression offset = i[a] - kept[a].start;
    s.in_valid = s.in_valid & offset.gte(0) & offset.lt(kept[a].size * steps[a]);
    if (is_constant(steps[a], 1)) {
      s.out_of_in.push_back(offset);
    } else {
      s.in_valid = s.in_valid & (offset % steps[a]).lt(1);
      s.out_of_in.push_back(offset / steps[a]);
    }
  }
}

}  // namespace

MovementStep slice_step(const Shape& dims, ShapeTracker::Pairs ranges) {
  check_length("slice", ranges.size(), dims);
  MovementStep s = named("slice", list(ranges), dims, dims);
  std::vector<Kept> kept;
  for (size_t a = 0; a < dims.size(); ++a) {
    kept.push_back(kept_range(s, a, ranges[a].first, ranges[a].second, 1));
    s.out_dims[a] = kept[a].size;
  }
  set_slice_maps(s, kept, std::vector<Expression>(dims.size(), 1));
  return s;
}

MovementStep slice_along_step(const Shape& dims, int axis, const Expression& start, const Expression& end,
                              const Expression& step) {
  const auto at = static_cast<size_t>(normal_axis("slice_along", axis, static_cast<int>(dims.size()), dims));
  MovementStep s = named(
      "slice_along", fmt::format("{}, {}, {}, {}", at, start.to_string(), end.to_string(), step.to_string()),
      dims, dims);
  demand(s, step.gte(1), "step {} of axis {} must be at least 1; flip the axis to go backwards",
         step.to_string(), at);
  std::vector<Kept> kept;
  for (const Expression& d : dims) kept.push_back({0, d});
  kept[at] = kept_range(s, at, start, end, step);
  s.out_dims[at] = kept[at].size;
  std::vector<Expression> steps(dims.size(), 1);
  steps[at] = step;
  set_slice_maps(s, kept, steps);
  return s;
}

MovementStep pad_step(const Shape& dims, ShapeTracker::Pairs amounts, Number fill) {
  check_length("pad", amounts.size(), dims);
  const bool zero = fill == Number(0);
  MovementStep s = named("pad", list(amounts) + (zero ? "" : ", fill " + fill.to_string()), dims, dims);
  s.fill = fill;
  for (size_t a = 0; a < dims.size(); ++a) {
    const auto& [before, after] = amounts[a];
    for (const Expression& amount : {before, after})
      demand(s, amount.gte(0), "amount {} on axis {} of {} is negative; slice to make an axis shorter",
             amount.to_string(), a, to_string(dims));
    s.out_dims[a] = dims[a] + before + after;
  }
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  for (size_t a = 0; a < dims.size(); ++a) {
    const Expression& before = amounts[a].first;
    s.in_of_out.push_back(o[a] - before);
    s.out_valid = s.out_valid & o[a].gte(before) & o[a].lt(before + dims[a]);
    s.out_of_in.push_back(i[a] + before);
  }
  return s;
}

MovementStep unsqueeze_step(const Shape& dims, int axis) {
  const auto at =
      static_cast<size_t>(normal_axis("unsqueeze", axis, static_cast<int>(dims.size()) + 1, dims));
  Shape out = dims;
  out.insert(out.begin() + static_cast<ptrdiff_t>(at), 1);
  MovementStep s = named("unsqueeze", fmt::format("{}", at), dims, std::move(out));
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  s.in_of_out.assign(o.begin(), o.end());
  s.in_of_out.erase(s.in_of_out.begin() + static_cast<ptrdiff_t>(at));
  s.out_of_in.assign(i.begin(), i.end());
  s.out_of_in.insert(s.out_of_in.begin() + static_cast<ptrdiff_t>(at), 0);
  return s;
}

MovementStep squeeze_step(const Shape& dims, int axis) {
  const auto at = static_cast<size_t>(normal_axis("squeeze", axis, static_cast<int>(dims.size()), dims));
  Shape out = dims;
  out.erase(out.begin() + static_cast<ptrdiff_t>(at));
  MovementStep s = named("squeeze", fmt::format("{}", at), dims, std::move(out));
  demand(s, equal(dims[at], 1), "axis {} of {} has size {}, not 1; slice or sum it instead", at,
         to_string(dims), dims[at].to_string());
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  s.in_of_out.assign(o.begin(), o.end());
  s.in_of_out.insert(s.in_of_out.begin() + static_cast<ptrdiff_t>(at), 0);
  s.out_of_in.assign(i.begin(), i.end());
  s.out_of_in.erase(s.out_of_in.begin() + static_cast<ptrdiff_t>(at));
  return s;
}

MovementStep select_step(const Shape& dims, int axis, const Expression& position) {
  const auto at = static_cast<size_t>(normal_axis("select", axis, static_cast<int>(dims.size()), dims));
  const Expression& size = dims[at];
  const Expression place = position.range().max < 0 ? size + position : position;
  Shape out = dims;
  out.erase(out.begin() + static_cast<ptrdiff_t>(at));
  MovementStep s = named("select", fmt::format("{}, {}", at, position.to_string()), dims, std::move(out));
  demand(s, place.gte(0) & place.lt(size),
         "position {} is out of range on axis {} of {}; positions go from {} to {}", position.to_string(), at,
         to_string(dims), (-size).to_string(), (size - 1).to_string());
  const auto o = coordinates(s.out_dims), i = coordinates(s.in_dims);
  s.in_of_out.assign(o.begin(), o.end());
  s.in_of_out.insert(s.in_of_out.begin() + static_cast<ptrdiff_t>(at), place);
  s.out_of_in.assign(i.begin(), i.end());
  s.out_of_in.erase(s.out_of_in.begin() + static_cast<ptrdiff_t>(at));
  s.in_valid = equal(i[at], place);
  return s;
}

MovementStep flip_step(const Shape& dims, int axis) {
  const auto at = static_cast<size_t>(normal_axis("flip", axis, static_cast<int>(dims.size()), dims));
  MovementStep s = named("flip", fmt::format("{}", at), dims, dims);
  s.in_of_out = s.out_of_in = coordinates(dims);
  s.in_of_out[at] = s.out_of_in[at] = dims[at] - 1 - s.in_of_out[at];
  return s;
}

namespace {

struct PoolSizes {
  Expression window, stride, dilation;
};

// The taps k that can read element i: i = o * stride + k * dilation for some o. With g the greatest common
// divisor of stride and dilation they are first + turn * q, turn = stride / g, if g divides i at all.
struct Taps {
  Expression turn, divisor, inverse;  // first = i / divisor * inverse % turn
};

Taps taps_of(const Expression& stride, const Expression& dilation) {
  if (is_constant(dilation, 1)) return {stride, 1, 1};
  const auto s = stride.constant(), d = dilation.constant();
  if (!s || !d || *s < 1 || *d < 1) return {1, 1, 0};  // not known: all taps are tried
  const int64_t g = std::gcd(*s, *d), turn = *s / g;
  int64_t inverse = 0;
  while (*d / g * inverse % turn != 1 % turn) ++inverse;
  return {turn, g, inverse};
}

// How a pool's gradient finds its way: element i is read by tap k of window (i - k * dilation) / stride, for
// the window / turn taps that fit. Windows that do not overlap leave one: no free axis, no sum.
void add_pool_inverse(MovementStep& s, size_t at, const PoolSizes& sizes) {
  const auto& [window, stride, dilation] = sizes;
  const Taps taps = taps_of(stride, dilation);
  const bool single = Expression::known_less_equal(window, taps.turn);
  const auto o = coordinates(s.out_dims);
  if (!single) {
    s.free_dims = {window.ceil_div(taps.turn)};
    s.free_of_out = {o[at + 1] / taps.turn};
  }
  const auto p = pair_coordinates(s);
  s.out_of_in.assign(p.begin(), p.begin() + static_cast<ptrdiff_t>(s.in_dims.size()));
  const Expression& i = p[at];
  const Expression first = i / taps.divisor * taps.inverse % taps.turn;
  const Expression k = single ? first : first + p.back() * taps.turn;
  const Expression from = i - k * dilation;
  const Expression windows = s.out_dims[at];
  // Without a dilation the quotient is plain to see, and stays so in every formula that is built on it.
  s.out_of_in[at] = !is_constant(dilation, 1) ? from / stride : single ? i / stride : i / stride - p.back();
  s.out_of_in.insert(s.out_of_in.begin() + static_cast<ptrdiff_t>(at) + 1, k);
  s.in_valid = k.lt(window) & from.gte(0) & from.lt(windows * stride);
  if (!is_constant(dilation, 1)) s.in_valid = s.in_valid & (from % stride).lt(1);
}

}  // namespace

MovementStep pool_step(const Shape& dims, int axis, const Expression& window, const Expression& stride,
                       const Expression& dilation) {
  const auto at = static_cast<size_t>(normal_axis("pool", axis, static_cast<int>(dims.size()), dims));
  const Expression span = dilation * (window - 1) + 1;
  Shape out = dims;
  out[at] = ((dims[at] - span) / stride + 1).max(0);
  out.insert(out.begin() + static_cast<ptrdiff_t>(at) + 1, window);
  MovementStep s = named("pool",
                         fmt::format("{}, window {}, stride {}, dilation {}", at, window.to_string(),
                                     stride.to_string(), dilation.to_string()),
                         dims, std::move(out));
  for (const auto& [value, what] : {std::pair{window, "window"}, {stride, "stride"}, {dilation, "dilation"}})
    demand(s, value.gte(1), "{} {} on axis {} of {} must be at least 1", what, value.to_string(), at,
           to_string(dims));
  const auto o = coordinates(s.out_dims);
  s.in_of_out.assign(o.begin(), o.end());
  s.in_of_out[at] = o[at] * stride + o[at + 1] * dilation;
  s.in_of_out.erase(s.in_of_out.begin() + static_cast<ptrdiff_t>(at) + 1);
  add_pool_inverse(s, at, {window, stride, dilation});
  return s;
}

MovementStep strided_step(const Expression& elements, Shape dims, std::span<const Expression> strides) {
  MovementStep s = named("strided", list(strides), {elements}, std::move(dims));
  const auto o = coordinates(s.out_dims);
  Expression index = 0;
  for (size_t k = 0; k < strides.size(); ++k) index += o[k] * strides[k];
  s.in_of_out = {index};
  s.invertible = false;
  return s;
}

}  // namespace luminal::symbolic
