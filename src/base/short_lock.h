#pragma once
#include <mutex>

#include "base/team.h"

namespace luminal {

/// Locks a mutex that others hold for a microsecond: going to sleep for that would take many times as long.
[[nodiscard]] inline std::unique_lock<std::mutex> short_lock(std::mutex& mutex) {
  constexpr int kTries = 500;
  std::unique_lock lock(mutex, std::try_to_lock);
  for (int i = 0; i < kTries && !lock.owns_lock(); ++i) {
    relax_processor();
    (void)lock.try_lock();
  }
  if (!lock.owns_lock()) lock.lock();
  return lock;
}

}  // namespace luminal
