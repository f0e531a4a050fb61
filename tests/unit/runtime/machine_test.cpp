#include "runtime/machine.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/team.h"
#include "support/files.h"

namespace luminal::runtime {
namespace {

using luminal::test::content_of;
using luminal::test::TemporaryFolder;

std::filesystem::path only_file(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  EXPECT_EQ(files.size(), 1U);
  return files.at(0);
}

// Bounds that hold for any machine with vectors: no figure of ours may be off by a factor of a thousand.
TEST(Machine, MeasuresWhatTheProcessorReaches) {
  const auto backend = backends::make_cpu_device();
  const auto start = std::chrono::steady_clock::now();
  const kernel::MachineLimits limits = backend->measure_limits();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(time.count()));
  EXPECT_EQ(limits.threads, std::min(backend->target().threads, Team::shared().size()));
  EXPECT_GT(limits.one_thread_flops_per_us, 1e3);  // 1 GFLOP/s
  EXPECT_LT(limits.one_thread_flops_per_us, 1e6);
  EXPECT_GT(limits.flops_per_us, 0.5 * limits.one_thread_flops_per_us);
  EXPECT_LT(limits.flops_per_us, 1.5 * limits.threads * limits.one_thread_flops_per_us);
  EXPECT_GT(limits.memory_bytes_per_us, 500);  // 0.5 GB/s
  EXPECT_LT(limits.memory_bytes_per_us, 5e6);
  EXPECT_GT(limits.cache_bytes_per_us, 500);
  EXPECT_GT(limits.l2_bytes_per_us, 1000);
  EXPECT_GT(limits.launch_us, 0.01);
  EXPECT_LT(limits.launch_us, 1000);
}

TEST(Machine, TheFmaRateOfTheMomentIsNearTheLimit) {
  const auto device = backends::make_cpu_device();
  const kernel::MachineLimits limits = device->measure_limits();
  for (int i = 0; i < 3; ++i) {
    EXPECT_GT(device->measure_fma_rate(), limits.flops_per_us / 10);  // others may take most of the machine
    EXPECT_LT(device->measure_fma_rate(), limits.flops_per_us * 10);
  }
}

TEST(Machine, KeepsWhatItMeasured) {
  const TemporaryFolder folder;
  const auto backend = backends::make_null_device();  // pretends: no time is lost with it
  const kernel::MachineLimits first = limits_of(*backend, folder.path());
  const std::filesystem::path file = only_file(folder.path());
  auto json = nlohmann::json::parse(content_of(file));
  EXPECT_EQ(json.at("flops_per_us").get<double>(), first.flops_per_us);

  // With a checksum that fits it is read, not measured again; any number without it is damage.
  json["flops_per_us"] = 1234.5;
  (void)folder.file(file.filename(), json.dump());
  EXPECT_NE(limits_of(*backend, folder.path()).flops_per_us, 1234.5);
  const auto sign = [&] {
    json.erase("check_sum");
    json["check_sum"] = fmt::format("{:016x}", hash_bytes(json.dump()));
  };
  sign();
  (void)folder.file(file.filename(), json.dump());
  EXPECT_EQ(limits_of(*backend, folder.path()).flops_per_us, 1234.5);

  for (const char* damaged : {"", "{", "{}", "[1, 2]", "nothing"}) {
    (void)folder.file(file.filename(), damaged);
    EXPECT_NE(limits_of(*backend, folder.path()).flops_per_us, 1234.5) << damaged;
    EXPECT_TRUE(nlohmann::json::parse(content_of(file)).contains("flops_per_us")) << damaged;
  }
  json["machine"] = "another one";
  sign();
  (void)folder.file(file.filename(), json.dump());
  EXPECT_NE(limits_of(*backend, folder.path()).flops_per_us, 1234.5);
  json["machine"] = nlohmann::json::parse(content_of(file)).at("machine");
  const nlohmann::json right = json;
  const std::vector<std::pair<const char*, nlohmann::json>> wrong{
      {"memory_bytes_per_us", -1},        {"threads", 0},
      {"threads", int64_t{1} << 40},      {"l2_bytes", -1},
      {"vector_bytes", int64_t{1} << 40}, {"cache_bytes", 1.5},
      {"cache_bytes", UINT64_MAX}};
  for (const auto& [name, value] : wrong) {
    json = right;
    json[name] = value;
    sign();
    (void)folder.file(file.filename(), json.dump());
    EXPECT_NE(limits_of(*backend, folder.path()).flops_per_us, 1234.5) << name << " " << value;
  }
}

TEST(Machine, NeedsNoFolder) {
  const TemporaryFolder folder;
  const auto backend = backends::make_null_device();
  EXPECT_GT(limits_of(*backend, {}).flops_per_us, 0);
  const auto blocked = folder.file("file", "not a folder");
  EXPECT_GT(limits_of(*backend, blocked / "below").flops_per_us, 0);
}

}  // namespace
}  // namespace luminal::runtime
