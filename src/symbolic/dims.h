#pragma once
#include <map>
#include <string>

#include "luminal/expression.h"

namespace luminal::symbolic {

/// Named dims and what must hold for a size to suit every declaration of its name.
using KnownDims = std::map<std::string, DimFacts, std::less<>>;

/// Adds the dims that occur in `e`. Cheap where none do.
void collect_dims(const Expression& e, KnownDims& dims);

}  // namespace luminal::symbolic
