#pragma once
#include <cstddef>

namespace luminal {

/// What the system maps at once where memory is large: fewer translations to look up, more bandwidth.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Asks the system for huge pages where `data` .. `data + bytes` is one or longer. A wish: without them
/// everything is only slower.
void advise_huge_pages(void* data, size_t bytes);

}  // namespace luminal
