#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace luminal {

/// What the system maps at once where memory is large: fewer translations to look up, more bandwidth.
inline constexpr size_t kSmallPageBytes = 4096, kHugePageBytes = size_t{2} << 20;

/// Asks the system for huge pages where `data` .. `data + bytes` is one or longer. A wish: without them
/// everything is only slower.
void advise_huge_pages(void* data, size_t bytes);

/// Address space for `bytes`, with `around` more on either side, that nobody may read or write yet; a huge page or more
/// begins where one does. Null if the system has none, or no such thing. munmap(2) gives it back.
[[nodiscard]] std::byte* reserve_pages(size_t bytes, size_t around = 0);

/// Maps all pages at once, to be written: one by one, as they are touched, takes twice as long. Where the system cannot,
/// that is what happens.
void map_pages(void* pages, size_t bytes);

/// Pages of the heap in which nothing is left go back to the system, where the C library can do that: it keeps what was
/// freed between parts that are in use. It looks at all that is free.
void give_back_free_pages();

/// What the system could still give this process without ending another or itself: free and reclaimable
/// memory, swap, and what is left in its control group (Linux; elsewhere there is no telling).
[[nodiscard]] int64_t available_memory_bytes();
/// Errors: Error if `bytes` are surely more than that. A system that promises more memory than it has would
/// end the process when it is written to.
void check_memory(size_t bytes);
/// "1.5 GB".
[[nodiscard]] std::string readable_bytes(size_t bytes);

}  // namespace luminal
