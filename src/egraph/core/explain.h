#pragma once
#include "luminal/egraph.h"

namespace luminal::egraph {

class ExplanationLog {};

}  // namespace luminal::egraph
