#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <source_location>
#include <string>
#include <vector>

#include "luminal/luminal.h"
#include "support/files.h"

/// Programs with a mistake that a new user may make, and what each is told, word for word.
namespace luminal::error_test {

struct Mistake {
  std::string name;
  std::function<void()> program;
  std::string told;
};

namespace detail {

/// What stands in a line of a test: the body of a lambda that is all there, otherwise the whole line.
[[nodiscard]] inline std::string code_of(const std::string& line) {
  std::smatch lambda;
  if (std::regex_search(line, lambda, std::regex("\\[&?\\] \\{ (.*;) \\}"))) return lambda[1];
  return std::regex_replace(line, std::regex("^ +| +$"), "");
}

}  // namespace detail

/// A message with each place in `source` ("made at tensors_test.cpp:41") as the code there, so that an
/// expectation shows whether the line is the user's and does not change with the lines above it. What a
/// system has of memory and the numbers of nodes are left out.
[[nodiscard]] inline std::string portable(const std::string& message, const std::filesystem::path& source) {
  std::vector<std::string> lines;
  std::ifstream file(std::filesystem::path(LUMINAL_SOURCE_DIR) / "tests/error" / source.filename());
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  const std::regex place(source.filename().string() + ":([0-9]+)");
  std::string text;
  auto rest = message.cbegin();
  for (std::smatch found; std::regex_search(rest, message.cend(), found, place); rest = found[0].second) {
    const size_t line = std::stoul(found[1]);
    text.append(found.prefix().first, found.prefix().second);
    text +=
        "`" + (line > 0 && line <= lines.size() ? detail::code_of(lines[line - 1]) : "no such line") + "`";
  }
  text.append(rest, message.cend());
  text = std::regex_replace(text, std::regex("the system has [0-9.]+ .?B"), "the system has so much");
  return std::regex_replace(text, std::regex("#[0-9]+ "), "#N ");
}

/// "cpu, reference, ...": which ones there are depends on the build.
[[nodiscard]] inline std::string devices() {
  std::string list;
  for (const std::string& name : session_devices()) list += (list.empty() ? "" : ", ") + name;
  return list;
}

/// Runs each program, which must throw an Error (no other exception) that says what is expected.
inline void expect_told(const std::vector<Mistake>& mistakes,
                        std::source_location test = std::source_location::current()) {
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.name);
    std::string told;
    try {
      mistake.program();
      ADD_FAILURE() << "nothing was said";
      continue;
    } catch (const Error& error) {
      told = error.what();
    } catch (const std::exception& other) {
      ADD_FAILURE() << "another exception: " << other.what();
      continue;
    }
    EXPECT_EQ(portable(told, test.file_name()), mistake.told);
  }
}

}  // namespace luminal::error_test
