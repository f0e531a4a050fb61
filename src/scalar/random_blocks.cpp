#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "base/fail.h"
#include "luminal/block_format.h"
#include "luminal/quantized.h"
#include "scalar/block_positions.h"

namespace luminal {
namespace {

constexpr size_t kDistinctBlocks = 128;

/// Bytes of which floats are made.
void float_bytes(const BlockFormat& format, const BlockExpression::Node& node, bool in_float,
                 std::set<size_t>& bytes) {
  using Op = BlockExpression::Op;
  if (!node.has_bytes) return;
  in_float = in_float || node.op == Op::F16Bits || node.op == Op::F32Bits;
  if (node.op == Op::Byte) {
    if (in_float)
      for (const int32_t at : values_by_position(format, *node.a)) bytes.insert(static_cast<size_t>(at));
    return;
  }
  float_bytes(format, *node.a, in_float, bytes);
  if (node.b) float_bytes(format, *node.b, in_float, bytes);
}

class BlockDraw {
 public:
  BlockDraw(const BlockFormat& format, bool whole_numbers)
      : format_(format),
        whole_numbers_(whole_numbers),
        random_(static_cast<uint64_t>(format.dtype)),
        values_(static_cast<size_t>(format.block_elements)) {
    float_bytes(format, *format.scale.node(), false, float_bytes_);
    if (!format.offset.empty()) float_bytes(format, *format.offset.front().node(), false, float_bytes_);
  }

  void draw(std::span<std::byte> block) {
    constexpr int kMostTries = 1 << 20;
    for (int tries = 0; tries < kMostTries; ++tries) {
      for (std::byte& byte : block) byte = static_cast<std::byte>(random_());
      // Bytes that powers of two have in floats of all widths: whole scales are found soon.
      constexpr std::array kOfPowers{0x00, 0x3c, 0x40, 0x44, 0x48, 0x80};
      if (whole_numbers_)
        for (const size_t at : float_bytes_)
          block[at] = static_cast<std::byte>(kOfPowers[random_() % kOfPowers.size()]);
      decode_blocks(format_, block, values_);
      if (fits()) return;
    }
    LUMINAL_CHECK(false, "no block of {} fits in {} draws", format_.name, kMostTries);
  }

 private:
  [[nodiscard]] bool fits() const {
    float greatest = 0;
    for (const float x : values_) {
      if (!std::isfinite(x) || (whole_numbers_ && x != std::floor(x))) return false;
      greatest = std::max(greatest, std::fabs(x));
    }
    return whole_numbers_ ? greatest > 0 : greatest >= 0.25F && greatest <= 4;
  }

  const BlockFormat& format_;
  bool whole_numbers_;
  std::mt19937_64 random_;
  std::vector<float> values_;
  std::set<size_t> float_bytes_;
};

/// Drawn once: most draws are thrown away.
const std::vector<std::byte>& drawn_blocks(const BlockFormat& format, bool whole_numbers) {
  static std::mutex mutex;
  static std::map<std::pair<Dtype, bool>, std::vector<std::byte>> all;
  const std::scoped_lock lock(mutex);
  std::vector<std::byte>& blocks = all[{format.dtype, whole_numbers}];
  if (!blocks.empty()) return blocks;
  const auto bytes = static_cast<size_t>(format.block_bytes);
  blocks.resize(kDistinctBlocks * bytes);
  BlockDraw draw(format, whole_numbers);
  for (size_t k = 0; k < kDistinctBlocks; ++k) draw.draw(std::span(blocks).subspan(k * bytes, bytes));
  return blocks;
}

}  // namespace

TensorData random_blocks(Dtype dtype, std::vector<int64_t> dims, uint64_t seed, bool whole_numbers) {
  const BlockFormat& format = block_format(dtype);
  const std::vector<std::byte>& blocks = drawn_blocks(format, whole_numbers);
  TensorData data(dtype, std::move(dims));
  std::mt19937_64 random(seed);
  const auto bytes = static_cast<size_t>(format.block_bytes);
  for (size_t at = 0; at < data.bytes.size(); at += bytes)
    std::memcpy(&data.bytes[at], &blocks[random() % kDistinctBlocks * bytes], bytes);
  return data;
}

}  // namespace luminal
