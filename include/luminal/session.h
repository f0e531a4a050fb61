#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace luminal {

class Graph;
struct TensorData;

/// How hard to look for fast kernels (docs/design.md, "search").
struct Fast {};     ///< rules and a model only: no measurement
struct Optimal {};  ///< full search, measured
struct TimeBudget {
  std::chrono::milliseconds duration{1000};
};
using CompilationMode = std::variant<Fast, Optimal, TimeBudget>;

/// One node as a run saw it, for traces.
struct TraceEntry {
  std::string op, shapes;
  double time_us = 0;
};

/// The plan that a run used: results have equal bits only under the same one.
struct PlanIdentity {
  std::string bucket;  ///< the sizes it was made for, "batch 33..64"; "" without named dims
  uint64_t key = 0;    ///< of kernels, order, instruction set and threads: equal keys, equal bits
};

/// A graph made ready to run on one device. It belongs to the graph it was compiled from and is called again
/// and again. Thread safety: Graph and Compiled call it from one thread at a time; other callers must
/// do the same.
class Executable {
 public:
  virtual ~Executable() = default;
  struct Options {
    bool keep_everything = false;              ///< every intermediate value stays in the graph
    std::vector<TraceEntry>* trace = nullptr;  ///< filled if set
    /// Fails at the first value that holds a NaN or an infinity which nothing it was made of explains.
    bool check_finite = false;
  };
  /// Computes the wanted values from the present ones (Graph::value) and stores them there, then gives every
  /// state its next value (Graph::state_updates), all at once. If it fails, states and inputs are as before.
  virtual void run(Graph& graph, const Options& options) = 0;
  /// What was compiled and how long it took, one fact a line.
  [[nodiscard]] virtual std::string report() const = 0;
  /// What the last run used; null before the first, and on devices that interpret.
  [[nodiscard]] virtual const PlanIdentity* plan() const { return nullptr; }
};

/// A value in memory that only its device reads. Thread safety: any thread may read one.
class DeviceValue {
 public:
  virtual ~DeviceValue() = default;
  [[nodiscard]] virtual std::string_view device() const = 0;
  [[nodiscard]] virtual const std::vector<int64_t>& dims() const = 0;
  [[nodiscard]] virtual TensorData to_host() const = 0;
};

/// A way to run graphs: the reference interpreter, the compiler with its backends. Thread safety: several
/// threads may compile different graphs by one session at once.
class Session {
 public:
  virtual ~Session() = default;
  [[nodiscard]] virtual std::string_view device() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Executable> compile(Graph& graph, const CompilationMode& mode) = 0;
  /// A copy in this device's memory, or nullptr from devices that work in host memory.
  [[nodiscard]] virtual std::shared_ptr<const DeviceValue> to_device(const TensorData& data);
};

/// Sessions by device name. The top-level library installs them; Graph looks them up.
/// Errors (make_session): DeviceError that lists the devices there are and offers the nearest name.
void register_session(std::string device, std::function<std::shared_ptr<Session>()> make);
/// Registers what this build has, best device first; called by Graph. Defined by the top-level library
/// (src/install).
void install_sessions();
[[nodiscard]] std::vector<std::string> session_devices();
[[nodiscard]] std::shared_ptr<Session> make_session(std::string_view device);

}  // namespace luminal
