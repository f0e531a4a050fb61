#include "luminal/block_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "luminal/error.h"
#include "luminal/gguf.h"
#include "luminal/quantized.h"
#include "support/files.h"

namespace luminal {
namespace {

const std::string kBlockData = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/formats/data/";

/// Blocks and what GGML's Python package decodes them to (tools/gguf_test_data.py).
const GgufFile& decoded_blocks() {
  static const GgufFile file(kBlockData + "blocks.gguf");
  return file;
}

class BlockFormatOf : public testing::TestWithParam<std::string> {};

TEST_P(BlockFormatOf, DecodesToTheBitsOfThePythonPackage) {
  const TensorData expected = decoded_blocks().read(GetParam() + ".values"),
                   got = decoded_blocks().read_f32(GetParam());
  ASSERT_EQ(got.dims, expected.dims);
  const auto a = expected.as<float>(), b = got.as<float>();
  for (size_t k = 0; k < a.size(); ++k)
    ASSERT_EQ(std::bit_cast<uint32_t>(a[k]), std::bit_cast<uint32_t>(b[k]))
        << "value " << k << " is " << b[k] << " instead of " << a[k];
}

TEST_P(BlockFormatOf, ReadsEveryByteOfItsBlocks) {
  const BlockFormat* format = find_block_format(GetParam());
  ASSERT_NE(format, nullptr);
  std::vector<std::byte> block(static_cast<size_t>(format->block_bytes));
  decoded_blocks().read(GetParam(), 0, block);
  std::vector<float> before(static_cast<size_t>(format->block_elements)), after(before.size());
  decode_blocks(*format, block, before);
  for (size_t at = 0; at < block.size(); ++at) {
    bool changed = false;
    for (int bit = 0; bit < 8 && !changed; ++bit) {
      block[at] ^= static_cast<std::byte>(1 << bit);
      decode_blocks(*format, block, after);
      block[at] ^= static_cast<std::byte>(1 << bit);
      changed = before != after;
    }
    EXPECT_TRUE(changed) << "byte " << at;
  }
}

TEST_P(BlockFormatOf, HasTheSizesOfItsGgufType) {
  const BlockFormat* format = find_block_format(GetParam());
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(format->block_elements, gguf_type(GetParam()).block_elements);
  EXPECT_EQ(format->block_bytes, gguf_type(GetParam()).block_bytes);
}

TEST_P(BlockFormatOf, IsADtypeThatGgufFilesGiveAsTheyAre) {
  const BlockFormat* format = find_block_format(GetParam());
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(&block_format(format->dtype), format);
  const TensorData blocks = decoded_blocks().read(GetParam()),
                   values = decoded_blocks().read(GetParam() + ".values");
  EXPECT_EQ(blocks.dtype, format->dtype);
  EXPECT_EQ(dequantize(blocks).bytes, values.bytes);
  // Runs of values that begin and end within blocks.
  const int64_t count = blocks.element_count();
  for (const int64_t first : {int64_t{0}, int64_t{5}, count / 2 - 3}) {
    std::vector<float> part(static_cast<size_t>(count / 2 + 1 - first / 2));
    dequantize(blocks.dtype, blocks.bytes.data(), first, part);
    EXPECT_EQ(std::memcmp(part.data(), values.as<float>().data() + first, part.size() * sizeof(float)), 0)
        << first;
  }
}

std::vector<std::string> block_types() {
  std::vector<std::string> names;
  for (const GgufType& type : gguf_types())
    if (type.block_elements > 1) names.emplace_back(type.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, BlockFormatOf, testing::ValuesIn(block_types()),
                         [](const auto& test) { return test.param; });

TEST(BlockFormat, EveryDescriptionIsOfAGgufType) { EXPECT_EQ(block_formats().size(), block_types().size()); }

TEST(BlockFormat, PlainDtypesHaveNone) { EXPECT_THROW((void)block_format(Dtype::F16), DtypeError); }

TEST(BlockFormat, OffersNothingUnderOtherNames) { EXPECT_EQ(find_block_format("q4_k"), nullptr); }

TEST(BlockFormat, ValuesMustBeThoseOfTheBlocks) {
  std::vector<std::byte> blocks(36);
  std::vector<float> values(32);
  EXPECT_EQ(test::error_of<ShapeError>([&] { decode_blocks(*find_block_format("Q4_0"), blocks, values); }),
            "[decode_blocks] 32 values of Q4_0 are blocks of 32 values in 18 bytes; 36 bytes were given");
  values.resize(40);
  EXPECT_THROW(decode_blocks(*find_block_format("Q4_0"), blocks, values), ShapeError);
  decode_blocks(*find_block_format("Q4_0"), {}, {});
}

}  // namespace
}  // namespace luminal
