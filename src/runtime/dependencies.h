#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace luminal::runtime {

/// Which earlier launches a launch has to wait for: those that wrote what it reads, and those that read or
/// wrote the memory it writes. Launches are given in plan order, with the memory they touch as ranges of one
/// address space.
class Dependencies {
 public:
  void read(int launch, int64_t begin, int64_t end);
  void write(int launch, int64_t begin, int64_t end);
  /// By launch, ascending; dependencies that follow from others are left out.
  [[nodiscard]] std::vector<std::vector<int>> reduced(int launches) const;

 private:
  /// A range with its last writer (-1: none) and who has read it since.
  struct Range {
    int64_t end = 0;
    int writer = -1;
    std::vector<int> readers;
  };
  using Ranges = std::map<int64_t, Range>;
  Ranges::iterator split(int64_t at);
  void add(int before, int after);

  Ranges ranges_;
  std::vector<std::vector<int>> before_;
};

}  // namespace luminal::runtime
