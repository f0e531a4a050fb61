#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "search/verification/oracle.h"
#include "search/verification/verify.h"

/// Whether what a kernel made is right: beside what the user's nodes say of samples, and beside what an independent
/// kernel made of the same inputs, every element.
namespace luminal::search {

/// An element of any dtype as a number.
[[nodiscard]] double element(const Elements& data, int64_t position);
[[nodiscard]] inline double element(const TensorData& data, int64_t position) {
  return element(elements_of(data), position);
}

[[nodiscard]] Fault fault_at(const VerificationSuite& suite, const VerificationCase& test_case, int tensor,
                             int64_t position, double got, double expected, double bound,
                             std::string_view how);

/// The first element whose bits differ, or -1. Two NaN are equal.
[[nodiscard]] int64_t first_difference(const TensorData& a, const TensorData& b);

/// Outputs hold `kUnwritten` before a launch that runs some of the tasks.
constexpr std::byte kUnwritten{0x5a};

/// Which samples of a test case are looked at: those that the laws promise (VerificationCase::Expectation), or all.
enum class Samples : uint8_t { All, Promised };
/// At the samples. `in_part`: only some of the elements were computed.
[[nodiscard]] std::optional<Fault> check_expectations(const VerificationSuite& suite,
                                                      const VerificationCase& test_case,
                                                      std::span<const Elements> tensors, Samples which,
                                                      bool in_part, std::string_view how);

struct Comparison {
  std::optional<Fault> fault;
  int64_t compared = 0;    ///< elements that both hold, of all tensors
  double least_share = 1;  ///< of a tensor's elements, in the one of which the fewest were compared
};
/// All that both computed, `tensors` and the independent kernel's `reference`.
[[nodiscard]] Comparison compare_in_full(const VerificationSuite& suite, const VerificationCase& test_case,
                                         std::span<const Elements> tensors,
                                         std::span<const TensorData> reference, bool in_part);

}  // namespace luminal::search
