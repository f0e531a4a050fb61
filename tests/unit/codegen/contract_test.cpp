#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/contract_prediction.h"
#include "codegen/schedules/families.h"
#include "luminal/scalar_math.h"
#include "unit/kernel/check.h"

namespace luminal::codegen {
namespace {

using namespace test_cases;

const Schedule& contract() { return contract_schedule(); }

TEST(Contract, AllCandidatesOfMatrixProductsInAllTranspositions) {
  for (const bool a : {false, true})
    for (const bool b : {false, true})
      for (const Target& target : {avx512(), avx2()})
        check_candidates(contract(),
                         Matmul{.m = 17, .n = 37, .k = 19, .turned_a = a, .turned_b = b}.spec().spec, {},
                         target, {{}});
}

TEST(Contract, EpiloguesBatchesAndTypes) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::I64})
    check_candidates(
        contract(),
        Matmul{.m = 9, .n = 19, .k = 12, .batch = 3, .epilogue = true, .dtype = dtype}.spec().spec, {},
        avx512(), {{}}, dtype == Dtype::F16 || dtype == Dtype::BF16 ? 1e-2 : 0);
}

TEST(Contract, ConvolutionsAndTheirGradients) {
  const Conv cases[] = {
      {.images = 3, .channels = 4, .height = 6, .width = 7, .filters = 5},
      {.images = 2, .channels = 1, .height = 9, .width = 20, .filters = 6, .pad = 0},
      {.images = 2, .channels = 3, .height = 8, .width = 9, .filters = 4, .stride = 2},
      {.images = 1, .channels = 5, .height = 5, .width = 6, .filters = 7, .side = 1, .pad = 0}};
  for (const Conv& c : cases)
    for (const Target& target : {avx512(), avx2()}) {
      check_candidates(contract(), c.forward().spec, {}, target, {{}});
      check_candidates(contract(), c.weight_gradient().spec, {}, target, {{}});
      // The gradient of one channel sums over all there is on one side: no axis is left to that side alone.
      if (c.channels > 1) check_candidates(contract(), c.input_gradient().spec, {}, target, {{}});
    }
}

TEST(Contract, CornersOfTheParameterSpace) {
  const auto matmul = Matmul{.m = 11, .n = 35, .k = 21, .turned_b = true, .epilogue = true}.spec();
  const auto conv = Conv{.images = 3, .channels = 2, .height = 5, .width = 6, .filters = 5};
  const KernelSpec specs[] = {matmul.spec, conv.forward().spec, conv.weight_gradient().spec};
  for (const KernelSpec& spec : specs)
    for (const int64_t swap_operands : {0, 1})
      for (const int64_t pack : {0, 1, 2, 12, 20, 10, 21})
        for (const auto& [tile_m, tile_n, task_m, task_n, depth, splits] :
             {std::array<int64_t, 6>{3, 1, 1, 1, 1, 1}, {4, 2, 100, 100, 2, 2}, {17, 1, 2, 1, 0, 3}}) {
          const Parameters p{{"swap_operands", swap_operands},
                             {"tile_m", tile_m},
                             {"tile_n", tile_n},
                             {"task_m", task_m},
                             {"task_n", task_n},
                             {"depth", depth},
                             {"splits", splits},
                             {"pack_m", pack / 10},
                             {"pack_n", pack % 10}};
          check_loops(contract(), spec, p, {}, avx2(), {{}});
        }
}

/// A side whose slots are frozen is packed by a stage that prepares, whatever the other side does.
TEST(Contract, FrozenSidesArePreparedFirst) {
  const KernelSpec specs[] = {
      Matmul{.m = 11, .n = 35, .k = 21, .epilogue = true}.spec().spec,
      Conv{.images = 2, .channels = 3, .height = 5, .width = 6, .filters = 5}.forward().spec};
  for (const KernelSpec& spec : specs)
    for (const bool first : {false, true})
      for (const bool second : {false, true})
        for (const int64_t swap_operands : {0, 1})
          for (const int64_t pack : {0, 2, 20, 22, 12, 21}) {
            std::vector<bool> frozen(spec.slots().size(), false);
            frozen[0] = first, frozen[1] = second;
            const int64_t pack_m = pack / 10, pack_n = pack % 10;
            const Parameters p{{"swap_operands", swap_operands},
                               {"tile_m", 4},
                               {"tile_n", 2},
                               {"task_m", 2},
                               {"task_n", 1},
                               {"depth", 2},
                               {"splits", 1},
                               {"pack_m", pack_m},
                               {"pack_n", pack_n}};
            const KernelSpec marked = kernel::with_frozen(spec, frozen);
            check_loops(contract(), marked, p, {}, avx2(), {{}});
            const Program program = contract().lower(marked, p, {}, avx2());
            const bool left = frozen[swap_operands == 0 ? 0 : 1], right = frozen[swap_operands == 0 ? 1 : 0];
            const size_t expected = (pack_m == 2 && left ? 1U : 0U) + (pack_n == 2 && right ? 1U : 0U);
            EXPECT_EQ(preparing_stages(program), expected) << to_string(p) << "\n" << program.to_string();
            EXPECT_EQ(workspace_of(program, Space::Prepared).bytes == Expression(0), expected == 0);
          }
}

/// Weights are packed alike for all numbers of rows, and by no other tiles: plans for several sizes share the copy.
TEST(Contract, RowsDoNotTellInWhatIsPrepared) {
  const auto preparation = [](const Expression& rows, const Bucket& bucket, int64_t tile_n, int64_t columns) {
    const KernelSpec spec = Matmul{.m = rows, .n = columns, .k = 64}.spec().spec;
    const Parameters p{{"swap_operands", 0}, {"tile_m", 4}, {"tile_n", tile_n}, {"task_m", 2}, {"task_n", 1},
                       {"depth", 64},        {"splits", 1}, {"pack_m", 0},      {"pack_n", 2}};
    const Program program = contract().lower(kernel::with_frozen(spec, {false, true}), p, bucket, avx2());
    EXPECT_EQ(preparing_stages(program), 1U) << program.to_string();
    return preparation_of(program).hash;
  };
  const Expression n("n");
  const uint64_t own = preparation(n, Bucket({{"n", {33, 64}}}), 2, 96);
  EXPECT_NE(own, 0U);
  EXPECT_EQ(preparation(n, Bucket({{"n", {65, 128}}}), 2, 96), own);
  EXPECT_EQ(preparation(n, Bucket({{"n", {16, 64, 16}}}), 2, 96), own);
  EXPECT_EQ(preparation(7, {}, 2, 96), own);
  EXPECT_NE(preparation(n, Bucket({{"n", {33, 64}}}), 1, 96), own);
  EXPECT_NE(preparation(n, Bucket({{"n", {33, 64}}}), 2, 80), own);
}

/// What is packed before the kernel runs takes none of its time.
TEST(Contract, FrozenSidesArePackedForNothing) {
  for (const Target& target : {avx512(), avx2()}) {
    const KernelSpec spec = Matmul{.m = 64, .n = 1024, .k = 1024}.spec().spec;
    const KernelSpec marked = kernel::with_frozen(spec, {false, true});
    const Candidate plain = contract().candidates(spec, {}, target).at(0);
    const Candidate best = contract().candidates(marked, {}, target).at(0);
    EXPECT_LT(best.predicted_us, 0.95 * plain.predicted_us);
    const bool swapped = best.parameters.at("swap_operands") != 0;
    EXPECT_EQ(best.parameters.at(swapped ? "pack_m" : "pack_n"), 2) << to_string(best.parameters);
  }
}

/// More columns than are packed in one go, the last panel in part; past the caches where they are small.
TEST(Contract, ManyPanelsPackedTogether) {
  for (const int64_t l2 : {int64_t{1} << 20, int64_t{1} << 10})
    for (const bool turned : {false, true})
      for (const int64_t n : {2100, 2048}) {
        Target target = avx2();
        target.l2_bytes = l2;
        const Parameters p{{"swap_operands", 0}, {"tile_m", 3}, {"tile_n", 2}, {"task_m", 1}, {"task_n", 7},
                           {"depth", 0},         {"splits", 1}, {"pack_m", 0}, {"pack_n", 2}};
        check_loops(contract(), Matmul{.m = 3, .n = n, .k = 5, .batch = 2, .turned_b = turned}.spec().spec, p,
                    {}, target, {{}});
      }
}

/// A few rows against a large matrix: it streams by once, unpacked.
TEST(Contract, SkinnyProductsStream) {
  for (const Target& target : {avx512(), avx2()}) {
    const KernelSpec spec = Matmul{.m = 8, .n = 4096, .k = 4096}.spec().spec;
    const Parameters first = contract().candidates(spec, {}, target).at(0).parameters;
    EXPECT_EQ(first.at("pack_n"), 0) << to_string(first);
    EXPECT_LE(first.at("depth"), 16) << to_string(first);
    EXPECT_GT(first.at("depth"), 0) << to_string(first);
    EXPECT_GT(first.at("ahead"), 0) << to_string(first);
  }
  Parameters p{{"swap_operands", 0}, {"tile_m", 5}, {"tile_n", 2}, {"task_m", 1}, {"task_n", 3},
               {"depth", 8},         {"splits", 1}, {"pack_m", 0}, {"pack_n", 0}};
  for (const int64_t ahead : {0, 24}) {
    p["ahead"] = ahead;
    const KernelSpec spec = Matmul{.m = 5, .n = 75, .k = 29}.spec().spec;
    check_loops(contract(), spec, p, {}, avx2(), {{}});
    // Three panels of 16 columns on.
    const std::string loops = contract().lower(spec, p, {}, avx2()).to_string();
    EXPECT_EQ((loops.find("prefetch A1") != std::string::npos), ahead > 0) << loops;
  }
}

/// Weights in blocks that stream by: what is fetched ahead has no elements of its own size.
TEST(Contract, BlocksThatStreamAreFetchedAhead) {
  for (const Dtype weights : {Dtype::Q8_0, Dtype::Q4_K, Dtype::BF16}) {
    SpecBuilder s;
    const int64_t m = 5, n = 256, k = 24;
    const Expression i = s.axis(m), j = s.axis(n), r = s.axis(k);
    const int x = s.slot(m * k, Dtype::F32), w = s.slot(k * n, weights);
    const int sum = s.value(
        {0, 1}, {2}, Monoid::Add, {s.load(x, i * k + r), s.load(w, r * n + j)},
        [](ScalarBuilder& f, std::span<const Scalar> v) { return f.mul(v[0], f.convert(v[1], Dtype::F32)); });
    s.output(sum, i * n + j, m * n);
    const KernelSpec spec = s.finish().spec;
    const Parameters p{{"swap_operands", 0}, {"tile_m", 5}, {"tile_n", 2}, {"task_m", 1}, {"task_n", 3},
                       {"depth", 8},         {"splits", 1}, {"pack_m", 0}, {"pack_n", 0}, {"ahead", 24}};
    EXPECT_NE(contract().lower(spec, p, {}, avx512()).to_string().find("prefetch A1"), std::string::npos);
    check_loops(contract(), spec, p, {}, avx512(), {{}}, 1e-6);
  }
}

/// A vector times a matrix is a product without rows: the matrix streams by in whole rows.
TEST(Contract, VectorTimesMatrixStreams) {
  for (const Target& target : {avx512(), avx2()}) {
    const KernelSpec spec = Matmul{.m = 1, .n = 4096, .k = 4096}.spec().spec;
    const auto candidates = contract().candidates(spec, {}, target);
    ASSERT_FALSE(candidates.empty());
    for (const Candidate& c : candidates) EXPECT_EQ(c.parameters.at("pack_n"), 0) << to_string(c.parameters);
    EXPECT_GT(candidates[0].parameters.at("depth"), 0) << to_string(candidates[0].parameters);
  }
  for (const bool epilogue : {false, true}) {
    check_candidates(contract(), Matmul{.m = 1, .n = 75, .k = 29, .epilogue = epilogue}.spec().spec, {},
                     avx2(), {{}});
    check_candidates(contract(),
                     Matmul{.m = 43, .n = 1, .k = 29, .turned_a = true, .epilogue = epilogue}.spec().spec, {},
                     avx512(), {{}});
  }
  // A matrix that lies along the sum is a reduction of each of its rows.
  EXPECT_TRUE(contract().candidates(Matmul{.m = 43, .n = 1, .k = 29}.spec().spec, {}, avx2()).empty());
  const Parameters p{{"swap_operands", 0}, {"tile_m", 1}, {"tile_n", 3}, {"task_m", 1}, {"task_n", 2},
                     {"depth", 8},         {"splits", 2}, {"pack_m", 0}, {"pack_n", 0}};
  check_loops(contract(), Matmul{.m = 1, .n = 75, .k = 29, .batch = 2}.spec().spec, p, {}, avx2(), {{}});
}

TEST(Contract, SymbolicDimsAtSeveralSizes) {
  const DimFacts facts{.min = 0, .max = 40};
  const Bucket bucket{{{"s", facts}}};
  const Expression s = Expression::dim("s", facts);
  const std::vector<DimMap> sizes{{{"s", 40}}, {{"s", 17}}, {{"s", 1}}, {{"s", 0}}};
  check_candidates(contract(), Matmul{.m = s, .n = 21, .k = 10}.spec().spec, bucket, avx512(), sizes);
  check_candidates(contract(),
                   Matmul{.m = 7, .n = s, .k = 10, .turned_b = true, .epilogue = true}.spec().spec, bucket,
                   avx512(), sizes);
  check_candidates(contract(), Matmul{.m = 7, .n = 21, .k = s, .turned_a = true}.spec().spec, bucket,
                   avx512(), sizes);
  const Conv conv{.images = s, .channels = 2, .height = 4, .width = 5, .filters = 3};
  const std::vector<DimMap> few{{{"s", 5}}, {{"s", 1}}};
  check_candidates(contract(), conv.forward().spec, bucket, avx512(), few);
  check_candidates(contract(), conv.weight_gradient().spec, bucket, avx512(), few);
}

/// A sum over one element is no sum: its body is computed as the side is packed, here from places that lie
/// unevenly.
TEST(Contract, ASideThatIsComputedFromScatteredPlaces) {
  Graph cx;
  const GraphTensor x = cx.tensor({6, 8, "s"}), w = cx.tensor({8, 21});
  const GraphTensor y = x.roll(3, 1).square().sum(2).matmul(w);
  const auto fused = kernel::test::WholeFusion(cx, 1).run(cx.resolve(y.edge()).source);
  ASSERT_TRUE(fused);
  const Bucket bucket{{{"s", {.min = 1, .max = 1}}}};
  for (const Target& target : {avx2(), avx512()}) {
    EXPECT_FALSE(contract().candidates(fused->spec, bucket, target).empty()) << fused->spec.to_string();
    check_candidates(contract(), fused->spec, bucket, target, {{{"s", 1}}});
  }
}

/// A side that is computed as it is packed takes its time, the more often the more often it is packed.
TEST(Contract, PredictsWhatSidesCompute) {
  const auto product = [](bool sine) {
    SpecBuilder s;
    const Expression i = s.axis(256), j = s.axis(512), k = s.axis(256);
    const int a = s.slot(256 * 256), b = s.slot(256 * 512);
    const int sum = s.value({0, 1}, {2}, Monoid::Add, {s.load(a, i * 256 + k), s.load(b, k * 512 + j)},
                            [&](ScalarBuilder& f, std::span<const Scalar> x) {
                              return f.mul(x[0], sine ? math::sin(f, x[1]) : x[1]);
                            });
    s.output(sum, i * 512 + j, 256 * 512);
    return contract().candidates(s.finish().spec, {}, avx512()).at(0).predicted_us;
  };
  EXPECT_GT(product(true), product(false) + 5);
}

/// Calls f(spec, target) for products of many shapes on machines with few and many threads.
template <class F>
void for_products(F f) {
  for (const int m : {1, 3, 17, 64, 300})
    for (const int n : {1, 10, 96, 700})
      for (const int k : {7, 128, 1000})
        for (const bool turned : {false, true})
          for (Target target : {avx512(), avx2()})
            for (const int threads : {1, 2, 8}) {
              target.threads = threads;
              f(Matmul{.m = m, .n = n, .k = k, .turned_b = turned, .epilogue = m == 17}.spec().spec, target);
              if (testing::Test::HasFailure()) return;
            }
}

/// What Fast mode takes is what heads the list of the others.
TEST(Contract, TheBestAloneIsTheFirstOfAll) {
  int taken = 0;
  for_products([&](const KernelSpec& spec, const Target& target) {
    const auto all = contract().candidates(spec, {}, target);
    const auto best = best_of(contract(), spec, {}, target);
    ASSERT_EQ(all.empty(), !best) << spec.to_string();
    if (!best) return;
    ++taken;
    EXPECT_EQ(best->predicted_us, all[0].predicted_us) << spec.to_string();
    EXPECT_EQ(to_string(best->parameters), to_string(all[0].parameters)) << spec.to_string();
  });
  EXPECT_GT(taken, 400);
}

/// The search leaves out what these bounds say is too slow.
TEST(Contract, NothingIsFasterThanItsBound) {
  for_products([&](const KernelSpec& spec, const Target& target) {
    const auto contraction = contract::analyse(spec);
    if (!contraction) return;  // a row by a column
    for (const bool swap_operands : {false, true}) {
      if ((swap_operands ? contraction->rows : contraction->columns).empty()) continue;
      const contract::Problem p = contract::problem_of(spec, *contraction, swap_operands, {}, target);
      for (const int64_t height : {1, 5, 14})
        for (const int64_t vectors : {1, 2})
          for (const int64_t depth : {0, 3})
            for (const int64_t splits : {1, 4})
              for (const auto pack :
                   {contract::Packing::Direct, contract::Packing::Task, contract::Packing::Shared}) {
                const contract::Tiles tiles(p, height, vectors, target);
                const contract::Tiling t{.swap_operands = swap_operands,
                                         .tile_m = height,
                                         .tile_n = vectors,
                                         .depth = depth,
                                         .splits = splits,
                                         .pack_m = pack,
                                         .pack_n = pack};
                const contract::Prediction prediction(p, tiles, t, target);
                EXPECT_GE(prediction.least_us(), tiles.least_us * (1 - 1e-12));
                for (const contract::Dealt& d : tiles.dealt) {
                  const double us = prediction.us(d, contract::kNever);
                  EXPECT_GE(us, prediction.least_us() * (1 - 1e-12));
                  EXPECT_EQ(prediction.us(d, us), us) << "equal times are not given up";
                }
              }
    }
  });
}

/// Y[r,i,j] = (sum k: A[i,k] * B[k,j]) + C[r]: each result goes to several places.
TEST(Contract, ResultsThatAreReadAlongFurtherAxes) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{20, 33, 24}, {5, 64, 300}, {64, 7, 17}}) {
    SpecBuilder s;
    const Expression r = s.axis(3), i = s.axis(m), j = s.axis(n), l = s.axis(k);
    const int a = s.slot(m * k), b = s.slot(k * n), c = s.slot(3);
    const int sum = s.value({1, 2}, {3}, Monoid::Add, {s.load(a, i * k + l), s.load(b, l * n + j)},
                            [](ScalarBuilder& x, std::span<const Scalar> v) { return x.mul(v[0], v[1]); });
    const int shifted =
        s.value({0, 1, 2}, {}, {}, {s.read(sum), s.load(c, r)},
                [](ScalarBuilder& x, std::span<const Scalar> v) { return x.add(v[0], v[1]); });
    s.output(shifted, (r * m + i) * n + j, 3 * m * n);
    check_candidates(contract_schedule(), s.finish().spec, {}, avx2(), {{}});
  }
}

/// A bucket may hold the size 0 alone: there is nothing to tile.
TEST(Contract, LeavesProductsWithoutElements) {
  const Expression s = Expression::dim("s", {.min = 0, .max = 40});
  const Bucket none{{{"s", {.min = 0, .max = 0}}}};
  for (const Matmul& product :
       {Matmul{.m = s, .n = 20, .k = 12}, Matmul{.m = 9, .n = s, .k = 12}, Matmul{.m = 9, .n = 20, .k = s}})
    EXPECT_TRUE(contract().candidates(product.spec().spec, none, avx512()).empty());
}

TEST(Contract, TakesNothingElse) {
  SpecBuilder s;
  const Expression i = s.axis(4), k = s.axis(8);
  const int a = s.slot(32);
  s.output(s.value({0}, {1}, Monoid::Add, {s.load(a, i * 8 + k)},
                   [](ScalarBuilder& b, std::span<const Scalar> x) { return b.mul(x[0], x[0]); }),
           i, 4);
  EXPECT_TRUE(contract().candidates(s.finish().spec, {}, avx512()).empty());
}

}  // namespace
}  // namespace luminal::codegen
