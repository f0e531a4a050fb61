#include "luminal/version.h"

namespace luminal {

std::string_view version() { return LUMINAL_VERSION; }  // set by the build from the project's version

}  // namespace luminal
