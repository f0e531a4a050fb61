#include "luminal/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/file.h"
#include "base/thread.h"
#include "luminal/data.h"
#include "luminal/error.h"
#include "luminal/plot.h"
#include "luminal/progress.h"
#include "support/files.h"

namespace luminal::data {
namespace {

using testing::ElementsAre;

TensorData counted(int64_t rows, int64_t columns) {
  TensorData data(Dtype::F32, {rows, columns});
  for (int64_t i = 0; i < rows * columns; ++i)
    data.as<float>()[static_cast<size_t>(i)] = static_cast<float>(i);
  return data;
}

std::vector<float> first_column(Loader::Epoch epoch) {
  std::vector<float> seen;
  while (const auto* batch = epoch.next())
    for (int64_t i = 0; i < (*batch)[0].dims[0]; ++i)
      seen.push_back((*batch)[0].as<float>()[static_cast<size_t>(i * (*batch)[0].dims[1])]);
  return seen;
}

TEST(Loader, RowsOfAllTensorsStayTogether) {
  const TensorSource source({counted(10, 2), counted(10, 1)});
  const Loader loader(source, {.batch = 4, .seed = 3});
  std::set<float> seen;
  auto epoch = loader.epoch(0);
  while (const auto* batch = epoch.next())
    for (int64_t i = 0; i < (*batch)[0].dims[0]; ++i) {
      const float x = (*batch)[0].as<float>()[static_cast<size_t>(2 * i)];
      EXPECT_EQ(x, 2 * (*batch)[1].as<float>()[static_cast<size_t>(i)]);
      seen.insert(x);
    }
  EXPECT_EQ(seen.size(), 10U);
}

TEST(Loader, ASubsetIsThePartOfASource) {
  const TensorSource source({counted(10, 2)}, [](std::span<const std::span<std::byte>> rows, Random& random) {
    reinterpret_cast<float*>(rows[0].data())[1] = static_cast<float>(random.uniform());
  });
  const Subset part(source, {7, 1, 4});
  EXPECT_EQ(part.size(), 3);
  EXPECT_THAT(first_column(Loader(part, {.batch = 2, .shuffle = false}).epoch(0)), ElementsAre(14, 2, 8));
  // An example's random numbers are its own, wherever it stands.
  const Subset one(source, {4});
  const auto drawn = [](const Source& from) {
    const Loader loader(from, {.batch = 1, .seed = 3, .shuffle = false});
    auto epoch = loader.epoch(1);
    float last = 0;
    while (const auto* batch = epoch.next()) last = (*batch)[0].as<float>()[1];
    return last;
  };
  EXPECT_EQ(drawn(part), drawn(one));
  EXPECT_THAT(test::error_of<Error>([&] { (void)Subset(source, {3, 10}); }),
              testing::HasSubstr("[data] no example 10; give 0 to 9"));
}

TEST(Loader, GoesOnWhereItWasInterrupted) {
  const TensorSource source({counted(50, 1)}, [](std::span<const std::span<std::byte>> rows, Random& random) {
    *reinterpret_cast<float*>(rows[0].data()) += static_cast<float>(random.uniform());
  });
  const Loader loader(source, {.batch = 8, .seed = 3});
  const std::vector<float> whole = first_column(loader.epoch(2));
  for (const int64_t first : {0, 1, 5, 7}) {
    const std::vector<float> rest(whole.begin() + std::min<int64_t>(first * 8, 50), whole.end());
    EXPECT_EQ(first_column(loader.epoch(2, first)), rest) << first;
  }
  EXPECT_NE(first_column(loader.epoch(3)), whole);
  EXPECT_EQ(first_column(Loader(source, {.batch = 3, .seed = 3, .prefetch = 1}).epoch(2)), whole);
  EXPECT_THROW((void)loader.epoch(0, 8), Error);
}

TEST(Loader, TheSourcesErrorReachesTheCaller) {
  const TensorSource source({counted(4, 1)}, [](std::span<const std::span<std::byte>>, Random&) {
    throw std::runtime_error("no such picture");
  });
  auto epoch = Loader(source, {}).epoch(0);
  EXPECT_THROW((void)epoch.next(), std::runtime_error);
  EXPECT_THROW(TensorSource({counted(3, 1), counted(4, 1)}), ShapeError);
}

TEST(Augment, ShiftAndFlipKeepThePixels) {
  ImageSet set{std::vector<uint8_t>(16, 0), {1}, 4, 4, 2};
  set.pixels[5] = 255;
  std::set<size_t> places;
  const BatchLoader shifted(set, {.seed = 1}, {random_shift(1)});
  for (int64_t epoch = 0; epoch < 60; ++epoch) {
    auto batches = shifted.epoch(epoch);
    const auto images = batches.next()->images;
    places.insert(static_cast<size_t>(std::ranges::find(images, 1.0F) - images.begin()));
  }
  EXPECT_THAT(places, ElementsAre(0, 1, 2, 4, 5, 6, 8, 9, 10));
  places.clear();
  const BatchLoader flipped(set, {.seed = 1}, {random_flip()});
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    auto batches = flipped.epoch(epoch);
    const auto images = batches.next()->images;
    places.insert(static_cast<size_t>(std::ranges::find(images, 1.0F) - images.begin()));
  }
  EXPECT_THAT(places, ElementsAre(5, 6));
}

TEST(Text, WindowsAndWhatFollows) {
  const TextSource source("abcdefg", 3, 2);
  EXPECT_EQ(source.size(), 2);
  auto epoch = Loader(source, {.shuffle = false}).epoch(0);
  const auto* batch = epoch.next();
  EXPECT_THAT((*batch)[0].as<int32_t>(), ElementsAre('a', 'b', 'c', 'c', 'd', 'e'));
  EXPECT_THAT((*batch)[1].as<int32_t>(), ElementsAre('b', 'c', 'd', 'd', 'e', 'f'));
  EXPECT_THROW(TextSource("abc", 3, 1), Error);
  const test::TemporaryFolder folder;
  write_file_atomic(folder.path() / "b.txt", "two");
  write_file_atomic(folder.path() / "a.md", "one");
  write_file_atomic(folder.path() / "c.bin", "three");
  EXPECT_EQ(load_text(folder.path()), "one\n\ntwo");
  EXPECT_EQ(load_text(folder.path() / "c.bin"), "three");
}

TEST(Plot, OnePictureForEachNumberThatWasLogged) {
  const test::TemporaryFolder folder;
  const auto jsonl = folder.path() / "run.jsonl", html = folder.path() / "run.html";
  {
    MetricsLog log(jsonl);
    for (int step = 0; step < 5000; ++step)
      log.write({{"step", step}, {"train_loss", 1.0 / (step + 1)}, {"name", "a<b"}});
    log.write({{"step", 5000}, {"test_loss", 0.5}, {"accuracy", 0.9}, {"bad", std::nan("")}});
  }
  EXPECT_EQ(plot_metrics(jsonl, html), 2);
  const std::string page = read_file(html);
  const auto shows = [&](std::string_view part) { return page.find(part) != std::string::npos; };
  EXPECT_TRUE(shows("data-name=\"train\""));
  EXPECT_TRUE(shows("data-name=\"test\""));
  EXPECT_TRUE(shows("data-points='80.0,0,1 "));  // the first and greatest value is still there
  EXPECT_FALSE(shows("http"));
  EXPECT_LT(page.size(), 300000U);
  std::ofstream(jsonl, std::ios::app) << "{\"step\": 50";  // killed while it wrote
  EXPECT_EQ(plot_metrics(jsonl, html), 2);
  std::ofstream(jsonl, std::ios::app) << "\n{}\n";
  EXPECT_THROW(plot_metrics(jsonl, html), FormatError);
}

TEST(Loader, MakesTheSameBatchesWhereThereIsNoThread) {
  const TensorSource source({TensorData::of<float>({5, 1}, std::vector<float>{0, 1, 2, 3, 4})});
  const Loader loader(source, {.batch = 2, .seed = 7});
  const auto all = [&](int64_t first) {
    std::vector<std::vector<float>> batches;
    Loader::Epoch epoch = loader.epoch(3, first);
    while (const std::vector<TensorData>* batch = epoch.next()) {
      const auto values = (*batch)[0].as<float>();
      batches.emplace_back(values.begin(), values.end());
    }
    return batches;
  };
  const auto with_thread = all(0), rest = all(1);
  const ThreadLimit limit(0);
  EXPECT_EQ(all(0), with_thread);
  EXPECT_EQ(all(1), rest);
}

TEST(Loader, AnEpochThatWasMovedFromSaysSo) {
  const TensorSource source({TensorData::of<float>({2, 1}, std::vector<float>{0, 1})});
  const Loader loader(source, {.batch = 1});
  Loader::Epoch epoch = loader.epoch(0);
  Loader::Epoch other = std::move(epoch);
  EXPECT_EQ(test::error_of<Error>([&] { (void)epoch.next(); }),  // NOLINT: that is the point
            "[data] this epoch was moved from; use the one that it was moved to");
  EXPECT_NE(other.next(), nullptr);
}

}  // namespace
}  // namespace luminal::data
