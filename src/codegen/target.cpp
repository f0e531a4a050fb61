#include "codegen/target.h"

#include <algorithm>

namespace luminal::codegen {

DimMap Bucket::top() const {
  constexpr int64_t kUnbounded = 1024;  // what a dim without an upper bound is tuned at
  DimMap dims;
  for (const auto& [name, f] : facts) {
    const int64_t size = f.max != INT64_MAX ? f.max : std::max(f.min, kUnbounded);
    dims[name] = f.multiple_of > 1 ? std::max(f.min, size / f.multiple_of * f.multiple_of) : size;
  }
  return dims;
}

}  // namespace luminal::codegen
