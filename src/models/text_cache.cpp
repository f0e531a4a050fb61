#include "models/text_cache.h"

#include <cstring>

#include "base/fail.h"

namespace luminal::models {

void copy_rows(const TensorData& from, int64_t first, TensorData& to, int64_t place, int64_t count) {
  LUMINAL_CHECK(from.dtype == to.dtype && from.dims.size() == 4 && to.dims.size() == 4 &&
                    from.dims[1] == to.dims[1] && from.dims[3] == to.dims[3] &&
                    first + count <= from.dims[2] && place + count <= to.dims[2],
                "{} rows from {} to {}", count, first, place);
  const auto row = static_cast<size_t>(from.dims[3] * element_bytes(from.dtype));
  const auto at = [&](const TensorData& data, int64_t head, int64_t number) {
    return static_cast<size_t>(head * data.dims[2] + number) * row;
  };
  for (int64_t head = 0; head < from.dims[1]; ++head)
    std::memcpy(to.bytes.data() + at(to, head, place), from.bytes.data() + at(from, head, first),
                static_cast<size_t>(count) * row);
}

}  // namespace luminal::models
