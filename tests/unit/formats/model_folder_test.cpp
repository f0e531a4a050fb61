#include "luminal/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A model in two files, as transformers saves large ones.
class ShardedFolder : public testing::Test {
 protected:
  ShardedFolder() {
    (void)folder_.file("config.json", R"({"model_type": "llama"})");
    write("one.safetensors", "b", 1);
    write("two.safetensors", "a", 2);
    index(R"("a": "two.safetensors", "b": "one.safetensors")");
  }
  void write(const std::string& file, const std::string& tensor, float value) {
    write_safetensors(folder_.path() / file, {{tensor, TensorData::of<float>({1}, std::vector{value})}});
  }
  void index(const std::string& map) {
    (void)folder_.file("model.safetensors.index.json", R"({"metadata": {}, "weight_map": {)" + map + "}}");
  }
  [[nodiscard]] std::string error() const {
    return test::error_of<FormatError>([&] { (void)ModelFolder(folder_.path()); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(ShardedFolder, IsReadAsOneModel) {
  const ModelFolder model(folder_.path());
  EXPECT_EQ(model.file_count(), 2U);
  EXPECT_THAT(model.names(), ElementsAre("a", "b"));
  EXPECT_EQ(model.config(), R"({"model_type": "llama"})");
  EXPECT_EQ(model.generation_config(), "{}");
  EXPECT_EQ(model.read("a").as<float>()[0], 2);
  EXPECT_EQ(model.info("b").dims, std::vector<int64_t>{1});
  std::array<std::byte, 2> upper{};
  model.read("b", 2, upper);
  EXPECT_EQ(upper[1], std::byte{0x3f}) << "1.0F";
  EXPECT_THAT(test::error_of<ShapeError>([&] { model.read("b", 3, upper); }),
              HasSubstr("bytes 3 to 5 of tensor 'b' were asked for, which has 4"));
  EXPECT_THAT(test::error_of<FormatError>([&] { (void)model.read("c"); }),
              HasSubstr("has no tensor 'c', but 2"));
}

TEST_F(ShardedFolder, WhatDoesNotFitIsAnError) {
  index(R"("a": "two.safetensors", "b": "two.safetensors")");
  EXPECT_THAT(error(), HasSubstr("places tensor 'b' in 'two.safetensors', which has no such tensor"));
  index(R"("a": "three.safetensors")");
  EXPECT_THAT(error(), HasSubstr("names the file 'three.safetensors', which is missing"));
  index(R"("a": 3)");
  EXPECT_THAT(error(), HasSubstr("the file of tensor 'a' is not a text"));
  index("");
  EXPECT_THAT(error(), HasSubstr("has no weight_map"));
  write("two.safetensors", "b", 2);
  index(R"("b": "two.safetensors", "c": "one.safetensors")");
  EXPECT_THAT(error(), HasSubstr("tensor 'b' is both in 'one.safetensors' and in 'two.safetensors'"));
}

TEST_F(ShardedFolder, TheIndexDoesNotLeadOutOfTheFolder) {
  for (const char* file :
       {"../one.safetensors", "/etc/passwd", "x/../one.safetensors", "..", ".", "", "a\\u0000b"}) {
    index(R"("b": ")" + std::string(file) + R"(")");
    EXPECT_THAT(error(), HasSubstr("outside of the folder")) << file;
  }
}

TEST_F(ShardedFolder, WhatIsMissingOrNoJsonIsAnError) {
  (void)folder_.file("generation_config.json", "{");
  EXPECT_THAT(error(), HasSubstr("generation_config.json' is not JSON"));
  (void)folder_.file("config.json", "[]");
  EXPECT_THAT(error(), HasSubstr("config.json' is not a JSON object"));
  std::filesystem::remove(folder_.path() / "config.json");
  EXPECT_THAT(error(), HasSubstr("has no config.json"));
  const test::TemporaryFolder empty;
  (void)empty.file("config.json", "{}");
  EXPECT_THAT(test::error_of<FormatError>([&] { (void)ModelFolder(empty.path()); }),
              HasSubstr("has neither model.safetensors nor an index"));
}

}  // namespace
}  // namespace luminal
