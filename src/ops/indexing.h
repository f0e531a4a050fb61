#pragma once
#include <vector>

#include "ops/types.h"

namespace luminal::ops {

/// Flat positions in `data` as 64-bit integers. Errors: Error that names the first one outside, the tensor
/// and, if attributes say which axis is indexed (see index_attributes), the axis and the index that the user
/// gave.
[[nodiscard]] std::vector<int64_t> flat_positions(std::string_view op, const TensorData& index,
                                                  const TensorData& data, const Attributes& attributes);

/// What positions mean where the first axis of the data is axis `axis` of the user's tensor: the first
/// `index_axes` axes of the positions are those of the user's index. If these are all, they are permuted as
/// the data is.
[[nodiscard]] Attributes index_attributes(int axis, int index_axes);

/// What the user's indices are below, where an op with such attributes reads positions in `data`: the length of
/// the axis that is indexed, or the elements where positions are the user's own.
[[nodiscard]] Expression index_bound(const TensorType& data, const Attributes& attributes);

/// Errors: DtypeError unless `index` holds integers.
void check_index(std::string_view op, const TensorType& index);

}  // namespace luminal::ops
