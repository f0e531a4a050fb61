#include "base/copy_past_caches.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace luminal {

void copy_past_caches(void* to, const void* from, size_t bytes) {
#if defined(__SSE2__)
  constexpr size_t kLine = 64;
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  const size_t head = std::min(bytes, (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine);
  std::memcpy(out, in, head);
  size_t at = head;
  for (; at + kLine <= bytes; at += kLine)
    for (size_t word = at; word < at + kLine; word += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + word),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + word)));
  std::memcpy(out + at, in + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

PastCaches::~PastCaches() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace luminal
