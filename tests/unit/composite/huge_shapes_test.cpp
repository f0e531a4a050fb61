#include <gmock/gmock.h>

#include <functional>

#include "run.h"

// Tensors that no memory holds are refused where they are made, by the op that would make them.
namespace luminal::composite_test {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;

struct Case {
  const char* name;
  std::function<GraphTensor(Graph&)> build;
};

GraphTensor column(Graph& cx) { return cx.tensor({kHuge, 1}); }
GraphTensor row(Graph& cx) { return cx.tensor({1, kHuge}); }
GraphTensor line(Graph& cx) { return cx.tensor({kHuge}); }

const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {"input", [](Graph& cx) { return cx.tensor({kHuge, kHuge}); }},
      {"input of 2^63 bools", [](Graph& cx) { return cx.tensor({INT64_MAX, 2}, Dtype::Bool); }},
      {"add broadcasts", [](Graph& cx) { return column(cx) + row(cx); }},
      {"where broadcasts its condition", [](Graph& cx) { return column(cx).lt(0).where(row(cx), 1); }},
      {"where of three", [](Graph& cx) { return line(cx).lt(0).where(column(cx), row(cx)); }},
      {"maximum", [](Graph& cx) { return column(cx).maximum(row(cx)); }},
      {"matmul", [](Graph& cx) { return column(cx).matmul(row(cx)); }},
      {"outer product", [](Graph& cx) { return einsum("i,j->ij", {line(cx), line(cx)}); }},
      {"expand", [](Graph& cx) { return line(cx).expand({kHuge, kHuge}); }},
      {"expand_dim", [](Graph& cx) { return line(cx).expand_dim(0, kHuge); }},
      {"full", [](Graph& cx) { return cx.full({kHuge, kHuge}, 1); }},
      {"eye", [](Graph& cx) { return cx.eye(kHuge); }},
      {"tril", [](Graph& cx) { return cx.tril(kHuge, kHuge, 0); }},
      {"iota", [](Graph& cx) { return cx.iota(Expression::flat_index(), {kHuge, kHuge}); }},
      {"arange whose length overflows", [](Graph& cx) { return cx.arange_in_range(-2, INT64_MAX); }},
      {"arange of rows", [](Graph& cx) { return cx.arange(INT64_MAX).expand_dim(0, 2); }},
      {"pad", [](Graph& cx) { return cx.tensor({2, 2}).pad({{0, kHuge}, {kHuge, 0}}); }},
      {"pad beyond 64 bits", [](Graph& cx) { return line(cx).pad({{INT64_MAX, 1}}); }},
      {"pad_along", [](Graph& cx) { return cx.tensor({kHuge, 2}).pad_along(1, kHuge, 0); }},
      {"repeat", [](Graph& cx) { return cx.tensor({kHuge, 2}).repeat({1, kHuge}); }},
      {"repeat beyond 64 bits", [](Graph& cx) { return line(cx).repeat({INT64_MAX}); }},
      {"unfold", [](Graph& cx) { return line(cx).unfold(0, kHuge / 2, 1); }},
      {"pool_last_dim", [](Graph& cx) { return line(cx).pool_last_dim(kHuge / 2); }},
      {"concat",
       [](Graph& cx) {
         return concat({cx.tensor({INT64_MAX}, Dtype::Bool), cx.tensor({INT64_MAX}, Dtype::Bool)}, 0);
       }},
      {"stack",
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({INT64_MAX}, Dtype::Bool);
         return stack({x, x});
       }},
      {"one_hot", [](Graph& cx) { return cx.tensor({kHuge}, Dtype::I64).one_hot(kHuge); }},
      {"index_select of rows",
       [](Graph& cx) { return cx.tensor({2, kHuge}).index_select(0, cx.tensor({kHuge}, Dtype::I64)); }},
      {"index_select",
       [](Graph& cx) { return cx.tensor({kHuge, 2}).index_select(1, cx.tensor({kHuge}, Dtype::I64)); }},
      {"conv2d",
       [](Graph& cx) {
         return conv2d(cx.tensor({1, 1, kHuge, kHuge / (1 << 20)}), cx.tensor({kHuge, 1, 1, 1}));
       }},
      {"attention",
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({kHuge, 2});
         return attention(x, x, x);
       }},
      {"batched matmul",
       [](Graph& cx) { return cx.tensor({kHuge, 1, 1, 1}).matmul(cx.tensor({kHuge, 1, 1})); }},
      {"beside a named dim", [](Graph& cx) { return cx.tensor({"s", kHuge, 1}) + cx.tensor({kHuge}); }},
  };
  return list;
}

TEST(HugeShapes, AreRefusedWhereTheyAreMade) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    Graph cx;
    try {
      const GraphTensor made = each.build(cx);
      ADD_FAILURE() << "made " << made.type().to_string();
    } catch (const ShapeError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("use smaller")) << "it says what to do";
    } catch (const std::exception& error) {
      ADD_FAILURE() << "no ShapeError: " << error.what();
    }
  }
}

TEST(HugeShapes, OfMoreBytesThanAreCountedAreRefusedToo) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Graph cx;
  EXPECT_THROW(cx.arange(kMost), ShapeError);
  EXPECT_THROW((void)(cx.zeros({kMost}) + 1.0), ShapeError);
  EXPECT_THROW((void)(cx.zeros({kMost / 2}) + 1.0), ShapeError);
  EXPECT_THROW((void)cx.tensor({1}).expand({kMost}), ShapeError);
  EXPECT_THROW(where(cx.tensor({kMost}, Dtype::Bool), cx.tensor({kMost}), cx.tensor({kMost})), ShapeError);
}

TEST(HugeShapes, WithoutElementsAreMade) {
  Graph cx;
  const GraphTensor x = cx.tensor({kHuge, kHuge, 0});
  EXPECT_EQ(x.view().n_elements().constant(), 0);
  EXPECT_EQ((x + 1).dims()[0].constant(), kHuge);
}

}  // namespace
}  // namespace luminal::composite_test
