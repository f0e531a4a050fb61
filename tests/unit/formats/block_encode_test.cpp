#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "luminal/block_format.h"
#include "luminal/error.h"
#include "luminal/gguf.h"
#include "support/files.h"

namespace luminal {
namespace {

using testing::HasSubstr;

std::vector<std::byte> encoded(const BlockFormat& format, std::span<const float> values,
                               std::span<const float> importance = {}) {
  std::vector<std::byte> blocks(values.size() / static_cast<size_t>(format.block_elements) *
                                static_cast<size_t>(format.block_bytes));
  encode_blocks(format, values, blocks, importance);
  return blocks;
}

std::vector<float> decoded(const BlockFormat& format, std::span<const std::byte> blocks) {
  std::vector<float> values(blocks.size() / static_cast<size_t>(format.block_bytes) *
                            static_cast<size_t>(format.block_elements));
  decode_blocks(format, blocks, values);
  return values;
}

std::vector<float> normal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

/// The file is tools/gguf_encode_test_data.py's, by the `gguf` package.
TEST(BlockEncode, MakesTheBitsThatGgmlMakes) {
  const GgufFile file(std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/formats/data/encoded.gguf");
  const TensorData values = file.read_f32("values");
  ASSERT_EQ(file.tensors().size(), 9U);
  for (const GgufTensorInfo& tensor : file.tensors()) {
    if (tensor.name == "values") continue;
    std::vector<std::byte> expected(static_cast<size_t>(tensor.size_bytes()));
    file.read(tensor.name, 0, expected);
    const BlockFormat& format = *find_block_format(tensor.name);
    const std::vector<std::byte> got = encoded(format, values.as<float>());
    for (size_t at = 0; at < got.size(); ++at)
      ASSERT_EQ(got[at], expected[at])
          << tensor.name << ", byte " << at % static_cast<size_t>(format.block_bytes) << " of block "
          << at / static_cast<size_t>(format.block_bytes);
  }
}

/// Encoding what blocks decode to moves values by far less than encoding them moved them: fields land where the
/// description reads them.
TEST(BlockEncode, DecodedBlocksEncodeToThemselves) {
  const std::vector<float> values = normal(2048, 3);
  int formats = 0;
  for (const BlockFormat& format : block_formats()) {
    if (!can_encode(format)) continue;
    ++formats;
    const std::vector<float> once = decoded(format, encoded(format, values));
    const std::vector<float> twice = decoded(format, encoded(format, once));
    double moved = 0, error = 0;
    for (size_t i = 0; i < once.size(); ++i)
      moved += std::pow(twice[i] - once[i], 2), error += std::pow(once[i] - values[i], 2);
    EXPECT_LT(moved, 0.1 * error) << format.name;
    EXPECT_LT(error, 0.7 * static_cast<double>(values.size())) << format.name;
  }
  EXPECT_EQ(formats, 15);
}

/// Root mean square errors of standard normal values, of GGML's quantize_* (llama-cpp-python 0.3.36, built
/// from source) on a million of them; ours may be 1 % worse.
TEST(BlockEncode, SearchedFormatsAreAsNearAsGgmls) {
  const std::vector<float> values = normal(1 << 16, 5);
  const std::map<std::string_view, double> ggml{{"Q2_K", 0.29628},  {"Q3_K", 0.15076}, {"Q4_K", 0.07126},
                                                {"Q5_K", 0.03608},  {"Q6_K", 0.01772}, {"IQ4_NL", 0.07607},
                                                {"IQ4_XS", 0.07666}};
  for (const auto& [name, error] : ggml) {
    const BlockFormat& format = *find_block_format(name);
    const std::vector<float> got = decoded(format, encoded(format, values));
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) squares += std::pow(got[i] - values[i], 2);
    EXPECT_LT(std::sqrt(squares / static_cast<double>(values.size())), 1.01 * error) << name;
  }
}

TEST(BlockEncode, ImportantValuesAreNearer) {
  const std::vector<float> values = normal(4096, 9);
  std::vector<float> importance(values.size(), 1);
  for (size_t i = 0; i < importance.size(); i += 8) importance[i] = 1000;
  for (const char* name : {"Q2_K", "Q3_K", "Q4_K", "IQ4_XS"}) {
    const BlockFormat& format = *find_block_format(name);
    const auto error = [&](const std::vector<std::byte>& blocks) {
      const std::vector<float> got = decoded(format, blocks);
      double squares = 0;
      for (size_t i = 0; i < values.size(); i += 8) squares += std::pow(got[i] - values[i], 2);
      return squares;
    };
    EXPECT_LT(error(encoded(format, values, importance)), 0.9 * error(encoded(format, values))) << name;
  }
}

TEST(BlockEncode, ErrorsSayWhatIsWrong) {
  const BlockFormat& q4_k = *find_block_format("Q4_K");
  const std::vector<float> values(256, 1);
  std::vector<std::byte> blocks(144);
  const auto error = [&](auto&& action) { return test::error_of<Error>(action); };
  EXPECT_THAT(error([&] { encode_blocks(*find_block_format("IQ2_S"), values, blocks); }),
              HasSubstr("IQ2_S is read, but not written"));
  EXPECT_THAT(error([&] { encode_blocks(q4_k, std::span(values).first(255), blocks); }),
              HasSubstr("255 values of Q4_K are blocks of 256 values in 144 bytes; there is room for 144"));
  EXPECT_THAT(error([&] { encode_blocks(q4_k, values, blocks, std::span(values).first(3)); }),
              HasSubstr("3 importances were given for 256 values"));
  EXPECT_THAT(error([&] { encode_blocks(q4_k, values, blocks, std::vector<float>(256, -1)); }),
              HasSubstr("an importance is -1"));
  EXPECT_THAT(error([&] { encode_blocks(q4_k, std::vector<float>(256, NAN), blocks); }),
              HasSubstr("value 0 is nan; blocks of Q4_K hold numbers up to 65504"));
  EXPECT_THAT(error([&] { encode_blocks(q4_k, std::vector<float>(256, 1e5F), blocks); }),
              HasSubstr("value 0 is 100000"));
}

}  // namespace
}  // namespace luminal
