#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"
#include "ops/ties.h"

namespace luminal {
namespace {

/// The greater input gets all, equal ones (and those beside a NaN) one half each.
void split_max_gradient(Gradient& g) {
  const GraphTensor a_less = g.input(0).lt(g.input(1)), b_less = g.input(1).lt(g.input(0));
  const GraphTensor share = where(a_less.logical_or(b_less), g.upstream(), g.upstream() * 0.5);
  if (g.wants(0)) g.to(0, where(a_less, 0, share));
  if (g.wants(1)) g.to(1, where(b_less, 0, share));
}

void first_max_gradient(Gradient& g) {
  const GraphTensor second_wins = g.input(0).lt(g.input(1));
  if (g.wants(0)) g.to(0, where(second_wins, 0, g.upstream()));
  if (g.wants(1)) g.to(1, where(second_wins, g.upstream(), 0));
}

}  // namespace

const OpDef kMax = {
    .name = "max",
    .arity = 2,
    .traits =
        Trait::Elementwise | Trait::Commutative | Trait::Associative | Trait::Idempotent | Trait::Monotone,
    .infer = ops::with_ties("max", ops::same_types("max", 2, ops::Takes::All)),
    .elementwise = ops::kernels<ops::Takes::All, 2>([](auto a, auto b) { return ops::maximum(a, b); }),
    .gradient =
        [](Gradient& g) { ops::splits_ties(g.attributes()) ? split_max_gradient(g) : first_max_gradient(g); },
    .lower = ops::lowering([](ScalarBuilder& b, Scalar x, Scalar y) { return b.maximum(x, y); }),
    .samples = {-ops::kInfinity, -128, -1, -0.0, 0, 0.5, 1, 127, ops::kInfinity, ops::kNaN},
    .variants = {{{"ties", std::string("split")}}, {{"ties", std::string("first")}}},
    .doc = "The greater of a and b; NaN if either is NaN, -0 is less than +0.",
};

}  // namespace luminal
