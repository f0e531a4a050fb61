#include <gtest/gtest.h>

#include <random>

#include "luminal/autograd.h"
#include "luminal/graph.h"
#include "support/effort.h"

/// Random chains of movement ops, over static and named dims, against materialising after each step: there
/// every step runs alone on a dense input. Movement only copies, so a chain run on positions tells which
/// element each output is, and with it the exact gradient.
namespace luminal {
namespace {

using Step = std::function<GraphTensor(const GraphTensor&)>;

struct Chain {
  Shape dims;
  std::vector<std::pair<std::string, Step>> steps;
  [[nodiscard]] std::string to_string() const {
    std::string text = luminal::to_string(dims);
    for (const auto& [name, step] : steps) text += "." + name;
    return text;
  }
};

constexpr int kMostRank = 5;
constexpr int64_t kMostElements = 4000;

/// Draws one step that is legal on a view of these dims at every size the named dims may have.
class StepMaker {
 public:
  explicit StepMaker(std::mt19937_64& random) : random_(random) {}

  std::pair<std::string, Step> draw(const Shape& dims) {
    for (;;) {
      const int rank = static_cast<int>(dims.size());
      const int axis = rank > 0 ? below(rank) : 0;
      auto step = propose(dims, rank, axis);
      if (step.second) return step;
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  std::pair<std::string, Step> propose(const Shape& dims, int rank, int axis) {
    const auto at = static_cast<size_t>(axis);
    const int64_t least = rank > 0 ? dims[at].range().min : 0;
    switch (below(12)) {
      case 0: {
        std::vector<int> order(dims.size());
        for (int i = 0; i < rank; ++i) order[static_cast<size_t>(i)] = i;
        std::shuffle(order.begin(), order.end(), random_);
        return {"permute", [order](const GraphTensor& x) { return x.permute(order); }};
      }
      case 1: {
        if (rank >= kMostRank) return {};
        const int place = below(rank + 1), size = 1 + below(3);
        return {"expand_dim", [=](const GraphTensor& x) { return x.expand_dim(place, size); }};
      }
      case 2: {
        if (rank == 0) return {};
        const int before = below(3), after = below(3);
        const double fill = below(2) == 0 ? 0 : -7;
        return {"pad", [=](const GraphTensor& x) { return x.pad_along(axis, before, after, fill); }};
      }
      case 3: {
        if (rank == 0 || least < 2) return {};
        const int start = below(2), cut = 1 - start;
        return {"slice", [=](const GraphTensor& x) { return x.slice_along(axis, start, x.dim(axis) - cut); }};
      }
      case 4: {
        if (rank == 0 || least < 2) return {};
        const int start = below(2);
        return {"strided slice",
                [=](const GraphTensor& x) { return x.slice_along(axis, start, x.dim(axis), 2); }};
      }
      case 5:
        if (rank == 0) return {};
        return {"flip", [=](const GraphTensor& x) { return x.flip(axis); }};
      case 6: {
        if (rank == 0 || rank >= kMostRank || least < 4) return {};
        const int stride = 1 + below(3), dilation = 1 + below(2);
        return {"pool", [=](const GraphTensor& x) {
                  std::vector<int> order;
                  for (int i = 0; i < x.rank(); ++i)
                    if (i != axis) order.push_back(i);
                  order.push_back(axis);
                  return x.permute(order).pool_last_dim(2, stride, dilation);
                }};
      }
      case 7: {
        if (rank < 2) return {};
        const int first = below(rank - 1);
        return {"merge_dims", [=](const GraphTensor& x) { return x.merge_dims(first, first + 1); }};
      }
      case 8: {
        if (rank == 0 || rank >= kMostRank) return {};
        for (const int inner : {4, 3, 2})
          if (dims[at].divisor() % inner == 0)
            return {"split_dims", [=](const GraphTensor& x) { return x.split_dims(axis, inner); }};
        return {};
      }
      case 9:
        return {"flatten", [](const GraphTensor& x) { return x.reshape({element_count(x.dims())}); }};
      case 10: {
        if (rank >= kMostRank) return {};
        const int place = below(rank + 1);
        return {"unsqueeze", [=](const GraphTensor& x) { return x.unsqueeze(place); }};
      }
      default: {
        if (rank < 2) return {};
        return {"reshape", [](const GraphTensor& x) {  // row-major: elements move to other coordinates
                  return x.reshape(Shape(x.dims().rbegin(), x.dims().rend()));
                }};
      }
    }
  }

  std::mt19937_64& random_;
};

Chain random_chain(uint64_t seed, bool symbolic) {
  std::mt19937_64 random(seed);
  Chain chain;
  if (symbolic)
    chain.dims = {Expression::dim("a", {.min = 4, .max = 64, .multiple_of = 4}),
                  Expression::dim("b", {.min = 3, .max = 64})};
  else
    chain.dims = {4 + static_cast<int64_t>(random() % 2) * 2, 3, 1 + static_cast<int64_t>(random() % 3)};
  StepMaker maker(random);
  Graph cx;
  GraphTensor at = cx.tensor(chain.dims, Dtype::F64);
  const int length = 2 + static_cast<int>(random() % 6);
  for (int i = 0; i < length; ++i) {
    auto step = maker.draw(at.dims());
    const GraphTensor next = step.second(at);
    const DimMap typical{{"a", 8}, {"b", 5}};
    if (element_count(next.dims()).exec(typical) > kMostElements) continue;
    at = next;
    chain.steps.push_back(std::move(step));
  }
  return chain;
}

/// Each step alone, on a dense input.
TensorData move_by_move(const Chain& chain, TensorData data) {
  for (const auto& [name, step] : chain.steps) {
    Graph cx;
    auto input = cx.tensor(Shape(data.dims.begin(), data.dims.end()), Dtype::F64);
    input.set(std::move(data));
    auto output = (step(input) * 1).retrieve();
    cx.execute();
    data = output.data();
  }
  return data;
}

TensorData counted(const std::vector<int64_t>& sizes, double scale, double offset) {
  TensorData data(Dtype::F64, sizes);
  auto values = data.as<double>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) * scale + offset;
  return data;
}

void check_chain(const Chain& chain, const std::vector<DimMap>& sizes) {
  SCOPED_TRACE(chain.to_string());
  Graph cx;
  auto input = cx.tensor(chain.dims, Dtype::F64);
  GraphTensor moved = input;
  for (const auto& [name, step] : chain.steps) moved = step(moved);
  auto weights = cx.iota(Expression::flat_index(), moved.dims()).cast(Dtype::F64) + 1;
  auto output = (moved * 1).retrieve();
  auto gradient = cx.run_pass(Autograd({input}, (moved * weights).sum()))[0].retrieve();

  for (const DimMap& dims : sizes) {
    const std::vector<int64_t> in_sizes = exec(chain.dims, dims);
    const TensorData positions = counted(in_sizes, 1, 0);
    input.set_dyn(std::vector<double>(positions.as<double>().begin(), positions.as<double>().end()),
                  in_sizes);
    cx.execute();
    // Values.
    const TensorData expected = move_by_move(chain, positions);
    const std::vector<double> want(expected.as<double>().begin(), expected.as<double>().end());
    ASSERT_EQ(output.data().dims, expected.dims);
    ASSERT_EQ(output.data<double>(), want);
    // Gradients. Fills are 0 and -7; position 0 is told from a fill of 0 by a second run on positions + 1.
    const TensorData shifted = move_by_move(chain, counted(in_sizes, 1, 1));
    std::vector<double> sums(positions.as<double>().size(), 0);
    for (size_t k = 0; k < want.size(); ++k)
      if (shifted.as<double>()[k] == want[k] + 1)
        sums[static_cast<size_t>(want[k])] += static_cast<double>(k) + 1;
    ASSERT_EQ(gradient.data<double>(), sums);
  }
}

TEST(MovementChains, StaticDimsMoveAsIfMaterialisedAfterEachStep) {
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    check_chain(random_chain(seed, false), {{}});
    if (HasFatalFailure()) return;
  }
}

TEST(MovementChains, NamedDimsMoveAsIfMaterialisedAfterEachStepAtEverySize) {
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    check_chain(random_chain(seed, true),
                {{{"a", 4}, {"b", 3}}, {{"a", 8}, {"b", 5}}, {{"a", 12}, {"b", 4}}});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace luminal
