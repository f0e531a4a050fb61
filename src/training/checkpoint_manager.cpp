#include "luminal/training/checkpoint_manager.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/fail.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "luminal/safetensors.h"

namespace luminal::training {
namespace {

namespace fs = std::filesystem;
using Checkpoint = CheckpointManager::Checkpoint;

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors", kNote = "note.",
                           kPlan = "plan",  // "plan", or "plan batch 33..64" with named dims
    kHeaderSum = "checksum.header", kDataSum = "checksum.data";

std::string file_name(int64_t step) { return fmt::format("{}{:012}{}", kPrefix, step, kSuffix); }

template <class T, class... Base>
std::optional<T> number_in(std::string_view text, Base... base) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base...);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The shortest text that reads back as the same number.
std::string text_of(double value) { return fmt::format("{}", value); }

const std::string& required(const SafetensorsFile& file, const std::string& key, const fs::path& path) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end())
    fail<FormatError>(
        "[checkpoint] '{}' has no '{}' in its header, so it is not a checkpoint; remove it from the folder",
        path.string(), key);
  return found->second;
}

template <class T>
T required_number(const SafetensorsFile& file, const std::string& key, const fs::path& path) {
  const std::string& text = required(file, key, path);
  if (const auto value = number_in<T>(text)) return *value;
  fail<FormatError>(
      "[checkpoint] '{}' has {}='{}' in its header, which is not a number; remove it from the folder",
      path.string(), key, text);
}

std::map<std::string, uint64_t> plans_of(const SafetensorsFile& file, const fs::path& path) {
  std::map<std::string, uint64_t> plans;
  for (const auto& [name, text] : file.metadata()) {
    if (name != kPlan && !name.starts_with(std::string(kPlan) + " ")) continue;
    const auto key = number_in<uint64_t>(text, 16);
    if (!key)
      fail<FormatError>(
          "[checkpoint] '{}' has {}='{}' in its header, which is not the key of a plan; remove it from the "
          "folder",
          path.string(), name, text);
    plans.emplace(name.substr(std::min(name.size(), kPlan.size() + 1)), *key);
  }
  return plans;
}

/// Tells, once the run has gone on, that it did so under another plan.
void tell_when_plans_differ(Graph& graph, const Checkpoint& found) {
  if (found.device != graph.device()) {
    log_line(fmt::format(
        "[checkpoint] '{}' ran on '{}' and continues on '{}': results may differ in the last bits",
        found.path.string(), found.device, graph.device()));
    graph.resume_plans({}, nullptr);
    return;
  }
  graph.resume_plans(found.plans, [found](const PlanIdentity& plan) {
    log_line(fmt::format(
        "[checkpoint] '{}' was trained under plan {:016x}{} and continues under {:016x}: results may differ "
        "in the last bits. The plan is the same for the same mode, threads, processor, cache (which holds "
        "the machine's limits and what was measured) and version of Luminal",
        found.path.string(), found.plans.at(plan.bucket),
        plan.bucket.empty() ? "" : fmt::format(" ({})", plan.bucket), plan.key));
  });
}

/// XXH3 over pieces of any length, in order.
class Checksum {
 public:
  void add(std::string_view piece) { sum_ = combine(combine(sum_, piece.size()), hash_bytes(piece)); }
  void add(const TensorData& data) {
    add(std::string_view(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()));
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", sum_); }

 private:
  uint64_t sum_ = 0;
};

/// Over everything in the header: notes (the sum of the data among them), and the tensors' names and types.
std::string header_sum(const std::map<std::string, std::string>& metadata,
                       const std::map<std::string, TensorInfo>& tensors) {
  Checksum sum;
  for (const auto& [key, value] : metadata) {
    if (key == kHeaderSum) continue;
    sum.add(key);
    sum.add(value);
  }
  for (const auto& [name, info] : tensors) {
    sum.add(name);
    sum.add(fmt::format("{}[{}]", luminal::name(info.dtype), fmt::join(info.dims, ",")));
  }
  return sum.text();
}

void check_sum(const std::string& found, std::string_view key, std::string_view part,
               const SafetensorsFile& file, const fs::path& path) {
  const std::string& noted = required(file, std::string(key), path);
  if (found != noted)
    fail<FormatError>(
        "[checkpoint] '{}' is damaged: the checksum of its {} is {}, but {} was recorded when it was "
        "written; restore it from a copy, or remove it",
        path.string(), part, found, noted);
}

void check_header(const SafetensorsFile& file, const fs::path& path) {
  std::map<std::string, TensorInfo> tensors;
  try {
    for (const std::string& name : file.names()) tensors.emplace(name, file.info(name));
  } catch (const DtypeError& error) {  // no checkpoint has such a tensor
    fail<FormatError>("[checkpoint] '{}' is damaged: {}", path.string(), error.what());
  }
  check_sum(header_sum(file.metadata(), tensors), kHeaderSum, "header", file, path);
}

/// The values of all tensors, as they were saved.
std::map<std::string, TensorData> checked_values(const SafetensorsFile& file, const fs::path& path) {
  std::map<std::string, TensorData> values;
  Checksum sum;
  for (const std::string& name : file.names()) sum.add(values.emplace(name, file.read(name)).first->second);
  check_sum(sum.text(), kDataSum, "data", file, path);
  return values;
}

Checkpoint describe(const SafetensorsFile& file, const fs::path& path) {
  check_header(file, path);
  Checkpoint result{.step = required_number<int64_t>(file, "step", path), .path = path};
  result.device = required(file, "device", path);
  if (file.metadata().contains("metric")) result.metric = required_number<double>(file, "metric", path);
  for (const auto& [key, value] : file.metadata())
    if (key.starts_with(kNote)) result.notes.emplace(key.substr(kNote.size()), value);
  result.plans = plans_of(file, path);
  return result;
}

std::string text_of(const TensorInfo& info) {
  return fmt::format("{}[{}]", name(info.dtype), fmt::join(info.dims, ", "));
}

void check_names(const SafetensorsFile& file, const std::map<std::string, GraphTensor>& tensors,
                 const fs::path& path) {
  std::vector<std::string> missing, unexpected;
  for (const auto& [name, tensor] : tensors)
    if (!file.contains(name)) missing.push_back(name);
  for (const std::string& name : file.names())
    if (!tensors.contains(name)) unexpected.push_back(name);
  if (missing.empty() && unexpected.empty()) return;
  const auto first = [](std::vector<std::string>& names) {
    constexpr size_t kShown = 5;
    const size_t count = names.size();
    if (count > kShown) {
      names.resize(kShown);
      names.push_back(fmt::format("... {} in all", count));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  };
  std::string differs = missing.empty() ? "" : fmt::format("it lacks [{}]", first(missing));
  if (!unexpected.empty())
    differs += fmt::format("{} the unknown [{}]", missing.empty() ? "it has" : " and has", first(unexpected));
  fail("[checkpoint] '{}' belongs to another model: {}; build the model as it was, or use another folder",
       path.string(), differs);
}

/// Errors: Error if another manager has the folder.
std::shared_ptr<const void> locked(const fs::path& folder) {
  auto lock = std::make_shared<const FileLock>(folder / ".lock");
  if (!lock->held())
    fail(
        "[checkpoint] '{}' is in use by a run of process {}: two runs in one folder would remove each "
        "other's checkpoints. Wait for it, or choose another folder; with Options::read_only a manager only "
        "reads",
        folder.string(), lock->holder());
  return lock;
}

}  // namespace

CheckpointManager::CheckpointManager(fs::path folder, const Options& options)
    : folder_(std::move(folder)), options_(options) {
  if (options.keep_best < 0 || options.keep_last < 1)
    fail("[checkpoint] keep_best={} and keep_last={} are out of range; give at least 0 and 1",
         options.keep_best, options.keep_last);
  std::error_code status;
  if (!options.read_only) fs::create_directories(folder_, status);
  if (status)
    fail("[checkpoint] cannot create the folder '{}': {}; choose another", folder_.string(),
         status.message());
  if (options.read_only && !fs::is_directory(folder_, status))
    fail("[checkpoint] no folder '{}' to read checkpoints from; give one that a run writes to",
         folder_.string());
  if (!options.read_only) lock_ = locked(folder_);
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with("." + std::string(kPrefix))) {  // write_file_atomic's, never renamed
      if (!options.read_only) fs::remove(entry.path(), status);
    } else if (file.starts_with(kPrefix) && file.ends_with(kSuffix)) {
      try {
        list_.push_back(describe(SafetensorsFile(entry.path()), entry.path()));
      } catch (const FormatError& error) {
        log_line(fmt::format("[checkpoint] skipped: {}", error.what()));
        damaged_.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(list_, {}, &Checkpoint::step);
}

void CheckpointManager::add(const std::string& name, const std::vector<nn::Serializer::Entry>& entries) {
  if (std::ranges::find(names_, name) != names_.end())
    fail("[checkpoint] '{}' is already tracked; give each part its own name", name);
  names_.push_back(name);
  for (const auto& entry : entries) {
    std::string full = name + "." + entry.name;
    std::ranges::replace(full, '/', '.');
    tensors_.insert_or_assign(std::move(full), entry.tensor);
  }
}

Checkpoint CheckpointManager::save(int64_t step, std::optional<double> metric,
                                   std::map<std::string, std::string> notes) {
  if (options_.read_only)
    fail("[checkpoint] step {} is not saved to '{}': this manager is read_only; create one that is not", step,
         folder_.string());
  if (tensors_.empty())
    fail("[checkpoint] nothing is tracked; call track with the model and the optimizer first");
  const Graph graph = tensors_.begin()->second.graph();
  if (metric && std::isnan(*metric)) metric.reset();
  Checkpoint made{.step = step,
                  .metric = metric,
                  .notes = std::move(notes),
                  .device = graph.device(),
                  .plans = graph.plans()};
  made.path = folder_ / file_name(step);
  std::map<std::string, std::string> header{{"step", std::to_string(step)},
                                            {"graph_step", std::to_string(graph.step())},
                                            {"seed", std::to_string(graph.seed())},
                                            {"device", made.device}};
  if (metric) header.emplace("metric", text_of(*metric));
  for (const auto& [key, value] : made.notes) header.emplace(std::string(kNote) + key, value);
  for (const auto& [bucket, key] : made.plans)
    header.emplace(bucket.empty() ? std::string(kPlan) : fmt::format("{} {}", kPlan, bucket),
                   fmt::format("{:016x}", key));
  std::map<std::string, TensorData> values;
  std::map<std::string, TensorInfo> infos;
  Checksum sum;
  for (const auto& [name, tensor] : tensors_) {
    const TensorData& data = values.emplace(name, tensor.data()).first->second;
    infos.emplace(name, TensorInfo{data.dtype, data.dims});
    sum.add(data);
  }
  header.emplace(kDataSum, sum.text());
  header.emplace(kHeaderSum, header_sum(header, infos));
  try {
    write_safetensors(made.path, {values.begin(), values.end()}, header);
  } catch (const Error& error) {
    fail("[checkpoint] step {} was not saved: {}. Older checkpoints are intact", step, error.what());
  }
  std::erase_if(list_, [&](const Checkpoint& other) { return other.step == step; });
  list_.insert(std::ranges::upper_bound(list_, step, {}, &Checkpoint::step), made);
  std::erase(damaged_, made.path);
  prune();
  return made;
}

/// Places in the list, the best first.
std::vector<size_t> CheckpointManager::by_metric() const {
  std::vector<size_t> places;
  for (size_t i = 0; i < list_.size(); ++i)
    if (list_[i].metric) places.push_back(i);
  std::ranges::stable_sort(places, [&](size_t a, size_t b) {
    return options_.lower_is_better ? *list_[a].metric < *list_[b].metric
                                    : *list_[a].metric > *list_[b].metric;
  });
  return places;
}

std::optional<Checkpoint> CheckpointManager::best() const {
  const std::vector<size_t> places = by_metric();
  if (places.empty()) return std::nullopt;
  return list_[places.front()];
}

void CheckpointManager::prune() {
  std::vector<size_t> best = by_metric();
  if (best.size() > static_cast<size_t>(options_.keep_best))
    best.resize(static_cast<size_t>(options_.keep_best));
  std::vector<Checkpoint> kept;
  for (size_t i = 0; i < list_.size(); ++i) {
    const bool last = i + static_cast<size_t>(options_.keep_last) >= list_.size();
    if (last || std::ranges::find(best, i) != best.end()) {
      kept.push_back(list_[i]);
      continue;
    }
    std::error_code ignored;  // a file too many does no harm
    fs::remove(list_[i].path, ignored);
  }
  list_ = std::move(kept);
}

std::optional<Checkpoint> CheckpointManager::resume() {
  for (auto at = list_.rbegin(); at != list_.rend(); ++at) {
    try {
      const Checkpoint found = load(at->path);
      const auto is_newer = [&](const fs::path& other) { return other.filename() > at->path.filename(); };
      if (std::ranges::any_of(damaged_, is_newer))
        log_line(fmt::format("[checkpoint] '{}' is used instead", at->path.string()));
      return found;
    } catch (const FormatError& error) {
      log_line(fmt::format("[checkpoint] skipped: {}", error.what()));
      damaged_.push_back(at->path);
    }
  }
  if (!damaged_.empty())
    fail(
        "[checkpoint] none of the {} checkpoints in '{}' is intact; restore one, or empty the folder to "
        "start again",
        damaged_.size(), folder_.string());
  return std::nullopt;
}

Checkpoint CheckpointManager::load(const fs::path& path) {
  if (tensors_.empty())
    fail("[checkpoint] nothing is tracked; call track with the model and the optimizer first");
  const SafetensorsFile file(path);
  Checkpoint found = describe(file, path);
  const auto graph_step = required_number<uint64_t>(file, "graph_step", path);
  const auto seed = required_number<uint64_t>(file, "seed", path);
  Graph graph = tensors_.begin()->second.graph();
  check_names(file, tensors_, path);
  for (const auto& [name, tensor] : tensors_) {
    const TensorInfo stored = file.info(name);
    const TensorType type = tensor.type();
    if (stored.dtype != type.dtype || stored.dims != exec(type.dims, graph.dims()))
      fail(
          "[checkpoint] '{}' belongs to another model: '{}' is {} there and {} here; build the model as it "
          "was, or use another folder",
          path.string(), name, text_of(stored), type.to_string());
  }
  if (seed != graph.seed())
    fail(
        "[checkpoint] '{}' was made with the seed {}, but this graph has {}; call set_seed({}) before "
        "building the model",
        path.string(), seed, graph.seed(), seed);
  const std::map<std::string, TensorData> values = checked_values(file, path);
  for (auto& [name, tensor] : tensors_) tensor.set(values.at(name));
  graph.set_step(graph_step);
  tell_when_plans_differ(graph, found);
  return found;
}

}  // namespace luminal::training
