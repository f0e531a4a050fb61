#pragma once
#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Searches in processes of their own, each with its cache, so that none knows anything of another.
namespace luminal::cli {

/// A new folder for one cache, removed with this object.
class CacheFolder {
 public:
  /// Errors: Error if no folder can be made.
  CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  ~CacheFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// This program, with other arguments and a cache in a folder. It ends with this object.
class SearchProcess {
 public:
  enum class Talks : bool { No, Yes };
  /// `Talks::Yes`: lines are sent to its standard input and read from its standard output. Errors: Error if no
  /// process can be started.
  SearchProcess(const std::vector<std::string>& arguments, const std::filesystem::path& cache,
                Talks talks = Talks::No);
  SearchProcess(const SearchProcess&) = delete;
  SearchProcess& operator=(const SearchProcess&) = delete;
  ~SearchProcess();
  /// Its exit code, or nothing if it still runs after so long. A signal counts as a failure. Where this process is
  /// asked to end (InterruptGuard), the other one is too, and has less than a second for it.
  std::optional<int> ends_within(double limit_s);
  /// Sends a line and returns the next one that comes; nothing if the process has ended, or this one is asked to.
  std::optional<std::string> ask(const std::string& line);

 private:
  pid_t process_ = 0;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace luminal::cli
