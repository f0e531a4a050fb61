#pragma once
#include <stdlib.h>

#include <string>

namespace luminal::test {

/// A variable of the environment, until the end of the scope.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::string& value) : name_(name) {
    const char* before = ::getenv(name);
    had_one_ = before != nullptr;
    if (had_one_) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;
  ~EnvironmentVariable() {
    if (had_one_)
      ::setenv(name_, before_.c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  bool had_one_ = false;
  std::string before_;
};

}  // namespace luminal::test
