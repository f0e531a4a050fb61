#pragma once
#include <string>
#include <string_view>

#include "codegen/schedule.h"
#include "search/verify.h"

namespace luminal::search {

/// Everything that made a kernel wrong, in one file: `luminal explain --replay FILE` judges it again.
struct Replay {
  kernel::KernelSpec spec;
  std::string schedule;
  codegen::Parameters parameters;
  codegen::Bucket bucket;
  Exam exam;
  std::string fault;  ///< as it was found
};
[[nodiscard]] std::string replay_json(const Replay& replay);
/// Errors: FormatError that says what is wrong.
[[nodiscard]] Replay parse_replay(std::string_view text);

}  // namespace luminal::search
