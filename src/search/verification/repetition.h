#pragma once
#include <map>
#include <optional>
#include <vector>

#include "search/verification/verify.h"

/// Where plain loops, or the sum of a contraction, take long: inputs that repeat along an axis make outputs that repeat,
/// so that the first positions of the axis tell what all outputs have to be. Every element of the candidate is compared all
/// the same.
///
///   out[i] = sum j: W[i,j] * x[j]      with W[i+257,j] = W[i,j]      has      out[i+257] = out[i]
namespace luminal::search {

struct Repetition {
  /// The spec at the first `distinct` positions of an axis alone; its slots are those of the whole spec.
  kernel::KernelSpec spec;
  /// A prime number, so that what a kernel reads or writes a tile or a vector further on is something else.
  int64_t distinct = 0;
  Expression length;                  ///< of the axis in the whole spec
  std::map<int, Expression> periods;  ///< by slot: after how many elements it has to repeat
  /// Where the axis is in an output: elements of the whole one outside of it, and inside.
  struct Output {
    bool has_axis = false;
    Expression outside = 1, inside = 1;
  };
  std::vector<Output> outputs;
};
/// Along the axis with which the least is left to do at these sizes. None where that is not much less, where an axis is
/// reduced over, is masked or counts itself, or where what is read does not repeat.
[[nodiscard]] std::optional<Repetition> repetition_of(const kernel::KernelSpec& spec, const DimMap& sizes);

/// How many times as many positions the axis has as distinct ones.
[[nodiscard]] double times(const Repetition& repetition, const DimMap& sizes);

/// By tensor of a unit of one kernel, after how many elements inputs have to repeat. None where the axis is too short at
/// these sizes.
[[nodiscard]] std::map<size_t, int64_t> periods_at(const Repetition& repetition, const Unit& unit,
                                                   const DimMap& dims);
/// A suite of one kernel as one of the first positions alone; without test cases.
[[nodiscard]] VerificationSuite of_first_positions(const Repetition& repetition,
                                                   const VerificationSuite& suite);
/// What a kernel of the first positions made, by tensor of the unit, as what one of all positions makes.
[[nodiscard]] std::vector<TensorData> repeated(const Repetition& repetition, const VerificationSuite& suite,
                                               const std::vector<TensorData>& made);

}  // namespace luminal::search
