#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "search/verification/verify.h"

/// Every element of a kernel's result beside that of an independent kernel for the same spec.
namespace luminal::search {

/// How far right kernels may lie apart, by the magnitude of the result: what the oracle's bounds at samples
/// come to, for each power of two.
class Margins {
 public:
  /// From the samples of one tensor.
  explicit Margins(const VerificationCase::Expectation& expectation);
  /// Where nobody could be asked: so many roundings of the greatest result.
  Margins(const TensorData& expected, double roundings);
  [[nodiscard]] bool exact() const { return exact_; }
  [[nodiscard]] double at(double value) const;
  /// A margin that no result in the upper magnitudes is below: what lies within it needs no further look.
  struct Usual {
    double from = 0;  ///< the least magnitude of which it is true
    double margin = 0;
  };
  [[nodiscard]] Usual usual() const;
  /// One more sample. Margins of results that are no greater grow if at all.
  void add(double value, double error);

 private:
  static constexpr int kLowest = -1100, kHighest = 1030;
  using ByExponent = std::array<double, kHighest - kLowest + 1>;
  void note(double value, double error);
  void fill_gaps();
  bool exact_ = false;
  ByExponent sampled_{};      ///< negative: no sample
  ByExponent by_exponent_{};  ///< the same without gaps
};

struct Mismatch {
  int64_t position = 0;
  double got = 0, expected = 0, margin = 0;
};
/// Whether a difference within the margin is one of leading digits: such margins say little.
[[nodiscard]] bool is_doubtful(double got, double expected, double margin);

/// Elements of a kernel's result that have to be judged one by one.
struct Mismatches {
  std::vector<Mismatch> beyond;  ///< further from the independent kernel's than the margins say
  std::vector<Mismatch>
      doubtful;          ///< within margins that say little, as they are about as large as the element
  int64_t compared = 0;  ///< elements that both hold
};
/// Of `got`, dense and of the same dtype and size as `expected`. Where there are many, in turn one of those furthest off
/// and one of others that are spread over all of them; some are both. Elements of either that hold nothing but
/// `unwritten` bytes are left aside.
[[nodiscard]] Mismatches mismatches(const TensorData& expected, std::span<const std::byte> got,
                                    const Margins& margins,
                                    std::optional<std::byte> unwritten = std::nullopt);

}  // namespace luminal::search
