#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace luminal::egraph {

/// Threads that do jobs of a few pieces together. A step of the engine makes many jobs of some ten
/// microseconds one after the other. Whoever is free takes the next piece, so on a busy machine, where workers
/// come late, the caller does them all and loses little.
///
/// Why not luminal::Team (base/team.h): its caller waits for every worker that joined, here for pieces alone,
/// and between jobs its workers sleep after 50 us, here after 500, yielding. Jobs of pieces on top of it took
/// 20 to 35 % longer on a closure of 100,000 facts while other programs kept both processors busy.
class Team {
 public:
  explicit Team(uint32_t threads);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] uint32_t size() const { return size_; }

  /// As many pieces as long jobs should have.
  [[nodiscard]] uint32_t pieces() const { return kPiecesPerThread * size_; }

  /// Calls body(p) for p in [0, count), each once, and returns when all are done. Fewer than 65,536 pieces.
  /// If some throw, the exception of the lowest p goes on.
  template <class Body>
  void run(uint32_t count, Body&& body) {
    using Callable = std::remove_reference_t<Body>;
    run_job([](const void* job, uint32_t p) { (*static_cast<Callable*>(const_cast<void*>(job)))(p); }, &body,
            count);
  }

  /// Calls body(p, begin, end) on `pieces()` consecutive pieces of [0, count).
  template <class Body>
  void split(size_t count, Body&& body) {
    run(pieces(), [&](uint32_t p) { body(p, piece(count, p), piece(count, p + 1)); });
  }
  [[nodiscard]] size_t piece(size_t count, uint32_t p) const { return count * p / pieces(); }

 private:
  using Job = void (*)(const void*, uint32_t);
  static constexpr uint32_t kPiecesPerThread = 3;
  void run_job(Job job, const void* data, uint32_t count);
  void work();
  void take_pieces(bool from_front);

  uint32_t size_;
  Job job_ = nullptr;
  const void* data_ = nullptr;
  uint32_t count_ = 0;                                ///< pieces of the job
  alignas(64) std::atomic<uint32_t> round_ = 0;       ///< counts jobs; a change wakes the workers
  alignas(64) std::atomic<uint64_t> open_ = 0;        ///< round << 32 | first << 16 | end of those to take
  alignas(64) std::atomic<uint32_t> unfinished_ = 0;  ///< pieces of the present job
  std::atomic<bool> ends_ = false;
  std::vector<std::exception_ptr> thrown_;
  std::vector<std::thread> threads_;
};

}  // namespace luminal::egraph
