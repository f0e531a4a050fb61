#include "graph/turn.h"

#include <utility>

#include "base/fail.h"
#include "base/team.h"
#include "graph/graph_state.h"

namespace luminal {
namespace {

thread_local const UserCode* innermost_code = nullptr;

void take(std::recursive_mutex& mutex, std::string_view call, Turn::For what) {
  // A worker inside a job never waits: whoever has the turn may be waiting for the job.
  const bool waits = what != Turn::For::Structure && !Team::inside_job();
  if (waits) return mutex.lock();
  if (mutex.try_lock()) return;
  if (what == Turn::For::Structure)
    fail("[{}] another thread is using this graph; change a graph from one thread at a time", call);
  fail("[{}] a user kernel uses the graph that runs it; give it what it needs as inputs", call);
}

void check(Turns::Run run, std::string_view call, Turn::For what) {
  if (what == Turn::For::Run && run != Turns::Run::None)
    fail(
        "[{}] {} runs the graph that is running; set its inputs and read its values there, and run it after "
        "the run has returned",
        call, UserCode::current());
  if (what == Turn::For::Structure && run == Turns::Run::Computing)
    fail("[{}] {} changes the graph that is running; change it after the run has returned", call,
         UserCode::current());
}

}  // namespace

Turn::Turn(GraphState& state, std::string_view call, For what)
    : turns_(state.turns), before_(Turns::Run::None) {
  take(turns_.mutex, call, what);
  before_ = turns_.run;
  try {
    check(before_, call, what);
  } catch (...) {
    turns_.mutex.unlock();
    throw;
  }
}

Turn::~Turn() {
  turns_.run = before_;
  turns_.mutex.unlock();
}

void Turn::set(Turns::Run run) { turns_.run = run; }

UserCode::UserCode(std::string_view kind, std::string_view name)
    : kind_(kind), name_(name), outer_(std::exchange(innermost_code, this)) {}
UserCode::~UserCode() { innermost_code = outer_; }

std::string UserCode::current() {
  return innermost_code == nullptr ? std::string("code that a run calls")
                                   : fmt::format("{} '{}'", innermost_code->kind_, innermost_code->name_);
}

}  // namespace luminal
