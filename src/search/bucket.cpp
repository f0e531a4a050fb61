#include "search/bucket.h"

#include <algorithm>
#include <bit>

namespace luminal::search {

std::set<std::string> dims_of(const Program& program) {
  std::set<std::string> dims;
  for (const Program::Tensor& tensor : program.tensors) {
    for (const Expression& dim : tensor.type.dims) dims.merge(dim.to_symbols());
    if (tensor.kind != Program::Tensor::Kind::Kernel) continue;
    for (std::string& symbol : tensor.spec.symbols()) dims.insert(std::move(symbol));
  }
  return dims;
}

codegen::Bucket bucket_of(const std::set<std::string>& dims, const DimMap& sizes) {
  constexpr int64_t kVector = 16;
  // A run over nothing: every size is known, and most kernels are not needed at all.
  const bool nothing = std::ranges::any_of(dims, [&](const std::string& dim) {
    const auto size = sizes.find(dim);
    return size != sizes.end() && size->second == 0;
  });
  codegen::Bucket bucket;
  for (const std::string& dim : dims) {
    const auto size = sizes.find(dim);
    if (size == sizes.end()) continue;
    DimFacts facts{.min = size->second, .max = size->second};
    if (size->second > 1 && !nothing) {
      facts.max = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size->second)));
      facts.min = facts.max / 2 + 1;
      if (size->second % kVector == 0) {
        facts.multiple_of = kVector;
        facts.min = (facts.min + kVector - 1) / kVector * kVector;
      }
    }
    bucket.facts.emplace(dim, facts);
  }
  return bucket;
}

bool holds(const codegen::Bucket& bucket, const DimMap& sizes) {
  return std::ranges::all_of(bucket.facts, [&](const auto& entry) {
    const auto size = sizes.find(entry.first);
    return size != sizes.end() && entry.second.min <= size->second && size->second <= entry.second.max &&
           size->second % entry.second.multiple_of == 0;
  });
}

}  // namespace luminal::search
