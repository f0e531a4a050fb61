#include "luminal/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "formats/gzip.h"
#include "luminal/error.h"
#include "support/effort.h"
#include "support/files.h"

namespace luminal {
namespace {

using test::content_of;
using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text.push_back(static_cast<char>(value));
  return text;
}

TEST(Idx, ReadsTheDigits) {
  const std::filesystem::path folder = std::filesystem::path(LUMINAL_SOURCE_DIR) / "data/mnist10k";
  const TensorData images = read_idx(folder / "test-images-idx3-ubyte.gz");
  EXPECT_EQ(images.dtype, Dtype::U8);
  EXPECT_THAT(images.dims, ElementsAre(1500, 28, 28));
  const TensorData labels = read_idx(folder / "test-labels-idx1-ubyte.gz");
  EXPECT_THAT(labels.dims, ElementsAre(1500));
  // Sums counted with Python's gzip module on the same files.
  uint64_t ink = 0, sum = 0;
  for (const uint8_t pixel : images.as<uint8_t>()) ink += pixel;
  for (const uint8_t label : labels.as<uint8_t>()) sum += label;
  EXPECT_EQ(ink, 39359710U);
  EXPECT_EQ(sum, 6745U);
}

TEST(Idx, ReadsEveryTypeAsTheFormatStoresIt) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& content) { return read_idx(folder.file("f", content)); };
  EXPECT_THAT(read(bytes({0, 0, 0x08, 1, 0, 0, 0, 2, 255, 1})).as<uint8_t>(), ElementsAre(255, 1));
  EXPECT_THAT(read(bytes({0, 0, 0x09, 1, 0, 0, 0, 2, 255, 1})).as<int8_t>(), ElementsAre(-1, 1));
  const TensorData widened = read(bytes({0, 0, 0x0b, 2, 0, 0, 0, 1, 0, 0, 0, 2, 255, 254, 1, 0}));
  EXPECT_EQ(widened.dtype, Dtype::I32);
  EXPECT_THAT(widened.dims, ElementsAre(1, 2));
  EXPECT_THAT(widened.as<int32_t>(), ElementsAre(-2, 256));
  EXPECT_THAT(read(bytes({0, 0, 0x0c, 1, 0, 0, 0, 1, 1, 2, 3, 4})).as<int32_t>(), ElementsAre(0x01020304));
  EXPECT_THAT(read(bytes({0, 0, 0x0d, 1, 0, 0, 0, 1, 0xbf, 0x80, 0, 0})).as<float>(), ElementsAre(-1.0F));
  EXPECT_THAT(
      read(bytes({0, 0, 0x0e, 1, 0, 0, 0, 1, 0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18})).as<double>(),
      ElementsAre(3.141592653589793));
  const TensorData none = read(bytes({0, 0, 0x08, 2, 0, 0, 0, 0, 255, 255, 255, 255}));
  EXPECT_THAT(none.dims, ElementsAre(0, 4294967295));
  EXPECT_TRUE(none.bytes.empty());
}

TEST(Idx, WritesWhatItReads) {
  const TemporaryFolder folder;
  const std::vector<float> values{1.5F, -0.0F, 1e-40F, 3, 4, 5};
  const TensorData tensor = TensorData::of<float>({2, 3}, values);
  for (const bool gzipped : {false, true}) {
    write_idx(folder.path() / "f", tensor, gzipped);
    EXPECT_EQ(content_of(folder.path() / "f").starts_with("\x1f\x8b"), gzipped);
    const TensorData back = read_idx(folder.path() / "f");
    EXPECT_EQ(back.dtype, Dtype::F32);
    EXPECT_EQ(back.dims, tensor.dims);
    EXPECT_EQ(back.bytes, tensor.bytes);
  }
  const TensorData small = TensorData::of<uint8_t>({2}, std::vector<uint8_t>{7, 9});
  write_idx(folder.path() / "f", small);
  EXPECT_EQ(content_of(folder.path() / "f"), bytes({0, 0, 8, 1, 0, 0, 0, 2, 7, 9}));
  EXPECT_EQ(error_of<DtypeError>([&] { write_idx(folder.path() / "f", TensorData(Dtype::I64, {1})); },
                                 folder.path()),
            "[idx] 'f': the format has no dtype i64; cast to u8, i8, i32, f32 or f64 first");
  EXPECT_EQ(
      error_of<ShapeError>([&] { write_idx(folder.path() / "f", TensorData(Dtype::U8, {})); }, folder.path()),
      "[idx] 'f': rank 0 does not fit the format, which has 1 to 255 dims");
}

TEST(Idx, ReadsSeveralGzipMembersAsOneFile) {
  const TemporaryFolder folder;
  const std::string whole = bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3});
  const auto path = folder.file("f", gzip(whole.substr(0, 5)) + gzip(whole.substr(5)));
  EXPECT_THAT(read_idx(path).as<uint8_t>(), ElementsAre(1, 2, 3));
}

struct HostileIdxFile {
  std::string name, file, message;
};

std::vector<HostileIdxFile> hostile_idx_files() {
  const std::string good = bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3});
  const std::string packed = gzip(good);
  std::string wrong_sum = packed;
  wrong_sum[packed.size() - 8] = static_cast<char>(wrong_sum[packed.size() - 8] ^ 1);
  return {
      {"empty", "",
       "[idx] 'f' has 0 bytes, but an IDX file has at least 4; the file is truncated or not IDX"},
      {"picture", "\x89PNG\r\n",
       "[idx] 'f' starts with bytes 89 50, but an IDX file with 00 00; this is not an IDX file"},
      {"type", bytes({0, 0, 7, 1, 0, 0, 0, 0}),
       "[idx] 'f': type byte 0x07 is not an IDX type (0x08, 0x09, 0x0b to 0x0e); the file is damaged"},
      {"rank_zero", bytes({0, 0, 8, 0}), "[idx] 'f' declares no dims; an IDX file has at least one"},
      {"within_dims", bytes({0, 0, 8, 3, 0, 0, 0, 1, 0}),
       "[idx] 'f' ends within its 3 dims; the file is truncated"},
      {"truncated", good.substr(0, good.size() - 1),
       "[idx] 'f': dims [3] take 3 bytes, but at most 2 follow; the file is truncated"},
      {"oversized", good + "x",
       "[idx] 'f': more bytes follow than the 3 that dims [3] take; the file is oversized"},
      {"impossible", bytes({0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}),
       "[idx] 'f': dims [4294967295,4294967295,4294967295] are impossible; the file is damaged"},
      {"impossible_beside_zero",
       bytes({0, 0, 8, 4, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}),
       "[idx] 'f': dims [0,4294967295,4294967295,4294967295] are impossible; the file is damaged"},
      {"beyond_limit", bytes({0, 0, 14, 1, 255, 255, 255, 255}),
       "[idx] 'f': dims [4294967295] take more than the 4294967296 bytes allowed here; raise the limit if "
       "this is intended"},
      {"promises_much", bytes({0, 0, 8, 1, 200, 0, 0, 0}),
       "[idx] 'f': dims [3355443200] take 3355443200 bytes, but at most 0 follow; the file is truncated"},
      {"packed_promises_much", gzip(bytes({0, 0, 8, 1, 200, 0, 0, 0})),
       "[idx] 'f': dims [3355443200] take 3355443200 bytes, but at most "},
      {"packed_truncated", packed.substr(0, packed.size() - 12),
       "[idx] 'f': the gzip data end early: the file is truncated; download or write it again"},
      {"packed_short", gzip(good.substr(0, 10)),
       "[idx] 'f': dims [3] take 3 bytes, but 2 follow; the file is truncated"},
      {"packed_oversized", gzip(good + "x"),
       "[idx] 'f': more bytes follow than the 3 that dims [3] take; the file is oversized"},
      {"packed_garbage", packed + "garbage",
       "[idx] 'f': the gzip data are damaged (incorrect header check); download or write the file again"},
      {"packed_check_sum", wrong_sum,
       "[idx] 'f': the gzip data are damaged (incorrect data check); download or write the file again"},
      {"bomb", gzip(bytes({0, 0, 8, 1, 0, 0, 0, 1}) + std::string(size_t{50} << 20, '\0')),
       "[idx] 'f': more bytes follow than the 1 that dims [1] take; the file is oversized"},
  };
}

class HostileIdx : public testing::TestWithParam<HostileIdxFile> {};

TEST_P(HostileIdx, IsOneClearError) {
  const TemporaryFolder folder;
  const auto path = folder.file("f", GetParam().file);
  EXPECT_THAT(error_of<FormatError>([&] { (void)read_idx(path); }, folder.path()),
              testing::StartsWith(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Files, HostileIdx, testing::ValuesIn(hostile_idx_files()),
                         [](const auto& test) { return test.param.name; });

TEST(Idx, SaysWhatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of<FormatError>([&] { (void)read_idx(folder.path() / "none"); }, folder.path()),
            "[read] cannot open 'none': No such file or directory");
  const auto path = folder.file("f", bytes({0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3}));
  EXPECT_EQ(
      error_of<FormatError>([&] { (void)read_idx(path, 2); }, folder.path()),
      "[idx] 'f': dims [3] take more than the 2 bytes allowed here; raise the limit if this is intended");
}

/// Random damage, plain and packed: an error or a tensor whose bytes are what its dims say.
TEST(HostileIdxRandom, DamagedFilesAreErrorsOrHarmless) {
  const uint64_t seed = effort::seed(20240608);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  const std::string good = bytes({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6});
  int read = 0;
  for (int64_t i = 0; i < effort::cases(2000, 100000); ++i) {
    std::string bad = i % 2 == 0 ? good : gzip(good);
    bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % (bad.size() + 4));
    const auto path = folder.file("bad", bad);
    try {
      const TensorData tensor = read_idx(path, size_t{1} << 20);
      ++read;
      ASSERT_EQ(static_cast<int64_t>(tensor.bytes.size()), size_bytes(tensor.dtype, tensor.element_count()))
          << "seed " << seed << ", case " << i;
    } catch (const FormatError&) {
    }
  }
  EXPECT_GT(read, 0) << "the damage is too heavy to test anything, seed " << seed;
}

}  // namespace
}  // namespace luminal
