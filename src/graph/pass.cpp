#include "luminal/pass.h"

#include <cxxabi.h>

#include <cstdlib>

#include "base/fail.h"
#include "base/log.h"
#include "luminal/graph.h"

namespace luminal {

std::vector<Value> Remap::roots() const {
  std::vector<Value> roots;
  for (const GraphTensor& handle : handles_)
    if (handle.valid()) roots.push_back(handle.edge().source);
  return roots;
}

namespace detail {

PassLog::PassLog(const Graph& graph, std::string pass, bool timed)
    : graph_(&graph),
      pass_(std::move(pass)),
      timed_(timed),
      version_(graph.version()),
      start_(std::chrono::steady_clock::now()) {
  if (environment::debug_level() >= 5) debug(5, "[pass] {} before:\n{}", pass_, graph.to_string());
}

PassLog::~PassLog() {
  using Microseconds = std::chrono::duration<double, std::micro>;
  const double time_us = Microseconds(std::chrono::steady_clock::now() - start_).count();
  const bool same = graph_->version() == version_;
  try {
    if (timed_) debug(1, "[pass] {}: {:.0f} us{}", pass_, time_us, same ? " (unchanged)" : "");
    if (same)
      debug(5, "[pass] {} after: (unchanged)", pass_);
    else if (environment::debug_level() >= 5)
      debug(5, "[pass] {} after:\n{}", pass_, graph_->to_string());
  } catch (const std::exception& e) {  // a destructor must not throw, and a log line is not worth a crash
    log_line(e.what());
  }
}

std::string readable_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 && text ? text.get() : type.name();
  for (const std::string_view prefix : {"luminal::", "(anonymous namespace)::"})
    for (size_t at = name.find(prefix); at != std::string::npos; at = name.find(prefix))
      name.erase(at, prefix.size());
  return name;
}

void check_rounds(const std::string& pass, int rounds) {
  constexpr int kEnough = 1000;
  if (rounds >= kEnough)
    fail(
        "[Looped] '{}' still changes the graph after {} rounds; give Looped a number of rounds, or make the "
        "pass leave a finished graph unchanged",
        pass, rounds);
}

}  // namespace detail
}  // namespace luminal
