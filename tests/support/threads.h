#pragma once
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace luminal::test {

/// Calls `body(i)` in `count` threads at once. Returns what went wrong in each.
inline std::vector<std::string> in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::string> wrong(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (const std::exception& error) {
        wrong[static_cast<size_t>(i)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

}  // namespace luminal::test
