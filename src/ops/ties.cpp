#include "ops/ties.h"

#include "base/fail.h"

namespace luminal::ops {

InferRule with_ties(std::string_view op, InferRule rule) {
  return [op, rule = std::move(rule)](std::span<const TensorType> inputs, const Attributes& attributes) {
    const auto& ties = attributes.get<std::string>("ties");
    if (ties != "split" && ties != "first")
      fail<Error>("[{}] ties is '{}'; choose 'split' or 'first'", op, ties);
    return rule(inputs, attributes);
  };
}

}  // namespace luminal::ops
