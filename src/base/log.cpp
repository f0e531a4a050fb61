#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace luminal {

void log_line(std::string_view text) {
  static const auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("luminal", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  logger->info("{}", text);
}

}  // namespace luminal
