#include "runtime/machine.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/private_folder.h"
#include "base/team.h"

namespace luminal::runtime {
namespace {

constexpr int kVersion = 4;  // of what is measured, how, and of the file

/// Over everything else in the file.
std::string sum_of(nlohmann::json json) {
  json.erase("check_sum");
  return fmt::format("{:016x}", hash_bytes(json.dump()));
}

nlohmann::json to_json(const kernel::MachineLimits& limits, const std::string& machine) {
  nlohmann::json json{{"version", kVersion},
                      {"machine", machine},
                      {"threads", limits.threads},
                      {"flops_per_us", limits.flops_per_us},
                      {"one_thread_flops_per_us", limits.one_thread_flops_per_us},
                      {"memory_bytes_per_us", limits.memory_bytes_per_us},
                      {"cache_bytes_per_us", limits.cache_bytes_per_us},
                      {"l2_bytes_per_us", limits.l2_bytes_per_us},
                      {"launch_us", limits.launch_us},
                      {"cache_bytes", limits.cache_bytes},
                      {"l2_bytes", limits.l2_bytes},
                      {"vector_bytes", limits.vector_bytes}};
  json["check_sum"] = sum_of(json);
  return json;
}

/// Empty if the text is not a file of ours for this machine.
std::optional<kernel::MachineLimits> from_json(const std::string& text, const std::string& machine) {
  try {
    const auto json = parse_bounded_json(text, "limits");  // its sum is over the printed document
    if (json.at("version") != kVersion || json.at("machine") != machine ||
        json.at("check_sum") != sum_of(json))
      return std::nullopt;
    const auto rate = [&](const char* name) {
      const double value = json.at(name).get<double>();
      if (!(value > 0)) throw FormatError(name);
      return value;
    };
    const auto size = [&](const char* name, int64_t most) {
      const nlohmann::json& value = json.at(name);
      if (!value.is_number_integer() || value.get<int64_t>() < 1 || value.get<int64_t>() > most)
        throw FormatError(name);
      return value.get<int64_t>();
    };
    constexpr int64_t kMostThreads = 1 << 16, kMostBytes = int64_t{1} << 50, kMostVectorBytes = 1 << 16;
    return kernel::MachineLimits{.threads = static_cast<int>(size("threads", kMostThreads)),
                                 .flops_per_us = rate("flops_per_us"),
                                 .memory_bytes_per_us = rate("memory_bytes_per_us"),
                                 .cache_bytes_per_us = rate("cache_bytes_per_us"),
                                 .launch_us = rate("launch_us"),
                                 .cache_bytes = size("cache_bytes", kMostBytes),
                                 .vector_bytes = static_cast<int>(size("vector_bytes", kMostVectorBytes)),
                                 .one_thread_flops_per_us = rate("one_thread_flops_per_us"),
                                 .l2_bytes_per_us = rate("l2_bytes_per_us"),
                                 .l2_bytes = size("l2_bytes", kMostBytes)};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

}  // namespace

kernel::MachineLimits limits_of(backends::Device& device, const std::filesystem::path& folder) {
  const codegen::Target& target = device.target();
  const std::string machine =
      fmt::format("{}; {}; {} {}; {} threads of {} processors", this_machine().cpu, target.name, target.cpu,
                  target.features, std::min(target.threads, Team::shared().size()), this_machine().cores);
  const std::filesystem::path file =
      folder / fmt::format("limits-{}-{:016x}.json", target.name, hash_bytes(machine));
  const bool trusted = !folder.empty() && distrust_of(folder).empty() && distrust_of(file).empty();
  if (trusted && std::filesystem::exists(file)) {
    try {
      if (const auto known = from_json(read_file(file, 1 << 16), machine)) return *known;
    } catch (const Error&) {  // unreadable: measured anew
    }
  }
  const kernel::MachineLimits limits = device.measure_limits();
  if (!trusted) return limits;
  try {
    if (!make_private_folder(folder).empty()) return limits;
    write_file_atomic(file, to_json(limits, machine).dump(1));
  } catch (const std::exception& error) {
    debug(1, "runtime: cannot store the machine's limits: {}", error.what());
  }
  return limits;
}

const kernel::MachineLimits& machine_limits(backends::Device& device) {
  static std::mutex mutex;
  static std::map<std::string, kernel::MachineLimits> known;
  const std::lock_guard lock(mutex);
  const codegen::Target& target = device.target();
  const std::string key = fmt::format("{} {} {}", target.name, target.cpu, target.features);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const std::optional<kernel::MachineLimits> given = device.limits();
  return known.emplace(key, given ? *given : limits_of(device, environment::cache_folder())).first->second;
}

}  // namespace luminal::runtime
