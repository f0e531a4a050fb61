#pragma once
#include "luminal/error.h"

namespace luminal {

/// Work was stopped on request before it was finished (Graph::set_stop_token). States and inputs are as
/// before, and the cache holds no kernel that was not measured and verified.
///
///   std::stop_source stop;                      // stop.request_stop() from any other thread
///   cx.set_stop_token(stop.get_token());
///   try { step = cx.compile(Optimal{}); } catch (const Cancelled&) { step = cx.compile(Fast{}); }
class Cancelled : public Error {
  using Error::Error;
};

}  // namespace luminal
