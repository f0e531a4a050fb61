#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/graph.h"

/// Tensor math as text: what `luminal explain` and `luminal compile` take on the command line.
///
///   x:f32[32,1000].softmax(-1)
///   conv2d(x:f32[64,16,14,14], w:f32[32,16,3,3], padding=1).relu()
///   q:f32[8,s,64] @ k:f32[8,t,64].t() * 0.125
///
/// A name is declared where it first stands, with dtype (f32 if left out) and dims; dims that are names are
/// symbolic. Operators: + - * / % @ and unary minus, by the usual precedence (@ as *). `f(a, b, option=1)`
/// and `a.f(b)` are the same call. `;` separates steps, `name = formula` names a value, the last step is the
/// result.
namespace luminal::cli {

struct Formula {
  GraphTensor result;
  std::vector<GraphTensor> inputs;  ///< in order of appearance
  std::vector<std::string> names;   ///< of the inputs
};

/// Builds the formula in `graph`. Errors: Error with the column and a caret line, near misses of names
/// offered; errors of ops come through with the place of the call.
[[nodiscard]] Formula parse_formula(Graph& graph, std::string_view text);

/// One function a formula may call, as help prints it: "conv2d(x, w, stride=1, padding=0, dilation=1,
/// groups=1)".
[[nodiscard]] std::vector<std::string> formula_functions();

}  // namespace luminal::cli
