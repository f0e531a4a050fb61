#include "luminal/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "luminal/error.h"
#include "support/effort.h"
#include "support/files.h"

namespace luminal {
namespace {

using test::content_of;
using test::error_of;
using test::TemporaryFolder;

template <class T>
TensorData tensor(std::vector<int64_t> dims, std::vector<T> values) {
  return TensorData::of<T>(std::move(dims), values);
}

TensorData mask(std::vector<uint8_t> values) {
  TensorData data = tensor<uint8_t>({static_cast<int64_t>(values.size())}, values);
  data.dtype = Dtype::Bool;
  return data;
}

const std::filesystem::path kFromPython =
    std::filesystem::path(LUMINAL_SOURCE_DIR) / "tests/unit/formats/data/from_python.safetensors";

/// What the file written by Python's safetensors 0.8.0 holds (numpy arrays, written with save_file).
std::map<std::string, TensorData> python_tensors() {
  return {{"layer/weight", tensor<float>({2, 3}, {0, 0.25F, 0.5F, 0.75F, 1, 1.25F})},
          {"scalar", tensor<double>({}, {-2.5})},
          {"empty", tensor<float>({0, 4}, {})},
          {"ids", tensor<int64_t>({2}, {int64_t{1} << 40, -1})},
          {"mask", mask({1, 0, 1})},
          {"bytes", tensor<uint8_t>({2, 1}, {255, 7})},
          {"half", tensor<float16>({2}, {float16(1.5F), float16(-0.25F)})},
          {"größe", tensor<int8_t>({2}, {-5, 6})}};
}

std::map<std::string, TensorView> views(const std::map<std::string, TensorData>& tensors) {
  return {tensors.begin(), tensors.end()};
}

TEST(Safetensors, ReadsAFileMadeByPython) {
  const SafetensorsFile file(kFromPython);
  EXPECT_THAT(file.metadata(), testing::ElementsAre(testing::Pair("made by", "safetensors 0.8.0")));
  const auto expected = python_tensors();
  EXPECT_EQ(file.names().size(), expected.size());
  EXPECT_TRUE(std::is_sorted(file.names().begin(), file.names().end()));
  for (const auto& [name, wanted] : expected) {
    const TensorData got = file.read(name);
    EXPECT_EQ(got.dtype, wanted.dtype) << name;
    EXPECT_EQ(got.dims, wanted.dims) << name;
    EXPECT_EQ(got.bytes, wanted.bytes) << name;
  }
}

TEST(Safetensors, WritesTheBytesThatPythonWrites) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "ours", views(python_tensors()), {{"made by", "safetensors 0.8.0"}});
  EXPECT_EQ(content_of(folder.path() / "ours"), content_of(kFromPython));
}

TEST(Safetensors, RoundTripKeepsEveryBit) {
  const TemporaryFolder folder;
  TensorData nan(Dtype::F32, {3});
  const std::array<uint32_t, 3> bits{0x7fc12345U, 0x80000000U,
                                     0xff800000U};  // a NaN with a payload, -0, -inf
  std::memcpy(nan.bytes.data(), bits.data(), sizeof bits);
  const TensorData brain = tensor<bfloat16>({1, 2}, {bfloat16(3.14F), bfloat16(-1e30F)});
  const auto path = folder.path() / "a.safetensors";
  const TensorData words = tensor<uint16_t>({3}, {0, 300, 65535});
  write_safetensors(path, {{"nan", nan}, {"brain", brain}, {"words", words}});
  SafetensorsFile first(path);
  const SafetensorsFile file = std::move(first);
  EXPECT_EQ(file.read("nan").bytes, nan.bytes);
  EXPECT_EQ(file.read("brain").bytes, brain.bytes);
  EXPECT_EQ(file.read("words").bytes, words.bytes);
  EXPECT_EQ(file.info("words").dtype, Dtype::U16);
  EXPECT_EQ(file.info("brain").dims, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(file.contains("nan"));
  EXPECT_FALSE(file.contains("inf"));
  EXPECT_TRUE(file.metadata().empty());
}

TEST(Safetensors, AnEmptySetIsAFile) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "none", {});
  EXPECT_EQ(content_of(folder.path() / "none"), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  EXPECT_TRUE(SafetensorsFile(folder.path() / "none").names().empty());
}

TEST(Safetensors, WritingRefusesWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const auto path = folder.file("kept", "old content");
  const TensorData one = tensor<float>({1}, {1});
  const std::vector<std::byte> block(18);
  EXPECT_EQ(
      error_of<DtypeError>([&] { write_safetensors(path, {{"w", TensorView(Dtype::Q4_0, {32}, block)}}); }),
      "[safetensors] tensor 'w' is q4_0, which the format cannot hold; cast it to a float type first");
  EXPECT_EQ(
      error_of<ShapeError>([&] { write_safetensors(path, {{"w", TensorView(Dtype::F32, {2, 2}, block)}}); }),
      "[safetensors] tensor 'w' of f32[2,2] takes 16 bytes, 18 were given");
  EXPECT_EQ(
      error_of<ShapeError>([&] { write_safetensors(path, {{"w", TensorView(Dtype::F32, {-1}, block)}}); }),
      "[safetensors] tensor 'w' has impossible dims [-1]");
  EXPECT_EQ(error_of<Error>([&] { write_safetensors(path, {{"__metadata__", one}}); }),
            "[safetensors] a tensor cannot be named '__metadata__', a name that the format reserves; choose "
            "another");
  EXPECT_EQ(error_of<Error>([&] { write_safetensors(path, {{"\xff", one}}); }),
            "[safetensors] a name or a metadata entry is not valid UTF-8; the format allows nothing else");
  EXPECT_EQ(content_of(path), "old content");
}

TEST(Safetensors, SaysWhatIsNotThere) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of<FormatError>([&] { SafetensorsFile(folder.path() / "none"); }, folder.path()),
            "[safetensors] cannot open 'none': No such file or directory");
  EXPECT_EQ(error_of<FormatError>([&] { SafetensorsFile{folder.path()}; }, folder.path().parent_path()),
            "[safetensors] '" + folder.path().filename().string() + "' is not a regular file");
  const SafetensorsFile file(kFromPython);
  EXPECT_EQ(
      error_of<FormatError>([&] { (void)file.info("layer/weigth"); }, kFromPython.parent_path()),
      "[safetensors] 'from_python.safetensors' has no tensor 'layer/weigth', but 8 others; did you mean "
      "'layer/weight'?");
}

// A mapped file that is shortened ends the process that looks at it.
TEST(Safetensors, AFileThatIsShortenedWhileItIsOpenIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "w";
  const TensorData many(Dtype::F32, {100'000}), one = tensor<float>({1}, {7});
  write_safetensors(path, {{"a", one}, {"b", many}});
  const SafetensorsFile file(path);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, 4096);
  EXPECT_EQ(file.read("a").as<float>()[0], 7);
  EXPECT_EQ(
      error_of<FormatError>([&] { (void)file.read("b"); }, folder.path()),
      "[safetensors] 'w' ends at byte 4096, but had " + std::to_string(size) +
          " bytes when it was opened: another process has shortened it; read it again once it is complete");
}

TEST(Safetensors, EveryByteButZeroIsTrue) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes{std::byte{0}, std::byte{1}, std::byte{0x80}, std::byte{0xff}};
  write_safetensors(folder.path() / "b", {{"b", TensorView(Dtype::Bool, {4}, bytes)}});
  const TensorData read = SafetensorsFile(folder.path() / "b").read("b");
  EXPECT_THAT(read.bytes, testing::ElementsAre(std::byte{0}, std::byte{1}, std::byte{1}, std::byte{1}));
}

std::string with_header(const std::string& header, const std::string& data = "") {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  return file + header + data;
}

std::string info(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, OpensAFileWithATypeWeDoNotHave) {
  const TemporaryFolder folder;
  const auto path = folder.file(
      "a", with_header("{\"x\":" + info("I16", "[2]", "[0,4]") + ",\"y\":" + info("F4", "[2]", "[4,5]") + "}",
                       "12345"));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(error_of<DtypeError>([&] { (void)file.read("x"); }, folder.path()),
            "[safetensors] 'a': tensor 'x' has the unsupported type I16; convert it before writing the file");
}

struct HostileSafetensorsFile {
  std::string name, file, message;
};

/// One file for each rule of the format, and the message that names the rule.
std::vector<HostileSafetensorsFile> hostile_safetensors_files() {
  const std::string f2 = info("F32", "[2]", "[0,8]");
  const std::string eight = "12345678";
  return {
      {"empty", "",
       "[safetensors] 'f' has 0 bytes, but a safetensors file has at least 10; the file is truncated or of "
       "another format"},
      {"short", "1234567",
       "[safetensors] 'f' has 7 bytes, but a safetensors file has at least 10; the file is truncated or of "
       "another format"},
      {"huge_header", std::string(8, '\xff') + "{}",
       "[safetensors] 'f' starts with a header length of 18446744073709551615 bytes, more than the 100000000 "
       "allowed; this is not a safetensors file"},
      {"truncated_header", with_header("{\"a\":" + f2 + "}").substr(0, 20),
       "[safetensors] 'f' starts with a header length of 54 bytes, but only 12 follow; the file is "
       "truncated"},
      {"no_header", with_header(""),
       "[safetensors] 'f': the header does not begin with '{'; this is not a safetensors file"},
      {"pickle", with_header("\x80\x02}q"),
       "[safetensors] 'f': the header does not begin with '{'; this is not a safetensors file"},
      {"zero_byte", with_header(std::string("{}\0\"hidden\"", 11)),
       "[safetensors] 'f': the header has a zero byte at 2; the file is damaged"},
      {"not_json", with_header("{\"a\":}"),
       "[safetensors] 'f': the header is not JSON at byte 6, near '\"a\":}'; the file is damaged"},
      {"unclosed", with_header("{\"a\":" + f2, eight),
       "[safetensors] 'f': the header is not JSON at byte 54, near '8]}'; the file is damaged"},
      {"two_documents", with_header("{} {}"),
       "[safetensors] 'f': the header is not JSON at byte 4, near '{} {'; the file is damaged"},
      {"not_utf8", with_header("{\"\xff\":1}"), "[safetensors] 'f': the header is not JSON"},
      {"deep", with_header("{\"a\":" + std::string(100000, '[')),
       "[safetensors] 'f': tensor 'a' has an array where an object belongs"},
      {"twice", with_header("{\"a\":" + f2 + ",\"a\":" + f2 + "}", eight),
       "[safetensors] 'f': 'a' appears twice in the header; write the file again"},
      {"metadata_twice", with_header(R"({"__metadata__":{},"__metadata__":{}})"),
       "[safetensors] 'f': '__metadata__' appears twice in the header; write the file again"},
      {"metadata_key_twice", with_header(R"({"__metadata__":{"a":"1","a":"2"}})"),
       "[safetensors] 'f': '__metadata__' key 'a' appears twice"},
      {"metadata_number", with_header(R"({"__metadata__":{"a":1}})"),
       "[safetensors] 'f': '__metadata__' has the number 1 where text belongs"},
      {"metadata_nested", with_header(R"({"__metadata__":{"a":{}}})"),
       "[safetensors] 'f': '__metadata__' has an object where text belongs"},
      {"tensor_number", with_header(R"({"a":1})"),
       "[safetensors] 'f': tensor 'a' has the number 1 where an object belongs"},
      {"no_dtype", with_header(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", eight),
       "[safetensors] 'f': tensor 'a' has no 'dtype'"},
      {"no_shape", with_header(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", eight),
       "[safetensors] 'f': tensor 'a' has no 'shape'"},
      {"no_offsets", with_header(R"({"a":{"dtype":"F32","shape":[2]}})", eight),
       "[safetensors] 'f': tensor 'a' has no 'data_offsets'"},
      {"field_twice", with_header(R"({"a":{"dtype":"F32","dtype":"F32"}})"),
       "[safetensors] 'f': tensor 'a' has 'dtype' twice"},
      {"unknown_field", with_header(R"({"a":{"type":"F32"}})"),
       "[safetensors] 'f': tensor 'a' has an unknown field 'type'"},
      {"unknown_dtype", with_header("{\"a\":" + info("FP32", "[2]", "[0,8]") + "}", eight),
       "[safetensors] 'f': tensor 'a' has the unknown dtype 'FP32'; did you mean 'F32'?"},
      {"negative_dim", with_header("{\"a\":" + info("F32", "[-2]", "[0,8]") + "}", eight),
       "[safetensors] 'f': tensor 'a' has the number -2 where a dim, an integer from 0 belongs"},
      {"fractional_dim", with_header("{\"a\":" + info("F32", "[2.0]", "[0,8]") + "}", eight),
       "[safetensors] 'f': tensor 'a' has the number '2.0' where a dim, an integer from 0 belongs"},
      {"dim_beyond_64_bits",
       with_header("{\"a\":" + info("F32", "[18446744073709551616]", "[0,8]") + "}", eight),
       "[safetensors] 'f': tensor 'a' has the number '18446744073709551616' where a dim, an integer from 0 "
       "belongs"},
      {"dim_beyond_63_bits",
       with_header("{\"a\":" + info("F32", "[9223372036854775808]", "[0,8]") + "}", eight),
       "[safetensors] 'f': tensor 'a' dim 9223372036854775808 is too large"},
      {"rank",
       with_header("{\"a\":" +
                       info("F32",
                            "[1" + std::string(200, ' ') +
                                ",1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                                "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
                            "[0,4]") +
                       "}",
                   "1234"),
       "[safetensors] 'f': tensor 'a' shape has more than 64 dims"},
      {"one_offset", with_header("{\"a\":" + info("F32", "[2]", "[0]") + "}", eight),
       "[safetensors] 'f': tensor 'a' 'data_offsets' holds 1 numbers instead of 2"},
      {"three_offsets", with_header("{\"a\":" + info("F32", "[2]", "[0,8,8]") + "}", eight),
       "[safetensors] 'f': tensor 'a' has the number 8 where the end of two offsets belongs"},
      {"overflow", with_header("{\"a\":" + info("F32", "[4294967296,4294967296]", "[0,0]") + "}"),
       "[safetensors] 'f': tensor 'a' of F32[4294967296,4294967296] takes too many bytes, but its range 0 to "
       "0 holds 0"},
      {"overflow_beside_zero",
       with_header("{\"a\":" + info("F32", "[9223372036854775807,9223372036854775807,0]", "[0,0]") + "}"),
       "[safetensors] 'f': tensor 'a' of F32[9223372036854775807,9223372036854775807,0] takes too many "
       "bytes, but its range 0 to 0 holds 0"},
      {"size_mismatch", with_header("{\"a\":" + info("F32", "[3]", "[0,8]") + "}", eight),
       "[safetensors] 'f': tensor 'a' of F32[3] takes 12 bytes, but its range 0 to 8 holds 8"},
      {"half_a_byte", with_header("{\"a\":" + info("F4", "[3]", "[0,1]") + "}", "1"),
       "[safetensors] 'f': tensor 'a' of F4[3] takes too many bytes, but its range 0 to 1 holds 1"},
      {"reversed", with_header("{\"a\":" + info("F32", "[2]", "[8,0]") + "}", eight),
       "[safetensors] 'f': tensor 'a' claims bytes 8 to 0 of a data section of 8 bytes; the file is "
       "truncated or damaged"},
      {"truncated_data", with_header("{\"a\":" + f2 + "}", "1234"),
       "[safetensors] 'f': tensor 'a' claims bytes 0 to 8 of a data section of 4 bytes; the file is "
       "truncated or damaged"},
      {"oversized", with_header("{\"a\":" + f2 + "}", eight + "!"),
       "[safetensors] 'f': the tensors end at byte 8, the data section holds 9 bytes; the file is oversized"},
      {"overlap",
       with_header("{\"a\":" + f2 + ",\"b\":" + info("F32", "[2]", "[4,12]") + "}", eight + "1234"),
       "[safetensors] 'f': tensors 'a' and 'b' overlap: one ends at byte 8, the other begins at 4"},
      {"hole",
       with_header("{\"a\":" + info("U8", "[1]", "[0,1]") + ",\"b\":" + info("U8", "[1]", "[2,3]") + "}",
                   "123"),
       "[safetensors] 'f': bytes 1 to 2 before tensor 'b' belong to no tensor"},
      {"terminal_escape", with_header("{\"\\u001b[2J\":1}"),
       "[safetensors] 'f': tensor '\\x1b[2J' has the number 1 where an object belongs"},
  };
}

class HostileSafetensors : public testing::TestWithParam<HostileSafetensorsFile> {};

TEST_P(HostileSafetensors, IsOneClearError) {
  const TemporaryFolder folder;
  const auto path = folder.file("f", GetParam().file);
  EXPECT_THAT(error_of<FormatError>([&] { SafetensorsFile{path}; }, folder.path()),
              testing::StartsWith(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Files, HostileSafetensors, testing::ValuesIn(hostile_safetensors_files()),
                         [](const auto& test) { return test.param.name; });

/// Random damage to a good file: an error or tensors that lie within the file, never anything else.
TEST(HostileSafetensorsRandom, DamagedFilesAreErrorsOrHarmless) {
  const uint64_t seed = effort::seed(20240607);
  std::mt19937_64 random(seed);
  const TemporaryFolder folder;
  const std::string good = content_of(kFromPython);
  int opened = 0;
  for (int64_t i = 0; i < effort::cases(2000, 100000); ++i) {
    std::string bad = good;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % std::min<size_t>(bad.size(), 620);
      switch (random() % 4) {
        case 0:
          bad[at] = static_cast<char>(random());
          break;
        case 1:
          bad.erase(at, 1 + random() % 8);
          break;
        case 2:
          bad.insert(at, 1, static_cast<char>("0123456789[]{},:\""[random() % 17]));
          break;
        default:
          bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
          break;
      }
    }
    const auto path = folder.file("bad", bad);
    try {
      const SafetensorsFile file(path);
      ++opened;
      size_t total = 0;
      for (const std::string& name : file.names()) {
        try {
          total += file.read(name).bytes.size();
        } catch (const DtypeError&) {  // damage may turn F64 into U64
        }
      }
      ASSERT_LE(total, bad.size()) << "seed " << seed << ", case " << i;
    } catch (const FormatError&) {
    }
  }
  RecordProperty("opened", opened);
  EXPECT_GT(opened, 0) << "the damage is too heavy to test anything, seed " << seed;
}

}  // namespace
}  // namespace luminal
