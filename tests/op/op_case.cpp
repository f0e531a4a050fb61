#include "op/op_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "luminal/error.h"

namespace luminal {
extern const OpDef kSoftsign;  // softsign.cpp
}

namespace luminal::op_test {
namespace {

constexpr std::string_view kViewNames[] = {"direct", "permuted", "sliced", "padded", "broadcast", "flipped"};
/// What padding is filled with: a value that few ops ignore.
int fill_of(Dtype dtype) { return dtype == Dtype::Bool ? 1 : 2; }

bool is_taken(const Case& candidate) {
  try {
    std::vector<TensorType> types;
    for (const Dtype dtype : candidate.dtypes) types.push_back({dtype, {}});
    Attributes attributes = candidate.attributes;
    if (candidate.op->monoid) attributes.set("axes", std::vector<int64_t>{});
    (void)candidate.op->infer(types, attributes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Every subset of the axes, as "axes".
std::vector<std::vector<int64_t>> axes_subsets(size_t rank) {
  std::vector<std::vector<int64_t>> subsets;
  for (size_t bits = 0; bits < (size_t{1} << rank); ++bits) {
    std::vector<int64_t> axes;
    for (size_t axis = 0; axis < rank; ++axis)
      if ((bits >> axis & 1) != 0) axes.push_back(static_cast<int64_t>(axis));
    subsets.push_back(axes);
  }
  return subsets;
}

}  // namespace

std::string Case::to_string() const {
  std::vector<std::string_view> names;
  for (const Dtype dtype : dtypes) names.push_back(name(dtype));
  std::string axes;
  if (attributes.has("axes"))
    axes = fmt::format("/{}", fmt::join(attributes.get<std::vector<int64_t>>("axes"), ","));
  return fmt::format("{}:{}:{}:{}{}:{}:{}:{}", device, op->name, fmt::join(names, ","), variant, axes,
                     luminal::to_string(dims), kViewNames[static_cast<size_t>(view)], seed);
}

std::vector<std::string> driven_ops() {
  // The example of docs/adding_an_op.md is an op as any other.
  static const bool registered = (register_op(kSoftsign), true);
  (void)registered;
  std::vector<std::string> names;
  for (const OpDef* op : all_ops())
    if (op->is(Trait::Elementwise) || op->monoid) names.emplace_back(op->name);
  return names;
}

std::vector<Driven> driven() {
  std::vector<Driven> list;
  for (const char* device : kDevices)
    for (const std::string& op : driven_ops()) list.push_back({device, op});
  return list;
}

std::vector<Case> typed_cases(const OpDef& op, const char* device) {
  std::vector<Case> cases;
  std::set<std::pair<int, std::vector<Dtype>>> seen;
  const size_t variants = std::max<size_t>(1, op.variants.size());
  for (size_t variant = 0; variant < variants; ++variant)
    for (const Dtype dtype : kPlainDtypes)
      for (size_t conditions = 0; conditions < (size_t{1} << op.arity); ++conditions) {
        // Inputs are of one dtype, or some are bool beside it.
        Case candidate;
        candidate.device = device;
        candidate.op = &op;
        candidate.variant = static_cast<int>(variant);
        if (!op.variants.empty()) candidate.attributes = op.variants[variant];
        for (int i = 0; i < op.arity; ++i)
          candidate.dtypes.push_back((conditions >> i & 1) != 0 ? Dtype::Bool : dtype);
        if (seen.insert({candidate.variant, candidate.dtypes}).second && is_taken(candidate))
          cases.push_back(std::move(candidate));
      }
  return cases;
}

std::vector<Case> all_cases(const OpDef& op, const char* device, std::span<const Shape> shapes) {
  std::vector<Case> cases;
  for (const Case& typed : typed_cases(op, device))
    for (const Shape& dims : shapes)
      for (const View view : kViews) {
        if (dims.empty() && view != View::Direct) continue;
        Case one = typed;
        one.dims = dims;
        one.view = view;
        if (!op.monoid) {
          cases.push_back(one);
          continue;
        }
        for (auto& axes : axes_subsets(dims.size())) {
          one.attributes.set("axes", axes);
          cases.push_back(one);
        }
      }
  return cases;
}

void for_each_case(std::span<const Case> cases, const std::function<void(const Case&)>& check) {
  const char* only = std::getenv("LUMINAL_OP_CASE");
  if (only == nullptr) {
    for (const Case& one : cases) check(one);
    return;
  }
  const std::string_view text = only;
  const size_t colon = text.rfind(':');
  for (Case one : cases) {
    const std::string name = one.to_string();
    if (name.substr(0, name.rfind(':')) != text.substr(0, colon)) continue;
    one.seed = std::stoull(std::string(text.substr(colon + 1)));
    check(one);
  }
}

Shape buffer_dims(View view, const Shape& dims) {
  Shape buffer = dims;
  if (view == View::Permuted) std::reverse(buffer.begin(), buffer.end());
  if (view == View::Sliced)
    for (Expression& dim : buffer) dim += 3;
  if (view == View::Broadcast) buffer[0] = 1;
  return buffer;
}

GraphTensor viewed(View view, const GraphTensor& x, const Shape& dims) {
  const int rank = x.rank();
  switch (view) {
    case View::Direct:
      return x;
    case View::Permuted: {
      std::vector<int> order;
      for (int axis = rank; axis-- > 0;) order.push_back(axis);
      return x.permute(order);
    }
    case View::Sliced: {
      RangePairs ranges;
      for (const Expression& dim : dims) ranges.emplace_back(1, dim + 1);
      return x.slice(ranges);
    }
    case View::Padded:  // two rows of padding in front, as many rows lost behind
      return x.pad_along(0, 2, 0, fill_of(x.dtype())).slice_along(0, 0, dims[0]);
    case View::Broadcast:
      return x.expand(dims);
    case View::Flipped: {
      std::vector<int> axes;
      for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
      return x.flip(axes);
    }
  }
  return x;
}

TensorData viewed(View view, const TensorData& buffer, const std::vector<int64_t>& dims) {
  TensorData result(buffer.dtype, dims);
  for (int64_t i = 0; i < result.element_count(); ++i) {
    std::vector<int64_t> at = coordinates(i, dims);
    bool padding = false;
    if (view == View::Permuted) std::reverse(at.begin(), at.end());
    if (view == View::Sliced)
      for (int64_t& c : at) ++c;
    if (view == View::Padded) padding = (at[0] -= 2) < 0;
    if (view == View::Broadcast) at[0] = 0;
    if (view == View::Flipped)
      for (size_t axis = 0; axis < at.size(); ++axis) at[axis] = dims[axis] - 1 - at[axis];
    write(result, i, padding ? Exact(Integer{fill_of(buffer.dtype)}) : read(buffer, flat(at, buffer.dims)));
  }
  return result;
}

TensorData sample_data(const OpDef& op, Dtype dtype, std::vector<int64_t> dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorData data(dtype, std::move(dims));
  for (int64_t i = 0; i < data.element_count(); ++i) {
    const uint64_t choice = random();
    if (!op.samples.empty() && choice % 3 == 0) {
      write(data, i, static_cast<long double>(op.samples[choice / 3 % op.samples.size()]));
    } else if (is_float(dtype)) {
      const auto number = static_cast<long double>(static_cast<int64_t>(random())) * 0x1p-63L;
      write(data, i, number * (choice % 3 == 1 ? 2 : 50));
    } else {
      write(data, i, static_cast<Integer>(static_cast<int64_t>(random()) >> (random() % 64)));
    }
  }
  return data;
}

std::vector<Exact> elements_at(std::span<const TensorData> inputs, int64_t i) {
  std::vector<Exact> values;
  for (const TensorData& input : inputs) values.push_back(read(input, i));
  return values;
}

}  // namespace luminal::op_test
