#pragma once
#include <memory>
#include <string>
#include <vector>

#include "search/saturate/language.h"
#include "search/saturate/saturated_graph.h"

/// Judges rules by numbers: whatever a graph's e-graph holds, every kernel of a class must compute the same.
namespace luminal::search::test {

/// A graph as a search in one math mode sees it, and what its tensors are for several inputs.
struct Subject {
  std::string name;
  KernelGraph kernel_graph;
  DimMap dims;
  std::vector<std::vector<TensorData>> values;  ///< for each set of inputs, by tensor
};

/// An example of the rule files, on inputs that its math mode promises something about: strict also special
/// values, relaxed also great and small ones whose sums stay in range.
[[nodiscard]] Subject example_subject(const std::string& name, MathMode mode);
/// A random graph with inputs of its own: wild in strict mode, tame in others.
[[nodiscard]] Subject random_subject(uint64_t seed, MathMode mode);
/// The same tensors, with each kernel that one other reads also computed within that one: laws meet sums
/// inside of sums, and results of other types than what is summed.
[[nodiscard]] Subject fused(const Subject& subject, MathMode mode);

/// What rules make of a subject.
struct Outcome {
  std::string fault;                ///< why it cannot be right; empty if nothing speaks against it
  egraph::Report report;            ///< of the saturation
  std::vector<uint64_t> signature;  ///< of the e-graph, the same for any numbering of its classes

  /// Rows and unions that the rule added.
  [[nodiscard]] uint64_t applied(std::string_view rule) const;
};

/// Saturates, and compares all kernels of each class: in strict mode bit by bit, otherwise within 1e-4 of the
/// tensor's greatest element. `with_values`: false leaves out the comparison.
[[nodiscard]] Outcome judge_laws(Language& language, const Subject& subject, MathMode mode,
                                 bool with_values = true);

}  // namespace luminal::search::test
