#include "backends/backend.h"
#include "luminal/reference.h"
#include "luminal/session.h"
#include "search/session.h"

namespace luminal {

// The one place that knows which devices this build has. Best first.
void install_sessions() {
  static const bool once = [] {
    register_session("cpu", [] {
      static const auto session =
          search::make_session({.device = "cpu", .backend = backends::make_cpu_backend()});
      return session;
    });
    register_session("reference", [] { return make_reference_session(ReferencePrecision::AsWritten); });
    register_session("reference-f64", [] { return make_reference_session(ReferencePrecision::Double); });
    register_session("null", [] {
      static const auto session = search::make_session(
          {.device = "null", .backend = backends::make_null_backend(), .computes = false});
      return session;
    });
    return true;
  }();
  (void)once;
}

}  // namespace luminal
