#pragma once
#include <optional>
#include <vector>

#include "luminal/scalar.h"

namespace luminal::kernel {

/// Nodes of a body in another builder, each once: a body is a graph, whose paths are many more than its nodes.
class Copies {
 public:
  Copies(ScalarBuilder& b, const ScalarFunction& body) : b_(b), body_(body), made_(body.nodes().size()) {}

  /// From now on `copy` takes the place of `node`.
  void replace(Scalar node, Scalar copy) { made_[node.index] = copy; }

  /// The copy of a node, and of all that it needs: in the body's order.
  Scalar of(Scalar s) {
    std::vector<bool> needed(s.index + 1);
    needed[s.index] = true;
    for (size_t i = s.index + 1; i-- > 0;) {
      if (!needed[i] || made_[i]) continue;
      const ScalarNode& n = body_.nodes()[i];
      for (int k = 0; k < arity(n.op); ++k) needed[n.operands[static_cast<size_t>(k)].index] = true;
    }
    for (size_t i = 0; i <= s.index; ++i)
      if (needed[i] && !made_[i]) made_[i] = make(body_.nodes()[i]);
    return *made_[s.index];
  }

 private:
  Scalar make(ScalarNode n) {
    if (n.op == ScalarOp::Input) return b_.input(static_cast<int>(n.payload), n.dtype);
    if (n.op == ScalarOp::Constant) return b_.constant_bits(n.dtype, n.payload);
    for (int k = 0; k < arity(n.op); ++k) {
      Scalar& operand = n.operands[static_cast<size_t>(k)];
      operand = *made_[operand.index];
    }
    return b_.make(n);
  }

  ScalarBuilder& b_;
  const ScalarFunction& body_;
  std::vector<std::optional<Scalar>> made_;
};

/// The part of a body that computes one node.
inline ScalarFunction part_of(const ScalarFunction& body, Scalar node) {
  ScalarBuilder b;
  return b.finish(Copies(b, body).of(node));
}

}  // namespace luminal::kernel
