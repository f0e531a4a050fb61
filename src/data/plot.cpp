#include "luminal/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fail.h"
#include "base/file.h"
#include "base/xml.h"

namespace luminal::data {
namespace {

constexpr double kWidth = 860, kHeight = 360, kLeft = 80, kRight = 20, kTop = 40, kBottom = 48;
constexpr size_t kMostPoints = 2000;  // more are not seen
// Okabe and Ito's colours, which colour-blind people can tell apart.
constexpr std::array<const char*, 7> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#56b4e9", "#000000"};

/// The range of an axis, and from numbers to the picture.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  double from = 0, to = 1;  ///< in the picture
  bool logarithmic = false;

  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void finish() {
    if (low > high) low = 0, high = 1;
    if (low == high) {
      const double margin = low == 0 ? 1 : std::abs(low) * 0.1;
      low -= margin, high += margin;
    }
    if (logarithmic && low <= 0) logarithmic = false;
  }
  [[nodiscard]] double place(double value) const {
    const double share =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + share * (to - from);
  }
  /// About five round numbers.
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> result;
    if (logarithmic && high / low > 20) {
      for (double power = std::pow(10, std::ceil(std::log10(low))); power <= high; power *= 10)
        result.push_back(power);
      if (result.size() > 1) return result;
      result.clear();
    }
    const double rough = (high - low) / 5, power = std::pow(10, std::floor(std::log10(rough)));
    const double step = rough / power < 1.5   ? power
                        : rough / power < 3.5 ? 2 * power
                        : rough / power < 7.5 ? 5 * power
                                              : 10 * power;
    for (double tick = std::ceil(low / step) * step; tick <= high + step * 1e-9; tick += step)
      result.push_back(std::abs(tick) < step * 1e-9 ? 0 : tick);
    return result;
  }
};

std::vector<std::pair<double, double>> shown(const Curve& curve) {
  std::vector<std::pair<double, double>> points;
  for (const auto& point : curve.points)
    if (std::isfinite(point.first) && std::isfinite(point.second)) points.push_back(point);
  if (points.size() <= kMostPoints) return points;
  // Of each run of points the least and the greatest, so that no peak is lost.
  std::vector<std::pair<double, double>> fewer;
  const size_t run = (points.size() + kMostPoints / 2 - 1) / (kMostPoints / 2);
  for (size_t begin = 0; begin < points.size(); begin += run) {
    const auto first = points.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = points.begin() + static_cast<ptrdiff_t>(std::min(begin + run, points.size()));
    auto [least, greatest] =
        std::minmax_element(first, last, [](auto& a, auto& b) { return a.second < b.second; });
    if (greatest < least) std::swap(least, greatest);
    fewer.push_back(*least);
    if (greatest != least) fewer.push_back(*greatest);
  }
  return fewer;
}

std::string grid(const Axis& x, const Axis& y, const std::string& x_label) {
  std::string svg;
  for (const double tick : y.ticks())
    svg += fmt::format(
        "<line class='grid' x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}'/>"
        "<text x='{}' y='{:.1f}' text-anchor='end'>{:.4g}</text>\n",
        kLeft, kWidth - kRight, y.place(tick), y.place(tick), kLeft - 8, y.place(tick) + 4, tick);
  for (const double tick : x.ticks())
    svg += fmt::format(
        "<line class='grid' y1='{}' y2='{}' x1='{:.1f}' x2='{:.1f}'/>"
        "<text y='{}' x='{:.1f}' text-anchor='middle'>{:.6g}</text>\n",
        kTop, kHeight - kBottom, x.place(tick), x.place(tick), kHeight - kBottom + 18, x.place(tick), tick);
  return svg + fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n",
                           (kLeft + kWidth - kRight) / 2, kHeight - 8, xml(x_label));
}

std::string picture(const Plot& plot) {
  Axis x, y;
  y.logarithmic = plot.logarithmic;
  std::vector<std::vector<std::pair<double, double>>> curves;
  for (const Curve& curve : plot.curves) {
    curves.push_back(shown(curve));
    for (const auto& [px, py] : curves.back()) x.take(px), y.take(py);
  }
  x.from = kLeft, x.to = kWidth - kRight, y.from = kHeight - kBottom, y.to = kTop;
  x.finish();
  y.finish();
  std::string svg =
      fmt::format("<svg viewBox='0 0 {} {}' role='img'>\n<text class='title' x='{}' y='22'>{}</text>\n",
                  kWidth, kHeight, kLeft, xml(plot.title));
  svg += grid(x, y, plot.x_label);
  double legend = kWidth - kRight;
  for (size_t i = curves.size(); i-- > 0;) {
    const char* colour = kColours[i % kColours.size()];
    std::string path, data;
    for (const auto& [px, py] : curves[i]) {
      path += fmt::format("{:.1f},{:.1f} ", x.place(px), y.place(py));
      data += fmt::format("{:.1f},{:.7g},{:.7g} ", x.place(px), px, py);
    }
    const std::string name = xml(plot.curves[i].name);
    svg += fmt::format("<polyline stroke='{}' points='{}' data-name=\"{}\" data-points='{}'/>\n", colour,
                       path, name, data);
    if (curves[i].size() == 1)
      svg += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'/>\n", x.place(curves[i][0].first),
                         y.place(curves[i][0].second), colour);
    svg +=
        fmt::format("<text x='{:.0f}' y='22' text-anchor='end' fill='{}'>{}</text>\n", legend, colour, name);
    legend -= 14 + 8.0 * static_cast<double>(plot.curves[i].name.size());
  }
  return svg + "<line class='cursor' y1='" +
         fmt::format("{}' y2='{}'/>\n</svg><p class='values'>&nbsp;</p>\n", kTop, kHeight - kBottom);
}

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Curves</title><style>
body { font: 14px sans-serif; margin: 24px auto; max-width: 900px; color: #222; background: #fff }
svg { width: 100%; font-size: 12px } svg .title { font-size: 16px; font-weight: bold }
polyline { fill: none; stroke-width: 1.5 } .grid { stroke: #ddd } .cursor { stroke: #888; visibility: hidden }
.values { margin: 0 0 24px 80px; font-family: monospace }
</style></head><body>
)";
constexpr std::string_view kScript = R"(<script>
for (const svg of document.querySelectorAll("svg")) {
  const curves = [...svg.querySelectorAll("polyline")].map(line => ({ name: line.dataset.name,
    points: line.dataset.points.trim().split(" ").filter(t => t).map(t => t.split(",").map(Number)) }));
  const cursor = svg.querySelector(".cursor"), values = svg.nextElementSibling;
  svg.addEventListener("mousemove", event => {
    const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const texts = [];
    for (const { name, points } of curves) {
      if (!points.length) continue;
      const near = points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
      cursor.setAttribute("x1", near[0]); cursor.setAttribute("x2", near[0]);
      texts.unshift(`${name} ${near[2]} at ${near[1]}`);
    }
    cursor.style.visibility = "visible"; values.textContent = texts.join("   ");
  });
}
</script></body></html>
)";

/// "train_loss" is the curve "train" of the picture "loss".
std::pair<std::string, std::string> picture_and_curve(const std::string& name) {
  for (const std::string prefix : {"train_", "test_", "validation_"})
    if (name.starts_with(prefix) && name.size() > prefix.size())
      return {name.substr(prefix.size()), prefix.substr(0, prefix.size() - 1)};
  return {name, name};
}

}  // namespace

void write_plot(const std::filesystem::path& path, const std::vector<Plot>& plots) {
  std::string page(kHead);
  for (const Plot& plot : plots) page += picture(plot);
  page += kScript;
  write_file_atomic(path, page);
}

int plot_metrics(const std::filesystem::path& jsonl, const std::filesystem::path& html,
                 const std::string& x) {
  const std::string text = read_file(jsonl);
  std::istringstream lines(text);
  std::map<std::string, std::map<std::string, Curve>> pictures;
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object()) {
      if (lines.peek() == std::char_traits<char>::eof() && !text.ends_with('\n')) break;
      fail<FormatError>("[plot] '{}', line {}: not a JSON object; give a file that MetricsLog wrote",
                        jsonl.string(), number);
    }
    const auto place = object.find(x);
    const double at =
        place != object.end() && place->is_number() ? place->get<double>() : static_cast<double>(number);
    for (const auto& [name, value] : object.items()) {
      if (name == x || !value.is_number()) continue;
      const auto [picture, curve] = picture_and_curve(name);
      Curve& target = pictures[picture][curve];
      target.name = curve;
      target.points.emplace_back(at, value.get<double>());
    }
  }
  std::vector<Plot> plots;
  for (auto& [title, curves] : pictures) {
    Plot plot{.title = title, .x_label = x, .logarithmic = title.find("loss") != std::string::npos};
    for (auto& [name, curve] : curves) plot.curves.push_back(std::move(curve));
    plots.push_back(std::move(plot));
  }
  write_plot(html, plots);
  return static_cast<int>(plots.size());
}

}  // namespace luminal::data
