#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace luminal {

class CancelScope;

/// Tells the processor that this thread waits in a loop.
void relax_processor();

/// A persistent team of threads. The caller is worker 0; the others spin for a short while after a job and
/// then sleep, so that jobs that come one after the other start within a fraction of a microsecond and an
/// idle team costs nothing. They never spin where there are fewer processors than workers.
///
///   Team::shared().run(4, [&](int worker) { take_pieces(worker); });
///
/// A job is one function that every worker calls: it has to share the work out itself, by counters, and to
/// finish even if worker 0 alone calls it. Workers that come when worker 0 has returned already do not join,
/// so nobody waits for a sleeper to wake.
class Team {
 public:
  explicit Team(int workers);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  /// The process's team: LUMINAL_THREADS workers, the caller included, or as many as the system gives.
  [[nodiscard]] static Team& shared();

  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }
  /// How long waiting in a loop is worth it before sleeping; 0 where processors are short.
  [[nodiscard]] int64_t spin_ns() const { return spin_ns_; }

  /// Calls `body(worker)` on the caller and on at most limit - 1 others, 0 <= worker < limit; returns when
  /// all that joined have returned. One job at a time: other callers wait. A call from inside a job runs on
  /// its own thread alone. The job is under the caller's CancelScopes on every thread. The first exception is
  /// rethrown on the caller; the team stays usable. Allocates nothing.
  template <class Body>
  void run(int limit, Body&& body) {
    run_job(limit, &body, &call_body<std::remove_reference_t<Body>>, true);
  }
  /// Calls `body(i)` for 0 <= i < count, each once. While other callers have the team, this thread works alone:
  /// for many small jobs, none of which is worth waiting for theirs.
  template <class Body>
  void for_each(size_t count, Body&& body) {
    std::atomic<size_t> next{0};
    const auto take = [&](int) {
      for (size_t i = next++; i < count; i = next++) body(i);
    };
    run_job(count > 1 ? size() : 1, &take, &call_body<const decltype(take)>, false);
  }

  /// This thread works on a job now.
  [[nodiscard]] static bool inside_job();

 private:
  using Function = void (*)(const void* context, int worker);
  template <class Body>
  static void call_body(const void* context, int worker) {
    (*static_cast<Body*>(const_cast<void*>(context)))(worker);
  }
  void run_job(int limit, const void* context, Function function, bool waits);
  void work(int worker);
  uint32_t take_part(int worker);
  void call(int worker);

  // A job is open from publishing to the caller's return. `gate_` holds the job's number in its upper half,
  // below it whether it is closed, below that how many workers are inside.
  static constexpr uint64_t kClosed = uint64_t{1} << 31;
  static constexpr uint64_t kInside = kClosed - 1;
  alignas(64) std::atomic<uint64_t> gate_{kClosed};
  alignas(64) std::atomic<uint32_t> number_{0};  ///< of the last job; what sleepers wait on
  alignas(64) std::atomic<bool> stop_{false};
  std::mutex job_mutex_;
  // Of the open job; written while nobody is inside.
  Function function_ = nullptr;
  const void* context_ = nullptr;
  const CancelScope* scope_ = nullptr;  ///< the caller's
  int limit_ = 0;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  int64_t spin_ns_ = 0;
  std::vector<std::thread> threads_;
};

/// Waits until `done()`, spinning for at most `spin_ns`; false if it is not done then and the caller had
/// better sleep.
template <class Done>
[[nodiscard]] bool spin_until(int64_t spin_ns, Done&& done);

}  // namespace luminal

// --- Implementation of templates

#include <chrono>

namespace luminal {

template <class Done>
bool spin_until(int64_t spin_ns, Done&& done) {
  if (done()) return true;
  if (spin_ns <= 0) return false;
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(spin_ns);
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      relax_processor();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace luminal
