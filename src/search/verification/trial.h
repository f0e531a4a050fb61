#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/device.h"
#include "luminal/tensor_data.h"
#include "search/verification/guarded_memory.h"

/// Runs one kernel outside a plan, in memory that shows what it does wrong.
namespace luminal::search {

struct TrialOutput {
  Dtype dtype = Dtype::F32;
  int64_t elements = 0;
};

/// How the tasks of a stage are dealt out to calls of the kernel.
enum class Split : uint8_t {
  Whole,  ///< one call does all
  /// A call for each, the last task first. What one task wrote no other task of the stage may change: they
  /// run at the same time elsewhere. Looked at in the last 512 KB of each output and of the workspace, for as
  /// many of the first calls as 64 MB of comparisons allow.
  Singles,
  Uneven,  ///< calls of 1, 2, 3, ... tasks
  Threads,  ///< as many equal parts as there are threads, at the same time, each in a few calls, its last tasks first
};

/// Some of the tasks of a kernel's last stage: one in `one_in` at the beginning, as many at the end and, of those
/// between, as many from `middle` (0 ... 1) of the way on; of each `at_least` so many.
struct TaskPart {
  double middle = 0.5;
  int64_t one_in = 64;
  int64_t at_least = 1;
  /// Of the first stage instead, and nothing of the others: what they would read was not computed.
  bool of_first_stage = false;
};
struct TaskRange {
  int64_t begin = 0, end = 0;
};
/// Ascending, without overlap; all tasks where there is no part, or where a part is not less.
[[nodiscard]] std::vector<TaskRange> ranges_of(int64_t tasks, const std::optional<TaskPart>& part);
/// Whether the part of a kernel is less than all of it. A device of its own runs all tasks.
[[nodiscard]] bool leaves_tasks_out(const backends::Kernel& kernel, const DimMap& dims, const TaskPart& part);

struct TrialOptions {
  GuardedMemory::Place place = GuardedMemory::Place::AtEnd;
  int64_t alignment = 4;    ///< of the data; elements of a dtype are aligned to their size at least
  std::byte pattern{0xff};  ///< outputs and workspace before the first run: NaN in every float dtype
  int threads = 1;          ///< that Split::Threads uses
  /// Large inputs that cannot be seen between guards without a copy are read where they lie, in pages that nobody may
  /// write: for kernels that are launched between guards as well, before or after.
  bool reads_large_where_they_lie = false;
  int in_place = -1;  ///< the input whose memory the first output takes; none: each has its own
};

/// A kernel laid out in memory that shows what it does wrong, to be launched as often as one likes: between
/// guard pages where threads of the host run it, in memory of its device with known bytes around it
/// otherwise. Not contained: whoever does not trust the kernel makes it, and launches it, in a contained
/// process (contain.h).
class Rig {
 public:
  virtual ~Rig() = default;
  /// Other inputs of the same sizes, which outlive the next launches.
  virtual void give(std::span<const TensorData* const> inputs) = 0;
  /// Overwrites outputs and workspace.
  virtual void overwrite(std::byte pattern) = 0;
  /// A device of its own runs all tasks and deals them out itself.
  virtual void launch(Split split, const std::optional<TaskPart>& part) = 0;
  void launch(Split split) { launch(split, std::nullopt); }
  /// What the launches wrote where they must not; "" if nothing.
  [[nodiscard]] virtual std::string trouble() const = 0;
  /// Until the next launch.
  [[nodiscard]] virtual std::span<const std::byte> output(size_t number) const = 0;
};
/// Sizes of the inputs are those of `inputs`; the kernel outlives the rig.
[[nodiscard]] std::unique_ptr<Rig> make_rig(const backends::Kernel& kernel,
                                            std::span<const TensorData* const> inputs,
                                            std::span<const TrialOutput> outputs, const DimMap& dims,
                                            const TrialOptions& options);

struct TrialResult {
  std::vector<TensorData> outputs;  ///< flat
  std::string trouble;              ///< why there are none: "wrote 4 bytes outside output 0"; "" if there are
};

/// One launch, contained.
[[nodiscard]] TrialResult run_trial(const backends::Kernel& kernel, std::span<const TensorData* const> inputs,
                                    std::span<const TrialOutput> outputs, const DimMap& dims,
                                    const TrialOptions& options = {}, Split split = Split::Whole,
                                    std::chrono::milliseconds timeout = std::chrono::seconds(20));

}  // namespace luminal::search
