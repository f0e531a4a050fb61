#include "base/environment.h"
#include "error/mistake.h"
#include "support/environment.h"

// Mistakes that show when data are given, when a graph runs and when results are read.
namespace luminal::error_test {
namespace {

TEST(RunningMistakes, Data) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {2, 3}), i = cx.tensor({3}, Dtype::I32), u = cx.tensor({2}, Dtype::U8);
  GraphTensor rows = cx.named_tensor("rows", {"n", 3});
  expect_told({
      {"too few", [&] { x.set({1, 2, 3}); },
       "[set] 3 elements do not fill 'x' f32[2, 3], which holds 6; give as many (made at `x.set({1, 2, "
       "3});`)"},
      {"a vector of another length", [&] { x.set(std::vector<float>(7)); },
       "[set] 7 elements do not fill 'x' f32[2, 3], which holds 6; give as many (made at "
       "`x.set(std::vector<float>(7));`)"},
      {"sizes the other way around", [&] { x.set({{1, 2}, {3, 4}, {5, 6}}); },
       "[set] data of [3, 2] does not fit 'x' f32[2, 3]; ranks and sizes must be equal (made at `x.set({{1, "
       "2}, {3, 4}, {5, 6}});`)"},
      {"ragged", [&] { x.set({{1, 2, 3}, {4, 5}}); },
       "[set] the nested list is ragged: item 0 is [3] and item 1 is [2]; make all alike (made at "
       "`x.set({{1, 2, 3}, {4, 5}});`)"},
      {"data of another dtype", [&] { i.set(TensorData(Dtype::F32, {3})); },
       "[set] f32 numbers do not fit i32[3]; give integers, or declare the tensor as a float and cast (made "
       "at `i.set(TensorData(Dtype::F32, {3}));`)"},
      {"data of other sizes", [&] { x.set(TensorData(Dtype::F32, {3, 2})); },
       "[set] data of [3, 2] does not fit 'x' f32[2, 3]; ranks and sizes must be equal (made at "
       "`x.set(TensorData(Dtype::F32, {3, 2}));`)"},
      {"floats into integers", [&] { i.set({1.5, 2, 3}); },
       "[set] f64 numbers do not fit i32[3]; give integers, or declare the tensor as a float and cast (made "
       "at `i.set({1.5, 2, 3});`)"},
      {"a vector of floats into integers", [&] { i.set(std::vector<float>{1, 2, 3}); },
       "[set] f32 numbers do not fit i32[3]; give integers, or declare the tensor as a float and cast (made "
       "at `i.set(std::vector<float>{1, 2, 3});`)"},
      {"300 into bytes", [&] { u.set({1, 300}); },
       "[set] the number at row 1 is 300, and u8[2] holds 0 to 255; give numbers in that range, or declare "
       "it as u16 (made at `u.set({1, 300});`)"},
      {"-1 into bytes", [&] { u.set(std::vector<int>{1, -1}); },
       "[set] the number at row 1 is -1, and u8[2] holds 0 to 255; give numbers in that range, or declare it "
       "as i8 (made at `u.set(std::vector<int>{1, -1});`)"},
      {"2^40 into i32", [&] { i.set(std::vector<int64_t>{1, 2, int64_t{1} << 40}); },
       "[set] the number at row 2 is 1099511627776, and i32[3] holds -2147483648 to 2147483647; give numbers "
       "in that range, or declare it as i64 (made at `i.set(std::vector<int64_t>{1, 2, int64_t{1} << "
       "40});`)"},
      {"a result", [&] { (x * 2).set({1}); },
       "[set] only inputs take data, and this f32[2, 3] is made by 'mul'; declare it with tensor() (made at "
       "`(x * 2).set({1});`)"},
      {"rows that do not come out", [&] { rows.set(std::vector<float>(7)); },
       "[set] 7 elements are not a whole number of 'n' in 'rows' f32[n, 3]; give whole ones (made at "
       "`rows.set(std::vector<float>(7));`)"},
      {"sizes that make another count", [&] { rows.set_dyn(std::vector<float>(6), {3, 3}); },
       "[set] 6 values for 'rows' f32[n, 3] (made at `GraphTensor rows = cx.named_tensor(\"rows\", {\"n\", "
       "3});`) do not fill the sizes [3, 3], which hold 9; give as many, or their own sizes (made at "
       "`rows.set_dyn(std::vector<float>(6), {3, 3});`)"},
      {"sizes of another rank", [&] { rows.set_dyn(std::vector<float>(6), {6}); },
       "[set] data of [6] does not fit 'rows' f32[n, 3]; ranks and sizes must be equal (made at "
       "`rows.set_dyn(std::vector<float>(6), {6});`)"},
      {"a petabyte", [&] { (void)TensorData(Dtype::F32, {1 << 20, 1 << 20, 256}); },
       "[data] out of memory for f32[1048576, 1048576, 256]: [memory] 1.1 PB are needed at once, but the "
       "system has so much; use smaller sizes or free memory"},
      {"more elements than can be counted",
       [&] { (void)TensorData(Dtype::F32, {int64_t{1} << 40, int64_t{1} << 40}); },
       "[data] a tensor of [1099511627776, 1099511627776] has more elements than 64 bits count; use smaller "
       "sizes"},
  });
}

TEST(RunningMistakes, Runs) {
  expect_told({
      {"an input without data",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {2});
         (void)(x + 1).retrieve();
         cx.execute();
       },
       "[execute] input 'x' f32[2] (made at `GraphTensor x = cx.named_tensor(\"x\", {2});`) is not set; give "
       "its data with set() before execute()"},
      {"an input without data or name",
       [] {
         Graph cx;
         GraphTensor x = cx.tensor({2});
         (void)(x + 1).retrieve();
         cx.execute();
       },
       "[execute] input #N f32[2] (made at `GraphTensor x = cx.tensor({2});`) is not set; give its data with "
       "set() before execute()"},
      {"an input with a named dim without data",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {"batch", 2});
         (void)(x + 1).retrieve();
         cx.execute();
       },
       "[execute] input 'x' f32[batch, 2] (made at `GraphTensor x = cx.named_tensor(\"x\", {\"batch\", "
       "2});`) is not set; give its data with set() before execute()"},
      {"a dim without size",
       [] {
         Graph cx;
         (void)cx.arange("n").retrieve();
         cx.execute();
       },
       "[execute] the size of dim 'n' is unknown, but #N i64[n] (made at "
       "`(void)cx.arange(\"n\").retrieve();`) needs it; give it with set_dim(\"n\", size)"},
      {"two sizes of one dim",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {"n"}).set({1, 2});
         GraphTensor y = cx.named_tensor("y", {"n"}).set({1, 2, 3});
         (void)(x + y).retrieve();
         cx.execute();
       },
       "[execute] 'x' f32[n] (made at `GraphTensor x = cx.named_tensor(\"x\", {\"n\"}).set({1, 2});`) holds "
       "data of [2], but the current sizes make it [3]; set it again or call set_dim"},
      {"a size that was fixed",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {"n"});
         cx.set_dim("n", 4);
         x.set({1, 2, 3});
       },
       "[set] 3 elements do not fill 'x' f32[n], which holds 4; give as many; set_dim fixed 'n' at 4 "
       "(`cx.set_dim(\"n\", 4);`): clear_dim(\"n\") lets data decide again (made at `x.set({1, 2, 3});`)"},
      {"a dim misspelt",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {"batch", 2});
         cx.set_dim("bacth", 4);
       },
       "[set_dim] no tensor of this graph has a dim 'bacth'; its dims are batch; did you mean 'batch'? (made "
       "at `cx.set_dim(\"bacth\", 4);`)"},
      {"a negative size",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {"batch", 2});
         cx.set_dim("batch", -4);
       },
       "[set_dim] dim 'batch' cannot have the size -4; give 0 or more (made at `cx.set_dim(\"batch\", "
       "-4);`)"},
      {"a reshape that fits no batch but one",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {"batch", 2, 2});
         GraphTensor row = x.reshape({4});
         (void)(row * 2).retrieve();
         x.set(std::vector<float>(8));
         cx.execute();
       },
       "[reshape] [batch, 2, 2] holds 4*batch elements, [4] holds 4; a reshape keeps the number of elements "
       "(at batch = 2) (made at `(void)(row * 2).retrieve();`)"},
      {"a dim without size in a view",
       [] {
         Graph cx;
         GraphTensor x = cx.named_tensor("x", {3}).set({1, 2, 3});
         (void)x.expand_dim(0, "copies").sum(0).retrieve();
         cx.execute();
       },
       "[execute] the size of dim 'copies' is unknown, but #N f32[3] (made at `(void)x.expand_dim(0, "
       "\"copies\").sum(0).retrieve();`) needs it; give it with set_dim(\"copies\", size)"},
      {"a dim without size in a formula",
       [] {
         Graph cx;
         (void)cx.constant(Expression("n") * 2).retrieve();
         cx.execute();
       },
       "[execute] the size of dim 'n' is unknown, but #N i64[] (made at `(void)cx.constant(Expression(\"n\") "
       "* 2).retrieve();`) needs it; give it with set_dim(\"n\", size)"},
      {"a result that is too large",
       [] {
         Graph cx;
         const std::vector<float> million(1 << 20);
         GraphTensor rows = cx.tensor({1 << 20, 1}).set(million),
                     columns = cx.tensor({1, 1 << 20}).set(million);
         (void)(rows * columns).retrieve();
         cx.execute();
       },
       "[execute] out of memory for the result f32[1048576, 1048576]: [memory] 4.4 TB are needed at once, "
       "but the system has so much; use smaller sizes or free memory"},
      {"a device that is not there",
       [] {
         Graph cx;
         cx.set_device("gpu");
       },
       "[device] unknown device 'gpu'; this build has: " + devices() + "; did you mean 'cpu'?"},
      {"a device misspelt",
       [] {
         Graph cx;
         cx.set_device("refernce");
       },
       "[device] unknown device 'refernce'; this build has: " + devices() + "; did you mean 'reference'?"},
      {"a law misspelt",
       [] {
         Graph cx;
         cx.set_device("cpu");
         cx.set_search({.rules_off = {"view-copy-read-thruogh"}});
         (void)(cx.tensor({2}).set({1, 2}) * 2).retrieve();
         cx.execute();
       },
       "[rules] unknown rule 'view-copy-read-thruogh' to switch off; `luminal explain` names those that "
       "fire in a graph; did you mean 'view-copy-read-through'?"},
  });
}

TEST(RunningMistakes, Results) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {2}).set({1, 2});
  GraphTensor forgotten = x * 2, y = (forgotten + 1).retrieve();
  expect_told({
      {"before the first run", [&] { (void)y.data<float>(); },
       "[data] #N f32[2] (made at `GraphTensor forgotten = x * 2, y = (forgotten + 1).retrieve();`) has no "
       "value; nothing has run yet; call execute()"},
      {"not marked before any run", [&] { (void)forgotten.data<float>(); },
       "[data] #N f32[2] (made at `GraphTensor forgotten = x * 2, y = (forgotten + 1).retrieve();`) has no "
       "value; mark it with retrieve() or keep() before execute()"},
  });
  cx.execute();
  expect_told({
      {"not marked", [&] { (void)forgotten.data<float>(); },
       "[data] #N f32[2] (made at `GraphTensor forgotten = x * 2, y = (forgotten + 1).retrieve();`) has no "
       "value; mark it with retrieve() or keep() before execute()"},
      {"as another type", [&] { (void)y.data<int32_t>(); },
       "[data] #N f32[2] (made at `GraphTensor forgotten = x * 2, y = (forgotten + 1).retrieve();`) was "
       "requested as i32; request its own type, or double, float or int64_t"},
      {"marked after the run", [&] { (void)forgotten.retrieve().data<float>(); },
       "[data] #N f32[2] (made at `GraphTensor forgotten = x * 2, y = (forgotten + 1).retrieve();`) has no "
       "value; it was marked or reset after the last run; call execute() again"},
      {"printed before it ran", [&] { (void)(x * 3).to_string(); },
       "[data] #N f32[2] (made at `(void)(x * 3).to_string();`) has no value; mark it with retrieve() or "
       "keep() before execute()"},
  });
  cx.reset();
  expect_told({
      {"after reset", [&] { (void)y.data<float>(); },
       "[data] #N f32[2] (made at `GraphTensor forgotten = x * 2, y = (forgotten + 1).retrieve();`) has no "
       "value; it was marked or reset after the last run; call execute() again"},
      {"another type of host data", [&] { (void)x.data().as<double>(); },
       "[data] the elements are f32, but were requested as f64; request their own type"},
  });
}

/// In a process that has not looked at its environment yet.
TEST(RunningMistakes, Environment) {
  const auto with = [&](const char* name, const char* value) {
    return [=] {
      const test::EnvironmentVariable variable(name, value);
      environment::check_all();
      (void)Graph().device();
    };
  };
  expect_told({
      {"a device that is not there", with("LUMINAL_DEVICE", "cuda"),
       "[device] unknown device 'cuda'; this build has: " + devices()},
      {"a level that is no number", with("LUMINAL_DEBUG", "verbose"),
       "[environment] LUMINAL_DEBUG='verbose' is invalid, expected integer 0..7; unset it or give such a "
       "value"},
      {"no threads", with("LUMINAL_THREADS", "0"),
       "[environment] LUMINAL_THREADS='0' is invalid, expected integer >= 1; unset it or give such a value"},
      {"threads with a unit", with("LUMINAL_THREADS", "4x"),
       "[environment] LUMINAL_THREADS='4x' is invalid, expected integer >= 1; unset it or give such a value"},
      {"features without a sign", with("LUMINAL_CPU_FEATURES", "avx512f"),
       "[environment] LUMINAL_CPU_FEATURES='avx512f' is invalid, expected features as +name,-name; unset it "
       "or give such a value"},
  });
}

/// On every device that computes, as each looks at positions itself.
class Positions : public testing::TestWithParam<const char*> {};

TEST_P(Positions, OutOfRange) {
  const auto run = [](const std::function<GraphTensor(Graph&)>& build) {
    return [=] {
      Graph cx;
      cx.set_device(GetParam());
      (void)build(cx).retrieve();
      cx.execute();
    };
  };
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  expect_told({
      {"gather", run([&](Graph& cx) {
         GraphTensor data = cx.named_tensor("data", {6}).set(six),
                     at = cx.named_tensor("at", {2}, Dtype::I64);
         at.set({0, 6});
         return data.gather(at);
       }),
       "[gather] index 6 at row 1 is outside of the 6 elements of 'data' f32[6]; valid are 0 to 5 (made at "
       "`return data.gather(at);`)"},
      {"a row from the end", run([&](Graph& cx) {
         GraphTensor table = cx.named_tensor("table", {3, 2}).set(six),
                     at = cx.named_tensor("at", {2}, Dtype::I32);
         at.set({2, -1});
         return table.index_select(0, at);
       }),
       "[index_select] index -1 at row 1 is outside of axis 0 of 'table' f32[3, 2], whose length is 3; valid "
       "are 0 to 2 (made at `return table.index_select(0, at);`)"},
      {"a computed row", run([&](Graph& cx) {
         GraphTensor table = cx.named_tensor("table", {3, 2}).set(six),
                     at = cx.named_tensor("at", {2}, Dtype::I32);
         at.set({1, 2});
         return table.index_select(0, at + 1);
       }),
       "[index_select] index 3 at row 1 is outside of axis 0 of 'table' f32[3, 2], whose length is 3; valid "
       "are 0 to 2 (made at `return table.index_select(0, at + 1);`)"},
      {"gather along an axis", run([&](Graph& cx) {
         GraphTensor data = cx.named_tensor("data", {2, 3}).set(six),
                     at = cx.named_tensor("at", {2, 1}, Dtype::I64);
         at.set({{0}, {3}});
         return data.gather(1, at);
       }),
       "[gather_elements] index 3 at [1, 0] is outside of axis 1 of 'data' f32[2, 3], whose length is 3; "
       "valid are 0 to 2 (made at `return data.gather(1, at);`)"},
      {"scatter", run([&](Graph& cx) {
         GraphTensor base = cx.named_tensor("base", {2, 3}).set(six),
                     at = cx.named_tensor("at", {2, 1}, Dtype::I64);
         at.set({{0}, {5}});
         return base.scatter(1, at, cx.named_tensor("updates", {2, 1}).set({{1}, {2}}));
       }),
       "[scatter] index 5 at [1, 0] is outside of axis 1 of 'base' f32[2, 3], whose length is 3; valid are 0 "
       "to 2 (made at `return base.scatter(1, at, cx.named_tensor(\"updates\", {2, 1}).set({{1}, {2}}));`)"},
      {"scatter_add", run([&](Graph& cx) {
         GraphTensor base = cx.named_tensor("base", {6}).set(six),
                     at = cx.named_tensor("at", {2}, Dtype::I64);
         at.set({-1, 5});
         return base.scatter_add(0, at, cx.named_tensor("updates", {2}).set({1, 2}));
       }),
       "[scatter_add] index -1 at row 0 is outside of axis 0 of 'base' f32[6], whose length is 6; valid are "
       "0 to 5 (made at `return base.scatter_add(0, at, cx.named_tensor(\"updates\", {2}).set({1, 2}));`)"},
      {"more of the greatest than there are", run([&](Graph& cx) {
         const GraphTensor scores = cx.named_tensor("scores", {2, "n"});
         GraphTensor(scores).set_dyn(six, {2, 3});
         return scores.topk(4).second;
       }),
       "[topk] k is 4 and axis 1 of 'scores' f32[2, 3] has 3 elements; give a k from 0 to that number (made "
       "at "
       "`return scores.topk(4).second;`)"},
      {"a cache of keys that is full", run([&](Graph& cx) {
         const nn::KvCache cache(cx, 1, 1, 2, 2, "past");
         const GraphTensor key = cx.named_tensor("key", {1, 1, "new", 2});
         GraphTensor(key).set_dyn(six, {1, 1, 3, 2});
         const auto rows = cache.append(key, key);
         cx.set_dim("past", 0);
         return rows.keys;
       }),
       "[KvCache] new + past rows do not fit in axis 2 of the cache f32[1, 1, 2, 2], which has 2; make it "
       "larger, or set past back to 0 (at new = 3, past = 0) (made at `const auto rows = cache.append(key, "
       "key);`)"},
  });
}
INSTANTIATE_TEST_SUITE_P(Devices, Positions, testing::Values("cpu", "reference"));

}  // namespace
}  // namespace luminal::error_test
