#pragma once
#include "luminal/dtype.h"

namespace luminal::search {

/// An element of any dtype as a number.
template <class T>
[[nodiscard]] double widened(T element) {
  if constexpr (is_stored_float<T>)
    return static_cast<double>(static_cast<float>(element));
  else
    return static_cast<double>(element);
}

}  // namespace luminal::search
