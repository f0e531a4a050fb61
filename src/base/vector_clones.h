#pragma once

/// Before a function: it is compiled for AVX2 as well, and what the processor has runs. The library itself is built for
/// any processor. It is never inlined: g++ would inline the version for any processor. Sanitizers cannot run as early as
/// the choice is made; elsewhere it is one function.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LUMINAL_VECTOR_CLONES __attribute__((noinline, target_clones("default", "avx2")))
#else
#define LUMINAL_VECTOR_CLONES
#endif
