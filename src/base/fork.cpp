#include "base/fork.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace luminal {
namespace {

struct Held {
  std::mutex mutex;  ///< of the list
  std::vector<std::mutex*> list;
};
Held& held() {
  static auto* const instance = new Held;  // outlives every static
  return *instance;
}

void lock_all() {
  held().mutex.lock();
  for (std::mutex* each : held().list) each->lock();
}
void unlock_all() {
  for (std::mutex* each : held().list) each->unlock();
  held().mutex.unlock();
}

}  // namespace

void die_with_parent([[maybe_unused]] pid_t parent) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(3);  // it died before its death could be signalled
#endif
}

void hold_while_forking(std::mutex& mutex) {
  [[maybe_unused]] static const int registered = ::pthread_atfork(lock_all, unlock_all, unlock_all);
  const std::lock_guard lock(held().mutex);
  held().list.push_back(&mutex);
}

}  // namespace luminal
