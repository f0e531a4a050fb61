#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/device.h"
#include "search/bucket.h"
#include "search/cache/cache.h"
#include "search/tuning/implementation.h"

namespace luminal::search {

/// A kernel that is wanted: what, how and for which sizes.
struct KernelRequest {
  kernel::KernelSpec spec;
  Implementation implementation;
  codegen::Bucket bucket;
};

/// What became of a request.
struct KernelResult {
  std::shared_ptr<const backends::Kernel> kernel;  ///< null if it could not be made
  std::string error;
  uint64_t code = 0;      ///< hash of the program
  double compile_ms = 0;  ///< 0: it was there already
  bool loaded = false;    ///< from the disk, without compiling
};

/// Compiled kernels of the process, by content: equal requests are compiled once, whoever asks. Objects on
/// disk are found by their program and the text that was compiled, so that they are never older than the code
/// generator; that a request comes to this text is kept as well, under the version of the library's sources, for making
/// the text takes longer than to load an object.
class KernelCache {
 public:
  /// Beyond `most` kernels those that nobody holds are dropped: each takes mappings of memory, of which a
  /// process may have 65,530 on Linux (vm.max_map_count).
  explicit KernelCache(size_t most = 2000) : most_(most) {}
  static KernelCache& of_process();

  /// One result for each request, in order; what is not there yet is loaded or compiled on all cores, the
  /// first requests first. With a deadline, requests that are not begun by then, or when the search is asked
  /// to end, come back with an error.
  std::vector<KernelResult> make(
      backends::Device& backend, Cache& disk, std::span<const KernelRequest> requests,
      std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt);
  /// `make`, where all are needed. Errors: InternalError if one could not be made.
  std::vector<KernelResult> get(backends::Device& backend, std::span<const KernelRequest> requests);
  /// Text that says all that the code depends on; equal in every process.
  [[nodiscard]] static std::string key(const backends::Device& backend, const KernelRequest& request);
  [[nodiscard]] size_t size() const;
  void clear();

 private:
  [[nodiscard]] static KernelResult make_one(backends::Device& backend, Cache& disk,
                                             const KernelRequest& request, const std::string& key);
  mutable std::mutex mutex_;
  size_t most_;
  std::unordered_map<std::string, KernelResult> kernels_;
};

}  // namespace luminal::search
