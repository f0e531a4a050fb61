#include "luminal/expression.h"

namespace luminal {

Expression Expression::simplify() const { return *this; }

}  // namespace luminal
