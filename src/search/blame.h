#pragma once
#include <span>
#include <string>
#include <vector>

#include "search/pipeline.h"

namespace luminal::search {

/// Laws to be left out, because what they made is wrong for a graph.
struct Blame {
  std::vector<std::string> laws;
  std::string value;  ///< what they made wrong: "f32[4] (div at model.cpp:12)"; "" if that is not known
};

/// Which laws made a kernel wrong that computes or reads these classes. Everything that the e-graph says of
/// the classes is a claim, "this value is this kernel of those values", and is run and compared with the
/// user's nodes. The law without which all wrong claims vanish, and the fewest right ones, is the one; where
/// there is none, all laws to which claims are owed.
[[nodiscard]] Blame find_wrong_laws(const Graph& graph, bool everything, const SearchOptions& options,
                                    const FrontEnd& front_end, std::span<const int> classes,
                                    const BackEnd& target, const codegen::Bucket& bucket);

/// Which laws make an e-graph in which run_front_end throws LawFault: one, if leaving it out is enough.
[[nodiscard]] Blame find_impossible_laws(const Graph& graph, bool everything, const SearchOptions& options);

}  // namespace luminal::search
