#include "ops/composite/build.h"

// Joining tensors: each is padded to the whole size, and each place takes the one that covers it. No
// arithmetic touches the values, so their bits are kept.
namespace luminal {

using namespace composite;

namespace {

void check_alike(std::span<const GraphTensor> tensors, int axis) {
  const GraphTensor& first = tensors.front();
  for (size_t i = 1; i < tensors.size(); ++i) {
    const GraphTensor& other = tensors[i];
    if (other.rank() != first.rank())
      reject("tensor 0 is {} and tensor {} is {}; give all the same rank", first.type().to_string(), i,
             other.type().to_string());
    for (int d = 0; d < first.rank(); ++d)
      if (d != axis && !Expression::known_equal(first.dim(d), other.dim(d)))
        reject("tensor 0 is {} and tensor {} is {}: axis {} has {} and {}; only axis {} may differ",
               first.type().to_string(), i, other.type().to_string(), d, first.dim(d).to_string(),
               other.dim(d).to_string(), axis);
  }
}

/// Joins halves, so that n tensors take a depth of log2(n).
GraphTensor join(std::span<const GraphTensor> tensors, int axis) {
  if (tensors.size() == 1) return tensors.front();
  const size_t half = tensors.size() / 2;
  const GraphTensor left = join(tensors.first(half), axis), right = join(tensors.subspan(half), axis);
  const Expression middle = left.dim(axis);
  const GraphTensor whole_left = left.pad_along(axis, 0, right.dim(axis));
  const GraphTensor whole_right = right.pad_along(axis, middle, 0);
  const GraphTensor place = positions(whole_left, axis);
  Graph graph = left.graph();
  return select(less(place, formula(graph, middle, {})), whole_left, whole_right);
}

}  // namespace

GraphTensor concat(std::span<const GraphTensor> tensors, int axis, Where at) {
  const CallSite site("concat", at);
  if (tensors.empty()) reject<Error>("no tensors are given; give at least one");
  Graph graph = tensors.front().graph();
  const int on = axis_of(tensors.front(), axis);
  check_alike(tensors, on);
  const std::vector<Operand> operands(tensors.begin(), tensors.end());
  std::vector<GraphTensor> parts = promoted(graph, operands, Promotion::Plain);
  const GraphTensor first = parts.front();
  std::erase_if(parts, [&](const GraphTensor& part) { return part.dim(on) == Expression(0); });
  return parts.empty() ? first : join(parts, on);
}

GraphTensor concat(std::initializer_list<GraphTensor> tensors, int axis, Where at) {
  return concat(std::span(tensors.begin(), tensors.size()), axis, at);
}

GraphTensor GraphTensor::concat_along(const Operand& other, int axis) const {
  const CallSite site("concat_along", other.where);
  const GraphTensor* tensor = tensor_in(other);
  if (!tensor) reject("a number has no axis {}; make it a tensor with Graph::full", axis);
  return concat({*this, *tensor}, axis);
}

GraphTensor stack(std::span<const GraphTensor> tensors, int axis, Where at) {
  const CallSite site("stack", at);
  if (tensors.empty()) reject<Error>("no tensors are given; give at least one");
  const int on = new_axis_of(tensors.front(), axis);
  std::vector<GraphTensor> parts;
  for (const GraphTensor& tensor : tensors) {
    if (tensor.rank() != tensors.front().rank())
      reject("tensor 0 is {} and tensor {} is {}; stack takes tensors of equal dims",
             tensors.front().type().to_string(), parts.size(), tensor.type().to_string());
    parts.push_back(tensor.unsqueeze(on));
  }
  return concat(parts, on);
}

GraphTensor stack(std::initializer_list<GraphTensor> tensors, int axis, Where at) {
  return stack(std::span(tensors.begin(), tensors.size()), axis, at);
}

}  // namespace luminal
