#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "luminal/nn.h"
#include "validate/cases/case.h"

/// Rows of modules: how a module of Luminal and one of PyTorch are put beside each other.
namespace luminal::validate {

template <class Options>
[[nodiscard]] Options with(Options options, Dtype dtype) {
  options.dtype = dtype;
  return options;
}

/// One row of the list. `make` takes the graph and the dtype, `call` the module and the inputs.
template <class Make, class Call>
void add_row(Suite& suite, const char* group, std::string torch, std::vector<InputSpec> inputs, Make make,
             Call call, std::string torch_call = "m(x)", bool modes_differ = false) {
  ModuleSpec spec;
  spec.group = std::string("nn ") + group;
  spec.torch = std::move(torch);
  spec.call = std::move(torch_call);
  spec.inputs = std::move(inputs);
  spec.modes_differ = modes_differ;
  spec.make = [make, call](Graph& cx, const Tensors& in, Dtype dtype, bool train) {
    const auto module = make(cx, dtype);
    nn::train(module, train);
    ModuleSpec::Made made;
    made.outputs = call(module, in);
    for (const nn::Serializer::Entry& entry : nn::entries(module)) {
      std::string name = entry.name;
      std::ranges::replace(name, '/', '.');
      (entry.trainable ? made.weights : made.buffers).emplace_back(name, entry.tensor);
    }
    return made;
  };
  suite.modules.push_back(std::move(spec));
}

/// With a plain forward(x).
template <class Make>
void add_row(Suite& suite, const char* group, std::string torch, InputSpec x, Make make,
             bool modes_differ = false) {
  add_row(
      suite, group, std::move(torch), std::vector<InputSpec>{std::move(x)}, make,
      [](const auto& m, const Tensors& in) { return Tensors{m.forward(in[0])}; }, "m(x)", modes_differ);
}

}  // namespace luminal::validate
