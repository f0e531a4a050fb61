#include "models/expert_routes.h"

#include "luminal/graph.h"

namespace luminal::models {
namespace {

/// Rows that share a pass over their expert's weights. Few where experts have few: each is filled up to whole blocks.
Expression rows_of_block(const Expression& routes, int64_t experts) {
  constexpr int64_t kMost = 16;
  return routes.ceil_div(experts).max(1).min(kMost);
}

}  // namespace

ExpertRoutes::ExpertRoutes(const GraphTensor& which, int64_t experts) : experts_(experts) {
  Graph cx = which.graph();
  const Expression used = which.dim(1), routes = which.dim(0) * used;
  rows_ = rows_of_block(routes, experts);
  blocks_ = ((routes + (rows_ - 1) * experts) / rows_).min(routes);

  const GraphTensor rows = cx.constant(rows_, Dtype::I32);
  const GraphTensor chosen = which.merge_dims(0, 1);  // [routes]
  const GraphTensor number = cx.arange(routes, Dtype::I32), expert = cx.arange(experts, Dtype::I32);
  const GraphTensor uses = chosen.unsqueeze(1).eq(expert);  // [routes, experts]
  const GraphTensor count = uses.cast(Dtype::I32).sum(0);   // [experts]
  const GraphTensor filled = (count + (rows - 1)).floor_div(rows) * rows;
  const GraphTensor is_before = expert.unsqueeze(1).lt(expert);  // [experts, experts]
  const GraphTensor begin = is_before.where(filled.unsqueeze(1), 0).sum(0);
  // A row's place among those of its expert: as many as stand before it.
  const GraphTensor before =
      chosen.unsqueeze(1).eq(chosen).logical_and(number.unsqueeze(1).lt(number)).cast(Dtype::I32).sum(0);
  const GraphTensor row = uses.where(begin, 0).sum(1) + before;  // [routes]
  row_ = row.split_dims(0, used);
  const GraphTensor first = cx.arange(blocks_, Dtype::I32) * rows;  // row of each block
  expert_ = (begin + filled).le(first.unsqueeze(1)).cast(Dtype::I32).sum(1).graph_break();  // [blocks]
  const GraphTensor none = cx.zeros({blocks_ * rows_}, Dtype::I32);
  token_ = none.scatter(0, row, number.floor_div(cx.constant(used, Dtype::I32))).split_dims(0, rows_);
}

GraphTensor ExpertRoutes::in_blocks(const GraphTensor& x) const { return x.index_select(0, token_); }

GraphTensor ExpertRoutes::by_expert(const GraphTensor& each) const {
  const GraphTensor is_own = expert_.unsqueeze(1).eq(expert_.graph().arange(experts_, Dtype::I32));
  return is_own.unsqueeze(2).unsqueeze(3).where(each, 0).sum(1);
}

GraphTensor ExpertRoutes::by_token(const GraphTensor& y) const {
  return y.merge_dims(0, 1).index_select(0, row_);
}

}  // namespace luminal::models
