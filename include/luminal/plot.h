#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

/// Curves as a page of their own: one HTML file with an SVG picture in it, nothing fetched from anywhere.
/// Moving over the picture shows the values.
///
///   data::write_plot("run.html", {{.title = "loss", .curves = {{"train", points}}}});
///   data::plot_metrics("run.jsonl", "run.html");            // every number that MetricsLog wrote, by step
namespace luminal::data {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (x, y); those that are not finite are left out
};

struct Plot {
  std::string title;
  std::string x_label = "step";
  std::vector<Curve> curves;
  bool logarithmic = false;  ///< the y axis, where all values are above 0
};

/// Errors: Error if the file cannot be written.
void write_plot(const std::filesystem::path& path, const std::vector<Plot>& plots);

/// One picture for each number in the lines of a MetricsLog, against the member `x` (or the line's number
/// where a line has none); names "train_loss" and "test_loss" share the picture "loss". Returns how many
/// pictures. Errors: FormatError for a line that is not a JSON object; a truncated last line (the run was
/// killed) is left out.
int plot_metrics(const std::filesystem::path& jsonl, const std::filesystem::path& html,
                 const std::string& x = "step");

}  // namespace luminal::data
