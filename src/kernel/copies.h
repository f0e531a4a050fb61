#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "luminal/scalar.h"

namespace luminal::kernel {

/// Nodes of a body in another builder, each once: a body is a graph, whose paths are many more than its nodes.
class Copies {
 public:
  /// `replaced`: an input, and what takes its place.
  Copies(ScalarBuilder& b, const ScalarFunction& body, std::optional<std::pair<size_t, Scalar>> replaced = {})
      : b_(b), body_(body), replaced_(replaced), made_(body.nodes().size()) {}

  Scalar of(Scalar s) {
    std::optional<Scalar>& made = made_[s.index];
    if (!made) made = make(body_[s]);
    return *made;
  }

 private:
  Scalar make(ScalarNode n) {
    if (n.op == ScalarOp::Input && replaced_ && n.payload == replaced_->first) return replaced_->second;
    if (n.op == ScalarOp::Input) return b_.input(static_cast<int>(n.payload), n.dtype);
    if (n.op == ScalarOp::Constant) return b_.constant_bits(n.dtype, n.payload);
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& operand = n.operands[static_cast<size_t>(k)];
      operand = of(operand);
    }
    return b_.make(n);
  }

  ScalarBuilder& b_;
  const ScalarFunction& body_;
  std::optional<std::pair<size_t, Scalar>> replaced_;
  std::vector<std::optional<Scalar>> made_;
};

}  // namespace luminal::kernel
