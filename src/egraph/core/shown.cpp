#include "egraph/core/shown.h"

#include <fmt/format.h>

#include "egraph/core/clipped.h"

namespace luminal::egraph {
namespace {

class ValueText {
 public:
  explicit ValueText(const EngineState& state) : state_(state) {}

  std::string of(SortId sort, Value v) {
    if (depth_ > kDeepest || text_bytes_ > kEnough) return "...";
    const SortInfo& info = state_.at(sort);
    depth_++;
    std::string text = info.kind == SortKind::Eq ? of_class(sort, v) : of_content(info, v);
    depth_--;
    text_bytes_ += text.size();
    return text;
  }

 private:
  // Small, as a message quotes it: a class may hold itself, a term its parts many times, and tables may be
  // long.
  static constexpr int kDeepest = 6;
  static constexpr size_t kEnough = 1000, kMostLooks = size_t{1} << 16;

  std::string of_content(const SortInfo& info, Value v) {
    const ContainerSort& hooks = info.hooks;
    std::vector<std::string> elements;
    if (hooks.elements) hooks.elements(v, [&](SortId s, Value x) { elements.push_back(of(s, x)); });
    return hooks.print ? hooks.print(v, elements) : fmt::format("#{}", v);
  }

  // Of the rows that make the class, one with few arguments.
  std::string of_class(SortId sort, Value id) {
    const FunctionInfo* best = nullptr;
    Row best_row = kNoRow;
    for (const FunctionInfo& info : state_.functions) {
      const bool makes_it = info.spec.kind == FunctionKind::Constructor && info.spec.output == sort;
      if (!makes_it || (best != nullptr && best->spec.inputs.size() <= info.spec.inputs.size())) continue;
      if (const Row row = find_row(info, state_.ids.find(id)); row != kNoRow) {
        best = &info;
        best_row = row;
      }
    }
    if (best == nullptr) return fmt::format("{}#{}", clipped(state_.at(sort).hooks.name), id);
    std::string text = "(" + clipped(best->spec.name);
    for (uint32_t c = 0; c < best->spec.inputs.size(); c++)
      text += " " + of(best->spec.inputs[c], best->table.column(c)[best_row]);
    return text + ")";
  }

  Row find_row(const FunctionInfo& info, Value root) {
    for (Row row = 0; row < info.table.rows() && looks_ < kMostLooks; row++, looks_++)
      if (info.table.is_live(row) && state_.ids.find(info.table.output_of(row)) == root) return row;
    return kNoRow;
  }

  const EngineState& state_;
  int depth_ = 0;
  size_t text_bytes_ = 0, looks_ = 0;
};

}  // namespace

std::string shown_value(const EngineState& state, SortId sort, Value v) {
  return clipped(ValueText(state).of(sort, v));
}

}  // namespace luminal::egraph
