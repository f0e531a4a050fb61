#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/effort.h"
#include "support/files.h"

// A search in a process of its own that is killed, stopped, or loses its cache. Kernels that nobody has
// judged run in processes which the search makes: none of them may outlive it.
namespace luminal::cli {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kMarker = "LUMINAL_TEST_SEARCH";

/// One process as /proc shows it.
struct Process {
  pid_t id;
  char state;  ///< as ps says it: R, S, T ...
};

/// Living processes whose environment holds `marker`: a search and whatever it made, wherever these have
/// gone. Those that died and were not yet waited for have no environment.
std::vector<Process> marked(const std::string& marker) {
  std::vector<Process> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    if (test::content_of(entry.path() / "environ").find(marker) == std::string::npos) continue;
    const std::string stat = test::content_of(entry.path() / "stat");
    const size_t behind_name = stat.rfind(')');
    if (behind_name == std::string::npos) continue;  // it ended meanwhile
    const char state = stat.at(behind_name + 2);
    if (state != 'Z' && state != 'X') found.push_back({std::stoi(name), state});
  }
  return found;
}

std::string to_text(const std::vector<Process>& processes) {
  std::string text;
  for (const Process& process : processes) text += std::to_string(process.id) + " (" + process.state + ") ";
  return text;
}

/// A cold search of `luminal`, with a cache of its own.
class Search {
 public:
  /// `prepare` runs in the new process before the program does.
  explicit Search(const fs::path& folder, std::vector<std::string> arguments, void (*prepare)() = nullptr)
      : folder_(folder), marker_(std::string(kMarker) + "=" + folder.string()) {
    arguments.insert(arguments.begin(), LUMINAL_PROGRAM);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const std::string out = (folder / "out").string(), err = (folder / "err").string(), cache = this->cache();
    process_ = ::fork();
    if (process_ != 0) return;
    ::setpgid(0, 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    for (int other = 3; other < 64; ++other) ::close(other);
    if (::chdir(folder_.c_str()) != 0) ::_exit(126);
    ::setenv(kMarker, folder_.c_str(), 1);
    ::setenv("LUMINAL_CACHE", cache.c_str(), 1);
    ::setenv("LUMINAL_DEBUG", "3", 1);  // tells each round of a search
    if (prepare != nullptr) prepare();
    ::execv(LUMINAL_PROGRAM, pointers.data());
    ::_exit(127);
  }
  ~Search() {
    for (const Process& left : marked(marker_)) ::kill(left.id, SIGKILL);
    if (!ended_) ::waitpid(process_, nullptr, 0);
  }
  [[nodiscard]] std::string cache() const { return (folder_ / "cache").string(); }
  [[nodiscard]] std::string out() const { return test::content_of(folder_ / "out"); }
  [[nodiscard]] std::string err() const { return test::content_of(folder_ / "err"); }
  /// Lines that it has told of itself.
  [[nodiscard]] size_t lines() const {
    const std::string text = err();
    return static_cast<size_t>(std::ranges::count(text, '\n'));
  }
  [[nodiscard]] std::vector<Process> all() const { return marked(marker_); }
  /// Those that the search made.
  [[nodiscard]] std::vector<Process> children() const {
    std::vector<Process> list = all();
    std::erase_if(list, [&](const Process& process) { return process.id == process_; });
    return list;
  }
  void send(int signal) const { ::kill(process_, signal); }
  void send_to_all(int signal) const { ::kill(-process_, signal); }
  [[nodiscard]] bool ended() {
    if (!ended_) ended_ = ::waitpid(process_, &status_, WNOHANG) == process_;
    return ended_;
  }
  /// Waits until `condition()` holds. False if the search ended before.
  template <class Condition>
  bool wait_until(Condition&& condition) {
    while (!condition()) {
      if (ended()) return condition();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
  /// The exit code, 128 and the signal's number if one ended it.
  int wait() {
    if (!ended_) ::waitpid(process_, &status_, 0);
    ended_ = true;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

 private:
  fs::path folder_;
  std::string marker_;
  pid_t process_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

/// Waits for the last process to go. Nothing depends on the limit but how long a failing test takes.
bool gone(const Search& search) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!search.all().empty()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

const std::vector<std::string> kExplain{"explain", "--mode", "optimal",
                                        "(x:f32[96,64].matmul(w:f32[64,80]) + b:f32[80]).softmax(-1)"};

/// How long a process has had a processor.
std::chrono::nanoseconds time_used(const Process& process) {
  const std::string text = test::content_of("/proc/" + std::to_string(process.id) + "/schedstat");
  return std::chrono::nanoseconds(text.empty() ? 0 : std::stoll(text));
}

/// The children are stopped before their parent dies, so none is gone by itself a moment later. Only those
/// that have run for a while: one that is stopped at its very first instructions could not ask to die with
/// its parent.
TEST(KilledSearch, LeavesNoProcessBehind) {
  const uint64_t seed = effort::seed(std::random_device()());
  std::mt19937_64 random(seed);
  size_t stopped = 0;
  const int64_t kills = effort::cases(5, 40);
  for (int64_t n = 0; n < kills; ++n) {
    SCOPED_TRACE("kill " + std::to_string(n) + ", seed " + std::to_string(seed));
    const test::TemporaryFolder folder;
    Search search(folder.path(), kExplain);
    ASSERT_TRUE(search.wait_until([&] { return fs::exists(search.cache()); })) << search.err();
    size_t seen = 0;  // looks at which the search had children
    const size_t wanted = 1 + random() % 12;
    const bool ran = search.wait_until([&] {
      search.send(SIGSTOP);
      if (!search.children().empty() && ++seen == wanted) return true;
      search.send(SIGCONT);
      return false;
    });
    if (!ran) {  // it was over before as many looks
      EXPECT_EQ(search.wait(), 0) << search.err();
      continue;
    }
    for (const Process& child : search.children())
      if (time_used(child) > std::chrono::milliseconds(1)) ::kill(child.id, SIGSTOP), ++stopped;
    search.send(SIGKILL);
    EXPECT_EQ(search.wait(), 137);
    EXPECT_TRUE(gone(search)) << "left behind: " << to_text(search.all());
  }
  EXPECT_GT(stopped, 0U) << "no search had children when it was killed";
}

/// Wherever the search stands: encoding, compiling, racing, judging.
TEST(KilledSearch, LeavesNoProcessBehindAtAnyMoment) {
  const uint64_t seed = effort::seed(std::random_device()());
  std::mt19937_64 random(seed);
  const int64_t kills = effort::cases(5, 100);
  for (int64_t n = 0; n < kills; ++n) {
    SCOPED_TRACE("kill " + std::to_string(n) + ", seed " + std::to_string(seed));
    const test::TemporaryFolder folder;
    Search search(folder.path(), kExplain);
    const size_t lines = random() % 12, looks = random() % 200;
    (void)search.wait_until([&] { return search.lines() >= lines; });
    size_t looked = 0;
    (void)search.wait_until([&] { return ++looked > looks; });
    search.send(SIGKILL);
    (void)search.wait();
    EXPECT_TRUE(gone(search)) << "left behind: " << to_text(search.all());
  }
}

/// A kill in the middle of a search leaves a cache that the next one can use.
TEST(KilledSearch, TheNextOneWorks) {
  const test::TemporaryFolder folder;
  for (int n = 0; n < 2; ++n) {
    Search search(folder.path(), kExplain);
    ASSERT_TRUE(search.wait_until([&] { return !search.children().empty(); })) << search.err();
    search.send(SIGKILL);
    EXPECT_EQ(search.wait(), 137);
    EXPECT_TRUE(gone(search)) << to_text(search.all());
  }
  Search again(folder.path(), kExplain);
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("contract"));
}

/// As Ctrl-Z and `fg` do, several times.
TEST(StoppedSearch, GoesOn) {
  const test::TemporaryFolder folder;
  Search search(folder.path(), kExplain);
  size_t stops = 0;
  while (search.wait_until([&] { return !search.children().empty(); }) && !search.ended()) {
    search.send_to_all(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    search.send_to_all(SIGCONT);
    if (++stops == 20) break;
  }
  EXPECT_GT(stops, 0U);
  EXPECT_EQ(search.wait(), 0) << search.err();
  EXPECT_THAT(search.out(), HasSubstr("contract"));
  EXPECT_THAT(search.err(), testing::Not(HasSubstr("replay")));  // no kernel was blamed for it
  EXPECT_TRUE(gone(search)) << to_text(search.all());
}

TEST(SearchWithoutDisk, CacheThatVanishes) {
  const test::TemporaryFolder folder;
  Search search(folder.path(), kExplain);
  ASSERT_TRUE(search.wait_until([&] { return !search.children().empty(); })) << search.err();
  fs::remove_all(search.cache());
  EXPECT_EQ(search.wait(), 0) << search.err();
  EXPECT_THAT(search.out(), HasSubstr("contract"));
}

TEST(SearchWithoutDisk, CacheThatBecomesAFile) {
  const test::TemporaryFolder folder;
  Search search(folder.path(), kExplain);
  ASSERT_TRUE(search.wait_until([&] { return !search.children().empty(); })) << search.err();
  fs::remove_all(search.cache());
  std::ofstream(search.cache()) << "no folder any more";
  EXPECT_EQ(search.wait(), 0) << search.err();
  EXPECT_THAT(search.out(), HasSubstr("contract"));
}

/// As on a full disk, every write that makes a file longer than a page fails.
TEST(SearchWithoutDisk, NoRoomForTheCache) {
  const test::TemporaryFolder folder;
  Search search(folder.path(), {"explain", "--mode", "optimal", "x:f32[64].softmax(-1)"}, [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
  });
  const int code = search.wait();
  EXPECT_TRUE(code == 0 || code == 1) << code << search.err();
  EXPECT_THAT(search.err(), HasSubstr("[cache]"));
  EXPECT_TRUE(gone(search)) << to_text(search.all());
}

}  // namespace
}  // namespace luminal::cli
