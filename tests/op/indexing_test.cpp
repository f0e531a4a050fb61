#include <gtest/gtest.h>

#include <random>

#include "luminal/autograd.h"
#include "luminal/block_format.h"
#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/quantized.h"
#include "op/op_case.h"

/// Gather and scatter: every dtype of data and of index, repeated and unordered positions, symbolic sizes,
/// views on the inputs, and gradients against differences.
namespace luminal::op_test {
namespace {

constexpr Dtype kIntegers[] = {Dtype::I8, Dtype::U8, Dtype::U16, Dtype::I32, Dtype::I64};

TensorData positions(Dtype dtype, std::vector<int64_t> dims, int64_t below, uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorData data(dtype, std::move(dims));
  for (int64_t i = 0; i < data.element_count(); ++i)
    write(data, i, static_cast<Integer>(random() % static_cast<uint64_t>(below)));
  return data;
}

struct Sizes {
  int64_t a, b;
};
constexpr Sizes kIndexingSizes[] = {{2, 3}, {5, 4}, {1, 0}};

class Indexing : public testing::TestWithParam<const char*> {};

TEST_P(Indexing, GatherReadsFlatPositionsOfTheView) {
  for (const Dtype dtype : kPlainDtypes)
    for (const Dtype index_dtype : kIntegers) {
      Graph cx;
      cx.set_device(GetParam());
      GraphTensor data = cx.tensor({"a", 3}, dtype), index = cx.tensor({"b", 2}, index_dtype);
      GraphTensor result = cx.add_op(kGather).input(data.t()).input(index).finish();
      result.retrieve();
      for (const auto& [a, b] : kIndexingSizes) {
        cx.set_dim("a", a);
        cx.set_dim("b", b);
        const TensorData values = sample_data(kAdd, dtype, {a, 3}, 5);
        const TensorData where = positions(index_dtype, {b, 2}, 3 * a, 7);
        data.set(values);
        index.set(where);
        cx.execute();
        const TensorData got = result.data(), transposed = viewed(View::Permuted, values, {3, a});
        ASSERT_EQ(got.dims, where.dims);
        for (int64_t i = 0; i < got.element_count(); ++i) {
          const Exact x = read(got, i),
                      y = read(transposed, static_cast<int64_t>(std::get<Integer>(read(where, i))));
          if (is_float(dtype))
            EXPECT_EQ(ulps_apart(dtype, std::get<long double>(x), std::get<long double>(y)), 0)
                << name(dtype);
          else
            EXPECT_EQ(x, y) << name(dtype);
        }
      }
    }
}

TEST_P(Indexing, ScatterAssignsInOrderAndAdds) {
  for (const Dtype dtype : kPlainDtypes)
    for (const std::string mode : {"assign", "add"}) {
      if (dtype == Dtype::Bool && mode == "add") continue;
      Graph cx;
      cx.set_device(GetParam());
      GraphTensor base = cx.tensor({"a", 3}, dtype), index = cx.tensor({"b", 2}, Dtype::I32);
      GraphTensor updates = cx.tensor({"b", 2}, dtype);
      GraphTensor result =
          cx.add_op(kScatter).input(base).input(index).input(updates).attribute("mode", mode).finish();
      result.retrieve();
      for (const auto& [a, b] : kIndexingSizes) {
        cx.set_dim("a", a);
        cx.set_dim("b", b);
        // Small integers, so that sums are exact in every dtype.
        const TensorData start = positions(dtype, {a, 3}, 4, 1), values = positions(dtype, {b, 2}, 5, 2);
        const TensorData where = positions(Dtype::I32, {b, 2}, 3 * a, 3);
        base.set(start);
        index.set(where);
        updates.set(values);
        cx.execute();
        TensorData expected = start;
        for (int64_t i = 0; i < where.element_count(); ++i) {
          const auto at = static_cast<int64_t>(std::get<Integer>(read(where, i)));
          const Exact value = read(values, i), old = read(expected, at);
          if (mode == "assign")
            write(expected, at, value);
          else if (is_float(dtype))
            write(expected, at, std::get<long double>(old) + std::get<long double>(value));
          else
            write(expected, at, std::get<Integer>(old) + std::get<Integer>(value));
        }
        EXPECT_EQ(result.data().bytes, expected.bytes) << name(dtype) << " " << mode;
      }
    }
}

/// sum((result - 1)^2 * weights) differentiated in `params`, against differences.
void expect_gradients(Graph& cx, const GraphTensor& result, std::vector<GraphTensor> params,
                      std::vector<TensorData> data) {
  GraphTensor weights = cx.iota(Expression::flat_index() + 1, result.dims()).cast(Dtype::F64);
  GraphTensor loss = ((result - 1.0) * (result - 1.0) * weights).sum();
  std::vector<GraphTensor> gradients = cx.run_pass(Autograd(params, loss));
  retrieve(gradients);
  loss.retrieve();
  const auto loss_at = [&](size_t k, const TensorData& changed) {
    params[k].set(changed);
    cx.execute();
    return loss.data<double>()[0];
  };
  for (size_t k = 0; k < params.size(); ++k) params[k].set(data[k]);
  cx.execute();
  std::vector<std::vector<double>> found;
  for (const GraphTensor& gradient : gradients) found.push_back(gradient.data<double>());
  for (size_t k = 0; k < params.size(); ++k) {
    for (size_t i = 0; i < found[k].size(); ++i) {
      TensorData left = data[k], right = data[k];
      left.as<double>()[i] -= 1e-4;
      right.as<double>()[i] += 1e-4;
      EXPECT_NEAR(found[k][i], (loss_at(k, right) - loss_at(k, left)) / 2e-4, 1e-7)
          << "input " << k << ", " << i;
    }
    (void)loss_at(k, data[k]);
  }
}

TEST_P(Indexing, GradientsOfRepeatedPositions) {
  const TensorData where = positions(Dtype::I64, {3, 2}, 4, 9);  // six positions among four: some repeat
  const TensorData data = positions(Dtype::F64, {2, 2}, 7, 1), updates = positions(Dtype::F64, {3, 2}, 5, 2);
  for (const std::string op : {"gather", "assign", "add"}) {
    SCOPED_TRACE(op);
    Graph cx;
    cx.set_device(GetParam());
    GraphTensor base = cx.tensor({2, 2}, Dtype::F64), index = cx.tensor({3, 2}, Dtype::I64);
    index.set(where);
    if (op == "gather") {
      expect_gradients(cx, cx.add_op(kGather).input(base).input(index).finish(), {base}, {data});
      continue;
    }
    GraphTensor values = cx.tensor({3, 2}, Dtype::F64);
    expect_gradients(
        cx, cx.add_op(kScatter).input(base).input(index).input(values).attribute("mode", op).finish(),
        {base, values}, {data, updates});
  }
}

/// Along axes, where the data has named dims: against the same node at flat positions.
TEST_P(Indexing, FormsAlongAxesReadAndWriteWhatFlatPositionsDo) {
  for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::I64, Dtype::U8})
    for (const Dtype index_dtype : kIntegers)
      for (const int axis : {0, 1, -1}) {
        Graph cx;
        cx.set_device(GetParam());
        GraphTensor data = cx.tensor({"a", 3, 4}, dtype);
        const int on = axis < 0 ? axis + 3 : axis;
        Shape elements{"a", 3, 4}, slices{"a", 3, 4};
        elements[static_cast<size_t>(on)] = "b";
        slices.erase(slices.begin() + on);
        slices.insert(slices.begin() + on, {"b", 2});
        GraphTensor by_element = cx.tensor(elements, index_dtype),
                    by_slice = cx.tensor({"b", 2}, index_dtype);
        GraphTensor updates = cx.tensor(elements, dtype);
        // The flat position of each element of the data, read in the same ways.
        const GraphTensor numbers = cx.iota(Expression::flat_index(), data.dims());
        const GraphTensor flat = numbers.gather_elements(axis, by_element);
        std::vector<std::pair<GraphTensor, GraphTensor>> pairs{
            {data.gather_elements(axis, by_element), data.gather(flat)},
            {data.index_select(axis, by_slice), data.gather(numbers.index_select(axis, by_slice))},
            {data.scatter(axis, by_element, updates), cx.add_op(kScatter)
                                                          .input(data)
                                                          .input(flat)
                                                          .input(updates)
                                                          .attribute("mode", std::string("assign"))
                                                          .finish()},
            {data.scatter_add(axis, by_element, updates), cx.add_op(kScatter)
                                                              .input(data)
                                                              .input(flat)
                                                              .input(updates)
                                                              .attribute("mode", std::string("add"))
                                                              .finish()}};
        ASSERT_EQ(pairs[1].first.dims(), slices);
        for (auto& [a, b] : pairs) a.retrieve(), b.retrieve();
        for (const auto& [a, b] : {Sizes{2, 3}, {5, 4}, {1, 0}}) {
          cx.set_dim("a", a);
          cx.set_dim("b", b);
          std::vector<int64_t> sizes{a, 3, 4};
          const int64_t length = sizes[static_cast<size_t>(on)];
          data.set(positions(dtype, sizes, 4, 1));
          sizes[static_cast<size_t>(on)] = b;
          updates.set(positions(dtype, sizes, 5, 2));
          by_element.set(positions(index_dtype, sizes, length, 3));
          by_slice.set(positions(index_dtype, {b, 2}, length, 4));
          cx.execute();
          for (size_t k = 0; k < pairs.size(); ++k)
            EXPECT_EQ(pairs[k].first.data().bytes, pairs[k].second.data().bytes)
                << k << " " << name(dtype) << axis;
        }
      }
}

TEST_P(Indexing, AnIndexThatIsTheSameAlongSlicesReadsAndWritesWholeOnes) {
  Graph cx;
  cx.set_device(GetParam());
  GraphTensor data = cx.tensor({3, 2}).set({1, 2, 3, 4, 5, 6}),
              index = cx.tensor({2}, Dtype::I32).set({2, 2});
  const GraphTensor wide = index.unsqueeze(1).expand({2, 2});
  GraphTensor read = data.gather_elements(0, wide), part = data.gather_elements(0, wide.slice_along(1, 0, 1));
  GraphTensor added = data.scatter_add(0, wide, cx.ones({2, 2})),
              counted = cx.zeros({3, 2}).scatter_add(0, wide, read);
  const auto form = [](const GraphTensor& x) { return x.graph().node(x.node()).attributes.to_string(); };
  EXPECT_EQ(form(read), "axis=0, slices=true");
  EXPECT_EQ(form(part), "axis=0, slices=false");
  EXPECT_EQ(form(added), "axis=0, mode=add, slices=true");
  EXPECT_EQ(form(counted), "axis=0, dims=[3, 2], mode=add, slices=true");
  for (GraphTensor* each : {&read, &part, &added, &counted}) each->retrieve();
  cx.execute();
  EXPECT_EQ(read.data<float>(), (std::vector<float>{5, 6, 5, 6}));
  EXPECT_EQ(part.data<float>(), (std::vector<float>{5, 5}));
  EXPECT_EQ(added.data<float>(), (std::vector<float>{1, 2, 3, 4, 7, 8}));
  EXPECT_EQ(counted.data<float>(), (std::vector<float>{0, 0, 0, 0, 10, 12}));
}

TEST_P(Indexing, AnIndexThatIsTheSameAlongNothingReadsNothing) {
  Graph cx;
  cx.set_device(GetParam());
  const GraphTensor index = cx.tensor({2}, Dtype::I32).set({2, 2});
  GraphTensor data = cx.tensor({3, "n"}), none = cx.tensor({3, 0});
  GraphTensor read = data.gather_elements(0, index.unsqueeze(1).expand({2, "n"})).retrieve();
  GraphTensor none_read = none.gather_elements(0, index.unsqueeze(1).expand({2, 0})).retrieve();
  none.set(std::vector<float>{});
  for (const int64_t n : {2, 0}) {
    std::vector<float> values{1, 2, 3, 4, 5, 6};
    values.resize(static_cast<size_t>(3 * n));
    data.set_dyn(values, {3, n});
    cx.execute();
    EXPECT_EQ(read.data<float>(), n == 0 ? std::vector<float>{} : (std::vector<float>{5, 6, 5, 6}));
    EXPECT_EQ(none_read.data().dims, (std::vector<int64_t>{2, 0}));
  }
}

TEST_P(Indexing, GradientsAlongAxes) {
  const TensorData data = positions(Dtype::F64, {4, 3}, 7, 1), updates = positions(Dtype::F64, {3, 3}, 5, 2);
  const TensorData number = positions(Dtype::F64, {}, 7, 5);
  enum class Form { Rows, Columns, Slices };
  for (const Form form : {Form::Rows, Form::Columns, Form::Slices}) {
    const int axis = form == Form::Columns ? 1 : 0;
    const auto graph = [&](const auto& check) {
      Graph cx;
      cx.set_device(GetParam());
      GraphTensor index = cx.tensor({3, 3}, Dtype::I64).set(positions(Dtype::I64, {3, 3}, 3, 9));
      const GraphTensor rows = cx.tensor({3}, Dtype::I64).set(std::vector<int64_t>{3, 1, 3});
      if (form == Form::Slices) index = rows.unsqueeze(1).expand({3, 3});
      check(cx, index, cx.tensor({3, 3}, Dtype::F64));
    };
    graph([&](Graph& cx, const GraphTensor& index, const GraphTensor&) {
      const GraphTensor base = cx.tensor({4, 3}, Dtype::F64);
      expect_gradients(cx, base.gather_elements(axis, index), {base}, {data});
    });
    for (const bool adds : {false, true}) {
      const auto written = [&](const GraphTensor& base, const GraphTensor& index, const GraphTensor& values) {
        return adds ? base.scatter_add(axis, index, values) : base.scatter(axis, index, values);
      };
      graph([&](Graph& cx, const GraphTensor& index, const GraphTensor& values) {
        const GraphTensor base = cx.tensor({form == Form::Columns ? 3 : 4, 3}, Dtype::F64);
        const TensorData start = positions(Dtype::F64, {form == Form::Columns ? 3 : 4, 3}, 7, 1);
        expect_gradients(cx, written(base, index, values), {base, values}, {start, updates});
      });
      graph([&](Graph& cx, const GraphTensor& index, const GraphTensor& values) {
        const GraphTensor base = cx.tensor({}, Dtype::F64);
        const GraphTensor filled = base.unsqueeze(0).unsqueeze(0).expand({4, 3});
        expect_gradients(cx, written(filled, index, values), {base, values}, {number, updates});
      });
    }
  }
}

TEST_P(Indexing, QuantisedDataGathersAndCastsAsFloats) {
  for (const BlockFormat& format : block_formats()) {
    const Dtype dtype = format.dtype;
    const int64_t row = format.block_elements;
    const TensorData blocks = random_blocks(dtype, {2, row}, 4), plain = dequantize(blocks);
    Graph cx;
    cx.set_device(GetParam());
    GraphTensor data = cx.tensor({2, row}, dtype), index = cx.tensor({3}, Dtype::I64);
    data.set(blocks);
    index.set(std::vector<int64_t>{row + 31, 0, 1});
    GraphTensor gathered = cx.add_op(kGather).input(data).input(index).finish(), cast = data.cast(Dtype::F32);
    GraphTensor turned = data.transpose(0, 1).cast(Dtype::F16);
    const GraphTensor places = index % row;
    GraphTensor rows = data.index_select(0, places % 2), columns = data.index_select(1, places);
    GraphTensor elements = data.gather_elements(1, places.unsqueeze(0).cast(Dtype::I32));
    for (GraphTensor* each : {&gathered, &cast, &turned, &rows, &columns, &elements}) each->retrieve();
    cx.execute();
    const auto values = plain.as<float>();
    const auto at = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
    EXPECT_EQ(gathered.data<float>(), (std::vector<float>{at(row + 31), at(0), at(1)})) << format.name;
    EXPECT_EQ(cast.data<float>(), std::vector<float>(values.begin(), values.end())) << format.name;
    std::vector<float> second(values.begin() + row, values.end()), wanted = second;
    wanted.insert(wanted.end(), values.begin(), values.begin() + row);
    wanted.insert(wanted.end(), second.begin(), second.end());
    EXPECT_EQ(rows.data<float>(), wanted) << format.name;
    EXPECT_EQ(columns.data<float>(),
              (std::vector<float>{at(31), at(0), at(1), at(row + 31), at(row), at(row + 1)}))
        << format.name;
    EXPECT_EQ(elements.data<float>(), (std::vector<float>{at(31), at(0), at(1)})) << format.name;
    std::vector<float16> halves;
    for (int64_t i = 0; i < 2 * row; ++i) halves.emplace_back(at(i % 2 * row + i / 2));
    const std::vector<float16> got = turned.data<float16>();
    for (size_t i = 0; i < halves.size(); ++i)
      ASSERT_EQ(got[i].bits, halves[i].bits) << format.name << " " << i;
    // The record itself, on blocks.
    std::vector<float> direct(values.size());
    const void* source = blocks.bytes.data();
    const Dtype from[] = {dtype};
    kCast.elementwise(from, Dtype::F32)(&source, direct.data(), 2 * row, {{"dtype", Dtype::F32}});
    EXPECT_EQ(direct, std::vector<float>(values.begin(), values.end())) << format.name;
  }
}

TEST_P(Indexing, PositionsOutsideAreErrorsThatNameThem) {
  Graph cx;
  cx.set_device(GetParam());
  GraphTensor data = cx.named_tensor("data", {4}), index = cx.tensor({2}, Dtype::I32);
  data.set({1, 2, 3, 4});
  GraphTensor result = cx.add_op(kGather).input(data).input(index).finish();
  result.retrieve();
  for (const int bad : {4, -1}) {
    index.set({0, bad});
    try {
      cx.execute();
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_NE(
          std::string(error.what())
              .find("[gather] index " + std::to_string(bad) +
                    " at row 1 is outside of the 4 elements of 'data' f32[4]; valid are 0 to 3 (made at "),
          std::string::npos)
          << error.what();
    }
  }
}

/// What a run that meets a bad index says, without the user's line, which must be that of the call.
std::string refusal(Graph& cx) {
  try {
    cx.execute();
  } catch (const Error& error) {
    const std::string message = error.what();
    const size_t place = message.find(" (made at indexing_test.cpp:");
    return place == std::string::npos ? "no place in: " + message : message.substr(0, place);
  }
  return "accepted";
}

TEST_P(Indexing, OutsideOfAnAxisNamesTheTensorTheAxisAndTheUsersIndex) {
  const auto graph = [&](const auto& build) {
    Graph cx;
    cx.set_device(GetParam());
    GraphTensor table = cx.named_tensor("table", {4, 3}).set(std::vector<float>(12, 1));
    build(cx, table);
    return refusal(cx);
  };
  const auto integers = [](Graph& cx, Shape dims, std::vector<int64_t> values) {
    return cx.tensor(std::move(dims), Dtype::I64).set(values);
  };
  EXPECT_EQ(graph([&](Graph& cx, const GraphTensor& table) {
              table.index_select(0, integers(cx, {2, 2}, {0, 1, 7, 3})).retrieve();
            }),
            "[index_select] index 7 at [1, 0] is outside of axis 0 of 'table' f32[4, 3], whose length is 4; "
            "valid are "
            "0 to 3");
  EXPECT_EQ(graph([&](Graph& cx, const GraphTensor& table) {
              table.index_select(-1, integers(cx, {2}, {0, -1})).retrieve();
            }),
            "[index_select] index -1 at row 1 is outside of axis 1 of 'table' f32[4, 3], whose length is 3; "
            "valid are "
            "0 to 2");
  EXPECT_EQ(graph([&](Graph& cx, const GraphTensor& table) {
              table.gather_elements(1, integers(cx, {4, 2}, {0, 1, 2, 0, 1, 3, 0, 0})).retrieve();
            }),
            "[gather_elements] index 3 at [2, 1] is outside of axis 1 of 'table' f32[4, 3], whose length is "
            "3; valid "
            "are 0 to 2");
  EXPECT_EQ(graph([&](Graph& cx, const GraphTensor& table) {
              table.scatter(0, integers(cx, {1, 3}, {0, 4, 1}), cx.zeros({1, 3})).retrieve();
            }),
            "[scatter] index 4 at [0, 1] is outside of axis 0 of 'table' f32[4, 3], whose length is 4; valid "
            "are 0 to "
            "3");
  EXPECT_EQ(graph([&](Graph& cx, const GraphTensor& table) {
              table.scatter_add(1, integers(cx, {4, 1}, {0, 1, 2, -5}), cx.ones({4, 1})).retrieve();
            }),
            "[scatter_add] index -5 at [3, 0] is outside of axis 1 of 'table' f32[4, 3], whose length is 3; "
            "valid are "
            "0 to 2");
  EXPECT_EQ(
      graph([&](Graph& cx, const GraphTensor& table) { table.gather(integers(cx, {}, {12})).retrieve(); }),
      "[gather] index 12 is outside of the 12 elements of 'table' f32[4, 3]; valid are 0 to 11");
}

INSTANTIATE_TEST_SUITE_P(Devices, Indexing, testing::ValuesIn(kDevices),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace luminal::op_test
