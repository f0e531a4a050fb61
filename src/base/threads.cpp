#include "base/threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "base/team.h"

namespace luminal {

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t most = (count + grain - 1) / grain;
  if (Team::inside_job() || most == 1) return body(0, count);
  Team& team = Team::shared();
  if (team.size() == 1) return body(0, count);
  // A few for each thread, so that an uneven machine evens out.
  const int64_t pieces = std::min<int64_t>(most, int64_t{team.size()} * 4);
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  team.run(static_cast<int>(std::min<int64_t>(pieces, team.size())), [&](int) {
    for (int64_t i = next++; i < pieces; i = next++) {
      try {
        body(count * i / pieces, count * (i + 1) / pieces);
      } catch (...) {  // the other pieces still run: what is written does not depend on who came first
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace luminal
