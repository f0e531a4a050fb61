#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "luminal/expression.h"
#include "luminal/math_mode.h"
#include "luminal/tensor_data.h"

namespace luminal {

/// What the search may do to a graph, and how much of it (docs/design.md, "search"):
///
///   cx.set_search({.math = MathMode::Strict});                       // only laws that change no bit
///   cx.set_search({.rules_off = {"sum-factor-leaves-producer"}});    // without this law
///   cx.set_search({.rules = read_file("my_laws.egg")});              // with laws of your own
///
/// Measured modes time candidates on data and at sizes such as the program will have, if they are told:
///
///   Graph cx;
///   const GraphTensor tokens = cx.named_tensor("tokens", {"s"}, Dtype::I32);
///   cx.tensor({50, 8}).index_select(0, tokens).sum(1).retrieve();
///   const std::vector<int32_t> text{3, 14, 15, 9, 26, 5};
///   cx.set_search({.examples = {{"tokens", TensorData::of<int32_t>({6}, text)}},
///                  .sizes = {{{"s", 100}}, {{"s", 120}}}});
///   cx.set_dim("s", 110);
///   Compiled compiled = cx.compile(Fast{});
struct SearchOptions {
  MathMode math = MathMode::Relaxed;
  std::set<std::string, std::less<>>
      rules_off;  ///< names of laws that are not used, as `luminal explain` prints them
  /// Laws of your own, in the form of src/search/saturate/rules (docs/adding_a_rule.md). In every mode, a plan
  /// made with them is run once and checked against the graph's own nodes before it is used.
  std::string rules;
  int fusions = 8;    ///< candidates kept for each value until the plan is chosen
  bool merge = true;  ///< kernels that compute values of several nodes at once
  /// Inputs that hold the same in run after run (weights: given by set_lazily or set_from, or marked keep()) are packed
  /// for the kernels that ask for it before the first run, and again when they are given other data. The packed copies
  /// take memory beside the weights (those of set_from are let go), one copy for all sizes of named dims whose kernels
  /// want the same order: none are made where they would take a quarter of the machine's, and of floats narrower than
  /// f32.
  bool pack_weights_once = true;
  /// A value of more bytes that is several times as large as what it is computed from (the scores of attention) is
  /// not stored where kernels can compute it anew in at most three times the time.
  int64_t large_bytes = int64_t{32} << 20;
  /// Data of inputs, by their names, as programs give them: tokens, routes, lengths, masks. Measured modes time on
  /// them, and run the plan on them where they check it as a whole. Along named dims an example is cut or repeated
  /// to the sizes that are timed. For other inputs numbers are drawn: positions within what they index, integers
  /// that are compared with 0 ... n - 1 among these. Errors (compile): Error for a name that no input has,
  /// DtypeError, ShapeError.
  std::map<std::string, TensorData, std::less<>> examples;
  /// Sizes of named dims at which candidates are timed, those that lie in the bucket that is compiled for; a dim
  /// that is left out has the greatest size of the bucket. None: the sizes that the program has run at, and the
  /// greatest ones. Errors (compile): Error for a dim that no tensor has.
  std::vector<DimMap> sizes;
  uint64_t seed = 0;  ///< of the numbers that are drawn, and of the order in which candidates are timed
};

}  // namespace luminal
