#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "luminal/tensor_data.h"

/// Runs one kernel outside a plan, in memory that shows what it does wrong.
namespace luminal::search {

/// Bytes between two pages that nobody may touch. The data ends right before the upper one (rounded down to
/// `alignment`), or starts right behind the lower one.
class GuardedMemory {
 public:
  enum class Place : uint8_t { AtEnd, AtStart };
  /// `shared` with processes that are forked from this one later.
  GuardedMemory(int64_t size_bytes, int64_t alignment, Place place, bool shared);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, static_cast<size_t>(size_bytes_)}; }
  void fill(std::byte pattern);
  /// Bytes of the data's own pages, outside the data, that no longer hold what `fill` wrote there.
  [[nodiscard]] int64_t stray_writes() const;

 private:
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t size_bytes_ = 0, mapped_bytes_ = 0, page_ = 0;
  std::byte pattern_{};
};

struct TrialOutput {
  Dtype dtype = Dtype::F32;
  int64_t elements = 0;
};

struct TrialOptions {
  GuardedMemory::Place place = GuardedMemory::Place::AtEnd;
  int64_t alignment = 4;    ///< of the data; elements of a dtype are aligned to their size at least
  std::byte pattern{0xff};  ///< outputs and workspace before the run: NaN in every float dtype
  /// In a process of its own, so that a crash or a hang is told and survived. Without, for kernels that ran
  /// so before at these sizes: where they read and write does not depend on the data.
  bool contained = true;
  int threads = 1;    ///< tasks are dealt out in turn
  int in_place = -1;  ///< the input whose memory the first output takes; none: each has its own
  std::chrono::milliseconds timeout{20'000};
};

/// What came of it: outputs, or why there are none.
struct TrialResult {
  std::vector<TensorData> outputs;  ///< flat
  std::string trouble;  ///< "crashed with signal 11 (Segmentation fault)", "took more than 20000 ms", ""
};

/// Runs the kernel in guarded memory and tells what it wrote where it must not.
[[nodiscard]] TrialResult run_trial(const backends::Kernel& kernel, std::span<const TensorData> inputs,
                                    std::span<const TrialOutput> outputs, const DimMap& dims,
                                    const TrialOptions& options = {});

/// What `action(0)` ... `action(count - 1)` say, called one after the other in a process of its own. One that
/// crashes or takes longer than `timeout` says so and takes none of the others with it. Texts are cut at
/// 1,000 bytes.
[[nodiscard]] std::vector<std::string> run_contained(size_t count,
                                                     const std::function<std::string(size_t)>& action,
                                                     std::chrono::milliseconds timeout);

}  // namespace luminal::search
