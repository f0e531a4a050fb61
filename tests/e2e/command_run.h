#pragma once
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"

namespace luminal::cli {

inline const std::string kDigits = std::string(LUMINAL_SOURCE_DIR) + "/data/mnist10k";

/// What a command left behind.
struct Result {
  int code = 0;
  std::string out, err;
};

/// Runs `luminal` with the arguments in this process.
inline Result luminal(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  Console console{out, err};
  const int code = run(arguments, console);
  return {code, out.str(), err.str()};
}

}  // namespace luminal::cli
