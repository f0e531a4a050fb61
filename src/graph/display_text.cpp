#include "graph/display_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace luminal {
namespace display {
namespace {

/// Reads the same without quotes.
bool is_word(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (c == '\n')
      result += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + '"';
}

std::string view_steps(const ShapeTracker& view) {
  if (view.is_identity()) return "";
  std::string text;
  for (const MovementStep& step : view.steps()) text += fmt::format(".{}({})", step.name, step.detail);
  return text;
}

std::string op_with_attributes(const Node& node) {
  Attributes rest;
  for (const auto& [key, value] : node.attributes.entries()) {
    if (key == "dtype" || key == "dims") continue;
    const auto* text = std::get_if<std::string>(&value);
    rest.set(key, text != nullptr && !is_word(*text) ? Attribute(display::quoted(*text)) : value);
  }
  const std::string attributes = rest.to_string();
  return std::string(node.op->name) + (attributes.empty() ? "" : " " + attributes);
}

std::string types(const Node& node) {
  std::string text;
  for (const TensorType& type : node.outputs) text += (text.empty() ? "" : ", ") + type.to_string();
  return text;
}

std::string marks(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::vector<std::string> words;
  const auto any_output = [&](auto is) {
    for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output)
      if (is(Value{id, output})) return true;
    return false;
  };
  if (any_output([&](const Value& v) { return graph.is_retrieved(v); })) words.emplace_back("retrieved");
  if (any_output([&](const Value& v) { return graph.is_kept(v); })) words.emplace_back("kept");
  for (const Graph::StateUpdate& update : graph.state_updates())
    if (update.state.node == id) words.push_back(fmt::format("state <- %{}", update.next.source.node.index));
  for (const NodeId before : node.after) words.push_back(fmt::format("after %{}", before.index));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string line(const Graph& graph, NodeId id, bool edge_types) {
  const Node& node = graph.node(id);
  std::vector<std::string> inputs;
  for (const Edge& edge : node.inputs) {
    std::string text = fmt::format("%{}", edge.source.node.index);
    if (edge.source.output > 0) text += fmt::format("#{}", edge.source.output);
    text += view_steps(edge.view);
    if (edge_types) text += ": " + TensorType{graph.type(edge.source).dtype, edge.view.dims()}.to_string();
    inputs.push_back(std::move(text));
  }
  const std::string op = op_with_attributes(node);
  const size_t blank = op.find(' ');
  std::string text = fmt::format("%{}: {} = {}", id.index, types(node), op.substr(0, blank));
  if (!inputs.empty()) text += fmt::format("({})", fmt::join(inputs, ", "));
  if (blank != std::string::npos) text += op.substr(blank);
  if (!node.name.empty()) text += " " + display::quoted(node.name);
  if (const std::string words = marks(graph, id); !words.empty()) text += fmt::format(" [{}]", words);
  if (node.origin && !(node.origin->file.empty() && node.origin->ops.size() <= 1))
    text += "  ; " + node.origin->to_string();
  return text;
}

}  // namespace display

std::string Graph::to_string() const {
  std::string text;
  for (const NodeId id : topological_order()) text += display::line(*this, id, false) + "\n";
  return text;
}

std::string Graph::display_shapes() const {
  std::string text;
  for (const NodeId id : topological_order()) text += display::line(*this, id, true) + "\n";
  return text;
}

}  // namespace luminal
