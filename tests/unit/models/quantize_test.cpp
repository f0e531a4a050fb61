#include "luminal/models/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "luminal/block_format.h"
#include "luminal/error.h"
#include "luminal/gguf.h"
#include "models/quantize_mix.h"
#include "support/files.h"

namespace luminal::models {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
namespace fs = std::filesystem;

const fs::path kLlama = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families/llama/model.gguf";

/// The tensors of Llama 2 7B or, with 8 key heads, Llama 3 8B, in f16.
std::vector<GgufTensorInfo> tensors_of_llama(int64_t kv_heads) {
  std::vector<GgufTensorInfo> tensors;
  const auto add = [&](std::string name, std::vector<int64_t> dims) {
    tensors.push_back({std::move(name), &gguf_type(dims.size() > 1 ? "f16" : "f32"), std::move(dims)});
  };
  add("token_embd.weight", {32000, 4096});
  add("output_norm.weight", {4096});
  add("output.weight", {32000, 4096});
  for (int layer = 0; layer < 32; ++layer) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"}) add(blk + norm, {4096});
    for (const char* square : {"attn_q.weight", "attn_output.weight"}) add(blk + square, {4096, 4096});
    for (const char* value : {"attn_k.weight", "attn_v.weight"}) add(blk + value, {kv_heads * 128, 4096});
    for (const char* up : {"ffn_gate.weight", "ffn_up.weight"}) add(blk + up, {11008, 4096});
    add(blk + "ffn_down.weight", {4096, 11008});
  }
  return tensors;
}

/// How many tensors get each type.
std::map<std::string, int> counts_of(const char* mix, int64_t kv_heads, bool importance = false) {
  const auto tensors = tensors_of_llama(kv_heads);
  const MixedTypes mixed = mixed_types({.mix = &quantize_mix(mix)},
                                       {.architecture = "llama",
                                        .layers = 32,
                                        .heads = 32,
                                        .kv_heads = kv_heads,
                                        .has_importance = importance},
                                       tensors);
  std::map<std::string, int> counts;
  for (const GgufType* type : mixed.types) ++counts[std::string(type->name)];
  return counts;
}

// What llama.cpp prints of published files of these models.
TEST(QuantizeMix, CountsOfPublishedFiles) {
  const auto norms = Pair("F32", 65);
  EXPECT_THAT(counts_of("Q4_K_M", 32), ElementsAre(norms, Pair("Q4_K", 193), Pair("Q6_K", 33)));
  EXPECT_THAT(counts_of("q4_k", 8), ElementsAre(norms, Pair("Q4_K", 193), Pair("Q6_K", 33)));
  EXPECT_THAT(counts_of("Q4_K_S", 8),
              ElementsAre(norms, Pair("Q4_K", 217), Pair("Q5_K", 8), Pair("Q6_K", 1)));
  EXPECT_THAT(counts_of("Q5_K_M", 8), ElementsAre(norms, Pair("Q5_K", 193), Pair("Q6_K", 33)));
  EXPECT_THAT(counts_of("Q5_K_S", 8), ElementsAre(norms, Pair("Q5_K", 225), Pair("Q6_K", 1)));
  EXPECT_THAT(counts_of("Q3_K_M", 32),
              ElementsAre(norms, Pair("Q3_K", 129), Pair("Q4_K", 92), Pair("Q5_K", 4), Pair("Q6_K", 1)));
  EXPECT_THAT(counts_of("Q3_K_L", 8),
              ElementsAre(norms, Pair("Q3_K", 129), Pair("Q5_K", 96), Pair("Q6_K", 1)));
  EXPECT_THAT(counts_of("Q2_K", 8),
              ElementsAre(norms, Pair("Q2_K", 129), Pair("Q3_K", 64), Pair("Q4_K", 32), Pair("Q6_K", 1)));
  EXPECT_THAT(counts_of("Q8_0", 8), ElementsAre(norms, Pair("Q8_0", 226)));
  EXPECT_THAT(counts_of("Q4_0", 8), ElementsAre(norms, Pair("Q4_0", 225), Pair("Q6_K", 1)));
  EXPECT_THAT(counts_of("Q4_0", 8, true),
              ElementsAre(norms, Pair("Q4_0", 221), Pair("Q4_1", 4), Pair("Q6_K", 1)));
  EXPECT_THAT(counts_of("BF16", 8), ElementsAre(Pair("BF16", 226), norms));
}

TEST(QuantizeMix, RowsThatAreNoWholeBlocksGetSmallerOnes) {
  const std::vector<GgufTensorInfo> tensors{{"blk.0.ffn_up.weight", &gguf_type("f32"), {8, 96}},
                                            {"blk.0.attn_q.weight", &gguf_type("f32"), {8, 40}},
                                            {"blk.0.ffn_gate_inp.weight", &gguf_type("f32"), {8, 256}},
                                            {"blk.0.ffn_up_exps.weight", &gguf_type("f32"), {2, 8, 512}}};
  const MixedTypes mixed = mixed_types({.mix = &quantize_mix("Q4_K_M")}, {.layers = 1}, tensors);
  std::vector<std::string_view> names;
  for (const GgufType* type : mixed.types) names.push_back(type->name);
  EXPECT_THAT(names, ElementsAre("Q5_0", "F16", "F32", "Q4_K"));
  EXPECT_EQ(mixed.smaller_blocks, 2);
}

TEST(QuantizeMix, UnknownTypesOfferTheNearest) {
  EXPECT_THAT(error_of<DtypeError>([] { (void)quantize_mix("Q4_K_X"); }),
              HasSubstr("[quantize] no type 'Q4_K_X'; there are F32, F16, BF16"));
  EXPECT_THAT(error_of<DtypeError>([] { (void)quantize_mix("iq2_xs"); }),
              HasSubstr("blocks of IQ2_XS are read and not made"));
}

TEST(Quantize, MatricesBecomeTheBlocksOfTheirValues) {
  const test::TemporaryFolder folder;
  const fs::path out = folder.path() / "out.gguf";
  std::vector<std::string> written;
  const QuantizeReport report =
      quantize_model(kLlama, out, "Q8_0",
                     {.progress = [&](const QuantizedTensor& tensor) { written.push_back(tensor.name); }});
  const GgufFile before(kLlama), after(out);
  EXPECT_EQ(*after.find("general.file_type"), GgufValue(uint32_t{7}));
  EXPECT_EQ(*after.find("general.quantization_version"), GgufValue(uint32_t{2}));
  EXPECT_EQ(*after.find("llama.block_count"), *before.find("llama.block_count"));
  EXPECT_EQ(written.size(), before.tensors().size());
  int64_t bytes = 0, elements = 0;
  for (const GgufTensorInfo& tensor : before.tensors()) {
    const GgufTensorInfo& now = after.tensor(tensor.name);
    bytes += now.size_bytes(), elements += now.element_count();
    const TensorData values = before.read_f32(tensor.name);
    if (tensor.dims.size() < 2) {
      EXPECT_EQ(after.read(tensor.name).bytes, values.bytes) << tensor.name;
    } else if (tensor.dims.back() % 32 == 0) {
      std::vector<std::byte> blocks(static_cast<size_t>(now.size_bytes()));
      encode_blocks(*find_block_format("Q8_0"), values.as<float>(), blocks);
      EXPECT_TRUE(std::ranges::equal(after.read(tensor.name).bytes, blocks)) << tensor.name;
    } else {
      EXPECT_EQ(now.type->name, "F16") << tensor.name;
    }
  }
  EXPECT_EQ(report.bytes_after, bytes);
  EXPECT_DOUBLE_EQ(report.bits_per_weight(),
                   8.0 * static_cast<double>(bytes) / static_cast<double>(elements));
  EXPECT_EQ(report.smaller_blocks, 2);  // ffn_down of both layers has rows of 48
}

TEST(Quantize, BlocksBecomeOtherBlocksOnRequestAlone) {
  const test::TemporaryFolder folder;
  const fs::path first = folder.path() / "first.gguf", second = folder.path() / "second.gguf";
  (void)quantize_model(kLlama, first, "Q8_0");
  EXPECT_THAT(error_of<Error>([&] { (void)quantize_model(first, second, "Q4_0"); }),
              HasSubstr("is Q8_0 already, and making Q4_0 of it loses more"));
  EXPECT_FALSE(exists(second));
  (void)quantize_model(first, second, "Q4_0", {.allow_requantize = true});
  EXPECT_EQ(GgufFile(second).tensor("blk.0.attn_q.weight").type->name, "Q4_0");
  (void)quantize_model(first, second, "F32", {.allow_requantize = true});
  EXPECT_EQ(GgufFile(second).read("blk.0.attn_q.weight").bytes,
            GgufFile(first).read_f32("blk.0.attn_q.weight").bytes);
}

/// A model of one matrix with rows of 256, and room for what is wrong with it.
fs::path one_matrix(const test::TemporaryFolder& folder, float last) {
  const fs::path path = folder.path() / "matrix.gguf";
  TensorData data(Dtype::F32, {2, 256});
  for (size_t i = 0; i < 512; ++i) data.as<float>()[i] = std::sin(static_cast<float>(i * i));
  data.as<float>()[511] = last;
  GgufWriter writer(path,
                    {{"general.architecture", std::string("llama")}, {"llama.block_count", uint32_t{1}}},
                    {{"blk.0.attn_q.weight", &gguf_type("f32"), {2, 256}}});
  writer.append(data.bytes);
  writer.finish();
  return path;
}

template <class T>
void put(std::ofstream& out, const T& value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

/// llama.cpp's older format: this weight's sums of two calls.
fs::path legacy_importance(const test::TemporaryFolder& folder, const std::vector<float>& sums) {
  const fs::path path = folder.path() / "imatrix.dat";
  std::ofstream out(path, std::ios::binary);
  const std::string name = "blk.0.attn_q.weight";
  put(out, int32_t{1});
  put(out, static_cast<int32_t>(name.size()));
  out << name;
  put(out, int32_t{2});
  put(out, static_cast<int32_t>(sums.size()));
  for (const float sum : sums) put(out, sum);
  return path;
}

fs::path gguf_importance(const test::TemporaryFolder& folder, const std::vector<float>& sums) {
  const fs::path path = folder.path() / "imatrix.gguf";
  GgufWriter writer(path, {{"general.type", std::string("imatrix")}},
                    {{"blk.0.attn_q.weight.in_sum2", &gguf_type("f32"), {1, std::ssize(sums)}},
                     {"blk.0.attn_q.weight.counts", &gguf_type("f32"), {1, 1}}});
  writer.append(std::as_bytes(std::span(sums)));
  const float count = 2;
  writer.append(std::as_bytes(std::span(&count, 1)));
  writer.finish();
  return path;
}

TEST(Quantize, ImportancesOfBothFormatsWeighInputs) {
  const test::TemporaryFolder folder;
  const fs::path in = one_matrix(folder, 0.5F), out = folder.path() / "out.gguf";
  std::vector<float> sums(256, 0.01F), means(512);
  for (size_t i = 0; i < 256; i += 7) sums[i] = 100;
  for (size_t i = 0; i < 512; ++i) means[i] = sums[i % 256] / 2;
  const TensorData values = GgufFile(in).read_f32("blk.0.attn_q.weight");
  std::vector<std::byte> wanted(2 * 144), plain(2 * 144);
  encode_blocks(*find_block_format("Q4_K"), values.as<float>(), wanted, means);
  encode_blocks(*find_block_format("Q4_K"), values.as<float>(), plain);
  ASSERT_NE(wanted, plain);
  for (const fs::path& file : {legacy_importance(folder, sums), gguf_importance(folder, sums)}) {
    (void)quantize_model(in, out, "Q4_K_S", {.importance = file});
    EXPECT_TRUE(std::ranges::equal(GgufFile(out).read("blk.0.attn_q.weight").bytes, wanted)) << file;
  }
  sums.pop_back();
  EXPECT_THAT(error_of<Error>([&] {
                (void)quantize_model(in, out, "Q4_K", {.importance = gguf_importance(folder, sums)});
              }),
              HasSubstr("has 255 numbers for 'blk.0.attn_q.weight', which has 256 inputs in 1 matrices"));
}

TEST(Quantize, DamagedImportancesAreErrors) {
  const test::TemporaryFolder folder;
  const fs::path in = one_matrix(folder, 0.5F);
  const auto error_with = [&](const fs::path& file) {
    return error_of<FormatError>(
        [&] { (void)quantize_model(in, folder.path() / "out.gguf", "Q4_K", {.importance = file}); });
  };
  const std::string whole = test::content_of(legacy_importance(folder, std::vector<float>(256, 1.F)));
  for (size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 97)
    EXPECT_THAT(error_with(folder.file("cut", whole.substr(0, size))), HasSubstr("importance matrix"))
        << size;
  EXPECT_THAT(error_with(legacy_importance(folder, std::vector<float>(256, -1.F))),
              HasSubstr("the importance matrix holds -0.5 for 'blk.0.attn_q.weight'"));
  EXPECT_THAT(error_with(in),
              HasSubstr("is a GGUF file, but no importance matrix (general.type is missing)"));
  EXPECT_FALSE(exists(folder.path() / "out.gguf"));
}

TEST(Quantize, WhatBlocksCannotHoldIsAnErrorAndTheOldFileStays) {
  const test::TemporaryFolder folder;
  const fs::path in = one_matrix(folder, std::numeric_limits<float>::infinity());
  const fs::path out = folder.file("out.gguf", "old");
  EXPECT_THAT(error_of<Error>([&] { (void)quantize_model(in, out, "Q4_K"); }),
              HasSubstr("[quantize] 'blk.0.attn_q.weight': "));
  EXPECT_EQ(test::content_of(out), "old");
  const fs::path large = one_matrix(folder, 70000);
  EXPECT_THAT(error_of<Error>([&] { (void)quantize_model(large, out, "F16"); }),
              HasSubstr("it holds 70000, which F16 cannot; choose BF16 or F32"));
}

}  // namespace
}  // namespace luminal::models
