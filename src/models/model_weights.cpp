#include "models/model_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/fail.h"

namespace luminal::models {

DecoderWeights weights_of(Graph& cx, const std::shared_ptr<ModelFile>& file, WeightTotals& totals) {
  return [&cx, file, &totals](const std::string& name,
                              const std::vector<int64_t>& dims) -> std::optional<GraphTensor> {
    const auto info = file->find(name);
    if (!info) return std::nullopt;
    if (info->dims != dims)
      fail<FormatError>("[model] '{}' is [{}] in the file, where the sizes it states make it [{}]", name,
                        fmt::join(info->dims, ", "), fmt::join(dims, ", "));
    const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    totals.count += count;
    totals.bytes += size_bytes(info->dtype, count);
    GraphTensor weight = cx.named_tensor(name, Shape(dims.begin(), dims.end()), info->dtype);
    return weight.set_from([file, name] { return file->read(name); });
  };
}

void refuse_unused(const ModelFile& file) {
  const auto names = file.unused();
  if (names.empty()) return;
  fail<FormatError>(
      "[model] {} models have no tensors '{}'{}; it is of another kind", file.architecture(),
      fmt::join(names.begin(), names.begin() + std::min<ptrdiff_t>(3, std::ssize(names)), "', '"),
      names.size() > 3 ? fmt::format(" and {} others", names.size() - 3) : "");
}

}  // namespace luminal::models
