#pragma once
#include <optional>
#include <string>
#include <vector>

#include "search/verification/verify.h"

/// Large contractions: no plain loop could judge them in reasonable time. They are taken apart into the sum
/// of products and the rest, and every element of the sum is proven by Freivalds' check: for a random vector
/// x, T x must be L (R x), which takes three products of a matrix and a vector. Source: R. Freivalds,
/// "Probabilistic machines can use less running time", IFIP Congress 1977.
namespace luminal::search {

/// A spec with one sum of products taken apart. Tensors are numbered: the slots of the spec, then those
/// below.
struct SplitContraction {
  struct Part {
    kernel::KernelSpec spec;
    std::vector<int> inputs;  ///< the tensor behind each slot
  };
  TensorType sum_type;
  Expression column_count, right_count, row_count;  ///< elements of `columns`, `right_sums`, `left_sums`
  Part sum;                                         ///< T[batch, rows, columns] = sum of left * right
  Part rest;                                        ///< the spec's outputs, T read instead of computed
  Part right_sums;   ///< R[batch, summed] = sum over columns of right * x[columns], f64
  Part left_sums;    ///< L[batch, rows] = sum over summed of left * R, f64
  Part result_sums;  ///< [batch, rows] = sum over columns of T * x, f64: must be L
  [[nodiscard]] int sum_tensor() const { return slots; }
  [[nodiscard]] int columns_tensor() const { return slots + 1; }
  [[nodiscard]] int right_tensor() const { return slots + 2; }
  int slots = 0;
  bool is_sum = false;  ///< the spec is the sum and nothing else
};
/// None where the spec has not exactly one sum, of a product whose sides both have axes of their own.
[[nodiscard]] std::optional<SplitContraction> split_contraction(const kernel::KernelSpec& spec);

/// Kernels for the parts; they outlive it.
struct SplitKernels {
  const SplitContraction* parts = nullptr;
  std::vector<const backends::Kernel*> sums;  ///< for the sum: the first that is proven is taken
  const backends::Kernel *rest = nullptr, *right_sums = nullptr, *left_sums = nullptr, *result_sums = nullptr;
};

struct Proof {
  std::optional<Fault> fault;  ///< disproved
  bool is_proven =
      false;  ///< or disproved, which is a fault; neither where terms of the sum are no whole numbers
  int64_t proven = 0;  ///< elements
};
/// Whether `sum` is what the sum of the kernels' spec is on small integers. `about`: a suite of that spec, of which
/// nothing but sizes and seed is read.
[[nodiscard]] Proof prove_sum(const VerificationSuite& about, const SplitKernels& kernels,
                              const VerificationCase& test_case, const TensorData& sum, Progress& progress);

/// What one sum of the kernels and the rest make of test cases of one kernel, one after the other, in a contained
/// process.
class SplitVerifier {
 public:
  /// `about`: as of CaseVerifier. The kernels outlive it.
  SplitVerifier(const VerificationSuite& about, const SplitKernels& kernels, size_t which, int threads,
                Progress& progress);
  /// With a fault this sum is no reference.
  [[nodiscard]] Proof add(const VerificationCase& test_case);
  /// What they made of the last case, by tensor of the unit, and the sum behind them.
  [[nodiscard]] const std::vector<TensorData>& made() { return runs_.made(); }

 private:
  VerificationSuite about_;
  const SplitKernels& kernels_;
  Progress& progress_;
  const backends::Kernel* both_[2];
  CaseVerifier runs_;
};

}  // namespace luminal::search
