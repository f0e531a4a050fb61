#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace luminal {

/// Packs values the way a C compiler lays out a struct with these members: each on a multiple of its
/// alignment, the whole a multiple of the greatest. For argument blocks of kernels; members are added in the
/// struct's order. Thread safety: one thread at a time.
///
///   // struct { int rows; float scale; const float* input; float* output; };
///   CStructBuilder block;
///   block.int_(4).float_(0.5F).ptr_const_f32(input).ptr_mut_f32(output);
///   launch(block.finish_struct());
class CStructBuilder {
 public:
  CStructBuilder& int_(int32_t value);
  CStructBuilder& ints(std::span<const int32_t> values);  ///< an array member
  CStructBuilder& float_(float value);
  CStructBuilder& floats(std::span<const float> values);  ///< an array member
  CStructBuilder& bool_(bool value);                      ///< one byte, 0 or 1
  CStructBuilder& ptr_const_f32(const float* pointer);
  CStructBuilder& ptr_mut_f32(float* pointer);
  /// A member of any type, of which these are the bytes; a struct within the struct among others.
  /// Errors: Error if the alignment is not a power of two.
  CStructBuilder& bytes(std::span<const std::byte> data, size_t alignment);

  /// Alignment of the struct so far: the greatest of its members'.
  [[nodiscard]] size_t alignment() const { return alignment_; }
  /// The bytes, padding zeroed. The builder is empty again.
  [[nodiscard]] std::vector<std::byte> finish_struct();

 private:
  void pad_to(size_t alignment);
  std::vector<std::byte> data_;
  size_t alignment_ = 1;
};

}  // namespace luminal
