#pragma once
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace luminal::test {

/// A new folder that goes away with this object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "luminal.XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder: " + pattern);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file into the folder and returns where it is.
  [[nodiscard]] std::filesystem::path file(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// A new folder that programs run in (replay files go there) until the end of the scope.
class WorkingFolder : public TemporaryFolder {
 public:
  WorkingFolder() : before_(std::filesystem::current_path()) { std::filesystem::current_path(path()); }
  ~WorkingFolder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

[[nodiscard]] inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The message of the `E` that `action` throws, with `folder` cut out; fails the test if it throws something
/// else.
template <class E, class Action>
[[nodiscard]] std::string error_of(Action&& action, const std::filesystem::path& folder = {}) {
  try {
    action();
  } catch (const E& error) {
    std::string message = error.what();
    const std::string prefix = folder.empty() ? std::string() : folder.string() + "/";
    for (size_t at = 0; !prefix.empty() && (at = message.find(prefix)) != std::string::npos;)
      message.erase(at, prefix.size());
    return message;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace luminal::test
