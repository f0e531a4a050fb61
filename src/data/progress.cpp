#include "luminal/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/fail.h"

namespace luminal::data {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr int kUsualColumns = 80, kWidestBar = 40, kNarrowestBar = 5;

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

/// "0:07", "12:30", "1:02:03".
std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::lround(std::max(0.0, seconds)));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressBar::ProgressBar(std::string title, int64_t total, Options options)
    : title_(std::move(title)), total_(total), options_(std::move(options)) {
  const bool own_output = options_.out == nullptr || options_.out == &std::cerr;
  if (options_.out == nullptr) options_.out = &std::cerr;
  terminal_ = options_.terminal.value_or(own_output && ::isatty(STDERR_FILENO) == 1);
  start_ = options_.now();
  drawn_ = start_ - kRedraw;
}

ProgressBar::~ProgressBar() {
  if (open_) *options_.out << std::endl;
}

double ProgressBar::seconds() const { return std::chrono::duration<double>(options_.now() - start_).count(); }

double ProgressBar::per_second() const {
  const double elapsed = seconds();
  return elapsed > 0 ? static_cast<double>(done_) / elapsed : 0;
}

void ProgressBar::advance(int64_t count, double loss) {
  done_ += count;
  loss_ = loss;
  loss_sum_ += loss * static_cast<double>(count);
  weight_ += count;
  if (!terminal_) return;
  const auto now = options_.now();
  if (now - drawn_ < kRedraw && done_ < total_) return;
  drawn_ = now;
  draw();
}

void ProgressBar::draw() {
  const double speed = per_second();
  const double left = speed > 0 ? static_cast<double>(total_ - done_) / speed : 0;
  const std::string numbers = fmt::format("{}/{}  loss {:.4f}  {:.0f} {}/s  {} left", done_, total_, loss_,
                                          speed, options_.unit, clock_text(left));
  // Two blanks on either side of the bar, its brackets, and the last column, where some terminals wrap.
  const int room =
      options_.columns.value_or(terminal_columns()) - static_cast<int>(title_.size() + numbers.size()) - 7;
  std::string line = title_ + "  ";
  if (const int width = std::min(room, kWidestBar); width >= kNarrowestBar) {
    const double share =
        total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0) : 1;
    const auto full = static_cast<size_t>(share * width);
    line += "[" + std::string(full, '#') + std::string(static_cast<size_t>(width) - full, '.') + "]  ";
  }
  *options_.out << "\r\033[K" << line << numbers
                << std::flush;  // \033[K clears what a longer line left behind
  open_ = true;
}

void ProgressBar::finish(std::string_view remark) {
  *options_.out << (open_ ? "\r\033[K" : "")
                << fmt::format("{}  {} {}  loss {:.4f}  {:.0f} {}/s  {}{}{}", title_, done_, options_.unit,
                               mean_loss(), per_second(), options_.unit, clock_text(seconds()),
                               remark.empty() ? "" : "  ", remark)
                << std::endl;
  open_ = false;
}

MetricsLog::MetricsLog(const std::filesystem::path& path, bool append)
    : path_(path), file_(path, append ? std::ios::app : std::ios::trunc) {
  if (!file_)
    fail("[metrics] cannot write '{}': {}; choose another place", path.string(), std::strerror(errno));
}

void MetricsLog::write(std::initializer_list<Metric> metrics) {
  auto line = nlohmann::ordered_json::object();
  for (const Metric& metric : metrics)
    std::visit([&](const auto& value) { line[metric.name] = value; }, metric.value);
  try {
    file_ << line.dump() << std::endl;
  } catch (const nlohmann::json::type_error&) {
    fail("[metrics] '{}': a name or text is not valid UTF-8, which JSON requires", path_.string());
  }
  if (!file_)
    fail("[metrics] cannot write '{}': {}; free some space or choose another place", path_.string(),
         std::strerror(errno));
}

}  // namespace luminal::data
