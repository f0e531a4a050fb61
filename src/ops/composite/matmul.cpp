#include "ops/composite/build.h"

// Matrix products: both sides viewed as [..., M, N, K], multiplied and summed over K. Nothing is copied; what
// runs is for the compiler to choose.
namespace luminal {

using namespace composite;

namespace {

/// Another way to hold one of the operands that would fit, for the message.
std::string remedy(const GraphTensor& lhs, const GraphTensor& rhs) {
  const Expression& k = lhs.dim(-1);
  if (rhs.rank() >= 2 && Expression::known_equal(rhs.dim(-1), k))
    return rhs.rank() == 2 ? "rhs.transpose(0, 1) would fit" : "rhs.transpose(-2, -1) would fit";
  if (lhs.rank() >= 2 && Expression::known_equal(lhs.dim(-2), rhs.dim(rhs.rank() == 1 ? 0 : -2)))
    return lhs.rank() == 2 ? "lhs.transpose(0, 1) would fit" : "lhs.transpose(-2, -1) would fit";
  if (!k.constant() || !rhs.dim(rhs.rank() == 1 ? 0 : -2).constant())
    return "if both are always the same size, build them from one named dim";
  return "the last axis of lhs must be as long as the one before last of rhs";
}

void check_inner(const GraphTensor& lhs, const GraphTensor& rhs) {
  for (const GraphTensor* side : {&lhs, &rhs})
    if (side->rank() == 0)
      reject("{} is {}, a single number; multiply with * instead", side == &lhs ? "lhs" : "rhs",
             side->type().to_string());
  const Expression &left = lhs.dim(-1), &right = rhs.dim(rhs.rank() == 1 ? 0 : -2);
  if (!Expression::known_equal(left, right))
    reject("inner dimensions differ: lhs {} has K={}, rhs {} has K={}; {}", lhs.type().to_string(),
           left.to_string(), rhs.type().to_string(), right.to_string(), remedy(lhs, rhs));
}

/// Leading axes broadcast. The shapes that the product sees would only confuse.
void check_leading(const GraphTensor& lhs, const GraphTensor& rhs) {
  for (int axis = 3; axis <= std::min(lhs.rank(), rhs.rank()); ++axis) {
    const Expression &left = lhs.dim(-axis), &right = rhs.dim(-axis);
    if (left != Expression(1) && right != Expression(1) && !Expression::known_equal(left, right))
      reject(
          "leading axes do not broadcast: lhs {} and rhs {} have {} and {} at axis -{}; sizes must be equal, "
          "or one of "
          "them 1",
          lhs.type().to_string(), rhs.type().to_string(), left.to_string(), right.to_string(), axis);
  }
}

}  // namespace

GraphTensor matmul(const Operand& a, const Operand& b) {
  const CallSite site("matmul", a.where);
  auto [lhs, rhs] = promoted(a, b, Promotion::Arithmetic);
  check_inner(lhs, rhs);
  check_leading(lhs, rhs);
  const bool row = lhs.rank() == 1, column = rhs.rank() == 1;
  if (row) lhs = lhs.unsqueeze(0);
  if (column) rhs = rhs.unsqueeze(1);
  lhs = lhs.unsqueeze(-2);                    // [..., M, 1, K]
  rhs = rhs.transpose(-2, -1).unsqueeze(-3);  // [..., 1, N, K]
  const int inner = std::max(lhs.rank(), rhs.rank()) - 1;
  GraphTensor result = product_sum(lhs, rhs, {inner});
  if (column) result = result.squeeze(-1);
  if (row) result = result.squeeze(column ? -1 : -2);
  return result;
}

GraphTensor GraphTensor::matmul(const Operand& other) const {
  return luminal::matmul(Operand(*this, other.where), other);
}

GraphTensor GraphTensor::dot(const Operand& other) const {
  const CallSite site("dot", other.where);
  const auto [lhs, rhs] = promoted(Operand(*this), other, Promotion::Arithmetic);
  if (lhs.rank() != 1 || rhs.rank() != 1)
    reject("takes two vectors, got {} and {}; matmul takes other ranks", lhs.type().to_string(),
           rhs.type().to_string());
  if (!Expression::known_equal(lhs.dim(0), rhs.dim(0)))
    reject("lengths differ: lhs {} and rhs {}; slice or pad one of them", lhs.type().to_string(),
           rhs.type().to_string());
  return product_sum(lhs, rhs, {0});
}

}  // namespace luminal
