#pragma once
#include <sys/types.h>

#include <mutex>

namespace luminal {

/// From now on whoever forks this process holds `mutex` while doing so: the child finds it free, and what it
/// guards whole, whatever other threads were at. For mutexes under which no other mutex is taken, and which
/// live as long as the process.
void hold_while_forking(std::mutex& mutex);

/// This process is killed when the thread of `parent` that started it ends: nobody is left behind when that is killed.
void die_with_parent(pid_t parent);

}  // namespace luminal
