#include "luminal/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "luminal/error.h"
#include "luminal/idx.h"
#include "support/files.h"

namespace luminal::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;

/// Image i is 2x2 with the pixels i, i+1, i+2, i+3 and label i % 3.
ImageSet numbered(int count) {
  ImageSet set;
  set.height = set.width = 2;
  set.classes = 3;
  for (int i = 0; i < count; ++i) {
    for (int p = 0; p < 4; ++p) set.pixels.push_back(static_cast<uint8_t>(i + p));
    set.labels.push_back(static_cast<uint8_t>(i % 3));
  }
  return set;
}

std::vector<int> order_of(BatchLoader::Epoch epoch) {
  std::vector<int> order;
  while (const Batch* batch = epoch.next())
    for (int64_t i = 0; i < batch->size; ++i)
      order.push_back(static_cast<int>(std::lround(batch->images[static_cast<size_t>(4 * i)] * 255.0F)));
  return order;
}

// The literals come from a separate chosen in Python integers.
TEST(Permutation, IsTheSameOnEveryMachine) {
  EXPECT_THAT(permutation(10, 0, 0), ElementsAre(9, 7, 8, 4, 6, 3, 0, 2, 5, 1));
  EXPECT_THAT(permutation(10, 1, 0), ElementsAre(3, 7, 1, 0, 9, 4, 6, 8, 2, 5));
  EXPECT_THAT(permutation(10, 1, 1), ElementsAre(2, 5, 6, 0, 7, 8, 9, 1, 4, 3));
  const auto large = permutation(8500, 42, 3);
  int64_t weighted = 0;
  for (size_t i = 0; i < large.size(); ++i) weighted += static_cast<int64_t>(i) * large[i];
  EXPECT_EQ(weighted, 153712514806);
  EXPECT_EQ(std::set<int64_t>(large.begin(), large.end()).size(), 8500U);
  EXPECT_TRUE(permutation(0, 1, 1).empty());
  EXPECT_EQ(error_of<Error>([] { (void)permutation(-1, 0, 0); }),
            "[data] a permutation of -1 numbers is impossible; give 0 or more");
}

TEST(Permutation, FavoursNoPlace) {
  // 24 orders of 4, 24,000 draws: chi-squared with 23 degrees of freedom stays below 49.7 with probability
  // 0.999.
  std::map<std::vector<int64_t>, int> seen;
  for (uint64_t epoch = 0; epoch < 24000; ++epoch) ++seen[permutation(4, 7, epoch)];
  ASSERT_EQ(seen.size(), 24U);
  double chi = 0;
  for (const auto& [order, count] : seen) chi += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi, 49.7);
}

TEST(BatchLoader, GivesEachImageOnceWithItsLabel) {
  const ImageSet set = numbered(103);
  const BatchLoader loader(set, {.batch = 10, .seed = 5});
  EXPECT_EQ(loader.batches_per_epoch(), 11);
  EXPECT_EQ(loader.images_per_epoch(), 103);
  auto epoch = loader.epoch(0);
  std::set<int> seen;
  std::vector<int64_t> sizes;
  while (const Batch* batch = epoch.next()) {
    sizes.push_back(batch->size);
    ASSERT_EQ(batch->images.size(), static_cast<size_t>(batch->size) * 4);
    for (int64_t i = 0; i < batch->size; ++i) {
      const auto pixels = batch->images.subspan(static_cast<size_t>(4 * i), 4);
      const int which = static_cast<int>(std::lround(pixels[0] * 255.0F));
      EXPECT_TRUE(seen.insert(which).second) << which;
      EXPECT_EQ(batch->labels[static_cast<size_t>(i)], which % 3);
      for (int p = 0; p < 4; ++p)
        EXPECT_EQ(pixels[static_cast<size_t>(p)], static_cast<float>(which + p) / 255.0F);
    }
  }
  EXPECT_EQ(seen.size(), 103U);
  EXPECT_THAT(sizes, ElementsAre(10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 3));
  EXPECT_EQ(epoch.next(), nullptr);
}

TEST(BatchLoader, OrderDependsOnSeedAndEpochOnly) {
  const ImageSet set = numbered(50);
  const BatchLoader loader(set, {.batch = 7, .seed = 5});
  const auto first = order_of(loader.epoch(0));
  EXPECT_EQ(order_of(loader.epoch(0)), first);
  EXPECT_NE(order_of(loader.epoch(1)), first);
  EXPECT_NE(order_of(BatchLoader(set, {.batch = 7, .seed = 6}).epoch(0)), first);
  EXPECT_EQ(order_of(BatchLoader(set, {.batch = 12, .seed = 5, .prefetch = 1}).epoch(0)), first);
  std::vector<int> unshuffled(50);
  std::iota(unshuffled.begin(), unshuffled.end(), 0);
  EXPECT_EQ(order_of(BatchLoader(set, {.batch = 7, .shuffle = false}).epoch(3)), unshuffled);
}

TEST(BatchLoader, LeavesOutAShortBatchWhenAsked) {
  const ImageSet set = numbered(25);
  const BatchLoader loader(set, {.batch = 10, .drop_last = true});
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  EXPECT_EQ(loader.images_per_epoch(), 20);
  EXPECT_EQ(order_of(loader.epoch(0)).size(), 20U);
  EXPECT_EQ(BatchLoader(set, {.batch = 26, .drop_last = true}).epoch(0).next(), nullptr);
  EXPECT_EQ(BatchLoader(numbered(0), {.batch = 4}).batches_per_epoch(), 0);
}

TEST(BatchLoader, EpochsMayBeLeftAtAnyPoint) {
  const ImageSet set = numbered(200);
  const BatchLoader loader(set, {.batch = 1, .prefetch = 3});
  for (int taken = 0; taken < 50; ++taken) {
    auto epoch = loader.epoch(taken);
    for (int i = 0; i < taken % 7; ++i) ASSERT_NE(epoch.next(), nullptr);
    auto moved = std::move(epoch);
    ASSERT_NE(moved.next(), nullptr);
  }
}

TEST(BatchLoader, ABatchStaysAsItIsUntilTheNextIsAsked) {
  const ImageSet set = numbered(200);
  const BatchLoader loader(set, {.batch = 2, .shuffle = false, .prefetch = 1});
  auto epoch = loader.epoch(0);
  for (int i = 0; i < 100; ++i) {
    const Batch* batch = epoch.next();
    ASSERT_NE(batch, nullptr);
    std::this_thread::yield();
    ASSERT_EQ(std::lround(batch->images[0] * 255.0F), 2 * i);
  }
}

TEST(BatchLoader, RefusesImpossibleSizes) {
  const ImageSet set = numbered(3);
  EXPECT_EQ(error_of<Error>([&] { BatchLoader(set, {.batch = 0}); }),
            "[data] the batch size is 0; give 1 or more");
  EXPECT_EQ(error_of<Error>([&] { BatchLoader(set, {.prefetch = 0}); }),
            "[data] prefetch is 0; give 1 or more");
}

TEST(Images, ReadsTheDigits) {
  const std::filesystem::path folder = std::filesystem::path(LUMINAL_SOURCE_DIR) / "data/mnist10k";
  const ImageSet train = load_mnist(folder, Split::Train);
  EXPECT_EQ(train.size(), 8500);
  EXPECT_EQ(train.height, 28);
  EXPECT_EQ(train.width, 28);
  const ImageSet test = load_mnist(folder, Split::Test);
  EXPECT_EQ(test.size(), 1500);
  // The labels of the first digits, as Python's gzip module reads them.
  EXPECT_THAT(std::vector<int>(test.labels.begin(), test.labels.begin() + 8),
              ElementsAre(5, 2, 6, 7, 9, 0, 8, 8));
  EXPECT_EQ(test.first(3).pixels.size(), 3U * 784);
  EXPECT_EQ(test.first(3).image(2)[400], test.image(2)[400]);
  EXPECT_EQ(test.first(0).size(), 1500);
  EXPECT_EQ(error_of<Error>([&] { (void)test.image(1500); }),
            "[data] no image 1500; the set has 1500, counted from 0");
}

TEST(Images, TakesMnistsOwnNames) {
  const TemporaryFolder folder;
  write_idx(folder.path() / "t10k-images-idx3-ubyte", TensorData(Dtype::U8, {2, 3, 4}));
  write_idx(folder.path() / "t10k-labels-idx1-ubyte.gz", TensorData(Dtype::U8, {2}), true);
  EXPECT_EQ(load_mnist(folder.path(), Split::Test).size(), 2);
  const std::string name = folder.path().string();
  EXPECT_EQ(error_of<FormatError>([&] { (void)load_mnist(folder.path(), Split::Train); }),
            "[data] '" + name +
                "' has none of train-images-idx3-ubyte.gz, train-images-idx3-ubyte; give the folder with "
                "the MNIST files");
}

TEST(Images, SaysWhatDoesNotFit) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name, const TensorData& tensor) {
    write_idx(folder.path() / name, tensor);
    return folder.path() / name;
  };
  const auto images = file("images", TensorData(Dtype::U8, {2, 3, 4}));
  const auto labels = file("labels", TensorData::of<uint8_t>({2}, std::vector<uint8_t>{1, 12}));
  const auto three = file("three", TensorData(Dtype::U8, {3}));
  const auto floats = file("floats", TensorData(Dtype::F32, {2}));
  const auto message = [&](const auto& a, const auto& b) {
    return error_of<FormatError>([&] { (void)load_images(a, b, 10); }, folder.path());
  };
  EXPECT_EQ(message(labels, images),
            "[data] 'labels' is u8[2], images are u8[N,height,width]; are the two files swapped?");
  EXPECT_EQ(message(images, floats),
            "[data] 'floats' is f32[2], labels are u8[N]; are the two files swapped?");
  EXPECT_EQ(message(images, three),
            "[data] 'images' holds 2 images, but 'three' 3 labels; they belong to different sets");
  EXPECT_EQ(message(images, labels),
            "[data] 'labels': label 12 of image 1 is not below 10, the number of classes");
}

}  // namespace
}  // namespace luminal::data
