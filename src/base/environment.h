#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// All environment variables Luminal reads, declared in environment.cpp and nowhere else.
/// A variable that does not parse is an `Error` that names it, its value and what it takes.
namespace luminal::environment {

/// One variable as `luminal env` prints it.
struct Variable {
  std::string_view name, type, fallback, help;
};

[[nodiscard]] std::span<const Variable> variables();
/// The value in force as text: what the process was started with, or the default.
[[nodiscard]] std::string current(const Variable& variable);
/// Parses every variable once, so that a bad value stops the program at its start and not in the middle.
void check_all();

[[nodiscard]] int debug_level();           ///< LUMINAL_DEBUG, 0..7
[[nodiscard]] std::string dump_folder();   ///< LUMINAL_DUMP, "" when off
[[nodiscard]] int threads();               ///< LUMINAL_THREADS, at least 1
[[nodiscard]] std::string device();        ///< LUMINAL_DEVICE, "" for automatic choice
[[nodiscard]] std::string cache_folder();  ///< LUMINAL_CACHE or its default; "" when off

[[nodiscard]] bool checks_finite();        ///< LUMINAL_CHECK is "finite"
[[nodiscard]] std::string cpu_features();  ///< LUMINAL_CPU_FEATURES, "" for all that the processor has

}  // namespace luminal::environment
