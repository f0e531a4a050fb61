#include "search/saturate/saturated_graph.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"

namespace luminal::search {
namespace {

uint64_t label_of(const TensorType& type, uint64_t what) {
  return combine(hash_bytes(type.to_string()), what);
}

class Reader {
 public:
  Reader(Language& language, const KernelGraph& kernel_graph)
      : language_(language), kernel_graph_(kernel_graph) {}

  SaturatedGraph run(std::span<const egraph::Value> classes) {
    for (const egraph::Value value : classes) {
      const int c = class_of(value);
      result_.class_of.push_back(c);
    }
    read_kernels();
    check_types();
    for (size_t t = 0; t < kernel_graph_.tensors.size(); ++t) tensor(static_cast<TensorId>(t));
    for (const KernelGraph::Host& host : kernel_graph_.hosts) {
      CoverProblem::Host own{.inputs = {}, .after = host.after, .must_run = host.must_run};
      for (const TensorId input : host.inputs) own.inputs.push_back(of(input));
      own.label = host.outputs.empty() ? 0 : combine(at(of(host.outputs[0])).label, own.inputs.size());
      result_.cover.hosts.push_back(std::move(own));
    }
    for (const auto& [value, id] : kernel_graph_.results) at(of(id)).wanted = true;
    for (const auto& [state, id] : kernel_graph_.updates) at(of(id)).wanted = true;
    return std::move(result_);
  }

 private:
  int class_of(egraph::Value value) {
    const auto [known, fresh] =
        numbers_.try_emplace(language_.graph().find(value), static_cast<int>(result_.cover.classes.size()));
    if (fresh) {
      result_.cover.classes.emplace_back();
      result_.tensors_of.emplace_back();
    }
    return known->second;
  }
  CoverProblem::Class& at(int c) { return result_.cover.classes[static_cast<size_t>(c)]; }
  [[nodiscard]] int of(TensorId id) const { return result_.class_of[static_cast<size_t>(id)]; }

  void read_kernels() {
    language_.graph().for_each_row(language_.functions().op, [&](std::span<const egraph::Value> args,
                                                                 egraph::Value output, bool subsumed) {
      if (subsumed) return true;
      CoverProblem::Alternative alternative{.spec = language_.spec_of(args[0]), .arguments = {}};
      for (const egraph::Value argument : language_.tensors_of(args[0]))
        alternative.arguments.push_back(class_of(argument));
      at(class_of(output)).alternatives.push_back(std::move(alternative));
      return true;
    });
  }

  /// Element type and count of each class, as all say who write or read it.
  void check_types() {
    std::vector<std::optional<kernel::Slot>> types(result_.cover.classes.size());
    const auto agree = [&](int c, const kernel::Slot& type, const kernel::KernelSpec* spec) {
      std::optional<kernel::Slot>& known = types[static_cast<size_t>(c)];
      if (!known) known = type;
      const auto here = type.elements.constant(), there = known->elements.constant();
      if (known->dtype != type.dtype || (here && there && *here != *there))
        fail<LawFault>("[search] a law calls {}[{}] and {}[{}] the same tensor{}{}", name(known->dtype),
                       known->elements.to_string(), name(type.dtype), type.elements.to_string(),
                       spec != nullptr ? "; one is an operand or the result of\n" : "",
                       spec != nullptr ? spec->to_string() : "");
    };
    for (size_t t = 0; t < kernel_graph_.tensors.size(); ++t) {
      const TensorType& type = kernel_graph_.tensors[t].type;
      agree(of(static_cast<TensorId>(t)), {type.dtype, element_count(type.dims)}, nullptr);
    }
    for (size_t c = 0; c < types.size(); ++c)
      for (const CoverProblem::Alternative& a : result_.cover.classes[c].alternatives) {
        const kernel::KernelSpec& spec = language_.store().at(a.spec);
        agree(static_cast<int>(c), {spec.result().dtype(), spec.outputs()[0].elements}, &spec);
        for (size_t k = 0; k < a.arguments.size(); ++k) agree(a.arguments[k], spec.slots()[k], &spec);
      }
  }

  /// What is there already needs no kernel.
  void tensor(TensorId id) {
    const KernelGraph::Tensor& tensor = kernel_graph_.tensors[static_cast<size_t>(id)];
    const int c = of(id);
    CoverProblem::Class& own = at(c);
    result_.tensors_of[static_cast<size_t>(c)].push_back(id);
    own.no_recompute = own.no_recompute || tensor.no_recompute;
    if (tensor.kind == KernelGraph::Tensor::Kind::Kernel) return;
    own.alternatives.clear();
    const bool is_host = tensor.kind == KernelGraph::Tensor::Kind::Host;
    own.label = label_of(tensor.type, is_host ? static_cast<uint64_t>(tensor.output) + 1 : 0);
    if (is_host && !inputs_.contains(c)) own.host = tensor.host;
    if (!is_host) {
      inputs_.insert(c);
      own.host = -1;
    }
  }

  Language& language_;
  const KernelGraph& kernel_graph_;
  SaturatedGraph result_;
  std::unordered_map<egraph::Value, int> numbers_;
  std::set<int> inputs_;
};

}  // namespace

SaturatedGraph read_classes(Language& language, const KernelGraph& kernel_graph,
                            std::span<const egraph::Value> classes) {
  return Reader(language, kernel_graph).run(classes);
}

}  // namespace luminal::search
