#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>

#include "base/fork.h"

namespace luminal {
namespace {

struct Log {
  Log() : logger("luminal", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()) {
    logger.set_pattern("%v");
    hold_while_forking(mutex);
  }
  std::mutex mutex;  ///< the logger's own cannot be held while forking
  spdlog::logger logger;
};
Log& log() {
  static auto* const made = new Log;  // outlives every static
  return *made;
}
/// Made before main(): a process that is forked while another thread makes a static would wait for it for
/// ever.
[[maybe_unused]] const Log& kMadeBeforeMain = log();

}  // namespace

void log_line(std::string_view text) {
  const std::lock_guard lock(log().mutex);
  log().logger.info("{}", text);
}

}  // namespace luminal
