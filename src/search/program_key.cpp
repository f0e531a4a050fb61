#include "search/program_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "search/bucket.h"
#include "search/cache/cache.h"
#include "search/tuning/example_inputs.h"
#include "search/tuning/user_kernels.h"

namespace luminal::search {
namespace {

uint64_t content_of(const Graph& graph, const KernelGraph& kernel_graph) {
  uint64_t content = 0;
  const auto add = [&](uint64_t part) { content = combine(content, part); };
  for (const KernelGraph::Tensor& tensor : kernel_graph.tensors) {
    add(static_cast<uint64_t>(tensor.kind));
    add(hash_bytes(tensor.type.to_string()));
    if (tensor.kind == KernelGraph::Tensor::Kind::Kernel) add(tensor.spec.hash());
    for (const TensorId argument : tensor.arguments) add(static_cast<uint64_t>(argument));
  }
  for (const KernelGraph::Host& host : kernel_graph.hosts) {
    const Node& node = graph.node(host.node);
    add(hash_bytes(node.op->name));
    add(hash_bytes(node.attributes.to_string()));  // their hash is by address, of the body of a loop
    for (const auto* tensors : {&host.inputs, &host.outputs})
      for (const TensorId tensor : *tensors) add(static_cast<uint64_t>(tensor));
  }
  for (const auto& list : {kernel_graph.results, kernel_graph.updates})
    for (const auto& [value, tensor] : list) add(static_cast<uint64_t>(tensor));
  return content;
}

}  // namespace

std::vector<std::string> program_parts(const Graph& graph, const KernelGraph& kernel_graph,
                                       const codegen::Target& target, const codegen::Bucket& bucket,
                                       const SearchOptions& options) {
  std::vector<std::string> parts{
      fmt::format("{:016x}", content_of(graph, kernel_graph)),
      to_string(bucket),
      key_text(target),
      fmt::format("{} {} {} {} {} {}", static_cast<int>(options.math), fmt::join(options.rules_off, ","),
                  options.fusions, options.merge, options.large_bytes, options.pack_weights_once),
      options.rules,
      fmt::format("{:x}", user_kernels_hash())};
  if (std::string extra = key_text_of_examples(options); !extra.empty()) parts.push_back(std::move(extra));
  return parts;
}

}  // namespace luminal::search
