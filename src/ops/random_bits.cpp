#include <bit>

#include "base/fail.h"
#include "luminal/ops.h"
#include "ops/philox.h"
#include "ops/types.h"

namespace luminal {
namespace {

int bits_of(const Attributes& attributes) { return static_cast<int>(attributes.get<int64_t>("bits")); }

std::vector<TensorType> infer_random_bits(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("random_bits", inputs, 3);
  for (const TensorType& input : inputs) {
    if (input.dtype != Dtype::I64)
      fail<DtypeError>("[random_bits] element, key and run are i64, got {}; cast it", input.to_string());
    ops::check_same_dims("random_bits", inputs[0], input);
  }
  const int bits = bits_of(attributes);
  if (bits < 1 || bits > 63) fail<Error>("[random_bits] bits is {}; give 1 to 63", bits);
  return {{bits < 32 ? Dtype::I32 : Dtype::I64, inputs[0].dims}};
}

/// Neighbours share a block of four words.
template <class T>
void draw(const void* const* inputs, void* output, int64_t count, const Attributes& attributes) {
  const auto* element = static_cast<const uint64_t*>(inputs[0]);
  const auto* key = static_cast<const uint64_t*>(inputs[1]);
  const auto* run = static_cast<const uint64_t*>(inputs[2]);
  auto* out = static_cast<T*>(output);
  const int bits = bits_of(attributes), words = bits > 32 ? 2 : 1;
  philox::Words block{};
  uint64_t known = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t word = element[i] * static_cast<uint64_t>(words);
    const bool same = i > 0 && word / 4 == known && key[i] == key[i - 1] && run[i] == run[i - 1];
    known = word / 4;
    if (!same)
      block = philox::block_at(known, run[i],
                               {static_cast<uint32_t>(key[i]), static_cast<uint32_t>(key[i] >> 32)});
    const auto k = static_cast<size_t>(word % 4);
    out[i] = words == 1 ? static_cast<T>(block[k] >> (32 - bits))
                        : static_cast<T>((uint64_t{block[k]} << 32 | block[k + 1]) >> (64 - bits));
  }
}

ElementKernel random_bits_kernel(std::span<const Dtype> inputs, Dtype output) {
  if (inputs[0] != Dtype::I64) return nullptr;
  return output == Dtype::I32 ? &draw<int32_t> : output == Dtype::I64 ? &draw<int64_t> : nullptr;
}

/// Philox4x32-10 in 64-bit integers that hold words: their products are exact.
class Block {
 public:
  Block(ScalarBuilder& b, Scalar number, Scalar key, Scalar run)
      : b_(b), mask_(b.constant(Dtype::I64, int64_t{0xFFFFFFFF})), key_{low(key), high(key)} {
    words_ = {low(number), high(number), low(run), high(run)};
    for (int round = 0; round < philox::kRounds; ++round) {
      if (round > 0)
        for (const size_t k : {0, 1}) key_[k] = low(b_.add(key_[k], word(philox::kWeyl[k])));
      mix();
    }
  }
  [[nodiscard]] const std::array<Scalar, 4>& words() const { return words_; }

 private:
  Scalar word(uint32_t value) { return b_.constant(Dtype::I64, int64_t{value}); }
  Scalar low(Scalar x) { return b_.bit_and(x, mask_); }
  Scalar high(Scalar x) { return b_.shift_right_logical(x, 32); }
  void mix() {
    const Scalar first = b_.mul(words_[0], word(philox::kMultiplier[0])),
                 second = b_.mul(words_[2], word(philox::kMultiplier[1]));
    const auto fresh = [&](Scalar product, Scalar other, Scalar key) {
      return b_.bit_xor(b_.bit_xor(high(product), other), key);
    };
    words_ = {fresh(second, words_[1], key_[0]), low(second), fresh(first, words_[3], key_[1]), low(first)};
  }
  ScalarBuilder& b_;
  Scalar mask_;
  std::array<Scalar, 2> key_;
  std::array<Scalar, 4> words_{};
};

Scalar lower_random_bits(ScalarBuilder& b, std::span<const Scalar> x, const Attributes& attributes) {
  const int bits = bits_of(attributes);
  const auto number = [&](int64_t value) { return b.constant(Dtype::I64, value); };
  const bool two = bits > 32;
  const std::array<Scalar, 4> words =
      Block(b, b.shift_right_logical(two ? b.shift_left(x[0], 1) : x[0], 2), x[1], x[2]).words();
  const auto odd = [&](int64_t bit) { return b.ne(b.bit_and(x[0], number(bit)), number(0)); };
  if (two) {
    const auto joined = [&](size_t k) { return b.bit_or(b.shift_left(words[k], 32), words[k + 1]); };
    return b.shift_right_logical(b.select(odd(1), joined(2), joined(0)), 64 - bits);
  }
  const Scalar word =
      b.select(odd(2), b.select(odd(1), words[3], words[2]), b.select(odd(1), words[1], words[0]));
  return b.convert(b.shift_right_logical(word, 32 - bits), bits < 32 ? Dtype::I32 : Dtype::I64);
}

}  // namespace

const OpDef kRandomBits = {
    .name = "random_bits",
    .arity = 3,
    .traits = Trait::Elementwise | Trait::ZeroGradient,
    .infer = infer_random_bits,
    .elementwise = random_bits_kernel,
    .lower = lower_random_bits,
    .flops_per_element = 130,
    .samples = {-5, -1, 0, 1, 2, 3, 4, 5, 1e9, 5e9, 1e15},
    .variants = {Attributes{{"bits", int64_t{24}}}, Attributes{{"bits", int64_t{53}}}},
    .doc =
        "The top bits of word i of Philox4x32-10, of i, a key and a run; of words 2i and 2i + 1 for more "
        "than 32 bits.",
};

}  // namespace luminal
