#include "ops/composite/build.h"

// Markers: the value itself, with something happening beside it.
namespace luminal {

using namespace composite;

GraphTensor GraphTensor::print(std::string message, Where at) const {
  const CallSite site("print", at);
  return apply(kPrint, {*this}, {{"message", std::move(message)}});
}

GraphTensor GraphTensor::diff(std::string file, double atol, double rtol, Where at) const {
  const CallSite site("diff", at);
  if (!(atol >= 0) || !(rtol >= 0))
    reject<Error>("tolerances are atol={} and rtol={}; give numbers of at least 0", atol, rtol);
  return apply(kDiff, {*this}, {{"file", std::move(file)}, {"atol", Number(atol)}, {"rtol", Number(rtol)}});
}

GraphTensor GraphTensor::graph_break(Where at) const {
  const CallSite site("graph_break", at);
  return apply(kGraphBreak, {*this});
}

}  // namespace luminal
