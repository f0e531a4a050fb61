#include <gtest/gtest.h>

#include <random>

#include "base/hash.h"
#include "luminal/ops.h"
#include "runtime/blocks.h"
#include "support/effort.h"
#include "unit/runtime/fakes.h"

// Random plans, run by the executor with everything it does (one arena, in place, states, host ops, threads,
// several sizes) and by an oracle that gives every tensor memory of its own and runs launch by launch.
namespace luminal::runtime::test {
namespace {

using Values = std::vector<int64_t>;

int64_t mixed(int64_t a, int64_t b, int64_t salt) {
  return static_cast<int64_t>(
      combine(combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)), static_cast<uint64_t>(salt)));
}

/// a + b around the end of 64 bits.
int64_t wrapped(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

/// out[i] = mixed(a[i], b[i]).
std::shared_ptr<FakeKernel> plain(int64_t salt) {
  return elementwise(2, [salt](const int64_t* x) { return mixed(x[0], x[1], salt); }, "n");
}
/// out[i] = mixed(a[n - 1 - i], b[i]): the first input may not be overwritten.
std::shared_ptr<FakeKernel> reversed(int64_t salt) {
  const auto body = [salt](const TaskView& v, int64_t task) {
    for (int64_t i = task * kGrain; i < std::min(v.n, (task + 1) * kGrain); ++i)
      v.buffer(2)[i] = mixed(v.buffer(0)[v.n - 1 - i], v.buffer(1)[i], salt);
  };
  return std::make_shared<FakeKernel>(std::vector<FakeKernel::Stage>{{grains, body}}, "n");
}
/// out[i] = mixed(a[i], sum of b): two stages with a shared workspace, and a local one that is dirtied.
std::shared_ptr<FakeKernel> summed(int64_t salt) {
  const auto sums = [](const TaskView& v, int64_t task) {
    int64_t sum = 0;
    for (int64_t i = task * kGrain; i < std::min(v.n, (task + 1) * kGrain); ++i)
      sum = wrapped(sum, v.buffer(1)[i]);
    v.local()[0] = sum;
    for (int i = 1; i < 8; ++i) v.local()[i] = -1;
    v.shared()[task] = v.local()[0];
  };
  const auto write = [salt](const TaskView& v, int64_t task) {
    int64_t sum = 0;
    for (int64_t i = 0; i < grains(v.n); ++i) sum = wrapped(sum, v.shared()[i]);
    for (int64_t i = task * kGrain; i < std::min(v.n, (task + 1) * kGrain); ++i)
      v.buffer(2)[i] = mixed(v.buffer(0)[i], sum, salt);
  };
  auto kernel =
      std::make_shared<FakeKernel>(std::vector<FakeKernel::Stage>{{grains, sums}, {grains, write}}, "n");
  kernel->with_workspace([](int64_t n) { return 8 * grains(n); }, 64);
  return kernel;
}

const OpDef kMixStep = {
    .name = "test_mix_step",
    .arity = 2,
    .infer = [](std::span<const TensorType> in, const Attributes&) { return std::vector<TensorType>{in[0]}; },
    .evaluate =
        [](EvalContext& context) {
          const auto a = context.inputs[0]->as<int64_t>(), b = context.inputs[1]->as<int64_t>();
          for (size_t i = 0; i < a.size(); ++i)
            context.outputs[0].as<int64_t>()[i] = mixed(a[i], b[i], static_cast<int64_t>(context.step));
        }};

enum class Kind { Plain, Reversed, Summed, Host };

class RandomPlan {
 public:
  explicit RandomPlan(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < 2 + below(3); ++i) {
      given_.push_back(cx.tensor({"n"}, Dtype::I64));
      builder_.input(given_.back());
    }
    const size_t launches = 1 + below(25);
    for (size_t i = 0; i < launches; ++i) add_launch();
    for (size_t i = 0; i < given_.size(); ++i) {
      const size_t kind = below(3);
      if (kind == 1) builder_.update(given_[i], any());
      if (kind == 2) {  // as optimizers do: the next value from the present one, element by element
        add_launch(Kind::Plain, static_cast<TensorIndex>(i), any());
        builder_.update(given_[i], builder_.last());
      }
    }
    for (size_t i = 0; i < 1 + below(4); ++i) {
      results_.push_back((given_[0] + static_cast<int64_t>(i)).retrieve());
      builder_.result(results_.back(), any());
    }
  }

  void run_and_compare() {
    Executor executor(backends::make_null_device(1 + static_cast<int>(below(3))), builder_.plan);
    std::vector<std::pair<std::shared_ptr<const TensorData>, Values>> held;
    int64_t n = 1;
    for (int run = 0; run < 6; ++run) {
      if (run == 0 || below(3) == 0) {
        n = static_cast<int64_t>(below(4) == 0 ? below(3) : below(700));
        for (size_t i = 0; i < given_.size(); ++i) set(i, n);
      } else if (below(3) == 0) {
        set(below(given_.size()), n);
      }
      std::map<Value, Values> expected = oracle(n);
      executor.run(cx);
      for (const auto& [value, values] : expected) {
        const auto data = cx.value(value);
        ASSERT_NE(data, nullptr);
        ASSERT_TRUE(std::ranges::equal(data->as<int64_t>(), values)) << "run " << run << "\n"
                                                                     << executor.plan().to_string();
        if (below(5) == 0) held.emplace_back(data, values);
      }
      for (const auto& [data, values] : held)
        ASSERT_TRUE(std::ranges::equal(data->as<int64_t>(), values)) << "somebody wrote into held data";
      cx.set_step(cx.step() + 1);
    }
  }

  [[nodiscard]] const Plan& plan() const { return builder_.plan; }

  Graph cx;

 private:
  size_t below(size_t bound) { return random_() % bound; }
  TensorIndex any() { return static_cast<TensorIndex>(below(builder_.plan.tensors.size())); }
  /// Late tensors more often: chains, so that there is something to do in place.
  TensorIndex recent() {
    const size_t count = builder_.plan.tensors.size();
    return below(2) == 0 ? any() : static_cast<TensorIndex>(count - 1 - below(std::min<size_t>(count, 3)));
  }

  void add_launch() { add_launch(static_cast<Kind>(below(8) == 0 ? 3 : below(3)), recent(), recent()); }
  void add_launch(Kind kind, TensorIndex a, TensorIndex b) {
    const TensorIndex out = builder_.computed({"n"});
    const auto salt = static_cast<int64_t>(kinds_.size());
    kinds_.push_back(kind);
    switch (kind) {
      case Kind::Plain:
        builder_.launch(plain(salt), {a, b}, {out}, {{0, 0}, {0, 1}});
        break;
      case Kind::Reversed:
        builder_.launch(reversed(salt), {a, b}, {out}, {{0, 1}});
        break;
      case Kind::Summed:
        builder_.launch(summed(salt), {a, b}, {out}, {{0, 0}, {0, 1}});
        break;
      case Kind::Host:
        builder_.host(kMixStep, {a, b}, {out});
        break;
    }
  }

  void set(size_t index, int64_t n) {
    Values values(static_cast<size_t>(n));
    for (int64_t& v : values) v = static_cast<int64_t>(random_());
    given_[index].set(values);
  }

  [[nodiscard]] Values stored(const Value& value) const {
    const auto data = cx.value(value)->as<int64_t>();
    return {data.begin(), data.end()};
  }

  /// What results and states are after a run on what the graph holds now.
  std::map<Value, Values> oracle(int64_t n) {
    const Plan& plan = builder_.plan;
    std::vector<Values> tensors(plan.tensors.size(), Values(static_cast<size_t>(n)));
    for (size_t i = 0; i < given_.size(); ++i) tensors[i] = stored(*plan.tensors[i].value);
    for (size_t l = 0; l < plan.launches.size(); ++l) {
      const Launch& launch = plan.launches[l];
      const auto& in = launch.inputs();
      const Values &a = tensors[static_cast<size_t>(in[0])], &b = tensors[static_cast<size_t>(in[1])];
      Values out(static_cast<size_t>(n));
      int64_t sum = 0;
      for (const int64_t v : b)
        sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(v));
      const auto salt = static_cast<int64_t>(l);
      for (size_t i = 0; i < out.size(); ++i) {
        const int64_t by_kind[] = {mixed(a[i], b[i], salt), mixed(a[out.size() - 1 - i], b[i], salt),
                                   mixed(a[i], sum, salt),
                                   mixed(a[i], b[i], static_cast<int64_t>(cx.step()))};
        out[i] = by_kind[static_cast<size_t>(kinds_[l])];
      }
      tensors[static_cast<size_t>(launch.outputs()[0])] = out;
    }
    std::map<Value, Values> expected;
    for (const PlanResult& result : plan.results)
      expected[result.value] = tensors[static_cast<size_t>(result.tensor)];
    for (const PlanUpdate& update : plan.updates)
      expected[update.state] = tensors[static_cast<size_t>(update.next)];
    return expected;
  }

  std::mt19937_64 random_;
  PlanBuilder builder_;
  std::vector<GraphTensor> given_, results_;
  std::vector<Kind> kinds_;
};

TEST(RandomPlans, GiveWhatSeparateBuffersGive) {
  const uint64_t seed = effort::seed(11);
  int in_place = 0, in_place_states = 0;
  for (int64_t round = 0; round < effort::cases(300, 10'000); ++round) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed + static_cast<uint64_t>(round));
    RandomPlan plan(seed + static_cast<uint64_t>(round));
    for (const Block& block : assign_blocks(plan.plan()).all) {
      in_place += block.tensors.size() > 1 ? 1 : 0;
      in_place_states += block.written ? 1 : 0;
    }
    ASSERT_NO_FATAL_FAILURE(plan.run_and_compare());
  }
  EXPECT_GT(in_place, 100);  // the cases are there
  EXPECT_GT(in_place_states, 10);
}

}  // namespace
}  // namespace luminal::runtime::test
