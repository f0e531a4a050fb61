#include "cli/compile_mode.h"

#include <charconv>

#include "base/fail.h"

namespace luminal::cli {

CompilationMode parse_mode(std::string_view text) {
  constexpr std::string_view kBudget = "budget=";
  if (text == "fast") return Fast{};
  if (text == "optimal") return Optimal{};
  double seconds = 0;
  const std::string_view number = text.starts_with(kBudget) ? text.substr(kBudget.size()) : "";
  const auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), seconds);
  if (number.empty() || status != std::errc() || end != number.data() + number.size() || !(seconds >= 0) ||
      seconds > 1e6)
    fail("[mode] unknown mode '{}'; choose fast, optimal or budget=SECONDS", text);
  return TimeBudget{std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3))};
}

}  // namespace luminal::cli
