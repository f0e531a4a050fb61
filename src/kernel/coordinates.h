#pragma once
#include <optional>

#include "kernel/axes.h"

namespace luminal::kernel {

/// Whether `claim` (0 or 1) is 1 wherever `valid` is.
[[nodiscard]] bool implied(const Expression& valid, const Expression& claim);

/// The coordinates in a dense box at which a flat index `e` points, one for each of `axes` (innermost first,
/// as dense_order gives them), meaningful where `valid` is 1.
///
/// A sum of terms is dealt out to the axes by their strides, which undoes the flattening of a view; each part
/// must be seen to stay in its extent, by ranges or because `valid` says so (a padded read is out of range
/// elsewhere, where nothing is read). What cannot be dealt out becomes quotients and remainders.
[[nodiscard]] std::vector<Expression> coordinates_of(const Expression& e, std::span<const DenseAxis> axes,
                                                     std::span<const Expression> extents,
                                                     const Expression& valid);

/// Without quotients and remainders: empty where the terms cannot be dealt out.
[[nodiscard]] std::optional<std::vector<Expression>> deal_out(const Expression& e,
                                                              std::span<const DenseAxis> axes,
                                                              std::span<const Expression> extents,
                                                              const Expression& valid);

}  // namespace luminal::kernel
