#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "luminal/graph.h"

/// What is compared with PyTorch. A spec says one thing twice, with Luminal and as a Python expression over
/// inputs x, y, z ...; it becomes a case for each dtype, view and kind of size:
///
///   specs.push_back({.group = "softmax", .torch = "x.softmax(1)", .inputs = {{{3, 5}}},
///                    .build = [](auto&, auto& in) { return Tensors{in[0].softmax(1)}; }});
///
/// The program luminal_validate runs all cases and writes inputs and results into a folder, where
/// tools/validate/compare.py evaluates the expressions and compares. Some of PyTorch's results are stored
/// beside the tests, so that these compare without it.
namespace luminal::validate {

using Tensors = std::vector<GraphTensor>;
using Build = std::function<Tensors(Graph&, const Tensors&)>;

/// How an input's values are drawn.
enum class Values {
  Uniform,   ///< from [low, high)
  Distinct,  ///< no two alike, spread over [low, high], in random order: for maxima and sorting
  Integers,  ///< whole numbers from low to high - 1
};

struct InputSpec {
  std::vector<int64_t> dims;
  double low = -2, high = 2;
  Values values = Values::Uniform;
  std::optional<Dtype> dtype = {};  ///< that of the case if empty
  bool differentiable = true;       ///< of those that are floats
  std::vector<double> given = {};   ///< these values, in turn, instead of drawn ones
  std::vector<int> fixed = {};      ///< axes that are numbers where others are named; -1 is the last
  int bounded = -1;                 ///< an axis whose named dim has a bound, as steps of a recurrent layer
};

/// What an error is measured against: the value itself, or the greatest value of its tensor, where sums
/// cancel.
enum class Scale { Element, Tensor };

struct Spec {
  std::string group;  ///< row of the table
  std::string torch;  ///< gives a tensor or a tuple of them
  std::vector<InputSpec> inputs;
  Build build;
  bool gradient = true;
  std::vector<Dtype> dtypes = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16};
  double ulps = 8;  ///< allowed error, in units of the last place of the result's dtype
  Scale scale = Scale::Tensor;
  bool dynamic = true;     ///< also with named dims for all sizes that are not fixed
  bool single = false;     ///< f16 and bf16 are computed in f32, and give it, as under torch.autocast
  std::string label = {};  ///< tells specs of one group apart; the expression if empty
};

/// A module with weights, in one mode. `make` builds the outputs and lists the state under PyTorch's names.
struct ModuleSpec {
  std::string group;
  std::string torch;          ///< makes the module: "nn.Linear(4, 3)"
  std::string call = "m(x)";  ///< over m and the inputs
  std::vector<InputSpec> inputs;
  struct Made {
    Tensors outputs;
    std::vector<std::pair<std::string, GraphTensor>> weights, buffers;
  };
  std::function<Made(Graph&, const Tensors&, Dtype, bool train)> make;
  double ulps = 256;     ///< of f32 and f64
  double half_ulps = 4;  ///< of f16 and bf16, in which each op of a module rounds its result
  std::vector<Dtype> dtypes = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16};
  bool modes_differ = false;  ///< train and eval are two cases
  bool dynamic = true;
  bool searched = false;  ///< all of its plain f32 cases run in Optimal mode, not only a sample of them
};

/// Where and how cases run: "reference", "cpu", or "cpu:optimal" for kernels that are searched for.
struct Place {
  std::string device;
  bool optimal = false;
  /// Errors: Error for another word behind the colon.
  [[nodiscard]] static Place parse(const std::string& text);
};
/// Runs the graph there, as it stands now, each time it is called; what is searched for is found once. Errors: Error
/// if a law had to be left out.
[[nodiscard]] std::function<void()> runner(Graph& cx, const Place& place);

/// What a case took in and gave out: "in/0", "up/0" (the loss is the sum of outputs times these), "out/0",
/// "grad/0", "state/NAME", "grad/NAME", "after/NAME".
using Results = std::map<std::string, TensorData>;

/// Numbers that Luminal computed by a procedure of its own (an optimizer's run, a schedule, random samples),
/// and a Python expression over inputs x, y ..., `state` and the outputs `t` by name: what each output is
/// compared with, or their error.
struct ProcedureSpec {
  std::string group, label, torch;
  std::function<Results(const Place&)> run;
  double tolerance = 1e-4;
  bool torch_gives_error = false;
  bool searched = false;  ///< compiles a graph in which a search has something to find
};

struct Suite {
  std::vector<Spec> specs;
  std::vector<ModuleSpec> modules;
  std::vector<ProcedureSpec> procedures;
};
/// Everything there is, from the op records and the lists in this folder.
[[nodiscard]] Suite all_specs();

/// One comparison, ready to run.
struct Case {
  enum class Kind { Value, Gradient, Module, Procedure };
  Kind kind = Kind::Value;
  std::string name, group;
  Dtype dtype = Dtype::F32;
  enum class Form { Plain, Permuted, Dynamic } form = Form::Plain;
  bool train = true;
  const Spec* spec = nullptr;
  const ModuleSpec* module = nullptr;
  const ProcedureSpec* procedure = nullptr;
};
[[nodiscard]] std::vector<Case> cases_of(const Suite& suite);

/// A case for every fourth row of the table, its first with plain inputs of f32, all such cases of models, and the first
/// of every row of procedures that have something to search for: a search takes a second or two.
[[nodiscard]] std::vector<Case> sample_of(const std::vector<Case>& cases);

[[nodiscard]] Results run(const Case& one, const Place& place);

/// Runs every case and writes cases.json and tensors.safetensors.
void write_cases(const std::vector<Case>& cases, const Place& place, const std::filesystem::path& folder);

/// The greatest error of `got` against `wanted` in the measure of the table, infinite where dims, NaN or
/// infinities differ.
[[nodiscard]] double error_of(const TensorData& got, const TensorData& wanted, Scale scale);
/// The error allowed, for results of this dtype.
[[nodiscard]] double tolerance_of(const Case& one, Dtype result);
[[nodiscard]] Scale scale_of(const Case& one);

// The lists.
void add_primitives(Suite& suite);
void add_elementwise(Suite& suite);
void add_reductions(Suite& suite);
void add_movement(Suite& suite);
void add_products(Suite& suite);
void add_modules(Suite& suite);
void add_models(Suite& suite);
void add_generation(Suite& suite);
void add_initial(Suite& suite);
void add_training(Suite& suite);

}  // namespace luminal::validate
