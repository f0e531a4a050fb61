#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"
#include "search/choose.h"

namespace luminal::search {

/// A kernel that is wanted: what, how and for which sizes.
struct KernelRequest {
  kernel::KernelSpec spec;
  Chosen chosen;
  codegen::Bucket bucket;
};

/// Compiled kernels of the process, by content: equal requests are compiled once, whoever asks.
class KernelCache {
 public:
  static KernelCache& of_process();

  /// The kernels in order; those that are not there yet are compiled on all cores. `compiled`, if given, says
  /// how many those were.
  std::vector<std::shared_ptr<const backends::Kernel>> get(backends::Backend& backend,
                                                           std::span<const KernelRequest> requests,
                                                           int* compiled = nullptr);
  /// Text that says all that the code depends on; equal in every process.
  [[nodiscard]] static std::string key(const backends::Backend& backend, const KernelRequest& request);
  [[nodiscard]] size_t size() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const backends::Kernel>> kernels_;
};

/// The part of a bucket that a spec's dims are in.
[[nodiscard]] codegen::Bucket restricted(const codegen::Bucket& bucket, const kernel::KernelSpec& spec);
[[nodiscard]] std::string to_string(const codegen::Bucket& bucket);  ///< "batch 33..64 /16"

}  // namespace luminal::search
