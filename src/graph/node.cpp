#include "luminal/node.h"

#include "base/fail.h"

namespace luminal {

std::string TensorType::to_string() const {
  return fmt::format("{}{}", name(dtype), luminal::to_string(dims));
}

std::string Origin::to_string() const {
  const std::string chain = fmt::format("{}", fmt::join(ops, " > "));
  return file.empty() ? chain : fmt::format("{} at {}:{}", chain, file, line);
}

}  // namespace luminal
