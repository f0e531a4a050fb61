#pragma once
#include <string>
#include <vector>

namespace luminal::bench {

/// One egglog program of the comparison: the same text, facts and run command go to every engine.
struct EgglogCase {
  std::string name;
  std::string setup;  ///< declarations, rules, terms; not timed
  std::string run;    ///< the timed command
  std::vector<std::pair<std::string, std::string>> fact_files = {};  ///< read by the setup's `input` commands
};

/// All cases, smallest first within a family. Generated, with a fixed seed.
[[nodiscard]] std::vector<EgglogCase> egglog_cases();

}  // namespace luminal::bench
