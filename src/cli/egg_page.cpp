#include "cli/egg_page.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace luminal::cli {

namespace {

constexpr uint64_t kMostRowsDrawn = 3000;
// Of a larger one only a part is shown.
constexpr size_t kClassesOfPart = 120, kRootsOfPart = 12, kNodesOfPart = 6, kFactsOfPart = 20;

constexpr const char* kHead = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>E-graph</title><style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff; }
h1 { font-size: 1.3em; } h2 { font-size: 1.1em; margin-top: 1.6em; }
table { border-collapse: collapse; } td, th { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; max-width: 46em; font-family: ui-monospace, monospace; }
svg { background: #fafafa; border: 1px solid #ddd; } svg text { font: 12px ui-monospace, monospace; }
.class rect { fill: #fff; stroke: #4878a8; rx: 5; } .class.hit rect { fill: #fff3c4; }
.edge { fill: none; stroke: #9ab; } .edge.hit { stroke: #d06000; stroke-width: 2; }
.box { overflow: auto; max-height: 85vh; }
</style></head><body><h1>E-graph</h1><p id="summary"></p>
<h2>Growth</h2><svg id="growth" width="820" height="220"></svg>
<h2>Tables</h2><table id="tables"></table>
<h2>Rules</h2><table id="rules"></table>
<h2>Classes</h2><p id="note"></p><div class="box"><svg id="graph" width="10" height="10"></svg></div>
<h2>Relations and functions</h2><div id="facts"></div>
<script id="data" type="application/json">)html";

constexpr const char* kScript = R"html(</script><script>
const data = JSON.parse(document.getElementById("data").textContent);
const svg = (name, attributes, parent, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
};
const cell = (row, text, kind = "td") => row.appendChild(Object.assign(document.createElement(kind), {textContent: text}));
const at = id => document.getElementById(id);
at("summary").textContent = `${data.rows} rows, ${data.classes} classes, ${data.growth.length} iterations, ` +
  `${data.unions} unions, ${data.ms.toFixed(1)} ms.`;

// Growth: rows after each iteration.
(() => {
  const g = at("growth"), w = 820, h = 220, left = 70, bottom = 25, most = Math.max(1, ...data.growth);
  const x = i => left + (w - left - 15) * (data.growth.length < 2 ? 0.5 : i / (data.growth.length - 1));
  const y = rows => h - bottom - (h - bottom - 15) * rows / most;
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    svg("line", {x1: left, x2: w - 15, y1: y(most * part), y2: y(most * part), stroke: "#ddd"}, g);
    svg("text", {x: left - 6, y: y(most * part) + 4, "text-anchor": "end"}, g, Math.round(most * part));
  }
  svg("polyline", {fill: "none", stroke: "#4878a8", "stroke-width": 2,
                   points: data.growth.map((rows, i) => `${x(i)},${y(rows)}`).join(" ")}, g);
  data.growth.forEach((rows, i) => {
    const dot = svg("circle", {cx: x(i), cy: y(rows), r: 3, fill: "#4878a8"}, g);
    svg("title", {}, dot, `after iteration ${i + 1}: ${rows} rows`);
  });
  svg("text", {x: w - 15, y: h - 6, "text-anchor": "end"}, g, "iterations");
})();

// Tables, the largest first; rules, the dearest first.
const list = (id, names, rows) => {
  const head = at(id).insertRow();
  for (const name of names) cell(head, name, "th");
  for (const values of rows) {
    const row = at(id).insertRow();
    for (const value of values) cell(row, typeof value === "number" && !Number.isInteger(value) ? value.toFixed(3) : value);
  }
};
list("tables", ["name", "kind", "rows"], data.tables);
list("rules", ["rule", "runs", "searched", "matched", "applied", "search ms", "apply ms"], data.rules);

const eq = new Set(data.graph ? data.graph.sorts : []);
const literal = v => v === null ? "()" : typeof v === "object" ? (v.text ?? "[" + v.elements.map(e => show(e.sort, e.value)).join(" ") + "]")
  : typeof v === "string" ? JSON.stringify(v) : String(v);
const show = (sort, v) => eq.has(sort) ? "#" + v : literal(v);
const idsIn = (sort, v) => eq.has(sort) ? [v] : v && v.elements ? v.elements.flatMap(e => idsIn(e.sort, e.value)) : [];

// Classes in layers: a class stands below all classes of its shallowest node.
(() => {
  if (data.part) at("note").textContent = `${data.part.classes} of ${data.classes} classes are drawn: from the ` +
    `oldest that no other class uses downwards. Left out are all but the first ${data.part.nodes} nodes of each, ` +
    `and the content of the boxes that are empty; below, all but the first ${data.part.facts} rows of each table.`;
  const classes = new Map();
  const get = id => classes.get(id) ?? classes.set(id, {id, nodes: [], depth: Infinity}).get(id);
  for (const f of data.graph.functions) for (const row of f.rows) {
    row.args.forEach((v, i) => idsIn(f.inputs[i], v).forEach(get));
    if (f.kind !== "constructor") continue;
    const text = "(" + [f.name, ...row.args.map((v, i) => show(f.inputs[i], v))].join(" ") + ")" + (row.subsumed ? " (subsumed)" : "");
    get(row.output).nodes.push({text, args: row.args.flatMap((v, i) => idsIn(f.inputs[i], v))});
  }
  for (let changed = true; changed;) {
    changed = false;
    for (const c of classes.values()) for (const n of c.nodes) {
      const depth = n.args.reduce((d, a) => Math.max(d, get(a).depth + 1), 0);
      if (depth < c.depth) { c.depth = depth; changed = true; }
    }
  }
  for (const c of classes.values()) if (c.depth === Infinity) c.depth = 0;
  const layers = [];
  for (const c of [...classes.values()].sort((a, b) => a.id - b.id)) (layers[c.depth] ??= []).push(c);
  const line = 16, gap = 30;
  let top = 20, width = 300;
  layers.reverse();
  for (const layer of layers) {
    if (!layer) continue;
    let left = 20, height = 0;
    for (const c of layer) {
      c.w = 16 + 7.3 * Math.max(String(c.id).length + 1, ...c.nodes.map(n => n.text.length));
      c.h = line * (c.nodes.length + 1) + 8;
      if (left > 20 && left + c.w > 2400) { left = 20; top += height + gap / 2; height = 0; }
      c.x = left; c.y = top;
      left += c.w + gap;
      height = Math.max(height, c.h);
      width = Math.max(width, left);
    }
    top += height + 2 * gap;
  }
  const g = at("graph");
  g.setAttribute("width", width); g.setAttribute("height", top);
  const edges = svg("g", {}, g), boxes = svg("g", {}, g), of = new Map();
  for (const c of classes.values()) {
    const box = svg("g", {class: "class"}, boxes);
    of.set(c.id, {box, edges: []});
    svg("rect", {x: c.x, y: c.y, width: c.w, height: c.h}, box);
    svg("text", {x: c.x + 8, y: c.y + line - 2, fill: "#888"}, box, "#" + c.id);
    c.nodes.forEach((n, i) => svg("text", {x: c.x + 8, y: c.y + line * (i + 2) - 2}, box, n.text));
  }
  for (const c of classes.values()) c.nodes.forEach((n, i) => {
    for (const a of new Set(n.args)) {
      const to = get(a), x0 = c.x + c.w, y0 = c.y + line * (i + 1.6), x1 = to.x + to.w / 2, y1 = to.y;
      const edge = svg("path", {class: "edge", d: `M${x0},${y0} C${x0 + 25},${y0 + 30} ${x1},${y1 - 40} ${x1},${y1}`}, edges);
      of.get(c.id).edges.push([edge, a]);
    }
  });
  for (const {box, edges: own} of of.values()) {
    const mark = on => { for (const [edge, a] of own) { edge.classList.toggle("hit", on); of.get(a).box.classList.toggle("hit", on); } };
    box.addEventListener("mouseenter", () => mark(true));
    box.addEventListener("mouseleave", () => mark(false));
  }
  for (const f of data.graph.functions) {
    if (f.kind === "constructor" || f.rows.length === 0) continue;
    const title = document.createElement("h3"), table = document.createElement("table");
    title.textContent = f.name;
    for (const row of f.rows) {
      const line = table.insertRow();
      row.args.forEach((v, i) => cell(line, show(f.inputs[i], v)));
      if (f.kind === "function") cell(line, "= " + show(f.output, row.output));
    }
    at("facts").append(title, table);
  }
})();
</script></body></html>
)html";

using egraph::EGraph;
using egraph::FunctionId;
using egraph::FunctionKind;
using egraph::SortId;
using egraph::Value;

/// The part of a large e-graph that is drawn: from the oldest classes that no other uses downwards, level by
/// level, a few nodes of each class.
class Part {
 public:
  explicit Part(const EGraph& graph) : graph_(graph) {
    std::vector<Value> level = roots();
    chosen_.insert(level.begin(), level.end());
    while (!level.empty() && chosen_.size() < kClassesOfPart) {
      std::vector<Value> next;
      std::unordered_map<Value, size_t> nodes;
      const std::unordered_set<Value> here(level.begin(), level.end());
      each_node([&](FunctionId f, std::span<const Value> args, Value output) {
        if (!here.contains(output) || nodes[output]++ >= kNodesOfPart) return;
        each_class(f, args, [&](Value arg) {
          if (chosen_.size() < kClassesOfPart && chosen_.insert(arg).second) next.push_back(arg);
        });
      });
      level = std::move(next);
    }
  }

  [[nodiscard]] size_t classes() const { return chosen_.size(); }

  [[nodiscard]] egraph::RowFilter filter() {
    return [this](FunctionId f, std::span<const Value>, Value output) {
      if (graph_.spec(f).kind != FunctionKind::Constructor)
        return facts_[static_cast<uint32_t>(f)]++ < kFactsOfPart;
      const Value root = graph_.find(output);
      return chosen_.contains(root) && nodes_[root]++ < kNodesOfPart;
    };
  }

 private:
  template <class Visit>
  void each_node(Visit&& visit) const {
    for (const FunctionId f : graph_.functions_listed())
      if (graph_.spec(f).kind == FunctionKind::Constructor)
        graph_.for_each_row(f, [&](std::span<const Value> args, Value output, bool) {
          visit(f, args, graph_.find(output));
          return true;
        });
  }

  void each_class_in(SortId sort, Value value, const std::function<void(Value)>& visit) const {
    if (graph_.is_eq_sort(sort)) return visit(graph_.find(value));
    if (graph_.is_container_sort(sort))
      graph_.sort_hooks(sort).elements(value, [&](SortId s, Value v) { each_class_in(s, v, visit); });
  }
  void each_class(FunctionId f, std::span<const Value> args, const std::function<void(Value)>& visit) const {
    for (size_t i = 0; i < args.size(); i++) each_class_in(graph_.spec(f).inputs[i], args[i], visit);
  }

  [[nodiscard]] std::vector<Value> roots() const {
    std::vector<bool> known, used;
    const auto mark = [](std::vector<bool>& in, Value id) {
      if (in.size() <= id) in.resize(std::max<size_t>(id + 1, 2 * in.size()), false);
      in[id] = true;
    };
    each_node([&](FunctionId f, std::span<const Value> args, Value output) {
      mark(known, output);
      each_class(f, args, [&](Value arg) {
        if (arg != output) mark(used, arg);
      });
    });
    used.resize(known.size(), false);
    std::vector<Value> out;
    for (const bool wanted : {false, true})  // where all classes are used by others, the oldest one will do
      for (Value id = 0; id < known.size() && out.size() < (wanted ? 1 : kRootsOfPart); id++)
        if (known[id] && used[id] == wanted) out.push_back(id);
    return out;
  }

  const EGraph& graph_;
  std::unordered_set<Value> chosen_;
  std::unordered_map<Value, size_t> nodes_;
  std::unordered_map<uint32_t, size_t> facts_;
};

const char* kind_of(FunctionKind kind) {
  return kind == FunctionKind::Constructor ? "constructor"
         : kind == FunctionKind::Function  ? "function"
                                           : "relation";
}

/// [name, kind, rows] of each table, the largest first.
nlohmann::json tables_of(const EGraph& graph) {
  nlohmann::json tables = nlohmann::json::array();
  for (const FunctionId f : graph.functions_listed())
    tables.push_back({graph.spec(f).name, kind_of(graph.spec(f).kind), graph.row_count(f)});
  std::stable_sort(tables.begin(), tables.end(), [](const nlohmann::json& a, const nlohmann::json& b) {
    return a[2].get<uint64_t>() > b[2].get<uint64_t>();
  });
  return tables;
}

}  // namespace

std::string egraph_page(const egraph::EGraph& graph, const egraph::Report& report) {
  nlohmann::json rules = nlohmann::json::array();
  for (const egraph::RuleReport& rule : report.rules)
    rules.push_back({rule.name, rule.runs, rule.searched, rule.matched, rule.applied, rule.search_s * 1e3,
                     rule.apply_s * 1e3});
  std::sort(rules.begin(), rules.end(), [](const nlohmann::json& a, const nlohmann::json& b) {
    return a[5].get<double>() + a[6].get<double>() > b[5].get<double>() + b[6].get<double>();
  });
  nlohmann::json page = {{"rows", graph.row_count()},   {"classes", graph.class_count()},
                         {"unions", report.unions},     {"ms", report.total_s * 1e3},
                         {"growth", report.rows_after}, {"rules", std::move(rules)},
                         {"tables", tables_of(graph)},  {"part", nullptr}};
  if (graph.row_count() <= kMostRowsDrawn) {
    page["graph"] = nlohmann::json::parse(graph.to_json());
  } else {
    Part part(graph);
    page["graph"] = nlohmann::json::parse(graph.to_json(part.filter()));
    page["part"] = {{"classes", part.classes()}, {"nodes", kNodesOfPart}, {"facts", kFactsOfPart}};
  }
  // A text must not end the script element it stands in.
  std::string text = page.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3))
    text.replace(at, 2, "<\\/");
  for (size_t at = text.find("<!--"); at != std::string::npos; at = text.find("<!--", at + 4))
    text.replace(at, 4, "\\u003c!--");
  return kHead + text + kScript;
}

}  // namespace luminal::cli
