#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

/// What a person sees of a long run, and what a program reads of it afterwards.
namespace luminal::data {

/// A line that fills up while work goes on, with loss, speed and the time that is left:
///
///     epoch 1/2  [#########...............]  768/2000  loss 0.4123  412 images/s  0:03 left
///
/// Where the output is not a terminal, only finish() prints a line. Thread safety: one thread at a time.
class ProgressBar {
 public:
  struct Options {
    std::ostream* out = nullptr;   ///< standard error if not set
    std::optional<bool> terminal;  ///< asked of the system if not set
    std::optional<int> columns;    ///< the same
    std::string unit = "images";
    std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  };

  ProgressBar(std::string title, int64_t total, Options options);
  ProgressBar(std::string title, int64_t total) : ProgressBar(std::move(title), total, Options()) {}
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  /// Leaves the terminal's cursor on a new line, also when an error ends the work.
  ~ProgressBar();

  /// `count` more are done; `loss` is that of the latest step. The line is drawn at most ten times a second.
  void advance(int64_t count, double loss);
  /// Replaces the line by the final one: the mean loss, the time taken and `remark`, such as "accuracy 97.1
  /// %".
  void finish(std::string_view remark = {});
  [[nodiscard]] double mean_loss() const {
    return weight_ > 0 ? loss_sum_ / static_cast<double>(weight_) : 0;
  }
  [[nodiscard]] double per_second() const;

 private:
  void draw();
  [[nodiscard]] double seconds() const;
  std::string title_;
  int64_t total_, done_ = 0;
  Options options_;
  bool terminal_ = false, open_ = false;
  double loss_ = 0, loss_sum_ = 0;
  int64_t weight_ = 0;
  std::chrono::steady_clock::time_point start_, drawn_;
};

/// A file of measurements, one JSON object a line, each line complete on disk when write() returns. Thread
/// safety: one thread at a time.
///
///   MetricsLog log("run.jsonl");
///   log.write({{"epoch", 1}, {"loss", 0.25}});      // {"epoch":1,"loss":0.25}
class MetricsLog {
 public:
  using Value = std::variant<int64_t, double, bool, std::string>;
  struct Metric {
    std::string name;
    Value value;
    Metric(std::string key, int number) : name(std::move(key)), value(int64_t{number}) {}
    Metric(std::string key, int64_t number) : name(std::move(key)), value(number) {}
    Metric(std::string key, double number) : name(std::move(key)), value(number) {}
    Metric(std::string key, bool flag) : name(std::move(key)), value(flag) {}
    Metric(std::string key, std::string text) : name(std::move(key)), value(std::move(text)) {}
    Metric(std::string key, const char* text) : name(std::move(key)), value(std::string(text)) {}
  };

  /// Starts a new file, or goes on behind what is there. Errors: Error if it cannot be written.
  explicit MetricsLog(const std::filesystem::path& path, bool append = false);
  /// Appends one object, its members in the order given; NaN and infinities, which JSON lacks, become null.
  /// Errors: Error if the line cannot be written or a text is not UTF-8.
  void write(std::initializer_list<Metric> metrics);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace luminal::data
