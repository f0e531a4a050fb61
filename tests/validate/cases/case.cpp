#include "validate/cases/case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "luminal/autograd.h"
#include "luminal/safetensors.h"

namespace luminal::validate {
namespace {

constexpr std::string_view kForms[] = {"plain", "permuted", "dynamic"};

/// In [0, 1), the same with every C++ library.
double unit(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

std::vector<double> numbers(const InputSpec& spec, int64_t count, std::mt19937_64& engine) {
  std::vector<double> result(static_cast<size_t>(count));
  if (!spec.given.empty()) {
    for (size_t i = 0; i < result.size(); ++i) result[i] = spec.given[i % spec.given.size()];
    return result;
  }
  for (int64_t i = 0; i < count; ++i) {
    const double share = spec.values == Values::Distinct
                             ? static_cast<double>(i) / static_cast<double>(std::max<int64_t>(count - 1, 1))
                             : unit(engine);
    result[static_cast<size_t>(i)] = spec.low + share * (spec.high - spec.low);
  }
  if (spec.values == Values::Integers)
    for (double& value : result) value = std::floor(value);
  if (spec.values == Values::Distinct)
    for (size_t i = result.size(); i > 1; --i)
      std::swap(result[i - 1], result[static_cast<size_t>(unit(engine) * static_cast<double>(i))]);
  return result;
}

TensorData rounded_to(Dtype dtype, std::vector<int64_t> dims, std::span<const double> values) {
  TensorData data(dtype, std::move(dims));
  visit_dtype(dtype, [&]<class T>(T) {
    const auto to = data.as<T>();
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, bool>)
        to[i] = values[i] != 0;
      else if constexpr (sizeof(T) == 2)
        to[i] = static_cast<T>(static_cast<float>(values[i]));
      else
        to[i] = static_cast<T>(values[i]);
    }
  });
  return data;
}

std::vector<double> widened(const TensorData& data) {
  std::vector<double> result(static_cast<size_t>(data.element_count()));
  visit_dtype(data.dtype, [&]<class T>(T) {
    const auto from = data.as<T>();
    for (size_t i = 0; i < result.size(); ++i) {
      if constexpr (sizeof(T) == 2)
        result[i] = static_cast<double>(static_cast<float>(from[i]));
      else
        result[i] = static_cast<double>(from[i]);
    }
  });
  return result;
}

/// `data` with its axes in reverse order.
TensorData reversed_axes(const TensorData& data) {
  std::vector<int64_t> dims(data.dims.rbegin(), data.dims.rend());
  const auto size = static_cast<size_t>(element_bytes(data.dtype));
  TensorData result(data.dtype, dims);
  for (int64_t i = 0; i < data.element_count(); ++i) {
    int64_t rest = i, place = 0;
    for (size_t axis = data.dims.size(); axis-- > 0; rest /= data.dims[axis]) {
      // The last axis of `data` is the first of the result.
      int64_t behind = 1;
      for (size_t k = 0; k < axis; ++k) behind *= data.dims[k];
      place += rest % data.dims[axis] * behind;
    }
    std::copy_n(data.bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(i) * size), size,
                result.bytes.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(place) * size));
  }
  return result;
}

/// Equal sizes are one dim, as a user would name them.
std::optional<std::string> named_dim(const InputSpec& spec, const std::vector<int64_t>& dims, size_t axis) {
  const auto rank = static_cast<int>(dims.size());
  const bool fixed = std::ranges::any_of(
      spec.fixed, [&](int each) { return (each + rank) % rank == static_cast<int>(axis); });
  if (fixed || dims[axis] < 2) return std::nullopt;
  return fmt::format("n{}", dims[axis]);
}

GraphTensor input_tensor(Graph& cx, const InputSpec& spec, const TensorData& data, Case::Form form) {
  if (form == Case::Form::Permuted && data.dims.size() > 1) {
    Shape dims(data.dims.rbegin(), data.dims.rend());
    GraphTensor buffer = cx.tensor(dims, data.dtype);
    buffer.set(reversed_axes(data));
    std::vector<int> order;
    for (int axis = buffer.rank(); axis-- > 0;) order.push_back(axis);
    return buffer.permute(order);
  }
  Shape dims(data.dims.begin(), data.dims.end());
  for (size_t axis = 0; axis < dims.size() && form == Case::Form::Dynamic; ++axis)
    if (const auto name = named_dim(spec, data.dims, axis)) {
      // Recurrent layers lay out as many steps as there may be: two more than there are.
      dims[axis] = static_cast<int>(axis) == spec.bounded
                       ? Expression::dim(*name, {.min = 1, .max = data.dims[axis] + 2})
                       : Expression(*name);
    }
  GraphTensor input = cx.tensor(dims, data.dtype);
  for (size_t axis = 0; axis < dims.size(); ++axis)
    if (!dims[axis].constant()) cx.set_dim(*named_dim(spec, data.dims, axis), data.dims[axis]);
  return input.set(data);
}

struct Prepared {
  Graph cx;
  Tensors inputs;
};

/// Draws the inputs of a case. Its value and its gradient draw the same: the name without the kind seeds.
Prepared prepared(const Case& one, const std::vector<InputSpec>& specs, const std::string& device,
                  Results& results) {
  Prepared made;
  made.cx.set_device(device);
  std::mt19937_64 engine(hash_bytes(one.name.substr(0, one.name.rfind('/'))));
  for (size_t i = 0; i < specs.size(); ++i) {
    const InputSpec& spec = specs[i];
    int64_t count = 1;
    for (const int64_t dim : spec.dims) count *= dim;
    TensorData data = rounded_to(spec.dtype.value_or(one.dtype), spec.dims, numbers(spec, count, engine));
    made.inputs.push_back(input_tensor(made.cx, spec, data, one.form));
    results.emplace(fmt::format("in/{}", i), std::move(data));
  }
  return made;
}

/// The loss whose gradients are compared: outputs times fixed weights, so that no two places count alike.
GraphTensor weighted_loss(Graph& cx, const Case& one, const Tensors& outputs, Results& results) {
  std::mt19937_64 engine(hash_bytes(one.name));
  std::optional<GraphTensor> loss;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_float(outputs[i].dtype())) continue;
    const TensorData value = outputs[i].data();
    InputSpec spec{value.dims, 0.25, 1};
    TensorData up = rounded_to(value.dtype, value.dims, numbers(spec, value.element_count(), engine));
    Shape dims(value.dims.begin(), value.dims.end());
    GraphTensor weights = cx.tensor(outputs[i].dims(), value.dtype);
    weights.set(up);
    results.emplace(fmt::format("up/{}", i), std::move(up));
    const GraphTensor part = (outputs[i] * weights).cast(accumulation_dtype(value.dtype)).sum();
    loss = loss ? *loss + part : part;
  }
  return *loss;
}

Results run_spec(const Case& one, const Place& place) {
  Results results;
  Prepared made = prepared(one, one.spec->inputs, place.device, results);
  Tensors outputs = one.spec->build(made.cx, made.inputs);
  for (GraphTensor& output : outputs) output.retrieve();
  runner(made.cx, place)();
  if (one.kind == Case::Kind::Value) {
    for (size_t i = 0; i < outputs.size(); ++i) results.emplace(fmt::format("out/{}", i), outputs[i].data());
    return results;
  }
  const GraphTensor loss = weighted_loss(made.cx, one, outputs, results);
  Tensors wanted;
  std::vector<size_t> which;
  for (size_t i = 0; i < made.inputs.size(); ++i)
    if (is_float(made.inputs[i].dtype()) && one.spec->inputs[i].differentiable) {
      wanted.push_back(made.inputs[i]);
      which.push_back(i);
    }
  Tensors gradients = made.cx.run_pass(Autograd(wanted, loss));
  for (GraphTensor& gradient : gradients) gradient.retrieve();
  runner(made.cx, place)();
  for (size_t i = 0; i < which.size(); ++i)
    results.emplace(fmt::format("grad/{}", which[i]), gradients[i].data());
  return results;
}

/// Weights get values of their own: initial ones are often all equal.
void draw_state(std::vector<std::pair<std::string, GraphTensor>>& state, bool positive,
                std::mt19937_64& engine, Results& results) {
  for (auto& [name, tensor] : state) {
    if (!is_float(tensor.dtype())) {
      results.emplace("state/" + name, tensor.data());
      continue;
    }
    const TensorData present = tensor.data();
    const InputSpec spec{present.dims, positive ? 0.5 : -0.5, positive ? 1.5 : 0.5};
    TensorData data = rounded_to(present.dtype, present.dims, numbers(spec, present.element_count(), engine));
    tensor.set(data);
    results.emplace("state/" + name, std::move(data));
  }
}

Results run_module(const Case& one, const Place& place) {
  Results results;
  Prepared made = prepared(one, one.module->inputs, place.device, results);
  ModuleSpec::Made module = one.module->make(made.cx, made.inputs, one.dtype, one.train);
  std::mt19937_64 engine(hash_bytes(one.name));
  draw_state(module.weights, false, engine, results);
  draw_state(module.buffers, true, engine, results);
  Graph& cx = made.cx;
  // Sizes of the outputs are known beforehand here, so that one run gives values, gradients and new state.
  std::optional<GraphTensor> loss;
  for (size_t i = 0; i < module.outputs.size(); ++i) {
    GraphTensor& output = module.outputs[i];
    output.retrieve();
    const std::vector<int64_t> dims = exec(output.dims(), cx.dims());
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    TensorData up = rounded_to(output.dtype(), dims, numbers({dims, 0.25, 1}, count, engine));
    GraphTensor weights = cx.tensor(output.dims(), output.dtype());
    weights.set(up);
    results.emplace(fmt::format("up/{}", i), std::move(up));
    const GraphTensor part = (output * weights).cast(accumulation_dtype(output.dtype())).sum();
    loss = loss ? *loss + part : part;
  }
  Tensors wanted;
  std::vector<std::string> names;
  for (size_t i = 0; i < made.inputs.size(); ++i)
    if (is_float(made.inputs[i].dtype()) && one.module->inputs[i].differentiable) {
      wanted.push_back(made.inputs[i]);
      names.push_back(std::to_string(i));
    }
  for (const auto& [name, tensor] : module.weights) {
    wanted.push_back(tensor);
    names.push_back(name);
  }
  Tensors gradients = cx.run_pass(Autograd(wanted, *loss));
  for (GraphTensor& gradient : gradients) gradient.retrieve();
  runner(cx, place)();
  for (size_t i = 0; i < module.outputs.size(); ++i)
    results.emplace(fmt::format("out/{}", i), module.outputs[i].data());
  for (size_t i = 0; i < names.size(); ++i) results.emplace("grad/" + names[i], gradients[i].data());
  for (const auto& [name, tensor] : module.buffers) results.emplace("after/" + name, tensor.data());
  return results;
}

void add_spec_cases(const Spec& spec, std::vector<Case>& cases) {
  const std::string label = spec.label.empty() ? spec.torch : spec.label;
  for (const Dtype dtype : spec.dtypes)
    for (const Case::Form form : {Case::Form::Plain, Case::Form::Permuted, Case::Form::Dynamic}) {
      if (form == Case::Form::Permuted && dtype != spec.dtypes.front()) continue;
      if (form == Case::Form::Dynamic && !spec.dynamic) continue;
      const auto has_axes = [](size_t least) {
        return [least](const InputSpec& input) { return input.dims.size() >= least; };
      };
      if (form == Case::Form::Permuted && !std::ranges::any_of(spec.inputs, has_axes(2))) continue;
      if (form == Case::Form::Dynamic && !std::ranges::any_of(spec.inputs, has_axes(1))) continue;
      Case one;
      one.group = spec.group;
      one.dtype = dtype;
      one.form = form;
      one.spec = &spec;
      const std::string name = fmt::format("{}/{}/{}/{}", spec.group, label, luminal::name(dtype),
                                           kForms[static_cast<size_t>(form)]);
      one.name = name + "/value";
      cases.push_back(one);
      if (!spec.gradient || !is_float(dtype)) continue;
      one.kind = Case::Kind::Gradient;
      one.name = name + "/gradient";
      one.group += " gradient";
      cases.push_back(one);
    }
}

void add_module_cases(const ModuleSpec& module, std::vector<Case>& cases) {
  for (const Dtype dtype : module.dtypes)
    for (const Case::Form form : {Case::Form::Plain, Case::Form::Dynamic})
      for (const bool train : {true, false}) {
        if (!train && !module.modes_differ) continue;
        if (form == Case::Form::Dynamic && !module.dynamic) continue;
        Case one;
        one.kind = Case::Kind::Module;
        one.group = module.group;
        one.dtype = dtype;
        one.form = form;
        one.train = train;
        one.module = &module;
        one.name = fmt::format("{}/{}/{}/{}/{}/module", module.group, module.torch, luminal::name(dtype),
                               kForms[static_cast<size_t>(form)], train ? "train" : "eval");
        cases.push_back(one);
      }
}

}  // namespace

Suite all_specs() {
  Suite suite;
  add_primitives(suite);
  add_elementwise(suite);
  add_reductions(suite);
  add_movement(suite);
  add_products(suite);
  add_modules(suite);
  add_models(suite);
  add_generation(suite);
  add_initial(suite);
  add_training(suite);
  return suite;
}

std::vector<Case> cases_of(const Suite& suite) {
  std::vector<Case> cases;
  for (const Spec& spec : suite.specs) add_spec_cases(spec, cases);
  for (const ModuleSpec& module : suite.modules) add_module_cases(module, cases);
  for (const ProcedureSpec& procedure : suite.procedures) {
    Case one;
    one.kind = Case::Kind::Procedure;
    one.group = procedure.group;
    one.procedure = &procedure;
    one.name = fmt::format("{}/{}/procedure", procedure.group, procedure.label);
    cases.push_back(one);
  }
  return cases;
}

Place Place::parse(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {text};
  if (text.substr(colon + 1) != "optimal")
    fail("[validate] '{}' is no place to run; give a device, or 'cpu:optimal'", text);
  return {text.substr(0, colon), true};
}

std::function<void()> runner(Graph& cx, const Place& place) {
  const CompilationMode mode = place.optimal ? CompilationMode(Optimal{}) : CompilationMode(Fast{});
  return [compiled = cx.compile(mode)]() mutable {
    compiled();
    // The result is right without the law, and the law is wrong.
    if (const std::string report = compiled.report(); report.find("laws left out") != std::string::npos)
      fail("[validate] a law does not hold for this graph: {}", report);
  };
}

std::vector<Case> sample_of(const std::vector<Case>& cases) {
  constexpr size_t kEvery = 4;
  std::vector<Case> sample;
  std::set<std::string> seen, searched;
  for (const Case& one : cases) {
    if (one.kind == Case::Kind::Procedure) {
      if (one.procedure->searched && searched.insert(one.group).second) sample.push_back(one);
      continue;
    }
    const bool plain = one.dtype == Dtype::F32 && one.form == Case::Form::Plain;
    if (plain && one.kind == Case::Kind::Module && one.module->searched) {
      sample.push_back(one);
      continue;
    }
    if (!plain || !seen.insert(one.group).second) continue;
    if (seen.size() % kEvery == 1) sample.push_back(one);
  }
  return sample;
}

Results run(const Case& one, const Place& place) {
  switch (one.kind) {
    case Case::Kind::Module:
      return run_module(one, place);
    case Case::Kind::Procedure:
      return one.procedure->run(place);
    default:
      return run_spec(one, place);
  }
}

Scale scale_of(const Case& one) { return one.kind == Case::Kind::Value ? one.spec->scale : Scale::Tensor; }

double tolerance_of(const Case& one, Dtype result) {
  if (one.kind == Case::Kind::Procedure) return one.procedure->tolerance;
  if (!is_float(result)) return 0;
  const double ulps = one.kind == Case::Kind::Module ? one.module->ulps : one.spec->ulps;
  const double unit_in_last_place = visit_dtype(result, []<class T>(T) -> double {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      return std::numeric_limits<T>::epsilon();
    else
      return 0;
  });
  // Sums of f16 and bf16 are formed in f32 and rounded once: their length does not count, only the few
  // roundings of a chain do.
  const double narrow = one.kind == Case::Kind::Module ? one.module->half_ulps : std::min(ulps, 4.0);
  if (result == Dtype::F16) return narrow * 0x1p-10;
  if (result == Dtype::BF16) return narrow * 0x1p-7;
  return ulps * unit_in_last_place;
}

double error_of(const TensorData& got, const TensorData& wanted, Scale scale) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.dims != wanted.dims) return kInfinity;
  const std::vector<double> a = widened(got), b = widened(wanted);
  const double least = got.dtype == Dtype::F64   ? std::numeric_limits<double>::min()
                       : got.dtype == Dtype::F16 ? 0x1p-14
                                                 : 0x1p-126;  // below it, floats have fewer digits
  double greatest = 0, worst = 0;
  for (const double value : b)
    if (std::isfinite(value)) greatest = std::max(greatest, std::abs(value));
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return kInfinity;
    const double measure = scale == Scale::Tensor ? greatest : std::abs(b[i]);
    worst = std::max(worst, std::abs(a[i] - b[i]) / std::max(measure, least));
  }
  return worst;
}

void write_cases(const std::vector<Case>& cases, const Place& place, const std::filesystem::path& folder) {
  constexpr std::string_view kKinds[] = {"value", "gradient", "module", "procedure"};
  auto list = nlohmann::ordered_json::array();
  std::map<std::string, TensorData> tensors;
  for (size_t number = 0; number < cases.size(); ++number) {
    const Case& one = cases[number];
    nlohmann::ordered_json entry{{"name", one.name},
                                 {"group", one.group},
                                 {"kind", kKinds[static_cast<size_t>(one.kind)]},
                                 {"scale", scale_of(one) == Scale::Tensor ? "tensor" : "element"},
                                 {"dtype", luminal::name(one.dtype)},
                                 {"train", one.train}};
    if (one.spec) {
      entry["torch"] = one.spec->torch;
      entry["single"] = one.spec->single;
    }
    if (one.module) {
      entry["torch"] = one.module->torch;
      entry["call"] = one.module->call;
    }
    if (one.procedure) {
      entry["torch"] = one.procedure->torch;
      entry["gives_error"] = one.procedure->torch_gives_error;
    }
    auto names = nlohmann::ordered_json::array();
    auto tolerances = nlohmann::ordered_json::object();
    try {
      for (auto& [name, data] : run(one, place)) {
        names.push_back(name);
        tolerances[name] = tolerance_of(one, data.dtype);
        tensors.emplace(fmt::format("{}/{}", number, name), std::move(data));
      }
    } catch (const std::exception& error) {  // a case that cannot run fails; the others go on
      entry["error"] = error.what();
    }
    entry["tensors"] = names;
    entry["tolerances"] = tolerances;
    list.push_back(std::move(entry));
  }
  std::filesystem::create_directories(folder);
  write_safetensors(folder / "tensors.safetensors", {tensors.begin(), tensors.end()});
  write_file_atomic(
      folder / "cases.json",
      nlohmann::ordered_json{{"device", place.device}, {"optimal", place.optimal}, {"cases", list}}.dump());
}

}  // namespace luminal::validate
