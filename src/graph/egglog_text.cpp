#include <fmt/format.h>

#include <map>

#include "graph/display_text.h"
#include "luminal/graph.h"

namespace luminal {
namespace {

/// "sum_reduce" as the constructor SumReduce: names in small letters are taken by egglog's own functions.
std::string constructor_name(std::string_view op) {
  std::string name;
  bool first = true;
  for (const char c : op) {
    if (c != '_') name += first ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    first = c == '_';
  }
  return name;
}

class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {}

  EgglogText run() {
    for (const NodeId id : graph_.topological_order()) node(id);
    EgglogText text{
        .program =
            "(sort Tensor)\n(constructor Input (i64 String) Tensor)\n"
            "(constructor View (Tensor String) Tensor)\n(constructor Output (Tensor i64) Tensor)\n"};
    for (const auto& [name, inputs] : constructors_) {
      text.program += fmt::format("(constructor {} (", name);
      for (int i = 0; i < inputs; ++i) text.program += "Tensor ";
      text.program += "String) Tensor)\n";
    }
    text.program += lets_;
    for (const Value& value : graph_.wanted()) text.roots.push_back(term(value));
    return text;
  }

 private:
  [[nodiscard]] std::string term(const Value& value) const {
    const std::string whole = fmt::format("n{}", value.node.index);
    return graph_.node(value.node).outputs.size() > 1 ? fmt::format("(Output {} {})", whole, value.output)
                                                      : whole;
  }

  void node(NodeId id) {
    const Node& n = graph_.node(id);
    std::string text;
    if (!is_computed(*n.op)) {
      text = fmt::format("(Input {} {})", id.index,
                         display::quoted(display::types(n) + (n.name.empty() ? "" : " " + n.name)));
    } else {
      std::string name = constructor_name(n.op->name);
      const auto inputs = static_cast<int>(n.inputs.size());
      if (const auto known = constructors_.find(name);
          known != constructors_.end() && known->second != inputs)
        name += std::to_string(inputs);  // an op that takes several numbers of inputs
      constructors_.emplace(name, inputs);
      text = "(" + name;
      for (const Edge& edge : n.inputs) {
        const std::string view = display::view_steps(edge.view);
        text += view.empty() ? " " + term(edge.source)
                             : fmt::format(" (View {} {})", term(edge.source), display::quoted(view));
      }
      const std::string op = display::op_with_attributes(n);
      std::string rest = display::types(n) + op.substr(std::min(op.size(), n.op->name.size()));
      if (n.op->is(Trait::SideEffect)) rest += fmt::format(" #{}", id.index);  // two of them are never one
      text += " " + display::quoted(rest) + ")";
    }
    lets_ += fmt::format("(let n{} {})\n", id.index, text);
  }

  const Graph& graph_;
  std::map<std::string, int> constructors_;  ///< by name: how many tensors they take
  std::string lets_;
};

}  // namespace

EgglogText Graph::to_egglog() const { return Writer(*this).run(); }

}  // namespace luminal
