#include "codegen/block_panels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cases.h"

/// Blocks packed in panels are read as what they were.
namespace luminal::codegen {
namespace {

using namespace test_cases;

constexpr int64_t kSets = 3;

/// Rows of kSets blocks in panels, then numbers and factors of all elements as outputs of their own: by set and element,
/// of each row.
Program read_back(const BlockFormat& format, const BlockPanels& panels, bool in_loops) {
  Program program{.name = "test"};
  const int rows = panels.rows();
  const int64_t elements = format.block_elements, all = kSets * elements * rows;
  const int w = add_buffer(
      program, {.name = "W", .number = 0, .dtype = format.dtype, .elements = all, .is_frozen = true});
  int outputs = 0;
  const auto output = [&](const char* name, Dtype dtype) {
    return add_buffer(
        program,
        {.name = name, .space = Space::Output, .number = outputs++, .dtype = dtype, .elements = all});
  };
  const int numbers = output("N", Dtype::U8), scales = output("S", Dtype::F32);
  const int offsets = output("O", Dtype::F32);
  const int packed = add_buffer(
      program,
      {.name = "P", .space = Space::Prepared, .dtype = Dtype::U8, .elements = kSets * panels.set_bytes()});
  StageBuilder pack(program, kSets);
  std::vector<Expression> from;
  for (int r = 0; r < rows; ++r) from.push_back((r * kSets + pack.task()) * elements);
  panels.store(pack, w, from, packed, pack.task());
  pack.finish(true);
  StageBuilder b(program, kSets);
  const auto read_numbers = [&](const Expression& step) {
    for (int64_t at = 0; at < panels.period(); at += 4)
      b.store(numbers, (b.task() * elements + step * panels.period() + at) * rows,
              panels.numbers(b, packed, b.task(), step, at));
  };
  if (in_loops)
    b.loop(elements / panels.period(), LoopKind::Serial, read_numbers);
  else
    for (int64_t step = 0; step < elements / panels.period(); ++step) read_numbers(step);
  for (int64_t i = 0; i < elements; ++i) {
    const BlockFactors f = panels.factors(b, packed, b.task(), i);
    const Expression at = (b.task() * elements + i) * rows;
    b.store(scales, at, f.scale);
    b.store(offsets, at, f.offset == kNone ? b.constant({Dtype::F32, rows}, 0) : f.offset);
  }
  b.finish();
  return program;
}

class Panels : public testing::TestWithParam<Dtype> {};

TEST_P(Panels, HoldTheRowsValues) {
  const BlockFormat& format = block_format(GetParam());
  for (const int rows : {8, 16}) {
    const auto panels = BlockPanels::of(format, rows);
    if (!panels) {
      // Signs by position or tables that are no bytes: the formats of one to three bits with codebooks, among others.
      EXPECT_TRUE(format.name.starts_with("IQ1") || format.name.starts_with("IQ2") ||
                  format.name.starts_with("IQ3") || format.name.starts_with("TQ") || format.name == "NVFP4")
          << format.name;
      continue;
    }
    EXPECT_EQ(panels->set_bytes(), rows * format.block_bytes);
    const int64_t elements = format.block_elements;
    const TensorData w = random_blocks(GetParam(), {rows, kSets * elements}, 5);
    const TensorData want = dequantize(w);
    for (const bool in_loops : {false, true}) {
      const Program program = read_back(format, *panels, in_loops);
      verify(program);
      const std::vector<TensorData> got = interpret(program, std::vector{w});
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < kSets * elements; ++i) {
          // Numbers lie in fours of each row.
          const int64_t four = i / 4 * 4 * rows + r * 4 + i % 4, at = i * rows + r;
          const auto level =
              static_cast<float>(int{got[0].as<uint8_t>()[static_cast<size_t>(four)]} + panels->shift());
          const float product = got[1].as<float>()[static_cast<size_t>(at)] * level,
                      value = format.offset.empty() ? product
                                                    : product + got[2].as<float>()[static_cast<size_t>(at)];
          const float wanted = want.as<float>()[static_cast<size_t>(r * kSets * elements + i)];
          ASSERT_EQ(std::memcmp(&value, &wanted, sizeof value), 0)
              << fmt::format("row {} of {}, element {}: {} for {}", r, rows, i, value, wanted);
        }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Panels, testing::ValuesIn(block_dtypes()),
                         [](const auto& test) { return std::string(name(test.param)); });

// A scale of two bytes before the numbers keeps them from beginning at a multiple of four.
TEST(Panels, BeginWithWhatIsNoMultipleOfFour) {
  const auto q8_0 = BlockPanels::of(*find_block_format("Q8_0"), 16),
             q6_k = BlockPanels::of(*find_block_format("Q6_K"), 16),
             mxfp4 = BlockPanels::of(*find_block_format("MXFP4"), 16);
  ASSERT_TRUE(q8_0 && q6_k && mxfp4);
  EXPECT_EQ(q8_0->piece_of(1), (BlockPanels::Piece{0, 2}));
  EXPECT_EQ(q8_0->piece_of(7), (BlockPanels::Piece{6, 4}));
  EXPECT_EQ(q6_k->piece_of(7), (BlockPanels::Piece{4, 4}));
  EXPECT_EQ(q6_k->piece_of(209), (BlockPanels::Piece{208, 2}));  // the scale of all
  EXPECT_EQ(mxfp4->piece_of(0), (BlockPanels::Piece{0, 1}));
  EXPECT_EQ(mxfp4->piece_of(16), (BlockPanels::Piece{13, 4}));
}

// So a kernel walks through a panel from its begin to its end.
TEST(Panels, HoldPiecesInTheOrderOfTheirUse) {
  const auto q6_k = BlockPanels::of(*find_block_format("Q6_K"), 16);
  ASSERT_TRUE(q6_k);
  const auto offset = [&](int byte) { return q6_k->offset_of(q6_k->piece_of(byte)); };
  EXPECT_LT(offset(208), 20);  // the scale of all, beside those of groups
  EXPECT_LT(offset(192), 20);
  EXPECT_EQ(offset(0), 18);            // four bits of the first half's numbers
  EXPECT_LT(offset(128), offset(64));  // their upper two before the second half
  const auto q4_0 = BlockPanels::of(*find_block_format("Q4_0"), 16);
  ASSERT_TRUE(q4_0);
  for (const int byte : {0, 2, 6, 10, 14}) EXPECT_EQ(q4_0->offset_of(q4_0->piece_of(byte)), byte);
}

TEST(Panels, KnowTheirGreatestNumber) {
  const auto greatest = [](const char* name) {
    return BlockPanels::of(*find_block_format(name), 16)->greatest();
  };
  EXPECT_EQ(greatest("Q8_0"), 255);  // numbers with a sign, less -128
  EXPECT_EQ(greatest("Q4_0"), 15);
  EXPECT_EQ(greatest("Q6_K"), 63);
  EXPECT_EQ(greatest("IQ4_NL"), 255);
}

TEST(Panels, RepeatWhatIsDoneWithBytes) {
  const auto period = [](const char* name) {
    return BlockPanels::of(*find_block_format(name), 16)->period();
  };
  EXPECT_EQ(period("Q8_0"), 32);
  EXPECT_EQ(period("Q4_0"), 32);
  EXPECT_EQ(period("Q4_K"), 64);   // bytes hold four bits of two groups
  EXPECT_EQ(period("Q6_K"), 128);  // and two bits of four
  EXPECT_EQ(period("Q5_K"), 256);  // and one bit of eight
}

}  // namespace
}  // namespace luminal::codegen
