#pragma once
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

namespace luminal::test {

/// Starts a disabled test of this program ("SuiteChild.DISABLED_Name") in a process of its own, with further
/// variables in its environment.
[[nodiscard]] inline pid_t start_child(const std::string& test,
                                       const std::map<std::string, std::string>& variables) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string own(*entry);
    if (!variables.contains(own.substr(0, own.find('=')))) environment.push_back(own);
  }
  std::vector<std::string> words{"/proc/self/exe", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
                                 "--gtest_filter=" + test};
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& entry : environment) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, argv.data(), envp.data()), 0);
  return child;
}

/// How a child ended, as waitpid says it: 0 if its test passed.
[[nodiscard]] inline int wait_for_child(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

[[nodiscard]] inline int run_child(const std::string& test,
                                   const std::map<std::string, std::string>& variables) {
  return wait_for_child(start_child(test, variables));
}

}  // namespace luminal::test
