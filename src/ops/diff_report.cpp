#include "ops/diff_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "base/file.h"
#include "ops/types.h"

namespace luminal::ops {
namespace {

template <class A, class B>
double absolute_error(A actual, B expected) {
  if constexpr (std::integral<A> && std::integral<B>) {
    const auto a = static_cast<int64_t>(actual), b = static_cast<int64_t>(expected);
    return static_cast<double>(a > b ? static_cast<uint64_t>(a) - static_cast<uint64_t>(b)
                                     : static_cast<uint64_t>(b) - static_cast<uint64_t>(a));
  } else {
    const auto a = static_cast<double>(actual), b = static_cast<double>(expected);
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
    const double error = std::fabs(a - b);
    return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }
}

std::vector<DiffReport::Mismatch> elements(const TensorData& actual, const TensorData& expected) {
  std::vector<DiffReport::Mismatch> all(static_cast<size_t>(actual.element_count()));
  visit_dtype(actual.dtype, [&]<class A>(A) {
    visit_dtype(expected.dtype, [&]<class B>(B) {
      const auto a = actual.as<A>();
      const auto b = expected.as<B>();
      for (size_t i = 0; i < all.size(); ++i) {
        const auto x = static_cast<Compute<A>>(a[i]);
        const auto y = static_cast<Compute<B>>(b[i]);
        all[i] = {static_cast<int64_t>(i), static_cast<double>(x), static_cast<double>(y),
                  absolute_error(x, y)};
      }
    });
  });
  return all;
}

std::string coordinates(int64_t position, const std::vector<int64_t>& dims) {
  std::vector<int64_t> index(dims.size());
  for (size_t axis = dims.size(); axis-- > 0; position /= dims[axis]) index[axis] = position % dims[axis];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace

DiffReport compare(const TensorData& actual, const TensorData& expected, double atol, double rtol) {
  auto all = elements(actual, expected);
  DiffReport report;
  report.count = static_cast<int64_t>(all.size());
  if (all.empty()) return report;
  for (const auto& element : all) {
    report.mean_absolute += element.error / static_cast<double>(all.size());
    if (element.error > 0)
      report.max_relative = std::max(report.max_relative, element.error / std::fabs(element.expected));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.error != b.error ? a.error > b.error : a.position < b.position;
  });
  report.max_absolute = all[0].error;
  for (size_t k = 0; k < report.percentiles.size(); ++k) {
    const double rank = std::ceil(DiffReport::kPercentiles[k] / 100 * static_cast<double>(all.size()));
    report.percentiles[k] = all[all.size() - static_cast<size_t>(rank)].error;
  }
  for (const auto& element : all) {
    if (!(element.error > atol + rtol * std::fabs(element.expected)) && !std::isinf(element.error)) continue;
    ++report.outside;
    if (report.worst.size() < 10) report.worst.push_back(element);
  }
  return report;
}

std::string to_text(const DiffReport& report, const TensorData& actual, std::string_view file, double atol,
                    double rtol) {
  std::string text = fmt::format("[diff] {}: {} values, {} outside of {} + {} * |expected|\n", file,
                                 report.count, report.outside, atol, rtol);
  text += fmt::format("  absolute error: max {:.4g}, mean {:.4g}", report.max_absolute, report.mean_absolute);
  for (size_t k = 0; k < report.percentiles.size(); ++k)
    text += fmt::format(", p{:g} {:.4g}", DiffReport::kPercentiles[k], report.percentiles[k]);
  text += fmt::format("\n  relative error: max {:.4g}\n", report.max_relative);
  for (const auto& worst : report.worst)
    text += fmt::format("  {}: got {:.9g}, expected {:.9g}, off by {:.4g}\n",
                        coordinates(worst.position, actual.dims), worst.actual, worst.expected, worst.error);
  return text;
}

TensorData read_raw(const std::string& file, const TensorData& like) {
  const std::string bytes = read_file(file);
  const int64_t own = size_bytes(like.dtype, like.element_count()), as_f32 = 4 * like.element_count();
  const auto size = static_cast<int64_t>(bytes.size());
  if (size != own && size != as_f32)
    fail<FormatError>("[diff] {} holds {} bytes; {} values take {} as {}, {} as f32", file, size,
                      like.element_count(), own, name(like.dtype), as_f32);
  TensorData data(size == own ? like.dtype : Dtype::F32, like.dims);
  if (!bytes.empty()) std::memcpy(data.bytes.data(), bytes.data(), bytes.size());
  return data;
}

}  // namespace luminal::ops
