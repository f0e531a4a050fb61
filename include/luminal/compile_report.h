#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal {

/// One kernel of a compiled graph: what it computes, why it was chosen, how it runs. The texts at the end are
/// made when they are asked for.
struct KernelReport {
  std::string name;        ///< "contract_1f3a", as profiles show it
  std::string origin;      ///< "conv2d at model.cpp:41": the user's line of its first result
  std::string spec;        ///< what it computes, as "Two kernels" of docs/design.md prints it
  std::string schedule;    ///< the family that made its loops
  std::string parameters;  ///< "tile_m=14 tile_n=2"
  int launches = 1;        ///< how often the plan runs it
  double predicted_us = 0, measured_us = 0;  ///< of one launch; measured 0: never timed (Fast mode)
  /// What a launch takes, as well as it is known.
  [[nodiscard]] double time_us() const { return measured_us > 0 ? measured_us : predicted_us; }
  double flops = 0, bytes = 0;  ///< of one launch
  double roofline_us = 0;       ///< the least time this machine needs for these
  bool verified = false, from_cache = false;
  struct Rejected {
    static constexpr std::string_view kNotTimed = "not timed";  ///< no time was left
    static constexpr std::string_view kSlower = "slower", kAsFast = "as fast",
                                      kSlowerInPlan = "faster alone, slower in the whole plan";
    std::string schedule, parameters, reason;  ///< one of these, or what is wrong
    double predicted_us = 0, measured_us = 0;
    /// Another kernel was taken for its time, as far as this one was looked at. False also for what took too long
    /// to be timed.
    [[nodiscard]] bool is_sound() const {
      return reason == kNotTimed || reason == kSlower || reason == kAsFast || reason == kSlowerInPlan;
    }
  };
  std::vector<Rejected> rejected;  ///< the best alternatives first
  std::function<std::string()> loops, source, assembly;
};

/// What a compile did and what came of it.
struct CompileReport {
  std::string mode;    ///< "fast", "optimal", "budget 2000 ms"
  std::string device;  ///< "cpu"
  /// Phases in order, in seconds: encode, saturate, cover, compile, measure, verify, plan (schedules by
  /// the model, memory, order).
  std::vector<std::pair<std::string, double>> phases;
  double total_s = 0;

  std::string graph;  ///< the user's nodes
  struct Rule {
    std::string name;
    uint64_t matched = 0, applied = 0;
    double time_us = 0;
  };
  std::vector<Rule> rules;       ///< those that fired
  int rounds = 0;                ///< of saturation
  std::vector<uint64_t> growth;  ///< rows of all tables of the e-graph after each round
  uint64_t graph_nodes = 0, tensors = 0, classes = 0, rows = 0;
  uint64_t fusions = 0, most_fusions = 0;  ///< candidates that competed for the plan; for one value
  double unfused_us = 0;                   ///< predicted time with every value in memory, or less
  double predicted_us = 0;                 ///< of the plan that was chosen
  /// One choice of a plan, timing of its kernels, and back; none in Fast mode or where all was remembered.
  struct Round {
    int kernels = 0, timed = 0;  ///< of the plan; specs timed for the first time
    double sum_us = 0;           ///< of its kernels' times, as known after the round
  };
  std::vector<Round> search;
  /// The outcome for user kernels (luminal/user_kernel.h) that this compile tried.
  struct UserKernel {
    std::string name, parameters, spec;
    std::string outcome;      ///< "taken", "faster, but not part of the best plan", "slower", what is wrong
    double measured_us = 0;   ///< 0: not timed
    double generated_us = 0;  ///< of the fastest kernel beside it
  };
  std::vector<UserKernel> user_kernels;
  /// Sizes of named dims at which candidates were timed, "s 100"; none in Fast mode and without named dims.
  std::vector<std::string> timed_at;
  /// Laws that were found wrong for this graph and are not used for it: a fault of ours, told when it is found. All
  /// others are used.
  std::vector<std::string> laws_left_out;
  /// How well the model ranks: specs of which several candidates were timed, and of how many of them the
  /// fastest was the model's first, or one of its first three.
  struct ModelHits {
    int specs = 0, first = 0, first_three = 0;
  };
  ModelHits model_hits;
  /// Kernels that were compiled for this compile, candidates included, those found in the cache left out; of
  /// the candidates those that were timed.
  int compiled = 0, timed = 0;
  /// Elements of results that were compared with an independent kernel's, and elements of large sums of
  /// products that Freivalds' check proved, over all candidates that this compile verified.
  int64_t compared = 0, proven = 0;
  double measured_us = 0;  ///< of one run of the whole plan; 0: not timed, or remembered
  double fast_us = 0;      ///< of Fast mode's plan, timed in turn with it; 0: it is the same, or not timed

  std::vector<KernelReport> kernels;       ///< by share of the time, greatest first
  std::vector<std::string> host_launches;  ///< ops that run by their own evaluation
  int ops_outside_plan = 0;                ///< nodes of the graph that no launch of the plan computes
  int64_t arena_bytes = 0;                 ///< planned peak of temporaries
  int64_t kept_bytes = 0;                  ///< of weights as kernels want them, packed before the first run
  uint64_t plan_key = 0;
  std::string note;  ///< "Optimal measured slower than Fast: Fast's plan is kept", or ""
};

/// Executables that can say how they came to be (see Executable::report for one text). Thread safety: as
/// Executable.
class Explained {
 public:
  virtual ~Explained() = default;
  /// Of the variant that ran last, or of the only one. Errors: Error if there is none yet: sizes are missing.
  [[nodiscard]] virtual CompileReport details() const = 0;
};

/// For people: phases, then a table of kernels.
[[nodiscard]] std::string to_text(const CompileReport& report);
/// All numbers and names as JSON text.
[[nodiscard]] std::string to_json(const CompileReport& report);

/// What a device reaches, as measured on it (once for a kind of machine, then remembered).
struct DeviceLimits {
  std::string cpu;
  int threads = 1;
  double flops_per_us = 0;         ///< f32 fma on all threads, two flops each
  double memory_bytes_per_us = 0;  ///< reads beyond the last cache
  double cache_bytes_per_us = 0;   ///< reads within it
  int64_t cache_bytes = 0;
};
/// `device`: its name; "" is the best one. Errors: DeviceError if the device does not compile. With `anew`,
/// measures again.
[[nodiscard]] DeviceLimits device_limits(std::string_view device = "", bool anew = false);

/// The f32 fma rate of all threads at this moment, in flops per us: measure it between the samples that it is
/// compared with. Errors: as device_limits.
[[nodiscard]] double fma_rate_now(std::string_view device = "");

/// Kernels of a replay file, which verification had found wrong, verified again.
struct ReplayResult {
  bool reproduced = false;            ///< it is still wrong
  std::string verdict;                ///< what is wrong now, or that nothing is
  std::string fault;                  ///< as it was found
  std::vector<KernelReport> kernels;  ///< several where a law made what is wrong
};
/// `device`: as of device_limits. Errors: FormatError if `content` is not a replay file, or was written on
/// another kind of machine; DeviceError.
[[nodiscard]] ReplayResult replay_kernel(std::string_view content, std::string_view device = "");

}  // namespace luminal
