#pragma once
#include <optional>

#include "search/verification/verify.h"

namespace luminal::search {

/// What the user's nodes say of one element of a computed tensor.
struct OracleValue {
  double value = 0, bound = 0;
  int64_t integer = 0;     ///< instead of `value` where the dtype is no float
  int64_t operations = 0;  ///< that it took to tell
  bool known = false;      ///< it does not hang on a comparison that is too close to call
};
/// Of sample i.
[[nodiscard]] OracleValue truth_of(const VerificationCase::Expectation& samples, size_t i);
/// Asks the oracle about one element. None where nobody can be asked: the suite came from a file, the tensor
/// or one that it depends on is no value of the graph, or judging takes too long.
[[nodiscard]] std::optional<OracleValue> ask_oracle(const VerificationSuite& suite,
                                                    const VerificationCase& test_case, int tensor,
                                                    int64_t position);

}  // namespace luminal::search
