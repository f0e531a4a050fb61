#include <gtest/gtest.h>

#include <map>

#include "luminal/safetensors.h"
#include "validate/cases/case.h"

// A part of what `make validate` checks, against PyTorch's results stored by tools/validate/compare.py.
namespace luminal::validate {
namespace {

/// Where the cases run: one line joins a device.
constexpr const char* kDevices[] = {
    "reference",
    "cpu",
};

const std::string kExpected = std::string(LUMINAL_SOURCE_DIR) + "/tests/validate/expected.safetensors";

class Stored : public testing::TestWithParam<const char*> {};

TEST_P(Stored, ResultsArePyTorchs) {
  const SafetensorsFile file(kExpected);
  // "case name|tensor name" -> what PyTorch says.
  std::map<std::string, std::vector<std::string>> wanted;
  for (const std::string& key : file.names())
    wanted[key.substr(0, key.rfind('|'))].push_back(key.substr(key.rfind('|') + 1));
  const Suite suite = all_specs();
  size_t found = 0;
  for (const Case& one : cases_of(suite)) {
    const auto at = wanted.find(one.name);
    if (at == wanted.end()) continue;
    ++found;
    SCOPED_TRACE(one.name);
    const Results results = run(one, Place::parse(GetParam()));
    for (const std::string& name : at->second) {
      ASSERT_TRUE(results.contains(name)) << name;
      const TensorData& got = results.at(name);
      const TensorData expected = file.read(one.name + "|" + name);
      EXPECT_EQ(got.dims, expected.dims) << name;
      EXPECT_LE(error_of(got, expected, scale_of(one)), tolerance_of(one, got.dtype)) << name;
    }
  }
  // A case that was renamed or removed: run `make validate`, which stores the results anew.
  EXPECT_EQ(found, wanted.size());
  EXPECT_GT(found, 150U);
}

INSTANTIATE_TEST_SUITE_P(Devices, Stored, testing::ValuesIn(kDevices),
                         [](const auto& device) { return std::string(device.param); });

// Two cases of one name would draw the same inputs and hide each other in the table.
TEST(Cases, NamesAreUnique) {
  const Suite suite = all_specs();
  std::map<std::string, int> count;
  for (const Case& one : cases_of(suite)) EXPECT_EQ(++count[one.name], 1) << one.name;
  EXPECT_GE(count.size(), 1500U);
}

}  // namespace
}  // namespace luminal::validate
