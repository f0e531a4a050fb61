#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>

#include "base/fork.h"

namespace luminal {

void log_line(std::string_view text) {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("luminal", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  static std::mutex mutex;  // the logger's own cannot be held while forking
  [[maybe_unused]] static const bool held = (hold_while_forking(mutex), true);
  const std::lock_guard lock(mutex);
  logger->info("{}", text);
}

}  // namespace luminal
