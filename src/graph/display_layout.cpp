#include "graph/display_layout.h"

#include <algorithm>
#include <unordered_map>

#include "graph/display_text.h"

namespace luminal::display {
namespace {

constexpr double kCharacterWidth = 7, kLineHeight = 15, kPadding = 8, kGapX = 24, kGapY = 44;
constexpr size_t kMostCharacters = 48;
constexpr int kSweeps = 6;

std::string shortened(std::string text) {
  if (text.size() <= kMostCharacters) return text;
  size_t end = kMostCharacters - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;  // not inside a UTF-8 character
  return text.substr(0, end) + "...";
}

Box make_box(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  Box box{.id = id, .lines = {shortened(op_with_attributes(node)), shortened(types(node))}};
  if (!node.name.empty()) box.lines.insert(box.lines.begin(), shortened(display::quoted(node.name)));
  if (const std::string words = marks(graph, id); !words.empty()) box.lines.push_back(shortened(words));
  size_t longest = 0;
  for (const std::string& line : box.lines) longest = std::max(longest, line.size());
  box.width = static_cast<double>(longest) * kCharacterWidth + 2 * kPadding;
  box.height = static_cast<double>(box.lines.size()) * kLineHeight + 2 * kPadding;
  return box;
}

class Drawing {
 public:
  explicit Drawing(const Graph& graph) {
    std::unordered_map<NodeId, size_t> place;
    for (const NodeId id : graph.topological_order()) {
      place[id] = layout_.boxes.size();
      layout_.boxes.push_back(make_box(graph, id));
    }
    above_.resize(place.size());
    below_.resize(place.size());
    for (const Box& box : layout_.boxes) {
      const auto link = [&](NodeId before) {
        above_[place[box.id]].push_back(place[before]);
        below_[place[before]].push_back(place[box.id]);
      };
      for (const Edge& edge : graph.node(box.id).inputs) link(edge.source.node);
      for (const NodeId before : graph.node(box.id).after) link(before);
    }
  }

  Layout finish() {
    assign_layers();
    for (int sweep = 0; sweep < kSweeps; ++sweep) sort_layers(sweep % 2 == 0);
    place_boxes();
    return std::move(layout_);
  }

 private:
  void assign_layers() {
    for (size_t i = 0; i < layout_.boxes.size(); ++i)
      for (const size_t j : above_[i])
        layout_.boxes[i].layer = std::max(layout_.boxes[i].layer, layout_.boxes[j].layer + 1);
    for (size_t i = 0; i < layout_.boxes.size(); ++i) {
      if (!above_[i].empty() || below_[i].empty()) continue;
      int first_reader = layout_.boxes[below_[i][0]].layer;
      for (const size_t j : below_[i]) first_reader = std::min(first_reader, layout_.boxes[j].layer);
      layout_.boxes[i].layer = first_reader - 1;
    }
    for (size_t i = 0; i < layout_.boxes.size(); ++i) {
      const auto layer = static_cast<size_t>(layout_.boxes[i].layer);
      if (layers_.size() <= layer) layers_.resize(layer + 1);
      layout_.boxes[i].x = static_cast<double>(layers_[layer].size());
      layers_[layer].push_back(i);
    }
  }

  void sort_layers(bool downwards) {
    const auto& neighbours = downwards ? above_ : below_;
    for (size_t step = 0; step < layers_.size(); ++step) {
      auto& layer = layers_[downwards ? step : layers_.size() - 1 - step];
      std::vector<std::pair<double, size_t>> keyed;
      for (const size_t i : layer) {
        double mean = layout_.boxes[i].x;
        if (!neighbours[i].empty()) {
          mean = 0;
          for (const size_t j : neighbours[i]) mean += layout_.boxes[j].x;
          mean /= static_cast<double>(neighbours[i].size());
        }
        keyed.emplace_back(mean, i);
      }
      std::ranges::sort(keyed);
      for (size_t k = 0; k < keyed.size(); ++k) {
        layer[k] = keyed[k].second;
        layout_.boxes[layer[k]].x = static_cast<double>(k) - static_cast<double>(keyed.size()) / 2;
      }
    }
  }

  void place_boxes() {
    const auto width_of = [&](const std::vector<size_t>& layer) {
      double width = kGapX;
      for (const size_t i : layer) width += layout_.boxes[i].width + kGapX;
      return width;
    };
    for (const auto& layer : layers_) layout_.width = std::max(layout_.width, width_of(layer));
    double y = kGapX;
    for (const auto& layer : layers_) {
      double x = (layout_.width - width_of(layer)) / 2 + kGapX, height = 0;
      for (const size_t i : layer) {
        Box& box = layout_.boxes[i];
        box.x = x + box.width / 2;
        box.y = y + box.height / 2;
        x += box.width + kGapX;
        height = std::max(height, box.height);
      }
      y += height + kGapY;
    }
    layout_.height = y;
  }

  Layout layout_;
  std::vector<std::vector<size_t>> above_, below_, layers_;
};

}  // namespace

Layout layered_layout(const Graph& graph) { return Drawing(graph).finish(); }

}  // namespace luminal::display
