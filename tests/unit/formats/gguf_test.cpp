#include "luminal/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal {
namespace {

using test::content_of;
using test::error_of;
using testing::HasSubstr;

const std::string kGgufData = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/formats/data/";

/// A file with one f32 tensor "w" of `values`.
void write_one(const std::filesystem::path& path, const GgufMetadata& metadata,
               const std::vector<float>& values, const std::string& name = "w") {
  GgufWriter writer(path, metadata, {{name, &gguf_type("F32"), {static_cast<int64_t>(values.size())}}});
  writer.append(std::as_bytes(std::span(values)));
  writer.finish();
}

/// The same bytes with `size` of them, from `at` on, those of `value`.
template <class T>
std::string with(std::string bytes, size_t at, T value) {
  std::memcpy(&bytes.at(at), &value, sizeof value);
  return bytes;
}

TEST(Gguf, ReadsWhatThePythonPackageWrites) {
  const GgufFile file(kGgufData + "from_python.gguf");
  EXPECT_EQ(file.version(), 3U);
  EXPECT_EQ(file.file_count(), 1U);
  const auto is = [&](std::string_view key, const GgufValue& expected) {
    const GgufValue* value = file.find(key);
    ASSERT_NE(value, nullptr) << key;
    EXPECT_EQ(*value, expected) << key << " is " << to_text(*value);
  };
  is("general.architecture", "test");
  is("test.uint8", uint8_t{200});
  is("test.int8", int8_t{-100});
  is("test.uint16", uint16_t{60000});
  is("test.int16", int16_t{-30000});
  is("test.uint32", uint32_t{4000000000});
  is("test.int32", int32_t{-2000000000});
  is("test.float32", 0.5F);
  is("test.bool", true);
  is("test.uint64", uint64_t{1} << 63);
  is("test.int64", -(int64_t{1} << 62));
  is("test.float64", 0.1);
  is("test.text", "h\u00e9llo");
  is("test.words", GgufArray{GgufKind::Text, {"one", "two", ""}});
  is("test.nested",
     GgufArray{GgufKind::Array, {GgufArray{GgufKind::I32, {1, 2}}, GgufArray{GgufKind::I32, {3}}}});
  EXPECT_EQ(file.find("test.none"), nullptr);

  ASSERT_EQ(file.tensors().size(), 3U);
  const TensorData a = file.read("a");
  EXPECT_EQ(a.dims, (std::vector<int64_t>{2, 3}));
  EXPECT_THAT(a.as<float>(), testing::ElementsAre(0, 1, 2, 3, 4, 5));
  std::vector<int16_t> b(2);
  file.read("b", 4, std::as_writable_bytes(std::span(b)));
  EXPECT_THAT(b, testing::ElementsAre(2, 3));
  EXPECT_EQ(file.tensor("c").type->name, "Q8_0");
  EXPECT_EQ(file.tensor("c").dims, (std::vector<int64_t>{2, 64}));
  EXPECT_EQ(file.read("c").bytes.size(), 136U);
  EXPECT_THAT(file.read_f32("b").as<float>(), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_NEAR(file.read_f32("c").as<float>()[127], 1, 1e-2);
}

TEST(Gguf, WritesTheBytesOfThePythonPackage) {
  const test::TemporaryFolder folder;
  const GgufFile from(kGgufData + "from_python.gguf");
  GgufWriter writer(folder.path() / "copy.gguf", from.metadata(), from.tensors());
  for (const GgufTensorInfo& tensor : from.tensors()) {
    std::vector<std::byte> bytes(static_cast<size_t>(tensor.size_bytes()));
    from.read(tensor.name, 0, bytes);
    writer.append(std::span(bytes).first(2));  // in pieces
    writer.append(std::span(bytes).subspan(2));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "copy.gguf"));
  writer.finish();
  EXPECT_EQ(content_of(folder.path() / "copy.gguf"), content_of(kGgufData + "from_python.gguf"));
}

TEST(Gguf, AWriterThatIsNotFinishedLeavesNothing) {
  const test::TemporaryFolder folder;
  {
    GgufWriter writer(folder.path() / "part.gguf", {}, {{"w", &gguf_type("F32"), {2}}});
    const float one = 1;
    writer.append(std::as_bytes(std::span(&one, 1)));
    EXPECT_EQ(error_of<ShapeError>([&] { writer.finish(); }),
              "[gguf] the file lacks bytes from tensor 'w' on, of which it has 4");
    const std::array<float, 2> two{};
    EXPECT_EQ(error_of<ShapeError>([&] { writer.append(std::as_bytes(std::span(two))); }),
              "[gguf] tensor 'w' lacks 4 bytes, 8 were given");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Gguf, TensorsAreAlignedAsTheMetadataSays) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "aligned.gguf";
  GgufWriter writer(
      path, {{"general.alignment", uint32_t{512}}},
      {{"empty", &gguf_type("F16"), {0, 4}}, {"a", &gguf_type("I8"), {3}}, {"b", &gguf_type("I8"), {}}});
  const std::array<int8_t, 4> bytes{1, 2, 3, 4};
  writer.append(std::as_bytes(std::span(bytes).first(3)));
  writer.append(std::as_bytes(std::span(bytes).subspan(3)));
  writer.finish();
  EXPECT_EQ(std::filesystem::file_size(path) % 512, 0U);
  const GgufFile file(path);
  EXPECT_THAT(file.read("a").as<int8_t>(), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(file.read("b").as<int8_t>(), testing::ElementsAre(4));
  EXPECT_EQ(file.read("empty").element_count(), 0);
}

TEST(Gguf, VersionTwoIsRead) {
  const test::TemporaryFolder folder;
  const std::string bytes = content_of(kGgufData + "from_python.gguf");
  const GgufFile file(folder.file("two.gguf", with(bytes, 4, uint32_t{2})));
  EXPECT_EQ(file.version(), 2U);
  EXPECT_THAT(file.read("a").as<float>(), testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(Gguf, OpensAllFilesOfASplitModelFromAnyOfThem) {
  const test::TemporaryFolder folder;
  const auto path = [&](int i) {
    return folder.path() / ("model-0000" + std::to_string(i + 1) + "-of-00003.gguf");
  };
  for (int i = 0; i < 3; ++i) {
    GgufMetadata metadata{{"split.no", static_cast<uint16_t>(i)}, {"split.count", uint16_t{3}}};
    if (i == 0) metadata.emplace_back("general.architecture", "test");
    write_one(path(i), metadata, {static_cast<float>(i)}, "w" + std::to_string(i));
  }
  for (int i = 0; i < 3; ++i) {
    const GgufFile file(path(i));
    EXPECT_EQ(file.file_count(), 3U);
    ASSERT_EQ(file.tensors().size(), 3U);
    EXPECT_EQ(file.metadata(), (GgufMetadata{{"general.architecture", "test"}}));
    for (int k = 0; k < 3; ++k) EXPECT_EQ(file.read("w" + std::to_string(k)).as<float>()[0], k);
  }
  std::filesystem::copy_file(path(0), folder.path() / "model.gguf");
  EXPECT_THAT(error_of<FormatError>([&] { GgufFile(folder.path() / "model.gguf"); }),
              HasSubstr("is file 1 of 3 of a split model, so its name must end with '-00001-of-00003.gguf'"));
  std::filesystem::copy_file(path(0), path(1), std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(error_of<FormatError>([&] { GgufFile{path(0)}; }),
              HasSubstr("says that it is file 1 of 3, but its name says 2 of 3"));
  std::filesystem::remove(path(1));
  EXPECT_THAT(error_of<FormatError>([&] { GgufFile{path(0)}; }), HasSubstr("cannot open"));
}

/// What a file of these bytes is refused with.
std::string refusal(const std::string& bytes) {
  const test::TemporaryFolder folder;
  const auto path = folder.file("bad.gguf", bytes);
  return error_of<FormatError>([&] { GgufFile{path}; }, folder.path());
}

/// One f32 tensor "w" of two values, no metadata: the tensor's name at byte 32, its rank at 33, its dim at 37, type at
/// 45, offset at 49.
std::string small_file() {
  const test::TemporaryFolder folder;
  write_one(folder.path() / "w.gguf", {}, {1, 2});
  return content_of(folder.path() / "w.gguf");
}

TEST(GgufErrors, NameTheRuleThatAFileBreaks) {
  const std::string good = small_file();
  EXPECT_THAT(refusal("GGML" + good.substr(4)),
              HasSubstr("does not begin with 'GGUF'; this is not a GGUF file"));
  EXPECT_THAT(refusal(""), HasSubstr("does not begin with 'GGUF'"));
  EXPECT_THAT(refusal(with(good, 4, uint32_t{1})),
              HasSubstr("is GGUF of version 1; versions 2 and 3 can be read"));
  EXPECT_THAT(refusal(with(good, 4, uint32_t{0x03000000})), HasSubstr("is big-endian"));
  EXPECT_THAT(refusal(with(good, 8, UINT64_MAX)), HasSubstr("18446744073709551615 tensors are announced"));
  EXPECT_THAT(refusal(with(good, 16, uint64_t{1} << 40)),
              HasSubstr("1099511627776 metadata keys are announced"));
  EXPECT_THAT(refusal(with(good, 24, UINT64_MAX)), HasSubstr("the name of a tensor at byte 32 takes"));
  EXPECT_THAT(refusal(with(good, 33, uint32_t{5})), HasSubstr("tensor 'w' has 5 dims; the format allows 4"));
  EXPECT_THAT(refusal(with(good, 37, UINT64_MAX)), HasSubstr("tensor 'w' has a dim of 18446744073709551615"));
  EXPECT_THAT(refusal(with(good, 37, uint64_t{1} << 62)), HasSubstr("tensor 'w' has impossible dims"));
  EXPECT_THAT(refusal(with(good, 37, uint64_t{100})),
              HasSubstr("tensor 'w' of 400 bytes begins at byte 0 of the data"));
  EXPECT_THAT(refusal(with(good, 45, uint32_t{999})), HasSubstr("tensor 'w' has the element type 999"));
  EXPECT_THAT(refusal(with(good, 45, uint32_t{2})), HasSubstr("not whole blocks of 32"));
  EXPECT_THAT(refusal(with(good, 49, uint64_t{4})), HasSubstr("which is not a multiple of the alignment 32"));
  EXPECT_THAT(refusal(with(good, 49, UINT64_MAX - 31)), HasSubstr("the file is truncated"));
  for (size_t size = 0; size < 72; ++size) EXPECT_NE(refusal(good.substr(0, size)), "") << size;
}

TEST(GgufErrors, AFileThatIsShortenedWhileItIsOpen) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "w.gguf";
  write_one(path, {}, std::vector<float>(100'000, 7));
  const GgufFile file(path);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, 4096);
  EXPECT_EQ(error_of<FormatError>([&] { (void)file.read("w"); }, folder.path()),
            "[gguf] 'w.gguf' ends at byte 4096, but had " + std::to_string(size) +
                " bytes when it was opened: another process has shortened it; read it again once it is "
                "complete");
}

TEST(GgufErrors, TensorsMustNotOverlap) {
  const test::TemporaryFolder folder;
  GgufWriter writer(folder.path() / "two.gguf", {},
                    {{"v", &gguf_type("F32"), {9}}, {"w", &gguf_type("F32"), {9}}});
  const std::array<float, 9> values{};
  for (int i = 0; i < 2; ++i) writer.append(std::as_bytes(std::span(values)));
  writer.finish();
  const std::string bytes = content_of(folder.path() / "two.gguf");
  EXPECT_THAT(refusal(with(bytes, 49 + 33, uint64_t{32})), HasSubstr("tensors 'v' and 'w' overlap"));
  EXPECT_THAT(refusal(with(bytes, 32 + 33, 'v')), HasSubstr("tensor 'v' appears twice"));
}

TEST(GgufErrors, MetadataIsChecked) {
  const auto bytes_of = [](const GgufValue& value) {
    const test::TemporaryFolder folder;
    write_one(folder.path() / "f.gguf", {{"key", value}}, {});
    return content_of(folder.path() / "f.gguf");
  };
  // The key's kind is at byte 35, its value at 39.
  EXPECT_THAT(refusal(with(bytes_of(true), 35, uint32_t{13})),
              HasSubstr("'key' has a value of the unknown kind 13"));
  EXPECT_THAT(refusal(with(bytes_of(true), 39, uint8_t{2})), HasSubstr("a bool of value 2"));
  EXPECT_THAT(refusal(with(bytes_of("text"), 39, uint64_t{1} << 50)), HasSubstr("'key' at byte 47 takes"));
  EXPECT_THAT(refusal(with(bytes_of(GgufArray{GgufKind::U8, {}}), 43, uint64_t{1} << 50)),
              HasSubstr("1125899906842624 values of metadata key 'key' are announced"));
  GgufValue deep = GgufArray{GgufKind::U8, {}};
  for (int i = 0; i < 9; ++i) deep = GgufArray{GgufKind::Array, {deep}};
  EXPECT_THAT(refusal(bytes_of(deep)), HasSubstr("nested more than 8 deep"));
}

TEST(GgufErrors, RequestsNameWhatThereIs) {
  const GgufFile file(kGgufData + "from_python.gguf");
  EXPECT_THAT(error_of<FormatError>([&] { (void)file.tensor("d"); }),
              HasSubstr("has no tensor 'd', but 3 others"));
  EXPECT_EQ(error_of<DtypeError>([&] { (void)file.read("b"); }),
            "[gguf] tensor 'b' is I16, which is no dtype of Luminal; read_f32() decodes it");
  std::array<std::byte, 9> bytes{};
  EXPECT_EQ(error_of<ShapeError>([&] { file.read("b", 0, bytes); }),
            "[gguf] bytes 0 to 9 of tensor 'b' were asked for, which has 8");
  EXPECT_THAT(error_of<DtypeError>([] { (void)gguf_type("Q4_L"); }), HasSubstr("did you mean 'Q4_0'"));
  EXPECT_EQ(&gguf_type("q4_k"), &gguf_type("Q4_K"));
}

TEST(GgufErrors, WritersRefuseWhatTheFormatCannotHold) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "f.gguf";
  const auto refused = [&](const GgufMetadata& metadata, std::vector<GgufTensorInfo> tensors) {
    return error_of<Error>([&] { GgufWriter(path, metadata, std::move(tensors)); });
  };
  EXPECT_EQ(refused({{"k", 1}, {"k", 2}}, {}), "[gguf] the metadata key 'k' is given twice");
  EXPECT_EQ(refused({{"k", GgufArray{GgufKind::I32, {1, 2.0}}}}, {}),
            "[gguf] an array of i32 holds a value of kind f64; all must be of one kind");
  EXPECT_EQ(refused({{"general.alignment", uint32_t{12}}}, {}),
            "[gguf]: general.alignment is 12; it must be a power of two from 8 to 1048576");
  const GgufTensorInfo w{"w", &gguf_type("F32"), {1}};
  EXPECT_EQ(refused({}, {w, w}), "[gguf] tensor 'w' is given twice");
  EXPECT_EQ(refused({}, {{"w", &gguf_type("F32"), {1, 1, 1, 1, 1}}}),
            "[gguf] tensor 'w' has 5 dims; the format allows 4");
  EXPECT_EQ(refused({}, {{"w", &gguf_type("Q4_0"), {64, 8}}}),
            "[gguf] tensor 'w' of Q4_0[64,8] has rows of 8 elements, which are not whole blocks of 32");
  EXPECT_THAT(refused({}, {{std::string(65, 'n'), &gguf_type("F32"), {1}}}), HasSubstr("has 65 bytes"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace luminal
