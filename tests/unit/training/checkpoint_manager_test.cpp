#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/nn.h"
#include "luminal/safetensors.h"
#include "luminal/training.h"
#include "support/effort.h"
#include "support/files.h"
#include "unit/training/expectations.h"

namespace luminal::training {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;

/// A small model with everything that a checkpoint must hold: momenta, running statistics, random masks,
/// sums.
struct TinyRun {
  struct Net {
    nn::Linear first, last;
    nn::BatchNorm1d norm;
    explicit Net(Graph& cx, int64_t width) : first(cx, 3, width), last(cx, width, 1), norm(cx, width) {}
    [[nodiscard]] GraphTensor forward(const GraphTensor& x) const {
      return last.forward(norm.forward(first.forward(x)).relu().dropout(0.3));
    }
    void serialize(nn::Serializer& s) const {
      s.module("first", first);
      s.module("norm", norm);
      s.module("last", last);
    }
  };
  Graph cx;
  Net net;
  GraphTensor x, loss;
  std::optional<GradientAccumulator> accumulator;
  std::optional<Adam> adam;

  explicit TinyRun(int64_t width = 6, uint64_t seed = 5) : cx(seeded(seed)), net(cx, width) {
    x = cx.tensor({8, 3});
    loss = net.forward(x).square().mean();
    const auto weights = nn::params(net);
    accumulator.emplace(cx, cx.run_pass(Autograd(weights, loss)), 2);
    adam.emplace(cx, weights, accumulator->gradients(),
                 Adam::Options{.learning_rate = 0.01, .apply_if = accumulator->ready()});
    loss.retrieve();
  }
  static Graph seeded(uint64_t seed) {
    Graph cx;
    cx.set_seed(seed);
    return cx;
  }
  void track(CheckpointManager& manager) const {
    manager.track("model", net);
    manager.track("accumulator", *accumulator);
    manager.track("optimizer", *adam);
  }
  float step(int64_t number) {
    x.set(test::wave(24, 0.7 + 0.1 * static_cast<double>(number % 7)));
    cx.execute();
    return loss.data<float>()[0];
  }
};

/// Without the lock that a manager holds while it lives.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != ".lock") files.push_back(entry.path().filename().string());
  std::ranges::sort(files);
  return files;
}

TEST(CheckpointManager, ResumesToTheSameBits) {
  const TemporaryFolder folder;
  TinyRun whole;
  std::vector<float> losses;
  for (int64_t i = 0; i < 12; ++i) losses.push_back(whole.step(i));
  {
    TinyRun first;
    CheckpointManager manager(folder.path() / "made/on/demand");
    first.track(manager);
    EXPECT_FALSE(manager.resume());
    for (int64_t i = 0; i < 5; ++i) (void)first.step(i);  // in the middle of an accumulation
    manager.save(5, 0.25, {{"epoch", "2"}, {"batch", "17"}});
  }
  TinyRun second;
  CheckpointManager manager(folder.path() / "made/on/demand");
  second.track(manager);
  const auto found = manager.resume();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 5);
  EXPECT_EQ(found->metric, 0.25);
  EXPECT_EQ(found->notes, (std::map<std::string, std::string>{{"batch", "17"}, {"epoch", "2"}}));
  for (int64_t i = 5; i < 12; ++i) EXPECT_EQ(second.step(i), losses[static_cast<size_t>(i)]) << "step " << i;
  const auto a = nn::state_dict(whole.net), b = nn::state_dict(second.net);
  for (const auto& [name, data] : a) EXPECT_EQ(data.bytes, b.at(name).bytes) << name;
}

TEST(CheckpointManager, KeepsTheBestAndTheLast) {
  const TemporaryFolder folder;
  TinyRun run;
  std::optional<CheckpointManager> manager(std::in_place, folder.path(),
                                           CheckpointManager::Options{.keep_best = 2, .keep_last = 1});
  run.track(*manager);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  int64_t step = 0;
  for (const double metric : {5.0, 1.0, 3.0, nan, 2.0, 4.0, 7.0}) manager->save(++step, metric);
  EXPECT_THAT(files_in(folder.path()),
              ElementsAre("step-000000000002.safetensors", "step-000000000005.safetensors",
                          "step-000000000007.safetensors"));
  EXPECT_EQ(manager->best()->step, 2);
  manager.reset();
  // Another manager sees the same, and takes away what a killed writer left.
  (void)folder.file(".step-000000000009.safetensors.a1B2c3", "half");
  CheckpointManager other(folder.path(), {.keep_best = 1, .lower_is_better = false});
  EXPECT_EQ(files_in(folder.path()).size(), 3U);
  EXPECT_EQ(other.best()->step, 7);
  run.track(other);
  EXPECT_EQ(other.resume()->step, 7);
}

TEST(CheckpointManager, PassesOverDamagedFiles) {
  const TemporaryFolder folder;
  TinyRun run;
  {
    CheckpointManager manager(folder.path(), {.keep_last = 3});
    run.track(manager);
    for (const int64_t step : {1, 2, 3}) manager.save(step);
  }
  const fs::path newest = folder.path() / "step-000000000003.safetensors";
  fs::resize_file(newest, fs::file_size(newest) / 2);
  {
    CheckpointManager manager(folder.path(), {.keep_last = 3});
    run.track(manager);
    EXPECT_EQ(manager.resume()->step, 2);
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) fs::resize_file(entry.path(), 5);
  CheckpointManager manager(folder.path());
  run.track(manager);
  EXPECT_THAT(error_of<Error>([&] { (void)manager.resume(); }), HasSubstr("none of the 3 checkpoints in"));
}

/// Each bit of the lengths and the header, and bits of every tensor in turn.
TEST(CheckpointManager, AFlippedBitIsNeverLoadedInSilence) {
  const TemporaryFolder folder;
  TinyRun run;
  {
    CheckpointManager manager(folder.path(), {.keep_last = 2});
    run.track(manager);
    manager.save(1, 0.5, {{"epoch", "1"}});
    (void)run.step(0);
    (void)run.step(1);
    manager.save(2, 0.25, {{"epoch", "2"}});
  }
  const auto saved = nn::state_dict(run.net);
  const fs::path newest = folder.path() / "step-000000000002.safetensors";
  const std::string good = test::content_of(newest);
  const size_t data = 8 + static_cast<unsigned char>(good[0]) + 256 * static_cast<unsigned char>(good[1]);
  const size_t stride = effort::full_effort() ? 1 : 7;
  testing::internal::CaptureStderr();
  int64_t tried = 0, passed_over = 0;
  for (size_t bit = 0; bit < 8 * good.size(); bit += bit < 8 * data ? stride : 5 * stride, ++tried) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    (void)folder.file(newest.filename().string(), bad);
    CheckpointManager manager(folder.path(), {.keep_last = 2});
    run.track(manager);
    const auto found = manager.resume();
    ASSERT_TRUE(found) << bit;
    ASSERT_EQ(found->step, 1) << "bit " << bit << " of " << 8 * good.size();
    ASSERT_THROW((void)manager.load(newest), FormatError) << bit;
    ++passed_over;
  }
  (void)testing::internal::GetCapturedStderr();
  EXPECT_EQ(passed_over, tried);
  EXPECT_GT(tried, 1000);
  (void)folder.file(newest.filename().string(), good);
  CheckpointManager manager(folder.path(), {.keep_last = 2});
  run.track(manager);
  EXPECT_EQ(manager.resume()->notes.at("epoch"), "2");
  for (const auto& [name, value] : nn::state_dict(run.net))
    EXPECT_EQ(value.bytes, saved.at(name).bytes) << name;
}

TEST(CheckpointManager, TellsWhatIsDamagedAndWhatIsUsedInstead) {
  const TemporaryFolder folder;
  TinyRun run;
  {
    CheckpointManager manager(folder.path(), {.keep_last = 2});
    run.track(manager);
    for (const int64_t step : {1, 2}) manager.save(step);
  }
  const fs::path newest = folder.path() / "step-000000000002.safetensors";
  std::string content = test::content_of(newest);
  content.back() = static_cast<char>(content.back() ^ 1);
  (void)folder.file(newest.filename().string(), content);
  CheckpointManager manager(folder.path(), {.keep_last = 2});
  run.track(manager);
  testing::internal::CaptureStderr();
  EXPECT_EQ(manager.resume()->step, 1);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::MatchesRegex(
          "(.|\n)*skipped: \\[checkpoint\\] '.*step-000000000002.safetensors' is damaged: the checksum "
          "of its data is [0-9a-f]+, but [0-9a-f]+ was recorded when it was written; restore it from a copy, "
          "or remove it\n(.|\n)*'.*step-000000000001.safetensors' is used instead\n(.|\n)*"));
}

TEST(CheckpointManager, PassesOverAHeaderThatWasChanged) {
  const TemporaryFolder folder;
  TinyRun run;
  run.cx.set_device("cpu");
  (void)run.step(0);
  fs::path saved;
  {
    CheckpointManager manager(folder.path());
    run.track(manager);
    const auto made = manager.save(1);
    EXPECT_EQ(made.plans, run.cx.plans());
    EXPECT_EQ(made.plans.size(), 1U);
    saved = made.path;
  }
  EXPECT_EQ(CheckpointManager(folder.path()).list().at(0).plans, run.cx.plans());
  const SafetensorsFile file(saved);
  std::map<std::string, TensorData> tensors;
  for (const std::string& name : file.names()) tensors.emplace(name, file.read(name));
  auto header = file.metadata();
  header["plan"] = "no key";
  write_safetensors(saved, {tensors.begin(), tensors.end()}, header);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(CheckpointManager(folder.path()).list().empty());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("is damaged: the checksum of its header is"));
}

TEST(CheckpointManager, RefusesAnotherModel) {
  const TemporaryFolder folder;
  TinyRun run;
  {
    CheckpointManager manager(folder.path());
    run.track(manager);
    manager.save(1);
  }
  TinyRun wider(7), reseeded(6, 99);
  const CheckpointManager::Options reading{.read_only = true};
  CheckpointManager for_wider(folder.path(), reading), for_reseeded(folder.path(), reading),
      part(folder.path(), reading);
  wider.track(for_wider);
  const auto before = nn::state_dict(wider.net);
  EXPECT_THAT(
      error_of<Error>([&] { (void)for_wider.resume(); }, folder.path()),
      HasSubstr("'step-000000000001.safetensors' belongs to another model: 'accumulator.0.sum' is f32[6, 3] "
                "there and f32[7, 3] here; build the model as it was, or use another folder"));
  for (const auto& [name, data] : nn::state_dict(wider.net)) EXPECT_EQ(data.bytes, before.at(name).bytes);
  reseeded.track(for_reseeded);
  EXPECT_THAT(error_of<Error>([&] { (void)for_reseeded.resume(); }),
              HasSubstr("was made with the seed 5, but this graph has 99; call set_seed(5)"));
  part.track("model", run.net);
  part.track("more", nn::Linear(run.cx, 1, 1));
  EXPECT_THAT(error_of<Error>([&] { (void)part.resume(); }), HasSubstr("it lacks [more.bias, more.weight]"));
  EXPECT_THAT(error_of<Error>([&] { part.track("model", run.net); }),
              HasSubstr("'model' is already tracked"));
  CheckpointManager empty(folder.path());
  EXPECT_THAT(error_of<Error>([&] { empty.save(1); }), HasSubstr("nothing is tracked"));
  EXPECT_THAT(error_of<Error>([&] { CheckpointManager(folder.path(), {.keep_last = 0}); }),
              HasSubstr("keep_last=0"));
}

/// A limit on the size of files stands for a full disk: write() fails in the middle.
TEST(CheckpointManager, AFullDiskLeavesTheOlderOnesWhole) {
  const TemporaryFolder folder;
  TinyRun run;
  CheckpointManager manager(folder.path());
  run.track(manager);
  manager.save(1, 1.0);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit small = limit;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of<Error>([&] { manager.save(2, 0.5); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, HasSubstr("[checkpoint] step 2 was not saved: [write] cannot write"));
  EXPECT_THAT(message, HasSubstr("free some space or choose another place. Older checkpoints are intact"));
  EXPECT_THAT(files_in(folder.path()), ElementsAre("step-000000000001.safetensors"));
  EXPECT_EQ(manager.resume()->step, 1);
  manager.save(2, 0.5);
  EXPECT_EQ(manager.list().size(), 2U);
}

/// The child of the next test: trains and saves after every step until it is killed, telling each step that
/// is saved.
TEST(CheckpointChild, DISABLED_TrainsUntilKilled) {
  const char* folder = std::getenv("LUMINAL_TEST_FOLDER");
  ASSERT_NE(folder, nullptr);
  TinyRun run;
  CheckpointManager manager(folder, {.keep_best = 1, .keep_last = 2});
  run.track(manager);
  int64_t step = 0;
  if (const auto found = manager.resume()) step = found->step;
  for (; step < 100000; ++step) {
    const float loss = run.step(step);
    manager.save(step + 1, loss);
    const std::string line = std::to_string(step + 1) + "\n";
    if (::write(3, line.data(), line.size()) < 0) return;
  }
}

/// Starts the child, kills it after `delay`, and returns the last step it said was saved.
int64_t kill_a_run(const fs::path& folder, std::chrono::milliseconds delay) {
  int pipe[2];
  if (::pipe(pipe) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], 3);
    ::setenv("LUMINAL_TEST_FOLDER", folder.c_str(), 1);
    ::setenv("LUMINAL_DEVICE", "reference", 1);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, 1);
    ::execl("/proc/self/exe", "test", "--gtest_filter=CheckpointChild.*", "--gtest_also_run_disabled_tests",
            nullptr);
    ::_exit(127);
  }
  ::close(pipe[1]);
  std::string said;
  char buffer[256];
  ssize_t got = ::read(pipe[0], buffer, sizeof buffer);  // it is under way
  if (got > 0) said.append(buffer, static_cast<size_t>(got));
  std::this_thread::sleep_for(delay);
  ::kill(child, SIGKILL);
  while ((got = ::read(pipe[0], buffer, sizeof buffer)) > 0) said.append(buffer, static_cast<size_t>(got));
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself: " << status;
  std::istringstream lines(said);
  int64_t last = -1;
  for (int64_t step = 0; lines >> step;) last = step;
  return last;
}

TEST(CheckpointManager, SurvivesKillsAtAnyMoment) {
  const TemporaryFolder folder;
  std::mt19937 random(7);
  TinyRun reference;  // one that was never killed
  int64_t reached = 0;
  for (int kill = 0; kill < 6; ++kill) {
    const int64_t told = kill_a_run(folder.path(), std::chrono::milliseconds(random() % 40));
    ASSERT_GT(told, 0);
    TinyRun run;
    CheckpointManager manager(folder.path(), {.keep_best = 1, .keep_last = 2});
    run.track(manager);
    const auto found = manager.resume();
    ASSERT_TRUE(found);
    EXPECT_GE(found->step, told);      // whatever was saved is there
    EXPECT_LE(found->step, told + 1);  // and at most one more, saved but not yet told
    for (; reached < found->step; ++reached) (void)reference.step(reached);
    const auto a = nn::state_dict(reference.net), b = nn::state_dict(run.net);
    for (const auto& [name, data] : a)
      ASSERT_EQ(data.bytes, b.at(name).bytes) << name << " at step " << reached;
    EXPECT_EQ(reference.cx.step(), run.cx.step());
  }
}

TEST(CheckpointLock, ASecondRunInAFolderIsAnErrorAndTouchesNothing) {
  const test::TemporaryFolder folder;
  std::optional<CheckpointManager> first(std::in_place, folder.path());
  Graph cx;
  const nn::Linear model(cx, 2, 2);
  first->track("model", model);
  first->save(1);
  const auto unfinished =
      folder.file(".step-000000000002.safetensors.Ab12Cd", "the first run is writing this");
  const std::string message = test::error_of<Error>([&] { const CheckpointManager second(folder.path()); },
                                                    folder.path().parent_path());
  EXPECT_EQ(message, "[checkpoint] '" + folder.path().filename().string() +
                         "' is in use by a run of process " + std::to_string(::getpid()) +
                         ": two runs in one folder would remove each other's checkpoints. Wait for it, or "
                         "choose another folder; with Options::read_only a manager only reads");
  EXPECT_TRUE(std::filesystem::exists(unfinished));
  const CheckpointManager copy = *first;
  first.reset();
  EXPECT_THROW(const CheckpointManager third(folder.path()), Error);  // a copy still has it
}

TEST(CheckpointLock, AFolderIsFreeAgainAfterwards) {
  const test::TemporaryFolder folder;
  {
    const CheckpointManager first(folder.path());
    EXPECT_TRUE(fs::exists(folder.path() / ".lock"));
  }
  EXPECT_FALSE(fs::exists(folder.path() / ".lock"));
  const CheckpointManager second(folder.path());
  EXPECT_TRUE(second.list().empty());
}

TEST(CheckpointLock, AProcessThatWasKilledHoldsNothing) {
  const test::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const CheckpointManager manager(folder.path());
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(test::content_of(folder.path() / ".lock"), std::to_string(child) + "\n");
  const CheckpointManager mine(folder.path());
}

TEST(CheckpointLock, AReaderLooksOn) {
  const test::TemporaryFolder folder;
  CheckpointManager writer(folder.path());
  Graph cx;
  const nn::Linear model(cx, 2, 2);
  writer.track("model", model);
  const auto saved = writer.save(3);
  const auto unfinished = folder.file(".step-000000000004.safetensors.Ab12Cd", "being written");
  CheckpointManager reader(folder.path(), {.read_only = true});
  EXPECT_TRUE(std::filesystem::exists(unfinished));
  ASSERT_EQ(reader.list().size(), 1U);
  reader.track("model", model);
  EXPECT_EQ(reader.load(saved.path).step, 3);
  EXPECT_EQ(test::error_of<Error>([&] { reader.save(5); }, folder.path().parent_path()),
            "[checkpoint] step 5 is not saved to '" + folder.path().filename().string() +
                "': this manager is read_only; create one that is not");
  EXPECT_THROW(CheckpointManager(folder.path() / "nothing", {.read_only = true}), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "nothing"));
}

}  // namespace
}  // namespace luminal::training
