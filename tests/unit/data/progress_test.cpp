#include "luminal/progress.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "luminal/error.h"
#include "support/files.h"

namespace luminal::data {
namespace {

using namespace std::chrono_literals;
using test::content_of;
using test::error_of;
using test::TemporaryFolder;

/// A bar that writes into a string and whose clock moves when told.
struct Fixture {
  std::ostringstream out;
  std::chrono::steady_clock::time_point time;
  ProgressBar::Options options(bool terminal, int columns = 100) {
    return {.out = &out, .terminal = terminal, .columns = columns, .now = [this] { return time; }};
  }
};

TEST(ProgressBar, DrawsLossSpeedAndTimeLeft) {
  Fixture f;
  ProgressBar bar("epoch 1/2", 200, f.options(true));
  f.time += 2s;
  bar.advance(50, 0.5);
  EXPECT_EQ(f.out.str(),
            "\r\033[Kepoch 1/2  [##########..............................]  50/200  loss 0.5000  25 images/s "
            " 0:06 left");
  f.out.str("");
  f.time += 50ms;
  bar.advance(50, 0.25);
  EXPECT_EQ(f.out.str(), "") << "drawn again within a tenth of a second";
  f.time += 1950ms;
  bar.advance(100, 0.1);
  EXPECT_EQ(f.out.str(),
            "\r\033[Kepoch 1/2  [########################################]  200/200  loss 0.1000  50 "
            "images/s  0:00 left");
  f.out.str("");
  bar.finish("accuracy 90.0 %");
  // The mean over images: (50 * 0.5 + 50 * 0.25 + 100 * 0.1) / 200.
  EXPECT_EQ(f.out.str(), "\r\033[Kepoch 1/2  200 images  loss 0.2375  50 images/s  0:04  accuracy 90.0 %\n");
  EXPECT_DOUBLE_EQ(bar.mean_loss(), 0.2375);
}

TEST(ProgressBar, FitsNarrowTerminals) {
  Fixture f;
  ProgressBar bar("epoch 1/2", 200, f.options(true, 67));
  f.time += 1s;
  bar.advance(100, 1);
  EXPECT_EQ(f.out.str(), "\r\033[Kepoch 1/2  [###...]  100/200  loss 1.0000  100 images/s  0:01 left");
  Fixture g;
  ProgressBar narrow("epoch 1/2", 200, g.options(true, 40));
  g.time += 1s;
  narrow.advance(100, 1);
  EXPECT_EQ(g.out.str(), "\r\033[Kepoch 1/2  100/200  loss 1.0000  100 images/s  0:01 left");
}

TEST(ProgressBar, PrintsOneLineWhereThereIsNoTerminal) {
  Fixture f;
  ProgressBar bar("epoch 2/2", 10, f.options(false));
  for (int i = 0; i < 10; ++i) {
    f.time += 400s;
    bar.advance(1, 2);
  }
  EXPECT_EQ(f.out.str(), "");
  bar.finish();
  EXPECT_EQ(f.out.str(), "epoch 2/2  10 images  loss 2.0000  0 images/s  1:06:40\n");
}

TEST(ProgressBar, LeavesTheLineWhenTheWorkFails) {
  Fixture f;
  {
    ProgressBar bar("epoch", 0, f.options(true));
    bar.advance(0, 1);
  }
  EXPECT_EQ(f.out.str().back(), '\n');
}

TEST(MetricsLog, WritesOneObjectALine) {
  const TemporaryFolder folder;
  const auto path = folder.file("run.jsonl", "an older run\n");
  MetricsLog log(path);
  log.write({{"epoch", 1}, {"loss", 0.1}, {"device", "reference"}, {"done", false}});
  EXPECT_EQ(content_of(path), "{\"epoch\":1,\"loss\":0.1,\"device\":\"reference\",\"done\":false}\n");
  log.write(
      {{"images", int64_t{1} << 40}, {"loss", std::numeric_limits<double>::quiet_NaN()}, {"name", "\"\n"}});
  EXPECT_EQ(content_of(path),
            "{\"epoch\":1,\"loss\":0.1,\"device\":\"reference\",\"done\":false}\n"
            "{\"images\":1099511627776,\"loss\":null,\"name\":\"\\\"\\n\"}\n");
}

TEST(MetricsLog, SaysWhatItCannotWrite) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of<Error>([&] { MetricsLog{folder.path() / "no" / "run.jsonl"}; }, folder.path()),
            "[metrics] cannot write 'no/run.jsonl': No such file or directory; choose another place");
  MetricsLog log(folder.path() / "run.jsonl");
  EXPECT_EQ(error_of<Error>([&] { log.write({{"name", "\xff"}}); }, folder.path()),
            "[metrics] 'run.jsonl': a name or text is not valid UTF-8, which JSON requires");
  MetricsLog full("/dev/full");
  EXPECT_EQ(
      error_of<Error>([&] { full.write({{"epoch", 1}}); }),
      "[metrics] cannot write '/dev/full': No space left on device; free some space or choose another place");
}

}  // namespace
}  // namespace luminal::data
