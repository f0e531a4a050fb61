#pragma once
#include <cstdint>
#include <functional>

namespace luminal {

/// Calls `body(begin, end)` on disjoint pieces that cover [0, count), on the process's thread team
/// (LUMINAL_THREADS workers, the caller included); returns when all are done. Pieces hold at least `grain`
/// items. How the range is cut depends on `count`, `grain` and the number of threads only. The first
/// exception thrown by a piece is rethrown. A call from inside a piece runs serially.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace luminal
