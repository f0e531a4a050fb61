#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/files.h"

namespace luminal::cli {

/// A run of `luminal` that a test can watch and stop. Its output goes to files of the folder.
class Program {
 public:
  Program(const std::filesystem::path& folder, std::vector<std::string> arguments,
          std::vector<int> closed = {})
      : folder_(folder) {
    arguments.insert(arguments.begin(), LUMINAL_PROGRAM);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const std::string out = (folder / "out").string(), err = (folder / "err").string(),
                      cache = (folder / "cache").string();
    child_ = ::fork();
    if (child_ != 0) return;
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    for (int other = 3; other < 64; ++other) ::close(other);
    for (const int descriptor : closed) ::close(descriptor);
    ::setenv("LUMINAL_CACHE", cache.c_str(), 1);  // cold
    ::setenv("LUMINAL_DEBUG", "3", 1);            // tells each round of a search
    ::execv(LUMINAL_PROGRAM, pointers.data());
    ::_exit(127);
  }
  ~Program() {
    if (child_ > 0) ::kill(child_, SIGKILL), ::waitpid(child_, nullptr, 0);
  }
  [[nodiscard]] std::string out() const { return test::content_of(folder_ / "out"); }
  [[nodiscard]] std::string err() const { return test::content_of(folder_ / "err"); }
  /// Waits until `said()` holds. False if the program ended before.
  template <class Said>
  bool wait_until(Said&& said) {
    while (!said()) {
      if (::waitpid(child_, &status_, WNOHANG) == child_) {
        child_ = 0;
        return said();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  void send(int signal) const { ::kill(child_, signal); }
  /// The exit code, 128 and the signal's number if one ended it, as shells say it.
  int wait() {
    if (child_ > 0) ::waitpid(child_, &status_, 0);
    child_ = 0;
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }
  [[nodiscard]] pid_t process() const { return child_; }

 private:
  std::filesystem::path folder_;
  pid_t child_ = 0;
  int status_ = 0;
};

}  // namespace luminal::cli
