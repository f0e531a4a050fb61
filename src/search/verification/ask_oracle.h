#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "search/verification/verify.h"

namespace luminal::search {

class Oracle;

/// What the user's nodes say of one element of a computed tensor.
struct OracleValue {
  double value = 0, bound = 0;
  int64_t integer = 0;   ///< instead of `value` where the dtype is no float
  bool known = false;    ///< it does not hang on a comparison that is too close to call
  bool promised = true;  ///< see VerificationCase::Expectation
};
/// Of sample i.
[[nodiscard]] OracleValue truth_of(const VerificationCase::Expectation& samples, size_t i);

/// Answers for single elements of the tensors of one test case. What several of them depend on is evaluated once.
class CaseOracle {
 public:
  /// Suite and case outlive it.
  CaseOracle(const VerificationSuite& suite, const VerificationCase& test_case);
  CaseOracle(const CaseOracle&) = delete;
  ~CaseOracle();

  /// In the order of `positions`. None where nobody can be asked: the suite came from a file, the tensor or one
  /// that it depends on is no value of the graph, or all together take more than `of_one` elementary operations each.
  [[nodiscard]] std::optional<std::vector<OracleValue>> ask(int tensor, std::span<const int64_t> positions,
                                                            int64_t of_one);
  /// Elementary operations that all answers took together.
  [[nodiscard]] int64_t operations() const;

 private:
  const VerificationSuite& suite_;
  const VerificationCase& case_;
  std::unique_ptr<Oracle> oracle_;  ///< from the first question on
};

}  // namespace luminal::search
