#include "ops/registry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "base/file.h"
#include "luminal/error.h"
#include "luminal/ops.h"
#include "luminal/scalar_math.h"
#include "ops/lowering_check.h"

namespace luminal {
namespace {

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Registry, IsSortedAndItsRecordsHoldTogether) {
  const auto ops = ops::built_in_ops();
  EXPECT_TRUE(std::ranges::is_sorted(ops, {}, &OpDef::name));
  for (const OpDef* op : ops) {
    EXPECT_EQ(ops::contradiction(*op), "") << op->name;
    EXPECT_EQ(&find_op(op->name), op);
    EXPECT_FALSE(op->is(Trait::Elementwise) && op->samples.empty()) << op->name;
  }
}

// One op is one file and one line: every record in src/ops is in the list, and nothing else is.
TEST(Registry, HoldsEveryRecordOfTheSourceTree) {
  std::set<std::string> defined;
  const std::regex record(R"(const OpDef k\w+ = \{\s*\.name = "(\w+)\")");
  for (const auto& entry : std::filesystem::directory_iterator(LUMINAL_SOURCE_DIR "/src/ops")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = read_file(entry.path());
    int records = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), record), end; at != end; ++at, ++records) {
      defined.insert((*at)[1]);
      EXPECT_EQ(entry.path().stem(), (*at)[1].str()) << "the file is called as the op";
    }
    EXPECT_LE(records, 1) << entry.path();
    const bool declares = text.find("const OpDef k") != std::string::npos;
    EXPECT_EQ(declares, records == 1) << entry.path() << " defines a record in a form this test cannot read";
  }
  std::set<std::string> listed;
  for (const OpDef* op : ops::built_in_ops()) listed.emplace(op->name);
  EXPECT_EQ(defined, listed);
}

TEST(Registry, OffersTheNearestName) {
  EXPECT_EQ(message_of([] { (void)find_op("sqrtt"); }), "[op] unknown op 'sqrtt'; did you mean 'sqrt'?");
}

OpDef sound_record() {
  OpDef op;
  op.name = "test_sound";
  op.infer = kExp2.infer;
  op.traits = Trait::Elementwise;
  op.elementwise = kExp2.elementwise;
  op.lower = kExp2.lower;
  op.ulp = kExp2.ulp;
  op.doc = "For a test.";
  return op;
}

TEST(Registry, RefusesTakenNamesAndContradictions) {
  static const OpDef taken = [] {
    OpDef op = sound_record();
    op.name = "exp2";
    return op;
  }();
  EXPECT_EQ(message_of([] { register_op(taken); }), "[op] the name 'exp2' is taken; names of ops are unique");
  static const OpDef once = sound_record();
  register_op(once);
  EXPECT_EQ(&find_op("test_sound"), &once);
  EXPECT_EQ(message_of([] { register_op(once); }),
            "[op] the name 'test_sound' is taken; names of ops are unique");
  const auto all = all_ops();
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &OpDef::name));
  EXPECT_NE(std::ranges::find(all, &once), all.end());
}

TEST(Registry, LoweringsOfTheLibraryAgreeWithTheirKernels) {
  for (const OpDef* op : ops::built_in_ops())
    EXPECT_EQ(op->lower ? ops::lowering_fault(*op) : "", "") << op->name;
}

/// Compiled code comes from `lower`, the reference from `elementwise`: an op whose two definitions differ
/// would be wrong without a word.
TEST(Registry, RefusesALoweringThatIsNotTheKernel) {
  static const OpDef wrong = [] {
    OpDef op = sound_record();
    op.name = "test_wrong";
    op.samples = {0, 3};
    op.lower = [](ScalarBuilder& b, std::span<const Scalar> x, const Attributes&) {
      return b.mul(math::exp2(b, x[0]), b.constant(b.dtype(x[0]), 2));
    };
    return op;
  }();
  EXPECT_EQ(message_of([] { register_op(wrong); }),
            "[op] the record of 'test_wrong' cannot be registered: for f32, of (0) its lowering (lower) "
            "makes 2 and its "
            "kernel (elementwise) 1, further apart than its bound of " +
                fmt::format("{}", kExp2.ulp) + " units in the last place (ulp)");
  EXPECT_THROW((void)find_op("test_wrong"), Error) << "it is not known by name";
}

TEST(Registry, ChecksLoweringsWithoutSamplesAndInEveryDtype) {
  const auto with = [](const std::function<void(OpDef&)>& change) {
    OpDef op = sound_record();
    change(op);
    return ops::lowering_fault(op);
  };
  EXPECT_EQ(with([](OpDef&) {}), "");
  // Samples of the record's own do not stand in for plain numbers.
  EXPECT_NE(with([](OpDef& op) {
              op.samples = {1};
              op.lower = [](ScalarBuilder& b, std::span<const Scalar> x, const Attributes& attributes) {
                return kExp2.lower(b, std::array{b.mul(x[0], x[0])}, attributes);
              };
            }).find("its lowering (lower) makes"),
            std::string::npos);
  EXPECT_NE(with([](OpDef& op) { op.lower = kLog2.lower; }).find("its lowering (lower) makes"),
            std::string::npos);
  EXPECT_NE(with([](OpDef& op) {
              op.lower = [](ScalarBuilder& b, std::span<const Scalar> x, const Attributes& attributes) {
                return b.dtype(x[0]) == Dtype::F64 ? x[0] : kExp2.lower(b, x, attributes);
              };
            }).find("for f64, of "),
            std::string::npos);
  EXPECT_EQ(with([](OpDef& op) {
              op.lower = [](ScalarBuilder& b, std::span<const Scalar> x, const Attributes&) {
                return b.convert(x[0], Dtype::Bool);
              };
            }),
            "for f32, its lowering makes bool and its type rule (infer) f32");
  EXPECT_EQ(with([](OpDef& op) { op.elementwise = [](auto...) -> ElementKernel { return nullptr; }; }),
            "for f32, its type rule (infer) takes them and `elementwise` has no kernel for them");
  EXPECT_NE(with([](OpDef& op) {
              op.infer = [](auto...) -> std::vector<TensorType> { throw DtypeError("no"); };
            }).find("takes no inputs of one dtype"),
            std::string::npos);
}

TEST(Registry, NamesEachContradiction) {
  const auto with = [](const std::function<void(OpDef&)>& change) {
    OpDef op = sound_record();
    change(op);
    return ops::contradiction(op);
  };
  EXPECT_EQ(with([](OpDef&) {}), "");
  EXPECT_EQ(with([](OpDef& op) { op.name = "Exp"; }),
            "its name must be lower-case letters, digits and '_', a letter first");
  EXPECT_EQ(with([](OpDef& op) { op.arity = -2; }), "its arity is -2; -1 stands for any number");
  EXPECT_EQ(with([](OpDef& op) { op.infer = {}; }), "it has no shape and dtype rule (infer)");
  EXPECT_EQ(with([](OpDef& op) { op.monoid = kSumReduce.monoid; }),
            "it has more than one of elementwise, monoid and evaluate");
  EXPECT_EQ(with([](OpDef& op) { op.elementwise = {}; }), "it has none of elementwise, monoid and evaluate");
  EXPECT_EQ(with([](OpDef& op) { op.traits = Trait::None; }),
            "the trait Elementwise and an elementwise kernel come together or not at all");
  EXPECT_EQ(with([](OpDef& op) { op.lower = {}; }), "it is elementwise and has no lowering (lower)");
  EXPECT_EQ(with([](OpDef& op) { op.traits = op.traits | Trait::Leaf; }),
            "the trait Leaf and arity 0 come together or not at all");
  EXPECT_EQ(with([](OpDef& op) { op.traits = op.traits | Trait::Commutative; }),
            "it is commutative and does not take two inputs");
  EXPECT_EQ(with([](OpDef& op) {
              op.traits = op.traits | Trait::ZeroGradient;
              op.gradient = kExp2.gradient;
            }),
            "it has a gradient and a trait that says that there is none");
  EXPECT_EQ(with([](OpDef& op) { op.doc = {}; }), "it has no documentation (doc)");
}

// Traits are promises to rules and passes; the kernels keep them.
TEST(Registry, KernelsKeepTheTraits) {
  for (const OpDef* op : ops::built_in_ops()) {
    if (!op->is(Trait::Elementwise) || op->arity > 2) continue;
    const Dtype dtype =
        op->elementwise(std::vector<Dtype>(2, Dtype::F64), Dtype::F64) != nullptr ? Dtype::F64 : Dtype::I64;
    if (op->name == "cast" || op->name == "bitcast" || op->name == "less_than") continue;
    const auto apply = [&](double a, double b) {
      double out = 0;
      int64_t integers[2] = {static_cast<int64_t>(a), static_cast<int64_t>(b)}, result = 0;
      const bool real = dtype == Dtype::F64;
      const void* inputs[2] = {real ? static_cast<const void*>(&a) : &integers[0],
                               real ? static_cast<const void*>(&b) : &integers[1]};
      op->elementwise(std::vector<Dtype>(2, dtype), dtype)(
          inputs, real ? static_cast<void*>(&out) : &result, 1,
          op->variants.empty() ? Attributes{} : op->variants[0]);
      return real ? out : static_cast<double>(result);
    };
    for (const double a : {-3.0, -1.0, 0.0, 2.0, 5.0})
      for (const double b : {-3.0, -1.0, 0.0, 2.0, 5.0}) {
        EXPECT_TRUE(!op->is(Trait::Commutative) || apply(a, b) == apply(b, a)) << op->name << a << " " << b;
        EXPECT_TRUE(!op->is(Trait::Idempotent) || apply(a, a) == a) << op->name << a;
        EXPECT_TRUE(!op->is(Trait::Associative) || apply(apply(a, b), 2) == apply(a, apply(b, 2)))
            << op->name << a << " " << b;
        if (!op->is(Trait::Monotone) || a > b) continue;
        EXPECT_FALSE(apply(a, 2) > apply(b, 2)) << op->name << a << " " << b;
        EXPECT_FALSE(op->arity == 2 && apply(2, a) > apply(2, b)) << op->name << a << " " << b;
      }
  }
}

}  // namespace
}  // namespace luminal
