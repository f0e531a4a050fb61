#pragma once
#include "luminal/error.h"

namespace luminal {

/// Work that was asked to stop did so before it was done (Graph::set_stop_token). Nothing is wrong, and
/// nothing half-made is left: states and inputs are as before, no kernel is remembered that was not measured
/// and judged.
///
///   std::stop_source stop;                      // stop.request_stop() from any other thread
///   cx.set_stop_token(stop.get_token());
///   try { step = cx.compile(Optimal{}); } catch (const Cancelled&) { step = cx.compile(Fast{}); }
class Cancelled : public Error {
  using Error::Error;
};

}  // namespace luminal
