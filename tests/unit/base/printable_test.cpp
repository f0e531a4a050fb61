#include "base/printable.h"

#include <gtest/gtest.h>

namespace luminal {
namespace {

TEST(Escaped, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(escaped("blk.0.attn_q.weight"), "blk.0.attn_q.weight");
  EXPECT_EQ(escaped("Größe 日本 \U0001F600"), "Größe 日本 \U0001F600");
  EXPECT_EQ(escaped("\x1b[31m\n\x7f"), "\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(escaped("\xc2\x9b"
                    "31m"),
            "\\xc2\\x9b31m");                           // CSI as one character
  EXPECT_EQ(escaped("a\u202eb"), "a\\xe2\\x80\\xaeb");  // turns the direction
  EXPECT_EQ(escaped("a\u2028b"), "a\\xe2\\x80\\xa8b");
}

TEST(Escaped, BytesThatAreNotUtf8) {
  EXPECT_EQ(escaped("\xff"
                    "a"),
            "\\xffa");
  EXPECT_EQ(escaped("a\xe2\x80"), "a\\xe2\\x80");         // cut short
  EXPECT_EQ(escaped("\xc0\xaf"), "\\xc0\\xaf");           // overlong
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a pair
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

}  // namespace
}  // namespace luminal
