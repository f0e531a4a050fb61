#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "luminal/expression.h"

namespace luminal::codegen {

/// What schedules know of a device; filled in by its backend at run time.
struct Target {
  std::string name = "cpu";  ///< the backend's
  std::string cpu;           ///< as the code generator calls it ("znver4", "sapphirerapids")
  std::string features;      ///< "+avx2,+fma": what may be used; part of cache keys
  int vector_bytes = 32;     ///< of one register
  int vector_registers = 16;
  bool dots = false;  ///< an instruction adds the products of four bytes to each lane
  int threads = 1;
  int block_threads = 0;    ///< that may run one task together, with barriers; 0: there are none
  int64_t block_bytes = 0;  ///< of memory that they share
  int block_width = 1;      ///< of them, that a unit runs at once; 1: one after the other, as a CPU does
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;  ///< per core; L3 as a whole
  [[nodiscard]] int lanes(int element_bytes) const { return vector_bytes / element_bytes; }
};

/// What code may assume of the named dims, and the sizes it is tuned at.
struct Bucket {
  std::map<std::string, DimFacts, std::less<>> facts;  ///< by name; min == max is a constant
  [[nodiscard]] DimMap top() const;                    ///< each dim at its greatest value
};

}  // namespace luminal::codegen
