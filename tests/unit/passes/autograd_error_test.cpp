#include <fmt/format.h>
#include <gtest/gtest.h>

#include "luminal/autograd.h"
#include "luminal/error.h"
#include "luminal/gradient.h"
#include "luminal/ops.h"

namespace luminal {
namespace {

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "<no error>";
}

std::vector<TensorType> same_as_input(std::span<const TensorType> inputs, const Attributes&) {
  return {inputs[0]};
}
void copy_doubles(const void* const* inputs, void* output, int64_t count, const Attributes&) {
  std::memcpy(output, inputs[0], static_cast<size_t>(count) * sizeof(double));
}
OpDef copying_op(std::string_view name, Trait traits, GradientRule gradient) {
  OpDef op;
  op.name = name;
  op.traits = Trait::Elementwise | traits;
  op.infer = same_as_input;
  op.elementwise = [](std::span<const Dtype>, Dtype) -> ElementKernel { return copy_doubles; };
  op.gradient = std::move(gradient);
  return op;
}
const OpDef kSecret = copying_op("secret", Trait::NotDifferentiable, {});
const OpDef kWrongDims =
    copying_op("wrong_dims", Trait::None, [](Gradient& g) { g.to(0, g.upstream().sum()); });

TEST(AutogradErrors, OpWithoutGradientOnThePath) {
  Graph cx;
  auto x = cx.tensor({2}, Dtype::F64);
  auto y = cx.add_op(kSecret).input(x).finish();
  const int line = __LINE__ - 1;
  EXPECT_EQ(message_of<Error>([&] { (void)cx.run_pass(Autograd({x}, y.sum())); }),
            "[secret] 'secret' has no gradient and the loss depends on a parameter through it; put "
            "stop_gradient() before it to treat its input as constant (made at autograd_error_test.cpp:" +
                std::to_string(line) + ")");
}

TEST(AutogradErrors, OpWithoutGradientBesideThePathIsNone) {
  Graph cx;
  auto x = cx.tensor({2}, Dtype::F64).set({1, 2}), other = cx.tensor({2}, Dtype::F64).set({3, 4});
  auto beside = cx.add_op(kSecret).input(other).finish();
  auto cut = cx.add_op(kSecret).input(x.stop_gradient()).finish();
  auto unseen = cx.add_op(kSecret).input(x).finish().floor();
  auto gradient = cx.run_pass(Autograd({x}, (x * beside + cut + unseen).sum()))[0].retrieve();
  cx.execute();
  EXPECT_EQ(gradient.data<double>(), (std::vector<double>{3, 4}));
}

TEST(AutogradErrors, RuleThatGivesOtherDims) {
  Graph cx;
  auto x = cx.tensor({2}, Dtype::F64);
  auto y = cx.add_op(kWrongDims).input(x).finish();
  EXPECT_EQ(message_of<ShapeError>([&] { (void)cx.run_pass(Autograd({x}, y)); }),
            "[wrong_dims] the gradient rule gives f64[] for input 0, which is f64[2]; reduce or expand it to "
            "those dims");
}

TEST(AutogradErrors, IntegersHaveNoGradient) {
  Graph cx;
  auto x = cx.named_tensor("x", {2}, Dtype::I64);
  const int line = __LINE__ - 1;
  const std::string described = fmt::format("'x' i64[2] (made at autograd_error_test.cpp:{})", line);
  auto y = cx.tensor({2});
  EXPECT_EQ(message_of<DtypeError>([&] { (void)cx.run_pass(Autograd({y, x}, y.sum())); }),
            "[Autograd] parameter 1 is " + described +
                "; only floating tensors have gradients, cast() it before it is used");
  EXPECT_EQ(message_of<DtypeError>([&] { (void)cx.run_pass(Autograd({y}, x)); }),
            "[Autograd] the loss is " + described +
                "; only floating tensors have gradients, cast() it before it is used");
}

TEST(AutogradErrors, TensorsOfAnotherGraphOrOfNone) {
  Graph cx, other;
  auto x = cx.tensor({2}), stranger = other.named_tensor("stranger", {3});
  const std::string place = fmt::format("(made at autograd_error_test.cpp:{})", __LINE__ - 1);
  EXPECT_EQ(message_of<Error>([&] { (void)cx.run_pass(Autograd({stranger}, x)); }),
            "[Autograd] parameter 0 'stranger' f32[3] " + place +
                " belongs to another graph; give tensors of the graph that is compiled");
  EXPECT_EQ(
      message_of<Error>([&] { (void)cx.run_pass(Autograd({x}, GraphTensor())); }),
      "[Autograd] the loss is not a tensor of an existing graph; give tensors that this graph still holds");
}

/// A loss that no gradient leaves is a mistake; gradients that are 0 are none.
TEST(AutogradErrors, EveryWayLeadsThroughIntegers) {
  const auto message = [](auto loss_of) {
    Graph cx;
    auto w = cx.named_tensor("w", {2, 3}).set({{1, 2, 3}, {4, 5, 6}});
    auto loss = loss_of(w);
    return message_of<Error>([&] { (void)cx.run_pass(Autograd({w}, loss)); });
  };
  const std::string argmax = message([](auto w) { return w.argmax(1).cast(Dtype::F32).sum(); });
  EXPECT_TRUE(argmax.starts_with("[argmax")) << argmax;
  EXPECT_NE(argmax.find("no gradient reaches a parameter: the loss depends on them only through "),
            std::string::npos);
  EXPECT_NE(
      argmax.find("Use a differentiable op (softmax instead of argmax, sigmoid instead of a comparison), "
                  "or x + (y - x).stop_gradient() to let gradients pass as if y were x (made at "
                  "autograd_error_test.cpp:"),
      std::string::npos)
      << argmax;
  EXPECT_TRUE(message([](auto w) { return w.gt(2).cast(Dtype::F32).mean(); }).starts_with("[gt"));
  EXPECT_TRUE(message([](auto w) { return w.cast(Dtype::I32).cast(Dtype::F32).sum(); }).starts_with("[cast"));
  for (const auto& fine : {message([](auto w) { return w.floor().sum(); }),
                           message([](auto w) { return w.stop_gradient().argmax(1).cast(Dtype::F32).sum(); }),
                           message([](auto w) { return w.gt(2).where(w, 0).sum(); }),
                           message([](auto w) { return w.graph().constant(1.0F); })})
    EXPECT_EQ(fine, "<no error>");
  Graph cx;  // the second derivative of relu is 0, not a mistake
  auto x = cx.tensor({3}).set({-1, 0, 2});
  auto slope = cx.run_pass(Autograd({x}, x.relu().sum()))[0];
  auto second = cx.run_pass(Autograd({x}, slope.sum()))[0].retrieve();
  cx.execute();
  EXPECT_EQ(second.data<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(AutogradErrors, ViewStepWithoutInverse) {
  Graph cx;
  auto x = cx.tensor({4}, Dtype::F64);
  // Strides of 1 over overlapping rows: not a step whose inverse is known.
  const std::vector<Expression> strides{1, 1};
  const ShapeTracker overlapping =
      ShapeTracker::contiguous({4}).then(ShapeTracker::new_strided({2, 3}, strides));
  ASSERT_FALSE(overlapping.steps().back().invertible);
  auto y = x.with_view(overlapping).square();
  EXPECT_THROW((void)cx.run_pass(Autograd({x}, y)), Error);
}

}  // namespace
}  // namespace luminal
