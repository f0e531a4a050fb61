#pragma once
#include <array>
#include <cstdint>

/// Codebooks of the IQ formats. An entry is 8 values of 2 bits (IQ3: 4 of 3 bits), the first one lowest; what they
/// stand for is in the formats' descriptions.
namespace luminal::blocks {

extern const std::array<int32_t, 256> kIq2XxsGrid;
extern const std::array<int32_t, 512> kIq2XsGrid;
extern const std::array<int32_t, 1024> kIq2SGrid;
extern const std::array<int32_t, 256> kIq3XxsGrid;
extern const std::array<int32_t, 512> kIq3SGrid;
extern const std::array<int32_t, 2048> kIq1SGrid;

}  // namespace luminal::blocks
