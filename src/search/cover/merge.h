#pragma once
#include "search/cover/fusion.h"

namespace luminal::search {

/// Kernels that do better as one: a producer that its reader computes and stores as well, and siblings over
/// equal axes that read the same tensors. The best pair is merged until none gains; a pair with another way
/// from the one to the other never is, so the plan stays acyclic. A pair has to gain by both costs.
void merge_kernels(const CoverProblem& problem, const Structure& structure, SpecStore& store,
                   CostTable& rough, CostTable& fine, Cover& cover);

/// The launches in an order in which all can run, free of numbering. Errors: InternalError for a cycle.
void order_steps(const CoverProblem& problem, const Structure& structure, const SpecStore& store,
                 Cover& cover);

}  // namespace luminal::search
