#include "graph/data_input.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "base/fail.h"
#include "base/place.h"
#include "graph/graph_state.h"

namespace luminal {
namespace {

/// static_cast with every case defined: floats that an integer type cannot hold saturate, NaN gives 0.
template <class To, class From>
To convert_element(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return static_cast<float>(value) != 0 || (std::is_integral_v<From> && value != From{});
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    const auto wide = static_cast<double>(value);
    if (std::isnan(wide)) return 0;
    // 2^63 is a double and its predecessor the last that fits, so compare with the limits as doubles.
    if (wide >= static_cast<double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (wide <= static_cast<double>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(wide);
  } else if constexpr (is_stored_float<To>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

/// Value of the one unknown name that makes linear `formula` equal `wanted`, or -1.
int64_t solve(const Expression& formula, const std::string& name, const DimMap& known, int64_t wanted) {
  std::map<std::string, double, std::less<>> dims(known.begin(), known.end());
  const auto at =
      [&](double size) {  // over the reals: the two points need not be sizes that the dim may have
        dims.insert_or_assign(name, size);
        return formula.exec_float(dims);
      };
  const double base = at(0), slope = at(1) - base;
  const double size = slope == 0 ? -1 : std::round((static_cast<double>(wanted) - base) / slope);
  if (!(size >= 0) || size > 0x1p53) return -1;
  DimMap exact = known;
  exact.insert_or_assign(name, static_cast<int64_t>(size));
  return formula.exec(exact) == wanted ? static_cast<int64_t>(size) : -1;
}

std::vector<std::string> unknown_names(const Expression& formula, const DimMap& known) {
  std::vector<std::string> names;
  for (const std::string& name : formula.to_symbols())
    if (!known.contains(name)) names.push_back(name);
  return names;
}

std::string describe(const TensorType& type, const std::string& label) {
  return label.empty() ? type.to_string() : fmt::format("'{}' {}", label, type.to_string());
}

/// Sizes for data whose own shape is given: axis by axis, in as many rounds as new names turn up.
DimMap sizes_from_shape(const TensorType& type, const std::vector<int64_t>& given, const GraphState& state,
                        DimMap known, const std::string& label) {
  const auto refuse = [&]() {
    fail<ShapeError>("[set] data of [{}] does not fit {}; ranks and sizes must be equal{}",
                     fmt::join(given, ", "), describe(type, label), fixed_dims_text(state, type.dims));
  };
  if (given.size() != type.dims.size()) refuse();
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t axis = 0; axis < given.size(); ++axis) {
      const std::vector<std::string> names = unknown_names(type.dims[axis], known);
      if (names.size() != 1) continue;
      const int64_t size = solve(type.dims[axis], names[0], known, given[axis]);
      if (size < 0) refuse();
      known.insert_or_assign(names[0], size);
      progress = true;
    }
  }
  for (size_t axis = 0; axis < given.size(); ++axis)
    if (!unknown_names(type.dims[axis], known).empty() || type.dims[axis].exec(known) != given[axis])
      refuse();
  return known;
}

/// Sizes for data of which only the element count is known.
DimMap sizes_from_count(const TensorType& type, int64_t count, const GraphState& state, DimMap known,
                        const std::string& label) {
  const Expression total = element_count(type.dims);
  std::vector<std::string> names = unknown_names(total, known);
  if (names.size() > 1) {  // sizes that earlier data told are as good a guess as any
    for (const auto& [name, size] : state.dims) known.emplace(name, size);
    const std::vector<std::string> fewer = unknown_names(total, known);
    if (fewer.empty() && total.exec(known) == count) return known;
    if (fewer.size() != 1)
      fail<ShapeError>(
          "[set] {} elements do not determine the sizes of {}; give them with set_dyn or set_dim", count,
          describe(type, label));
    names = fewer;
  }
  if (names.size() == 1) {
    const int64_t size = solve(total, names[0], known, count);
    if (size >= 0)
      known.insert_or_assign(names[0], size);
    else
      fail<ShapeError>("[set] {} elements are not a whole number of '{}' in {}; give whole ones{}", count,
                       names[0], describe(type, label), fixed_dims_text(state, type.dims));
  }
  if (const int64_t expected = total.exec(known); expected != count)
    fail<ShapeError>("[set] {} elements do not fill {}, which holds {}; give as many{}", count,
                     describe(type, label), expected, fixed_dims_text(state, type.dims));
  return known;
}

/// The narrowest integer dtype that holds the value, with a sign if there are two.
Dtype dtype_for(int64_t value) {
  Dtype narrowest = Dtype::I64;
  for (const Dtype dtype : kPlainDtypes)
    if (is_integer(dtype) && info(dtype).least <= value && value <= info(dtype).greatest &&
        info(dtype).digits < info(narrowest).digits)
      narrowest = dtype;
  return narrowest;
}

/// Integers that an integer dtype does not hold. Errors: DtypeError that names the first one.
void check_range(const TensorData& data, const TensorType& type, const std::string& label) {
  if (!is_integer(data.dtype) || !is_integer(type.dtype)) return;
  visit_dtype(data.dtype, [&]<class From>(From) {
    visit_dtype(type.dtype, [&]<class To>(To) {
      if constexpr (std::integral<From> && std::integral<To> && !std::same_as<From, bool> &&
                    !std::same_as<To, bool>) {
        using Limits = std::numeric_limits<To>;
        const auto values = data.as<From>();
        const auto bad =
            std::ranges::find_if_not(values, [](From value) { return std::in_range<To>(value); });
        if (bad == values.end()) return;
        fail<DtypeError>(
            "[set] the number at {} is {}, and {} holds {} to {}; give numbers in that range, or declare it "
            "as {}",
            place_of(static_cast<size_t>(bad - values.begin()), data.dims), *bad, describe(type, label),
            Limits::min(), Limits::max(), luminal::name(dtype_for(static_cast<int64_t>(*bad))));
      }
    });
  });
}

}  // namespace

template <class T>
T fill_value(Number number) {
  return number.is_integer() ? convert_element<T>(number.as<int64_t>())
                             : convert_element<T>(number.as<double>());
}
#define LUMINAL_FILL_VALUE(enumerator, name, kind, type) template type fill_value<type>(Number);
#define LUMINAL_NOTHING(...)
LUMINAL_DTYPES(LUMINAL_FILL_VALUE, LUMINAL_NOTHING)
#undef LUMINAL_FILL_VALUE
#undef LUMINAL_NOTHING

TensorData convert(const TensorData& data, Dtype dtype) {
  if (data.dtype == dtype) return data;
  TensorData result(dtype, data.dims);
  visit_dtype(data.dtype, [&](auto from) {
    visit_dtype(dtype, [&](auto to) {
      const auto source = data.as<decltype(from)>();
      const auto target = result.as<decltype(to)>();
      for (size_t i = 0; i < source.size(); ++i) target[i] = convert_element<decltype(to)>(source[i]);
    });
  });
  return result;
}

TensorData fit_input(Graph& graph, const Value& input, TensorData data, bool shaped) {
  GraphState& state = *graph.state();
  const TensorType& type = graph.type(input);
  const std::string& label = graph.node(input.node).name;
  const Dtype dtype = type.dtype;
  if (const int64_t due = size_bytes(data.dtype, data.element_count());
      static_cast<int64_t>(data.bytes.size()) != due)
    fail<ShapeError>(
        "[set] data of {}[{}] hold {} bytes where their sizes make {}, and do not fit {}; make them with "
        "TensorData(dtype, sizes) or TensorData::of",
        name(data.dtype), fmt::join(data.dims, ", "), data.bytes.size(), due, describe(type, label));
  if (data.dtype != dtype) {
    if (is_quantized(dtype) || is_quantized(data.dtype))
      fail<DtypeError>("[set] data of {} does not fit {}; give blocks of that dtype", name(data.dtype),
                       describe(type, label));
    if (is_float(data.dtype) && !is_float(dtype))
      fail<DtypeError>(
          "[set] {} numbers do not fit {}; give integers, or declare the tensor as a float and cast",
          name(data.dtype), describe(type, label));
  }
  DimMap known;  // what set_dim gave; the rest may change with the data
  for (const auto& [dim, size] : state.dims)
    if (state.fixed_dims.contains(dim)) known.emplace(dim, size);
  known = shaped ? sizes_from_shape(type, data.dims, state, known, label)
                 : sizes_from_count(type, data.element_count(), state, known, label);
  data.dims = exec(type.dims, known);
  check_range(data, type, label);
  TensorData fitting = data.dtype == dtype ? std::move(data) : convert(data, dtype);
  if (const auto checks = state.checks.find(input); checks != state.checks.end())
    for (const auto& check : checks->second) check(fitting);
  for (const std::string& dim : element_count(type.dims).to_symbols())
    if (known.contains(dim)) state.dims.insert_or_assign(dim, known.at(dim));
  return fitting;
}

}  // namespace luminal
