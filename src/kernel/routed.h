#pragma once
#include <optional>
#include <vector>

#include "kernel/one_term.h"

/// Sums of which an index names the one term, where computing a term is a kernel of its own.
namespace luminal::kernel {

/// Rows of a mixture of experts, in blocks that use one expert each:
///
///   b in 384, r in 16, o in 768, e in 128: s = sum i in 2048: X[b,r,i] * W[e,o,i]
///   b in 384, r in 16, o in 768: Y[b,r,o] = sum e in 128: where(e == C[b], s, 0)
///
/// At each place of the axes on which the index depends (here b) one term has to be computed, and of what all terms read
/// no more than this one does.
struct Routed {
  int sum = -1;             ///< the value
  OneTerm term;             ///< its axis and what names the place
  std::vector<int> places;  ///< axes on which the name depends, ascending; all outputs and folds have them
};
/// Nothing where a spec is something else, or more: where it has other sums than the terms', or terms that are the same
/// at all places.
[[nodiscard]] std::optional<Routed> routed_of(const KernelSpec& spec);

/// The spec where its sum is the term at any coordinate of the axis: what a place computes, once its coordinates and the
/// term's are set.
[[nodiscard]] SpecParts each_term(const KernelSpec& spec, const Routed& routed);

}  // namespace luminal::kernel
