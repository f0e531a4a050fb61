#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "luminal/error.h"
#include "luminal/function.h"
#include "luminal/graph.h"
#include "luminal/quantized.h"
#include "support/files.h"

// Every way in and out for data, with sizes and types that are not those of the data.
namespace luminal {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;

TEST(DataSizes, ValuesAndSizesMustAgree) {
  EXPECT_EQ(test::error_of<ShapeError>([] { (void)TensorData::of<float>({2}, Floats(1000)); }),
            "[data] 1000 values do not fill f32[2], which holds 2; give as many, or their own sizes");
  EXPECT_EQ(
      test::error_of<ShapeError>([] { (void)TensorData::of<int64_t>({3, 2}, std::vector<int64_t>{1}); }),
      "[data] 1 values do not fill i64[3, 2], which holds 6; give as many, or their own sizes");
  EXPECT_EQ(test::error_of<ShapeError>([] { (void)TensorData::of<float>({-1, -2}, Floats(2)); }),
            "[data] a tensor cannot have the sizes [-1, -2]; give 0 or more");
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {"n", 2});
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set_dyn(Floats(4096), {1, 2}); }),
              testing::AllOf(HasSubstr("[set] 4096 values for 'x' f32[n, 2] (made at data_sizes_test.cpp:"),
                             HasSubstr("do not fill the sizes [1, 2], which hold 2; give as many")));
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set_dyn(Floats(2), {1000, 2}); }),
              HasSubstr("do not fill the sizes [1000, 2], which hold 2000; give as many"));
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set_dyn(Floats(2), {-1, -2}); }),
              HasSubstr("do not fill the sizes [-1, -2], which hold none"));
}

/// C++ has two signed types of 64 bits, of which int64_t is one.
TEST(DataSizes, BothSigned64BitIntegersOfCAreI64) {
  Graph cx;
  const GraphTensor long_values = cx.tensor({2}, Dtype::I64).set(std::vector<long>{1, -(1L << 40)});
  const GraphTensor long_long_values =
      cx.tensor({2}, Dtype::I64).set(std::vector<long long>{1, -(1LL << 40)});
  EXPECT_EQ(dtype_of<long>(), Dtype::I64);
  EXPECT_EQ(dtype_of<long long>(), Dtype::I64);
  EXPECT_EQ(long_values.data<long long>(), (std::vector<long long>{1, -(1LL << 40)}));
  EXPECT_EQ(long_long_values.data<long>(), (std::vector<long>{1, -(1L << 40)}));
}

TEST(DataSizes, OfATensorAreCountedAndNotNegative) {
  EXPECT_EQ(test::error_of<ShapeError>([] { (void)TensorData(Dtype::F32, {3, -1}); }),
            "[data] a tensor cannot have the sizes [3, -1]; give 0 or more");
  EXPECT_EQ(
      test::error_of<ShapeError>([] { (void)TensorData(Dtype::F32, {INT64_MAX, 2}); }),
      "[data] a tensor of [9223372036854775807, 2] has more elements than 64 bits count; use smaller sizes");
  EXPECT_EQ(test::error_of<ShapeError>([] { (void)TensorData(Dtype::F64, {INT64_MAX / 2}); }),
            "[data] f64[4611686018427387903] takes more bytes than 64 bits count; use smaller sizes");
  EXPECT_EQ(TensorData(Dtype::F32, {INT64_MAX, INT64_MAX, 0}).element_count(), 0);
}

TEST(DataSizes, BytesThatTheSystemHasNotAreAnErrorThatNamesTheTensor) {
  const std::string message = test::error_of<Error>([] { (void)TensorData(Dtype::F32, {1 << 20, 1 << 28}); });
  EXPECT_THAT(message,
              HasSubstr("[data] out of memory for f32[1048576, 268435456]: [memory] 1.1 PB are needed "
                        "at once, but the system has "));
  EXPECT_THAT(message, HasSubstr("; use smaller sizes or free memory"));
}

/// What `set` and the loader of a deferred input say to data whose bytes are not those of its sizes.
TEST(DataSizes, DataThatWasPutTogetherByHandIsChecked) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {4});
  GraphTensor y = (x + 1).retrieve();
  TensorData longer(Dtype::F32, {2});
  longer.dims = {4};
  const std::string wanted =
      "[set] data of f32[4] hold 8 bytes where their sizes make 16, and do not fit 'x' f32[4]; make them "
      "with "
      "TensorData(dtype, sizes) or TensorData::of";
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set(longer); }), HasSubstr(wanted));
  x.set_deferred([&] { return longer; });
  EXPECT_THAT(test::error_of<ShapeError>([&] { cx.execute(); }), HasSubstr(wanted));
  GraphTensor scalar = cx.tensor({});
  EXPECT_THAT(test::error_of<ShapeError>([&] { scalar.set(TensorData()); }),
              HasSubstr("[set] data of f32[] hold 0 bytes where their sizes make 4"));
  TensorData negative;
  negative.dims = {-4};
  EXPECT_THAT(test::error_of<ShapeError>([&] { x.set(negative); }), HasSubstr("cannot have the sizes [-4]"));
}

TEST(DataSizes, WhatIsPrintedOrQuantisedIsChecked) {
  TensorData longer(Dtype::F32, {0});
  longer.dims = {4};
  const auto said = [](const std::string& call) {
    return HasSubstr("[" + call + "] data of f32[4] hold 0 bytes where their sizes make 16");
  };
  EXPECT_THAT(test::error_of<ShapeError>([&] { (void)to_text(longer); }), said("to_text"));
  EXPECT_THAT(test::error_of<ShapeError>([&] { (void)quantize(longer, Dtype::Q8_0); }), said("quantize"));
}

TEST(DataSizes, AFunctionFillsTheOutputsThatItHas) {
  for (const char* device : {"cpu", "reference"}) {
    Graph cx;
    cx.set_device(device);
    const GraphTensor x = cx.tensor({2}).set(Floats{1, 2});
    const TensorData other(Dtype::I32, {2});
    const GraphTensor y =
        function(cx, "other", std::vector{x}, {x.type()}, [&](auto, auto out) { out[0] = other; })[0]
            .retrieve();
    EXPECT_THAT(
        test::error_of<Error>([&] { cx.execute(); }),
        HasSubstr("[function] 'other' left i32[2] in output 0, which is f32[2]; write into the data"));
  }
}

TEST(DataSizes, StoredValuesAreChecked) {
  Graph cx;
  GraphTensor x = cx.tensor({4});
  auto shorter = std::make_shared<TensorData>(Dtype::F32, std::vector<int64_t>{2});
  shorter->dims = {4};
  EXPECT_THAT(test::error_of<ShapeError>([&] { cx.store(x.edge().source, shorter, true); }),
              HasSubstr("[store] f32[4] holds 8 bytes where its sizes make 16"));
  auto wide = std::make_shared<TensorData>(Dtype::F64, std::vector<int64_t>{4});
  EXPECT_THAT(test::error_of<ShapeError>([&] { cx.store(x.edge().source, wide, true); }),
              HasSubstr("[store] f64[4] is not a value of f32[4]; dtypes and ranks must be equal"));
}

TEST(DataSizes, ValuesOfAnotherSizeDoNotMove) {
  Graph a, b;
  GraphTensor x = a.tensor({3}).set({1, 2, 3}), to = b.tensor({1000});
  GraphTensor y = (to + 1).retrieve();
  EXPECT_THAT(test::error_of<ShapeError>([&] { transfer_data(std::vector{x}, a, std::vector{to}, b); }),
              HasSubstr("[transfer_data] tensor 0 is f32[3] and does not fit f32[1000]"));
  EXPECT_EQ(x.data<float>().size(), 3U);  // it is where it was
}

TEST(DataSizes, ElementsAreWhatTheyAre) {
  TensorData data(Dtype::F64, {2});
  EXPECT_EQ(test::error_of<DtypeError>([&] { (void)data.as<float>(); }),
            "[data] the elements are f64, but were requested as f32; request their own type");
  const TensorData& constant = data;
  EXPECT_THROW((void)constant.as<int64_t>(), DtypeError);
  Graph cx;
  GraphTensor i = cx.tensor({2}, Dtype::I64).set({1, 2});
  EXPECT_THAT(test::error_of<DtypeError>([&] { (void)i.data<int32_t>(); }),
              HasSubstr(") was requested as i32; request its own type"));
  GraphTensor y = function(cx, "narrow", {i}, {i.type()},
                           [](auto inputs, auto outputs) {
                             outputs[0].template as<float>()[0] = inputs[0]->template as<float>()[1];
                           })[0]
                      .retrieve();
  EXPECT_THAT(test::error_of<DtypeError>([&] { cx.execute(); }), HasSubstr("the elements are i64"));
}

}  // namespace
}  // namespace luminal
