#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace luminal {

struct GraphState;

/// Who is at work on a graph.
struct Turns {
  enum class Run : uint8_t {
    None,
    Around,     ///< a run loads deferred inputs, or tells what it did: the graph may change
    Computing,  ///< nodes are being looked at
  };
  std::recursive_mutex mutex;
  Run run = Run::None;  ///< of the thread that holds the mutex
};

/// A thread's turn at a graph while it lives; turns of one thread nest. Every public call that runs a graph,
/// touches its values or changes it takes one; what a run calls inside the library does not.
class Turn {
 public:
  enum class For : uint8_t {
    Values,     ///< waits for other threads
    Run,        ///< waits for them, and does not nest
    Structure,  ///< does not wait: two threads that change a graph at once are a mistake
  };
  /// Errors: Error that names `call` and, inside a run, the program's code that made it.
  Turn(GraphState& state, std::string_view call, For what);
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();
  /// What the run that has this turn does from now on.
  void set(Turns::Run run);

 private:
  Turns& turns_;
  Turns::Run before_;
};

/// The program's own code that a run calls on this thread, for errors that come of what it does.
class UserCode {
 public:
  /// "function 'sort'". The texts outlive this object.
  UserCode(std::string_view kind, std::string_view name);
  UserCode(const UserCode&) = delete;
  UserCode& operator=(const UserCode&) = delete;
  ~UserCode();
  /// "function 'sort'", or what to call code that has no name.
  [[nodiscard]] static std::string current();

 private:
  std::string_view kind_, name_;
  const UserCode* outer_;
};

}  // namespace luminal
