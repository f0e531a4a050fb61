#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "attention_specs.h"
#include "cases.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/stream.h"

// Blocks that masks exclude. That a block is left out shows by NaN in what it would multiply: 0 times NaN is NaN.
namespace luminal::codegen {
namespace {

using namespace test_cases;
using Mask = Attention::Mask;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kSkipColumns = 5, kSkipSize = 6;

Parameters small_blocks(bool few_rows) {
  if (few_rows) return {{"splits", 2}, {"block", 16}};
  return {{"vectors", 1}, {"tile", 4}, {"panels", 2}, {"block", 16}};
}

/// `content` with other data in some of its slots.
struct MaskedRun {
  KernelSpec spec;
  std::vector<int> original;  ///< by slot, where it stands in the builder
  std::vector<TensorData> inputs;

  explicit MaskedRun(const kernel::Canonical& canonical)
      : spec(canonical.spec), original(canonical.slots), inputs(inputs_of(spec, {})) {}
  std::span<float> slot(int in_builder) {
    const auto at = std::ranges::find(original, in_builder) - original.begin();
    return inputs[static_cast<size_t>(at)].as<float>();
  }
  [[nodiscard]] TensorData run(const Parameters& parameters) const {
    const Program program = stream_schedule().lower(spec, parameters, {}, avx512());
    verify(program);
    return interpret(program, inputs, {}, 1)[0];
  }
  void expect_values(const Parameters& parameters, double tolerance = 3e-5) const {
    expect_equal(run(parameters), kernel::evaluate(spec, inputs, {})[0], tolerance,
                 spec.to_string() + text_of(parameters));
  }
  /// Whether rows `first` .. `last` - 1 of the result (rows of kSkipColumns numbers) hold no NaN.
  [[nodiscard]] bool is_number(const Parameters& parameters, int64_t first, int64_t last) const {
    const TensorData got = run(parameters);
    const auto rows = got.as<float>().subspan(static_cast<size_t>(first * kSkipColumns),
                                              static_cast<size_t>((last - first) * kSkipColumns));
    return std::ranges::none_of(rows, [](float x) { return std::isnan(x); });
  }
};

Attention masked(Mask mask, double hidden, int64_t queries, int64_t keys) {
  return {.heads = 1,
          .queries = queries,
          .keys = keys,
          .size = kSkipSize,
          .columns = kSkipColumns,
          .mask = mask,
          .hidden = hidden};
}
constexpr int kSlotOfValues = 2;  // of Attention

TEST(StreamSkip, FindsBlocksThatAMaskExcludes) {
  for (const double hidden : {-HUGE_VAL, -1e9, kLowest}) {
    const KernelSpec spec = masked(Mask::Causal, hidden, 64, 64).spec().spec;
    const auto s = stream::stream_of(spec);
    ASSERT_TRUE(s.has_value());
    const auto excluded = [&](int64_t row, int64_t last_row, int64_t key, int64_t last_key) {
      stream::Box box{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
      const auto set = [&](int axis, int64_t low, int64_t high) {
        box.low[static_cast<size_t>(axis)] = low;
        box.high[static_cast<size_t>(axis)] = high;
      };
      set(s->rows[0], row, last_row);
      set(s->streamed[0], key, last_key);
      const stream::Excluded e = stream::excluded(spec, *s, box);
      EXPECT_EQ(e.comes_last(), hidden != -HUGE_VAL);
      return e.where == Expression(1);
    };
    EXPECT_TRUE(excluded(0, 15, 16, 63));
    EXPECT_FALSE(excluded(0, 15, 15, 63));  // the last row sees its own key
    EXPECT_FALSE(excluded(16, 31, 0, 15));
  }
  // A score of 0 is not hidden: nothing says that others are far above it.
  const KernelSpec spec = masked(Mask::Causal, 0, 64, 64).spec().spec;
  const stream::Box box{{0, 0, 0, 40, 40}, {0, 15, 0, 63, 63}};
  EXPECT_EQ(stream::excluded(spec, *stream::stream_of(spec), box).where, Expression(0));
}

TEST(StreamSkip, LeavesBlocksOutWhateverHidesThem) {
  for (const double hidden : {-HUGE_VAL, -1e9, kLowest}) {
    MaskedRun causal(masked(Mask::Causal, hidden, 96, 96).spec());
    std::ranges::fill(causal.slot(kSlotOfValues).subspan(64 * kSkipColumns), kNan);
    EXPECT_TRUE(causal.is_number(small_blocks(false), 0, 64)) << hidden;
    EXPECT_FALSE(causal.is_number(small_blocks(false), 64, 96)) << hidden;
    // Keys that lie before all that a row sees come when its maximum is known.
    MaskedRun window(masked(Mask::Window, hidden, 96, 96).spec());
    std::ranges::fill(window.slot(kSlotOfValues).subspan(0, 16 * kSkipColumns), kNan);
    EXPECT_TRUE(window.is_number(small_blocks(false), 32, 96)) << hidden;
  }
}

/// Groups of queries beside each other, as where heads share keys, and few queries.
TEST(StreamSkip, ValuesAreThoseOfThePlainMath) {
  for (const double hidden : {-HUGE_VAL, -1e9, kLowest, -300.0, -64.0})
    for (const Mask mask : {Mask::Causal, Mask::Window, Mask::Nothing})
      for (const bool clamped : {false, true})
        for (const int64_t queries : {96, 3}) {
          Attention a = masked(mask, hidden, queries, 75);
          a.clamped = clamped;
          MaskedRun(a.spec()).expect_values(small_blocks(false));
          if (queries == 3) MaskedRun(a.spec()).expect_values(small_blocks(true));
        }
}

/// Rows that see no key take the mean of all values where a number hides them, scores far below it included.
TEST(StreamSkip, RowsThatSeeNothingWalkOverAllBlocks) {
  for (const double hidden : {-1e9, kLowest, -HUGE_VAL}) {
    MaskedRun none(masked(Mask::Window, hidden, 96, 40).spec());  // from row 48 on
    none.expect_values(small_blocks(false));
    MaskedRun far(
        masked(Mask::Causal, hidden, 96, 96).spec());  // scores of seen keys about that which hides others
    for (float& x : far.slot(0).subspan(0, 32 * kSkipSize)) x *= 1e8F;
    far.expect_values(small_blocks(false));
  }
}

Attention added(Mask mask, double hidden, Attention::Hides hides, int64_t queries, int64_t keys) {
  Attention a = masked(mask, hidden, queries, keys);
  a.hides = hides;
  return a;
}
constexpr Attention::Hides kAdded[] = {Attention::Hides::Added, Attention::Hides::AddedProduct};

/// A mask that is added hides what products of the sizes at hand cannot make up for.
TEST(StreamSkip, MasksThatAreAddedLeaveBlocksOut) {
  for (const Attention::Hides hides : kAdded)
    for (const double hidden : {-1e4, -1e9, kLowest}) {
      MaskedRun causal(added(Mask::Causal, hidden, hides, 96, 96).spec());
      std::ranges::fill(causal.slot(kSlotOfValues).subspan(64 * kSkipColumns), kNan);
      EXPECT_TRUE(causal.is_number(small_blocks(false), 0, 64)) << hidden;
      EXPECT_FALSE(causal.is_number(small_blocks(false), 64, 96)) << hidden;
      MaskedRun window(added(Mask::Window, hidden, hides, 96, 96).spec());
      std::ranges::fill(window.slot(kSlotOfValues).subspan(0, 16 * kSkipColumns), kNan);
      EXPECT_TRUE(window.is_number(small_blocks(false), 32, 96)) << hidden;
    }
}

TEST(StreamSkip, MasksThatAreAddedGiveThePlainMath) {
  for (const Attention::Hides hides : kAdded)
    for (const double hidden : {-1e9, kLowest, -1e4, -300.0, -64.0})
      for (const Mask mask : {Mask::Causal, Mask::Window, Mask::Nothing})
        for (const bool clamped : {false, true})
          for (const int64_t queries : {96, 3}) {
            Attention a = added(mask, hidden, hides, queries, 75);
            a.clamped = clamped;
            MaskedRun(a.spec()).expect_values(small_blocks(false));
            if (queries == 3) MaskedRun(a.spec()).expect_values(small_blocks(true));
          }
}

/// Scores as large as the mask: one key of an excluded block outweighs all that are seen, or makes the row NaN.
TEST(StreamSkip, MasksThatAreAddedHideNoLargerScores) {
  for (const Attention::Hides hides : kAdded)
    for (const float size : {5e3F, 1e5F, 1e30F, std::numeric_limits<float>::infinity(), kNan}) {
      MaskedRun run(added(Mask::Causal, -1e4, hides, 96, 96).spec());
      std::ranges::fill(run.slot(0), 1.0F);
      for (int64_t e = 0; e < kSkipSize; ++e) run.slot(1)[static_cast<size_t>(90 * kSkipSize + e)] = size;
      run.expect_values(small_blocks(false));
    }
}

/// Rows that see no key: the mask shifts their scores and their weights are those of the scores.
TEST(StreamSkip, RowsThatAnAddedMaskHidesWalkOverAllBlocks) {
  for (const Attention::Hides hides : kAdded)
    for (const double hidden : {-1e4, -1e9, kLowest})
      MaskedRun(added(Mask::Window, hidden, hides, 96, 40).spec()).expect_values(small_blocks(false));
}

/// Masks within masks: which number hides a key differs from block to block.
TEST(StreamSkip, MasksWithinMasks) {
  for (const auto& [first, second] : {std::pair{-HUGE_VAL, -1e9}, std::pair{-1e9, -HUGE_VAL}}) {
    SpecBuilder s;
    const Expression n = 96, i = s.axis(n), j = s.axis(n), e = s.axis(kSkipSize);
    const int q = s.slot(n * kSkipSize), k = s.slot(n * kSkipSize);
    const int score = s.value({0, 1}, {2}, Monoid::Add,
                              {s.load(q, i * kSkipSize + e), s.load(k, j * kSkipSize + e)}, product);
    const std::vector<Operand> x{s.read(score), SpecBuilder::number(i.gte(j)),
                                 SpecBuilder::number(j.gte(Expression(40)))};
    const auto hide = [&](ScalarBuilder& b, std::span<const Scalar> in) {
      const Scalar inner = b.select(b.convert(in[2], Dtype::Bool), in[0], b.constant(Dtype::F32, second));
      return b.select(b.convert(in[1], Dtype::Bool), inner, b.constant(Dtype::F32, first));
    };
    const int m = s.value({0}, {1}, Monoid::Max, x, hide);
    std::vector<Operand> with = x;
    with.push_back(s.read(m));
    const int l = s.value({0}, {1}, Monoid::Add, with, [&](ScalarBuilder& b, std::span<const Scalar> in) {
      return math::exp(b, b.sub(hide(b, in), in[3]));
    });
    s.output(l, i, n);
    MaskedRun(s.finish()).expect_values(small_blocks(false));
  }
}

/// As gradients of attention: sum_j exp((x - L) * 0.01) * (s - D) * C[j,d], where x is s or hidden. Rows are queries
/// and L and D are theirs, or rows are keys and the streamed queries have them.
struct GradientLike {
  double hidden = -1e9;
  bool rows_are_keys = false, selects = false, added = false;
  static constexpr int64_t kCount = 96;
  static constexpr int kSlotOfRead = 2, kSlotOfMaxima = 3;

  [[nodiscard]] kernel::Canonical spec() const {
    SpecBuilder s;
    const Expression i = s.axis(kCount), d = s.axis(kSkipColumns), j = s.axis(kCount), e = s.axis(kSkipSize);
    const int a = s.slot(kCount * kSkipSize), c = s.slot(kCount * kSkipSize),
              v = s.slot(kCount * kSkipColumns), l = s.slot(kCount), delta = s.slot(kCount);
    const int inner = s.value({0, 2}, {3}, Monoid::Add,
                              {s.load(a, i * kSkipSize + e), s.load(c, j * kSkipSize + e)}, product);
    const Expression query = rows_are_keys ? j : i, key = rows_are_keys ? i : j;
    const std::vector<Operand> operands{s.read(inner), s.load(v, j * kSkipColumns + d), s.load(l, query),
                                        s.load(delta, query), SpecBuilder::number(query.gte(key))};
    const int y = s.value({0, 1}, {2}, Monoid::Add, operands, [&](ScalarBuilder& b, auto in) {
      const Scalar seen = b.convert(in[4], Dtype::Bool);
      const Scalar low = b.constant(Dtype::F32, hidden);
      const Scalar x =
          added ? b.add(in[0], b.select(seen, b.constant(Dtype::F32, 0), low)) : b.select(seen, in[0], low);
      const Scalar p = math::exp(b, b.mul(b.sub(x, in[2]), b.constant(Dtype::F32, 0.01)));
      Scalar w = b.mul(p, b.sub(in[0], in[3]));
      if (selects) w = b.select(seen, w, b.constant(Dtype::F32, 0));
      return b.mul(w, in[1]);
    });
    s.output(y, i * kSkipColumns + d, kCount * kSkipColumns);
    return s.finish();
  }
};

TEST(StreamSkip, GradientsLeaveBlocksOut) {
  for (const double hidden : {-HUGE_VAL, -1e9, kLowest})
    for (const bool rows_are_keys : {false, true})
      for (const auto& [selects, added] : {std::pair{false, false}, {true, false}, {false, true}}) {
        SCOPED_TRACE(testing::Message() << hidden << " rows are keys: " << rows_are_keys << selects << added);
        const GradientLike gradient{hidden, rows_are_keys, selects, added};
        MaskedRun(gradient.spec()).expect_values(small_blocks(false), 2e-4);  // terms cancel
        MaskedRun poisoned(gradient.spec());
        const auto read = poisoned.slot(GradientLike::kSlotOfRead);
        std::ranges::fill(
            rows_are_keys ? read.subspan(0, 16 * kSkipColumns) : read.subspan(64 * kSkipColumns), kNan);
        EXPECT_TRUE(rows_are_keys ? poisoned.is_number(small_blocks(false), 32, 96)
                                  : poisoned.is_number(small_blocks(false), 0, 64));
      }
}

/// Where the maximum of a query is what hides its keys, they count; where it is none, they give NaN.
TEST(StreamSkip, GradientsOfQueriesThatSeeNothing) {
  for (const bool rows_are_keys : {false, true})
    for (const double hidden : {-1e9, kLowest, -HUGE_VAL}) {
      MaskedRun run(GradientLike{hidden, rows_are_keys}.spec());
      for (const size_t query : {0, 17, 40})
        run.slot(GradientLike::kSlotOfMaxima)[query] = static_cast<float>(hidden);
      for (float& x : run.slot(0)) x = 0;  // no score but 0: exp(0 - hidden) is infinite where a key is seen
      run.expect_values(small_blocks(false));
    }
}

}  // namespace
}  // namespace luminal::codegen
