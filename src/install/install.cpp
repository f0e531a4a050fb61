#include "backends/device.h"
#include "backends/opencl/device.h"
#include "luminal/reference.h"
#include "luminal/session.h"
#include "search/session.h"

namespace luminal {

// The one place that knows which devices this build has. Best first.
void install_sessions() {
  static const bool once = [] {
    search::register_device("cpu", backends::make_cpu_device);
    register_session("reference", [] { return make_reference_session(ReferencePrecision::AsWritten); });
    register_session("reference-f64", [] { return make_reference_session(ReferencePrecision::Double); });
    backends::register_device("reference", backends::make_reference_device);
    if (backends::has_opencl()) search::register_device("opencl", backends::make_opencl_device);
    search::register_device("null", [] { return backends::make_null_device(); });
    return true;
  }();
  (void)once;
}

}  // namespace luminal
