#pragma once
#include <mutex>

namespace luminal {

/// From now on whoever forks this process holds `mutex` while doing so: the child finds it free, and what it
/// guards whole, whatever other threads were at. For mutexes under which no other mutex is taken, and which
/// live as long as the process.
void hold_while_forking(std::mutex& mutex);

}  // namespace luminal
