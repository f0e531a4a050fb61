#pragma once
#include <functional>
#include <map>
#include <string>

#include "luminal/graph.h"

namespace luminal::search::test {

using Example = std::function<void(Graph&)>;

/// The graphs that rule files name, in which a law fires or must not.
[[nodiscard]] const std::map<std::string, Example>& examples();

}  // namespace luminal::search::test
