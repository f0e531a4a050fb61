#include "luminal/c_struct.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal {
namespace {

using test::error_of;

/// The compiler's own struct is the oracle: members and size agree.
template <class Struct>
Struct as(const std::vector<std::byte>& bytes) {
  EXPECT_EQ(bytes.size(), sizeof(Struct));
  Struct value;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(Struct)));
  return value;
}

struct Arguments {
  bool first;
  int rows;
  const float* x;
  bool flag;
  float scale;
  int sizes[3];
  float* y;
  bool last;
};

TEST(CStruct, IsLaidOutAsTheCompilerDoesIt) {
  float values[2] = {1, 2};
  CStructBuilder b;
  b.bool_(true).int_(-7).ptr_const_f32(values).bool_(true).float_(0.5F);
  b.ints(std::array{1, 2, 3}).ptr_mut_f32(values + 1).bool_(true);
  EXPECT_EQ(b.alignment(), alignof(Arguments));
  const auto a = as<Arguments>(b.finish_struct());
  EXPECT_TRUE(a.first && a.flag && a.last);
  EXPECT_EQ(a.rows, -7);
  EXPECT_EQ(a.x, values);
  EXPECT_EQ(a.scale, 0.5F);
  EXPECT_EQ(a.sizes[2], 3);
  EXPECT_EQ(a.y, values + 1);
}

struct Inner {
  float pair[2];
  bool flag;
};
struct alignas(16) Outer {
  bool flag;
  Inner inner;
  alignas(16) float vector[4];
  bool last;
};

TEST(CStruct, TakesStructsAndWideMembers) {
  CStructBuilder b;
  b.floats(std::array{1.5F, 2.5F}).bool_(true);
  const size_t inner_alignment = b.alignment();
  const std::vector<std::byte> inner = b.finish_struct();
  const float vector[4] = {1, 2, 3, 4};
  b.bool_(true).bytes(inner, inner_alignment).bytes(std::as_bytes(std::span(vector)), 16).bool_(true);
  const auto o = as<Outer>(b.finish_struct());
  EXPECT_TRUE(o.flag && o.inner.flag && o.last);
  EXPECT_EQ(o.inner.pair[1], 2.5F);
  EXPECT_EQ(o.vector[3], 4);
}

TEST(CStruct, StartsAnewAndRefusesOddAlignments) {
  CStructBuilder b;
  EXPECT_TRUE(b.finish_struct().empty());
  (void)b.ptr_mut_f32(nullptr).finish_struct();
  EXPECT_EQ(b.bool_(false).finish_struct().size(), 1U);
  EXPECT_EQ(error_of<Error>([&] { b.bytes({}, 12); }),
            "[c_struct] a member cannot be aligned to 12 bytes; give a power of two");
}

}  // namespace
}  // namespace luminal
