#pragma once
#include <cstddef>

#include "base/memory.h"

namespace luminal::egraph {

/// Large arrays are mapped in whole huge pages, from the border of one on. What malloc gives begins between
/// two of them and moves to such places when it grows: then up to half of an array of a few megabytes is
/// mapped in small pages, and each costs its first touch a fault (a microsecond or more on virtual machines).
[[nodiscard]] constexpr bool is_large(size_t bytes) { return bytes >= kHugePageBytes; }

/// Zeroed memory of a large size. Throws std::bad_alloc.
[[nodiscard]] void* map_pages(size_t bytes);
/// Larger memory with the same content, moved without copying, and zeros behind.
[[nodiscard]] void* grow_pages(void* data, size_t bytes, size_t new_bytes);
void unmap_pages(void* data, size_t bytes);

/// Makes the pages of [begin, end) present; what they hold stays. Faults of several threads at once wait for
/// each other in the kernel (on a virtual machine each took four times as long as alone): before threads fill
/// new memory, one does this.
void touch_pages(void* begin, void* end);

/// Gives the whole huge pages in [begin, end) back to the system; what they held is lost.
void release_pages(void* begin, void* end);

}  // namespace luminal::egraph
