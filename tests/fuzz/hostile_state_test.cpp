// What Luminal itself wrote and somebody changed: replay files, exported choices, checkpoints.
#include <fmt/format.h>

#include "base/hash.h"
#include "fuzz/hostile_input.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "search/cache/cache.h"
#include "search/verification/replay.h"
#include "support/replays.h"

namespace luminal::fuzz {
namespace {

using test::content_of;
using Path = std::filesystem::path;

// --- Replay files

std::vector<std::string> replays() {
  std::vector<std::string> files;
  const auto add = [&](const Graph& cx, const codegen::Bucket& bucket = {}) {
    for (const search::Replay& replay : test::replays_of(cx, bucket))
      files.push_back(search::replay_json(replay));
  };
  Graph doubled, sums, product, named;
  (doubled.tensor({3, 4}) * 2 + 1).retrieve();
  sums.tensor({8, 9}).sum(1).retrieve();
  product.tensor({5, 6}).matmul(product.tensor({6, 7})).retrieve();
  named.tensor({"s", 4}).sum(1).retrieve();
  named.set_dim("s", 8);
  for (const Graph* cx : {&doubled, &sums, &product}) add(*cx);
  add(named, {.facts = {{"s", {5, 8, 1}}}});
  return files;
}

// --- Exported choices

const std::vector<std::string> kKey{"a key"};

/// A file of two choices, of a kernel and of a plan.
std::vector<std::string> exports() {
  const test::TemporaryFolder folder;
  search::Cache cache(folder.path() / "cache");
  cache.store(search::make_key(kKey), {.schedule = "nest",
                                       .parameters = {{"inner", 0}, {"lanes", 8}, {"stored", 0}},
                                       .code = 77,
                                       .measured_us = 12.5,
                                       .effort = 4});
  const std::vector<std::string> other{"another"};
  cache.store(
      search::make_key(other),
      {.schedule = "plan", .parameters = {}, .costs = {{"scale", 1.0}}, .measured_us = 1, .effort = 1});
  cache.export_to(folder.path() / "file");
  return {content_of(folder.path() / "file")};
}

void import_choices(const Path& file) {
  const test::TemporaryFolder folder;
  search::Cache cache(folder.path());
  const int added = cache.merge(file);
  EXPECT_EQ(cache.trouble(), "");
  const auto choice = cache.find(search::make_key(kKey));
  if (choice && choice->verified_here) throw std::runtime_error("an import passes for verified");
  if (choice && !(choice->measured_us > 0)) throw std::runtime_error("an import without a time");
  if (added < 2) throw FormatError("not all of it was taken over");
}

// --- Checkpoints

struct Model {
  Graph cx;
  nn::Linear layer{cx, 3, 2};
};

/// The sums as a checkpoint notes them, over what a file then holds.
class Sum {
 public:
  void add(std::string_view piece) { sum_ = combine(combine(sum_, piece.size()), hash_bytes(piece)); }
  void add(const TensorData& data) {
    add(std::string_view(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()));
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", sum_); }

 private:
  uint64_t sum_ = 0;
};

/// The same file with sums that fit, as one would have who changes it on purpose.
void sign(const Path& path) {
  std::map<std::string, TensorData> tensors;
  std::map<std::string, std::string> header;
  {
    const SafetensorsFile file(path);
    header = file.metadata();
    for (const std::string& name : file.names()) tensors.emplace(name, file.read(name));
  }
  Sum data, all;
  for (const auto& [name, values] : tensors) data.add(values);
  header["checksum.data"] = data.text();
  header.erase("checksum.header");
  for (const auto& [key, value] : header) {
    all.add(key);
    all.add(value);
  }
  for (const auto& [name, values] : tensors) {
    all.add(name);
    all.add(fmt::format("{}[{}]", luminal::name(values.dtype), fmt::join(values.dims, ",")));
  }
  header["checksum.header"] = all.text();
  write_safetensors(path, {tensors.begin(), tensors.end()}, header);
}

constexpr std::string_view kNewest = "step-000000000002.safetensors";

/// Two checkpoints of a model, and the values that each holds.
struct Saved {
  test::TemporaryFolder folder;
  Model model;
  std::map<std::string, TensorData> older, newest;
  Saved() {
    training::CheckpointManager manager(folder.path(), {.keep_last = 2});
    manager.track("model", model.layer);
    older = nn::state_dict(model.layer);
    manager.save(1, 0.5, {{"epoch", "1"}});
    newest = older;
    for (auto& [name, data] : newest)
      for (float& x : data.as<float>()) x += 1;
    nn::load_state_dict(model.layer, newest);
    manager.save(2, 0.25, {{"epoch", "2"}, {"batch", "17"}});
  }
  [[nodiscard]] std::string file() const { return content_of(folder.path() / kNewest); }
};

bool same(const std::map<std::string, TensorData>& a, const std::map<std::string, TensorData>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dims == y.second.dims && x.second.bytes == y.second.bytes;
  });
}

/// Resumes with the newest file replaced. Unless its sums were made to fit, the model then has the values of
/// one of the two checkpoints, and those of the newest only if not a byte of what it holds was changed.
void resume(const std::string& input, bool is_signed) {
  static const Saved saved;
  (void)saved.folder.file(std::string(kNewest), input);
  if (is_signed) sign(saved.folder.path() / kNewest);
  Model model;
  training::CheckpointManager manager(saved.folder.path(), {.keep_last = 2});
  manager.track("model", model.layer);
  const auto before = nn::state_dict(model.layer);
  std::optional<training::CheckpointManager::Checkpoint> found;
  try {
    found = manager.resume();
  } catch (const Error&) {
    if (!same(nn::state_dict(model.layer), before))
      throw std::runtime_error("a refused file left values behind");
    throw;
  }
  if (!found) throw std::runtime_error("the older checkpoint was not found");
  const auto values = nn::state_dict(model.layer);
  if (!is_signed && !same(values, found->step == 1 ? saved.older : saved.newest))
    throw std::runtime_error("values that nobody saved were loaded");
  if (found->step == 1) throw FormatError("passed over");
}

std::vector<Target> state_targets() {
  return {
      {"replay", replays, [](const std::string& input, const Path&) { (void)search::parse_replay(input); }},
      {"replay that runs",
       replays,
       [](const std::string& input, const Path&) {
         const ReplayResult result = replay_kernel(input);
         for (const KernelReport& kernel : result.kernels) (void)kernel.loops();
       },
       60,
       {},
       true},
      {"exported choices", exports, [](const std::string&, const Path& file) { import_choices(file); }, 200},
      {"checkpoint", [] { return std::vector{Saved().file()}; },
       [](const std::string& input, const Path&) { resume(input, false); }},
      {"checkpoint whose checksums fit", [] { return std::vector{Saved().file()}; },
       [](const std::string& input, const Path&) { resume(input, true); }},
  };
}

class HostileState : public testing::TestWithParam<Target> {};
TEST_P(HostileState, IsReadOrRefused) { run(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Parsers, HostileState, testing::ValuesIn(state_targets()), test_name);

}  // namespace
}  // namespace luminal::fuzz
