#include "cli/search_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fail.h"
#include "base/stopwatch.h"
#include "cli/command.h"
#include "cli/interrupt.h"

namespace luminal::cli {
namespace {

namespace fs = std::filesystem;

/// The environment with another cache.
std::vector<std::string> environment_with_cache(const fs::path& cache) {
  constexpr std::string_view kCache = "LUMINAL_CACHE=";
  std::vector<std::string> variables{std::string(kCache) + cache.string()};
  for (char** entry = ::environ; *entry != nullptr; ++entry)
    if (!std::string_view(*entry).starts_with(kCache)) variables.emplace_back(*entry);
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// A pipe that no other process inherits.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail("[bench] no pipe can be made: {}", std::generic_category().message(errno));
  return ends;
}

}  // namespace

CacheFolder::CacheFolder() {
  std::string name = (fs::temp_directory_path() / "luminal-search-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail("[bench] no folder can be made in {}", name);
  path_ = name;
}
CacheFolder::~CacheFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

SearchProcess::SearchProcess(const std::vector<std::string>& arguments, const fs::path& cache, Talks talks) {
  std::vector<std::string> words = arguments, environment = environment_with_cache(cache);
  words.insert(words.begin(), "/proc/self/exe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  std::array<int, 2> to{-1, -1}, from{-1, -1};
  if (talks == Talks::Yes) {
    to = make_pipe(), from = make_pipe();
    ::posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  }
  const int status = ::posix_spawn(&process_, words[0].c_str(), &actions, nullptr, pointers_to(words).data(),
                                   pointers_to(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (talks == Talks::Yes) {
    ::close(to[0]), ::close(from[1]);
    to_ = ::fdopen(to[1], "w"), from_ = ::fdopen(from[0], "r");
  }
  if (status != 0) fail("[bench] no process can be started: {}", std::generic_category().message(status));
}

SearchProcess::~SearchProcess() {
  if (to_ != nullptr) std::fclose(to_);
  if (from_ != nullptr) std::fclose(from_);
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::optional<int> SearchProcess::ends_within(double limit_s) {
  // A terminal's Ctrl-C has reached the other process too; asked a second time it would give up what it has found.
  constexpr double kEndsByItselfS = 0.35, kEndsWhenAskedS = 0.7;
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::optional<Clock::time_point> interrupted_at;
  bool asked = false;
  int status = 0;
  while (::waitpid(process_, &status, WNOHANG) == 0) {
    if (seconds_since(begin) > limit_s) return std::nullopt;
    if (interrupted() && !interrupted_at) interrupted_at = Clock::now();
    const double waited_s = interrupted_at ? seconds_since(*interrupted_at) : 0;
    if (waited_s > kEndsWhenAskedS) return std::nullopt;
    if (waited_s > kEndsByItselfS && !std::exchange(asked, true)) ::kill(process_, SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  process_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
}

std::optional<std::string> SearchProcess::ask(const std::string& line) {
  if (std::fputs((line + "\n").c_str(), to_) < 0 || std::fflush(to_) != 0) return std::nullopt;
  constexpr int kLookMs = 50;
  pollfd answers{.fd = ::fileno(from_), .events = POLLIN, .revents = 0};
  while (::poll(&answers, 1, kLookMs) <= 0)
    if (interrupted()) return std::nullopt;
  char* text = nullptr;
  size_t room = 0;
  const ssize_t length = ::getline(&text, &room, from_);
  std::optional<std::string> answer;
  if (length > 0) answer.emplace(text, static_cast<size_t>(length));
  std::free(text);
  return answer;
}

}  // namespace luminal::cli
