#include "luminal/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "formats/zip.h"
#include "luminal/error.h"
#include "support/effort.h"
#include "support/files.h"

namespace luminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kData = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/formats/data/";

class Npy : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  [[nodiscard]] std::filesystem::path path(const std::string& name) const { return folder_.path() / name; }
  std::string message(const std::string& name, const std::string& content) const {
    write_file_atomic(path(name), content);
    try {
      if (name.ends_with(".npz"))
        (void)read_npz(path(name));
      else
        (void)read_npy(path(name));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(Npy, ReadsWhatNumPyWrote) {
  const auto file = read_npz(kData + "from_numpy.npz");
  const std::vector<float> counted{0, 1, 2, 3, 4, 5};
  for (const char* name : {"plain", "fortran"}) {
    EXPECT_THAT(file.at(name).as<float>(), testing::ElementsAreArray(counted)) << name;
    EXPECT_THAT(file.at(name).dims, ElementsAre(2, 3));
  }
  EXPECT_THAT(file.at("big").as<double>(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_TRUE(file.at("scalar").dims.empty());
  EXPECT_EQ(file.at("scalar").as<int64_t>()[0], 7);
  EXPECT_THAT(file.at("flags").as<bool>(), ElementsAre(true, false));
  EXPECT_THAT(file.at("empty").dims, ElementsAre(0, 3));
  EXPECT_EQ(static_cast<float>(file.at("half").as<float16>()[1]), -2);
  EXPECT_EQ(file.at("row").dtype, Dtype::U8);
  const auto packed = read_npz(kData + "from_numpy_compressed.npz");
  EXPECT_THAT(packed.at("a").dims, ElementsAre(100, 3));
  EXPECT_EQ(packed.at("a").as<float>()[299], 5);
}

TEST_F(Npy, WhatIsWrittenReadsBack) {
  std::map<std::string, TensorData> tensors;
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::I8, Dtype::U8, Dtype::U16, Dtype::I32,
                            Dtype::I64, Dtype::Bool})
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {3}, {2, 0}, {2, 3, 4}}) {
      TensorData data(dtype, dims);
      for (size_t i = 0; i < data.bytes.size(); ++i) data.bytes[i] = static_cast<std::byte>(i % 2);
      tensors.emplace(std::string(name(dtype)) + std::to_string(dims.size()), data);
      write_npy(path("one.npy"), data);
      const TensorData back = read_npy(path("one.npy"));
      EXPECT_EQ(back.dtype, dtype);
      EXPECT_EQ(back.dims, dims);
      EXPECT_EQ(back.bytes, data.bytes);
    }
  for (const bool compressed : {false, true}) {
    write_npz(path("all.npz"), tensors, compressed);
    const auto back = read_npz(path("all.npz"));
    ASSERT_EQ(back.size(), tensors.size());
    for (const auto& [name, data] : tensors) EXPECT_EQ(back.at(name).bytes, data.bytes) << name;
  }
}

TEST_F(Npy, DataWhoseBytesAreNotThoseOfTheirSizesAreNotWritten) {
  TensorData longer(Dtype::F32, {0});
  longer.dims = {4};
  const std::string wanted = "[npy] data of f32[4] hold 0 bytes where their sizes make 16";
  EXPECT_THAT(test::error_of<ShapeError>([&] { write_npy(path("a.npy"), longer); }), HasSubstr(wanted));
  EXPECT_THAT(test::error_of<ShapeError>([&] { write_npz(path("a.npz"), {{"a", longer}}); }),
              HasSubstr(wanted));
  EXPECT_FALSE(std::filesystem::exists(path("a.npy")) || std::filesystem::exists(path("a.npz")));
}

TEST_F(Npy, DamagedFilesSaySo) {
  write_npy(path("good.npy"), TensorData(Dtype::F32, {2, 3}));
  const std::string good = read_file(path("good.npy"));
  EXPECT_THAT(message("a.npy", "hello"), HasSubstr("this is not an .npy file"));
  EXPECT_THAT(message("a.npy", good.substr(0, good.size() - 1)), HasSubstr("take 24 bytes, and 23 follow"));
  EXPECT_THAT(message("a.npy", good.substr(0, 20)), HasSubstr("does not fit; the file is truncated"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return message("a.npy", text.replace(text.find(from), from.size(), to));
  };
  EXPECT_THAT(with("<f4", "<c8"), HasSubstr("unsupported type '<c8'"));
  EXPECT_THAT(with("(2, 3)", "(2,-3)"), HasSubstr("a dim is not a number of at least 0"));
  EXPECT_THAT(with("False", "Falze"), HasSubstr("neither True nor False"));
  EXPECT_THAT(with("'shape'", "'shopa'"), HasSubstr("unexpected key 'shopa'"));
  EXPECT_THAT(with("(2, 3), }", "(9999999999999999999, 3)"), HasSubstr("a dim is not a number"));
}

TEST_F(Npy, EveryTruncationAndFlippedByteIsAnErrorOrReadsWell) {
  for (const char* source : {"from_numpy.npz", "from_numpy_compressed.npz"}) {
    const std::string good = read_file(kData + source);
    for (size_t i = 0; i < good.size(); i += 7) {
      EXPECT_NE(message("t.npz", good.substr(0, i)), "no error") << i;
      std::string flipped = good;
      flipped[i] = static_cast<char>(flipped[i] ^ 0x55);
      (void)message("f.npz", flipped);  // must end, without a crash
    }
  }
  EXPECT_THAT(message("a.npz", "PK"), HasSubstr("are not a zip archive"));
}

TEST_F(Npy, AZipThatClaimsTooMuchIsRefusedBeforeAnythingIsAllocated) {
  std::string archive = zip({{"a", std::string(1000, 'x')}}, true);
  const size_t entry = archive.find("PK\x01\x02");
  for (int i = 0; i < 3; ++i) archive[entry + 24 + static_cast<size_t>(i)] = '\xff';
  EXPECT_THROW((void)unzip(archive, "[test]", size_t{1} << 40), FormatError);
  EXPECT_THROW((void)unzip(zip({{"a", std::string(1000, 'x')}}, true), "[test]", 999), FormatError);
}

using Members = std::map<std::string, std::string>;

/// Two entries of the directory that share packed bytes: a file of any size from a few bytes.
TEST(Zip, MembersThatOverlapAreRefused) {
  const std::string content(1000, 'x');
  std::string archive = zip({{"a", content}, {"b", content}}, false);
  const size_t second = archive.rfind("PK\1\2");
  for (size_t i = 0; i < 4; ++i) archive[second + 42 + i] = '\0';  // where its member begins
  EXPECT_EQ(
      test::error_of<FormatError>([&] { (void)unzip(archive, "[test]", size_t{1} << 40); }),
      "[test]: members 'a' and 'b' overlap: one ends at byte 1031, the other begins at 0; do not use the "
      "file");
}

TEST(Zip, MoreMembersThanSixteenBitsCount) {
  Members members;
  for (int i = 0; i < 70'000; ++i) members.emplace(std::to_string(i), std::to_string(7 * i));
  EXPECT_EQ(unzip(zip(members, false), "[test]", size_t{1} << 30), members);
}

// What holds for numbers beyond 32 bits is seen with little data where the limit is lower.
TEST(Zip, SizesAndPlacesBeyondTheLimitOfPlainZip) {
  const Members members{{"a", std::string(90, 'a')}, {"b", std::string(101, 'b')}, {"c", "c"}};
  for (const bool deflated : {false, true})
    for (const uint64_t most : {0, 50, 100, 150, 250, 1000}) {
      const std::string archive = zip(members, deflated, most);
      EXPECT_EQ(unzip(archive, "[test]", 1000), members) << most;
      if (!deflated) {
        EXPECT_EQ(archive.find("PK\6\6") == std::string::npos, most == 1000) << most;
      }
    }
  EXPECT_EQ(zip(members, false), zip(members, false, 1000));
}

/// The real thing, where there is memory for it.
TEST(Zip, AMemberOfMoreThanFourGigabytes) {
  if (!effort::full_effort()) GTEST_SKIP() << "takes 14 GB of memory and 10 s: make test-full";
  Members members{{"large", std::string((size_t{1} << 32) + 5, 'x')}, {"small", "behind it"}};
  members["large"][size_t{1} << 32] = 'y';
  const std::string archive = zip(members, false);
  const Members back = unzip(archive, "[test]", size_t{1} << 33);
  EXPECT_EQ(back.at("small"), "behind it");
  EXPECT_TRUE(back.at("large") == members.at("large"));
}

}  // namespace
}  // namespace luminal
