#pragma once
#include <type_traits>

#include "luminal/dtype.h"

namespace luminal::search {

/// An element of any dtype as a number.
template <class T>
[[nodiscard]] double widened(T element) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
    return static_cast<double>(static_cast<float>(element));
  else
    return static_cast<double>(element);
}

}  // namespace luminal::search
