#include "base/environment.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <regex>
#include <thread>

#include "base/fail.h"

namespace luminal::environment {
namespace {

constexpr Variable kDebug{"LUMINAL_DEBUG", "integer 0..7", "0",
                          "How much to report: 1 devices and compile summary, 2 kernel runs, 3 search, 4 "
                          "source, 5 graph around passes, 6 e-graph growth, 7 everything"};
constexpr Variable kDump{"LUMINAL_DUMP", "folder", "", "Write every stage of a compile into this folder"};
constexpr Variable kThreads{"LUMINAL_THREADS", "integer >= 1", "",
                            "Worker threads; the default is one for each processor"};
constexpr Variable kDevice{"LUMINAL_DEVICE", "device name", "",
                           "Where graphs run; the default is the best device of this build"};
constexpr Variable kCache{
    "LUMINAL_CACHE", "folder or off", "",
    "Where tuned kernels are kept; the default is luminal in $XDG_CACHE_HOME or ~/.cache"};
constexpr Variable kCpuFeatures{
    "LUMINAL_CPU_FEATURES", "features as +name,-name", "",
    "Processor features that compiled code may (+) or may not (-) use, as LLVM names them: -avx512f gives "
    "AVX2 code; the default is all that the processor has"};
constexpr Variable kCheck{
    "LUMINAL_CHECK", "finite", "",
    "finite: a run stops at the first tensor that gets a NaN or an infinity, and names it"};
constexpr std::array kVariables{kDebug, kDump, kThreads, kDevice, kCache, kCpuFeatures, kCheck};

std::string text_of(const Variable& variable) {
  const char* value = std::getenv(variable.name.data());  // of a literal, which ends with 0
  return value != nullptr && *value != '\0' ? std::string(value) : std::string(variable.fallback);
}

int integer_of(const Variable& variable, int low, int high) {
  const std::string text = text_of(variable);
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < low || value > high)
    fail("[environment] {}='{}' is invalid, expected {}; unset it or give such a value", variable.name, text,
         variable.type);
  return value;
}

constexpr int kMaxThreads = 1024;

}  // namespace

std::span<const Variable> variables() { return kVariables; }
std::string current(const Variable& variable) {
  if (variable.name == kThreads.name) return std::to_string(threads());
  if (variable.name == kCache.name) return cache_folder().empty() ? "off" : cache_folder();
  return text_of(variable);
}

void check_all() {
  (void)debug_level();
  (void)threads();
  (void)cpu_features();
  (void)checks_finite();
}

int debug_level() { return integer_of(kDebug, 0, 7); }
std::string dump_folder() { return text_of(kDump); }
std::string device() { return text_of(kDevice); }
bool checks_finite() {
  const std::string text = text_of(kCheck);
  if (!text.empty() && text != kCheck.type)
    fail("[environment] {}='{}' is invalid, expected {}; unset it or give such a value", kCheck.name, text,
         kCheck.type);
  return !text.empty();
}
std::string cpu_features() {
  static const std::regex pattern("([+-][a-z0-9._-]+(,[+-][a-z0-9._-]+)*)?");
  const std::string text = text_of(kCpuFeatures);
  if (!std::regex_match(text, pattern))
    fail("[environment] {}='{}' is invalid, expected {}; unset it or give such a value", kCpuFeatures.name,
         text, kCpuFeatures.type);
  return text;
}
std::string cache_folder() {
  const std::string text = text_of(kCache);
  if (text == "off") return "";
  if (!text.empty()) return text;
  const auto from = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  if (const std::string base = from("XDG_CACHE_HOME"); !base.empty()) return base + "/luminal";
  if (const std::string home = from("HOME"); !home.empty()) return home + "/.cache/luminal";
  return "";
}
int threads() {
  if (text_of(kThreads).empty()) return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return integer_of(kThreads, 1, kMaxThreads);
}

}  // namespace luminal::environment
