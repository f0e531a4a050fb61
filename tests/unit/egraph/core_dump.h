#pragma once
#include <vector>

#include "luminal/egraph.h"

namespace luminal::egraph::testing {

/// Everything that can be seen, in order: rows with their ids and marks.
inline std::vector<Value> dump(const EGraph& g) {
  std::vector<Value> out;
  for (const FunctionId f : g.functions_listed()) {
    out.push_back(static_cast<Value>(f));
    g.for_each_row(f, [&](std::span<const Value> args, Value output, bool subsumed) {
      out.insert(out.end(), args.begin(), args.end());
      out.push_back(output);
      out.push_back(subsumed ? 1 : 0);
      return true;
    });
  }
  return out;
}

}  // namespace luminal::egraph::testing
