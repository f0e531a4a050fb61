#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "base/fail.h"
#include "base/file.h"
#include "base/xml.h"
#include "graph/display_layout.h"
#include "graph/display_text.h"

namespace luminal {
namespace {

using Marked = std::unordered_set<NodeId>;

/// An edge's text: the view's steps and the dims it shows.
std::string edge_label(const Edge& edge) {
  const std::string steps = display::view_steps(edge.view);
  return steps.empty() ? "" : fmt::format("{} {}", steps.substr(1), to_string(edge.view.dims()));
}

std::string to_dot(const Graph& graph, const Marked& marked) {
  std::string text = "digraph luminal {\n  node [shape=box, fontname=\"monospace\"];\n";
  for (const NodeId id : graph.topological_order()) {
    const Node& node = graph.node(id);
    std::string label =
        fmt::format("%{} {}\n{}", id.index, display::op_with_attributes(node), display::types(node));
    if (!node.name.empty()) label = display::quoted(node.name) + "\n" + label;
    if (const std::string words = display::marks(graph, id); !words.empty()) label += "\n" + words;
    text += fmt::format("  n{} [label={}{}];\n", id.index, display::quoted(label),
                        marked.contains(id) ? ", style=filled, fillcolor=\"#ffd966\"" : "");
    for (const Edge& edge : node.inputs) {
      const std::string view = edge_label(edge);
      text += fmt::format("  n{} -> n{}{};\n", edge.source.node.index, id.index,
                          view.empty() ? "" : fmt::format(" [label={}]", display::quoted(view)));
    }
    for (const NodeId before : node.after)
      text += fmt::format("  n{} -> n{} [style=dashed, constraint=true];\n", before.index, id.index);
  }
  return text + "}\n";
}

constexpr std::string_view kStyle =
    ".box{fill:#eef3fb;stroke:#47648c}.leaf{fill:#f3f3f3;stroke:#888}.marked{fill:#ffd966;stroke:#a07000}"
    "text{font:12px monospace;text-anchor:middle;fill:#222}"
    ".edge{fill:none;stroke:#777}.order{stroke-dasharray:5 4}.lit .box,.lit .leaf{stroke:#c00;stroke-width:2}"
    ".edge.lit{stroke:#c00;stroke-width:2}";

std::string svg_box(const Graph& graph, const display::Box& box, const Marked& marked) {
  const char* kind = marked.contains(box.id) ? "marked" : graph.node(box.id).inputs.empty() ? "leaf" : "box";
  std::string text = fmt::format(
      "<g class=\"node\" data-node=\"{}\"><title>{}</title>"
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\"/>",
      box.id.index, xml(display::line(graph, box.id, true)), kind, box.x - box.width / 2,
      box.y - box.height / 2, box.width, box.height);
  double y = box.y - box.height / 2 + 19;
  for (const std::string& line : box.lines) {
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", box.x, y, xml(line));
    y += 15;
  }
  return text + "</g>\n";
}

std::string svg_edge(const display::Box& from, const display::Box& to, std::string_view kind,
                     const std::string& title) {
  const double x0 = from.x, y0 = from.y + from.height / 2, x1 = to.x, y1 = to.y - to.height / 2;
  const double bend = (y1 - y0) / 2;
  return fmt::format(
      "<path class=\"edge{}\" data-from=\"{}\" data-to=\"{}\" marker-end=\"url(#arrow)\" "
      "d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"><title>{}</title></path>\n",
      kind, from.id.index, to.id.index, x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1, xml(title));
}

std::string to_svg(const Graph& graph, const Marked& marked) {
  const display::Layout layout = display::layered_layout(graph);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n"
      "<style>{2}</style>\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
      "markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#777\"/></marker></defs>\n",
      layout.width, layout.height, kStyle);
  std::unordered_map<NodeId, const display::Box*> boxes;
  for (const display::Box& box : layout.boxes) boxes[box.id] = &box;
  for (const display::Box& box : layout.boxes) {
    for (const Edge& edge : graph.node(box.id).inputs)
      text += svg_edge(
          *boxes[edge.source.node], box, "",
          TensorType{graph.type(edge.source).dtype, edge.view.dims()}.to_string() + " " + edge_label(edge));
    for (const NodeId before : graph.node(box.id).after)
      text += svg_edge(*boxes[before], box, " order", "order");
  }
  for (const display::Box& box : layout.boxes) text += svg_box(graph, box, marked);
  return text + "</svg>\n";
}

constexpr std::string_view kScript = R"(
const all = (q) => [...document.querySelectorAll(q)];
for (const node of all('.node')) node.addEventListener('click', () => {
  all('.lit').forEach((e) => e.classList.remove('lit'));
  const id = node.dataset.node;
  node.classList.add('lit');
  all(`[data-from="${id}"],[data-to="${id}"]`).forEach((e) => e.classList.add('lit'));
  const line = document.getElementById('line-' + id);
  line.classList.add('lit');
  line.scrollIntoView({block: 'nearest'});
});
for (const line of all('#text div')) line.addEventListener('click', () => {
  const node = document.querySelector(`[data-node="${line.id.slice(5)}"]`);
  node.scrollIntoView({block: 'center', inline: 'center'});
  node.dispatchEvent(new Event('click'));
});
)";

std::string to_html(const Graph& graph, const Marked& marked) {
  std::string lines;
  for (const NodeId id : graph.topological_order())
    lines += fmt::format("<div id=\"line-{}\">{}</div>\n", id.index, xml(display::line(graph, id, true)));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Luminal graph</title>\n<style>"
      "body{{margin:0;height:100vh;display:grid;grid-template-rows:2fr 1fr}}main,#text{{overflow:auto}}"
      "#text{{border-top:1px solid #999;font:12px monospace;white-space:pre;padding:8px}}"
      "#text div:hover{{background:#eee}}#text .lit{{background:#ffd966}}</style></head>\n"
      "<body><main>\n{}</main>\n<div id=\"text\">\n{}</div>\n<script>{}</script></body></html>\n",
      to_svg(graph, marked), lines, kScript);
}

}  // namespace

void Graph::display(std::span<const GraphTensor> marks, const std::string& file) const {
  Marked marked;
  for (const GraphTensor& tensor : marks) marked.insert(tensor.node());
  const auto ends_in = [&](std::string_view ending) { return file.ends_with(ending); };
  if (ends_in(".dot"))
    write_file_atomic(file, to_dot(*this, marked));
  else if (ends_in(".svg"))
    write_file_atomic(file, to_svg(*this, marked));
  else if (ends_in(".html"))
    write_file_atomic(file, to_html(*this, marked));
  else
    fail("[display] '{}' does not end in .dot, .svg or .html; choose one of these", file);
}

}  // namespace luminal
