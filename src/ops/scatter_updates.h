#pragma once
#include "ops/indexing.h"

/// How scatter is evaluated. Every element takes its updates in their order, so that results do not depend on how many
/// threads there are; floats add up in f64 and are rounded once, as sums are.
namespace luminal::ops {

/// What is there before the updates.
struct ScatterBase {
  const TensorData& data;
  bool is_number = false;  ///< every element is the only one of `data`
};

/// Of several updates of one element the last one stays. Within places.checked.
void assign_updates(const IndexedPlaces& places, const ScatterBase& base, const TensorData& updates,
                    TensorData& out);
/// Within places.checked. The dtype is a number's.
void add_updates(const IndexedPlaces& places, const ScatterBase& base, const TensorData& updates,
                 TensorData& out);

}  // namespace luminal::ops
