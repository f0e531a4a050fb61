#include "ops/indexing.h"

#include "base/fail.h"

namespace luminal::ops {

void check_index(std::string_view op, const TensorType& index) {
  if (!is_integer(index.dtype))
    fail<DtypeError>("[{}] positions must be integers, got {}; cast them to i64", op, index.to_string());
}

std::vector<int64_t> flat_positions(std::string_view op, const TensorData& index, int64_t size) {
  std::vector<int64_t> positions(static_cast<size_t>(index.element_count()));
  visit_dtype(index.dtype, [&]<class T>(T) {
    if constexpr (takes_type<T, Takes::Integers>()) {
      const auto values = index.as<T>();
      for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int64_t>(values[i]);
    }
  });
  for (size_t i = 0; i < positions.size(); ++i)
    if (positions[i] < 0 || positions[i] >= size)
      fail<Error>("[{}] index {} at flat position {} is outside of the {} elements; valid are 0 to {}", op,
                  positions[i], i, size, size - 1);
  return positions;
}

}  // namespace luminal::ops
