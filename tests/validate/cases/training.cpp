#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "luminal/autograd.h"
#include "luminal/nn.h"
#include "luminal/training.h"
#include "validate/cases/case.h"

// Losses, optimizers over 100 steps, schedules, and the statistics of random numbers.
namespace luminal::validate {
namespace {

using T = Tensors;
namespace tr = luminal::training;

// --- Losses

void add_losses(Suite& suite) {
  const auto add = [&](const char* group, std::string torch, std::vector<InputSpec> inputs, Build build) {
    suite.specs.push_back({.group = std::string("loss ") + group,
                           .torch = std::move(torch),
                           .inputs = std::move(inputs),
                           .build = std::move(build),
                           .ulps = 64,
                           .single = true});
  };
  const InputSpec x{{4, 5}}, logs{{4, 5}, -3, 0}, y{{4, 5}, -2, 2, Values::Uniform, {}, false};
  for (const auto& [how, text] :
       {std::pair{tr::Reduce::Mean, "mean"}, {tr::Reduce::Sum, "sum"}, {tr::Reduce::None, "none"}}) {
    const auto r = how;
    add("mse", fmt::format("F.mse_loss(x, y, reduction='{}')", text), {x, y},
        [r](Graph&, const T& in) { return T{tr::mse(in[0], in[1], r)}; });
    add("mae", fmt::format("F.l1_loss(x, y, reduction='{}')", text), {x, y},
        [r](Graph&, const T& in) { return T{tr::mae(in[0], in[1], r)}; });
    add("huber", fmt::format("F.huber_loss(x, y, reduction='{}', delta=0.7)", text), {x, y},
        [r](Graph&, const T& in) { return T{tr::huber(in[0], in[1], 0.7, r)}; });
    add("smooth_l1", fmt::format("F.smooth_l1_loss(x, y, reduction='{}', beta=0.5)", text), {x, y},
        [r](Graph&, const T& in) { return T{tr::smooth_l1(in[0], in[1], 0.5, r)}; });
    const InputSpec target{{4}, 0, 5, Values::Integers, Dtype::I64};
    for (const double smoothing : {0.0, 0.1})
      add("cross_entropy",
          fmt::format("F.cross_entropy(x, y, reduction='{}', label_smoothing={}, ignore_index=3)", text,
                      smoothing),
          {x, target}, [r, smoothing](Graph&, const T& in) {
            return T{tr::cross_entropy(in[0], in[1],
                                       {.label_smoothing = smoothing, .ignore_index = 3, .reduce = r})};
          });
    const InputSpec probabilities{{4, 5}, 0, 1, Values::Uniform, {}, false};
    add("cross_entropy", fmt::format("F.cross_entropy(x, y, reduction='{}')", text), {x, probabilities},
        [r](Graph&, const T& in) { return T{tr::cross_entropy(in[0], in[1], {.reduce = r})}; });
    add("nll", fmt::format("F.nll_loss(x, y, reduction='{}')", text), {logs, target},
        [r](Graph&, const T& in) { return T{tr::nll(in[0], in[1], {.reduce = r})}; });
    add("kl_div", fmt::format("F.kl_div(x, y, reduction='{}')", text), {logs, probabilities},
        [r](Graph&, const T& in) { return T{tr::kl_div(in[0], in[1], {.reduce = r})}; });
    add("binary_cross_entropy", fmt::format("F.binary_cross_entropy(x, y, reduction='{}')", text),
        {{{4, 5}, 0.05, 0.95}, probabilities},
        [r](Graph&, const T& in) { return T{tr::binary_cross_entropy(in[0], in[1], {.reduce = r})}; });
    add("binary_cross_entropy_with_logits",
        fmt::format("F.binary_cross_entropy_with_logits(x, y, reduction='{}')", text), {x, probabilities},
        [r](Graph&, const T& in) {
          return T{tr::binary_cross_entropy_with_logits(in[0], in[1], {.reduce = r})};
        });
    add("focal", fmt::format("FOCAL(x, y, '{}')", text), {x, {{4, 5}, 0, 2, Values::Integers, {}, false}},
        [r](Graph&, const T& in) { return T{tr::focal(in[0], in[1], {.reduce = r})}; });
  }
  add("rmse", "F.mse_loss(x, y).sqrt()", {x, y},
      [](Graph&, const T& in) { return T{tr::rmse(in[0], in[1])}; });
  add("kl_div", "F.kl_div(x, y, reduction='batchmean', log_target=True)",
      {logs, {{4, 5}, -3, 0, Values::Uniform, {}, false}}, [](Graph&, const T& in) {
        return T{tr::kl_div(in[0], in[1], {.reduce = tr::Reduce::BatchMean, .log_target = true})};
      });
  const InputSpec deep{{2, 5, 3}}, places{{2, 3}, 0, 5, Values::Integers, Dtype::I64};
  add("cross_entropy", "F.cross_entropy(x, y)", {deep, places},
      [](Graph&, const T& in) { return T{tr::cross_entropy(in[0], in[1])}; });
}

// --- Optimizers: a small network on fixed data, in f64 so that 100 steps leave their formula alone to
// compare

constexpr int64_t kSteps = 100;

TensorData counted(std::vector<int64_t> dims, double scale, double shift) {
  TensorData data(Dtype::F64, std::move(dims));
  const auto values = data.as<double>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = scale * std::sin(1.7 * static_cast<double>(i + 1)) + shift;
  return data;
}

using MakeOptimizer = std::function<void(Graph&, const T& weights, const T& gradients)>;

/// The weights after 1, 10 and 100 steps, and the losses of all steps.
Results optimized(const Place& place, const MakeOptimizer& make) {
  Graph cx;
  cx.set_device(place.device);
  GraphTensor x = cx.tensor({8, 4}, Dtype::F64).set(counted({8, 4}, 1, 0));
  GraphTensor y = cx.tensor({8, 2}, Dtype::F64).set(counted({8, 2}, 0.5, 0.2));
  T weights{cx.tensor({4, 6}, Dtype::F64), cx.tensor({6}, Dtype::F64), cx.tensor({6, 2}, Dtype::F64)};
  weights[0].set(counted({4, 6}, 0.5, 0));
  weights[1].set(counted({6}, 0.1, 0));
  weights[2].set(counted({6, 2}, 0.5, 0.1));
  GraphTensor loss = tr::mse((x.matmul(weights[0]) + weights[1]).tanh().matmul(weights[2]), y);
  const T gradients = cx.run_pass(Autograd(weights, loss));
  make(cx, weights, gradients);
  loss.retrieve();
  Results results;
  const std::function<void()> run = runner(cx, place);
  TensorData losses(Dtype::F64, {kSteps});
  for (int64_t step = 1; step <= kSteps; ++step) {
    run();
    losses.as<double>()[static_cast<size_t>(step - 1)] = loss.data<double>()[0];
    if (step == 1 || step == 10 || step == kSteps)
      for (size_t i = 0; i < weights.size(); ++i)
        results.emplace(fmt::format("out/{}/{}", step, i), weights[i].data());
  }
  results.emplace("out/losses", std::move(losses));
  return results;
}

template <class Optimizer>
void add_optimizer(Suite& suite, const char* name, std::string torch, typename Optimizer::Options options,
                   double tolerance = 1e-9) {
  ProcedureSpec spec;
  spec.group = std::string("optimizer ") + name;
  spec.label = torch;
  spec.torch = fmt::format("procedures.optimized(lambda p: {})", torch);
  spec.tolerance = tolerance;
  spec.searched = true;
  spec.run = [options](const Place& place) {
    return optimized(place, [&](Graph& cx, const T& weights, const T& gradients) {
      Optimizer(cx, weights, gradients, options);
    });
  };
  suite.procedures.push_back(std::move(spec));
}

void add_optimizers(Suite& suite) {
  add_optimizer<tr::SGD>(suite, "SGD", "torch.optim.SGD(p, lr=0.1)", {.learning_rate = 0.1});
  add_optimizer<tr::SGD>(suite, "SGD",
                         "torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.1, weight_decay=0.01)",
                         {.learning_rate = 0.05, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01});
  add_optimizer<tr::SGD>(suite, "SGD", "torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)",
                         {.learning_rate = 0.05, .momentum = 0.9, .nesterov = true});
  add_optimizer<tr::Adam>(suite, "Adam", "torch.optim.Adam(p, lr=0.01)", {.learning_rate = 0.01});
  add_optimizer<tr::Adam>(
      suite, "Adam", "torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1)",
      {.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1});
  add_optimizer<tr::Adam>(suite, "Adam", "torch.optim.Adam(p, lr=0.01, amsgrad=True)",
                          {.learning_rate = 0.01, .amsgrad = true});
  add_optimizer<tr::AdamW>(suite, "AdamW", "torch.optim.AdamW(p, lr=0.01)", {.learning_rate = 0.01});
  add_optimizer<tr::AdamW>(suite, "AdamW", "torch.optim.AdamW(p, lr=0.01, weight_decay=0.2, amsgrad=True)",
                           {.learning_rate = 0.01, .weight_decay = 0.2, .amsgrad = true});
  // Near a minimum RMSprop's steps keep their length and only change sign, so rounding errors grow with each
  // step: the same weights to 16 digits after 10 steps, to 7 or 9 after 100.
  constexpr double kChaotic = 1e-5;
  add_optimizer<tr::RMSprop>(suite, "RMSprop", "torch.optim.RMSprop(p, lr=0.01)", {.learning_rate = 0.01},
                             kChaotic);
  add_optimizer<tr::RMSprop>(
      suite, "RMSprop",
      "torch.optim.RMSprop(p, lr=0.01, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.05)",
      {.learning_rate = 0.01, .alpha = 0.9, .weight_decay = 0.05, .momentum = 0.5, .centered = true},
      kChaotic);
  add_optimizer<tr::LAMB>(suite, "LAMB", "procedures.Lamb(p, lr=0.01)", {.learning_rate = 0.01});
  add_optimizer<tr::Lion>(suite, "Lion", "procedures.Lion(p, lr=0.001, weight_decay=0.1)",
                          {.learning_rate = 0.001, .weight_decay = 0.1});
}

// --- Clipping

void add_clipping(Suite& suite) {
  const std::vector<InputSpec> two{{{3, 4}}, {{5}}};
  for (const char* type : {"1.0", "2.0", "3.0", "float('inf')"}) {
    const double norm = std::string(type).starts_with("float") ? HUGE_VAL : std::stod(type);
    suite.specs.push_back({.group = "clip_grad_norm",
                           .torch = fmt::format("CLIPPED(procedures.clip_norm((x, y), 1.5, {}))", type),
                           .inputs = two,
                           .build =
                               [norm](Graph&, const T& in) {
                                 const auto clipped = tr::clip_grad_norm(in, 1.5, norm);
                                 return T{clipped.gradients[0], clipped.gradients[1], clipped.norm};
                               },
                           .gradient = false,
                           .ulps = 64});
  }
  suite.specs.push_back({.group = "clip_grad_value",
                         .torch = "x.clamp(-0.5, 0.5), y.clamp(-0.5, 0.5)",
                         .inputs = two,
                         .build = [](Graph&, const T& in) { return tr::clip_grad_value(in, 0.5); },
                         .gradient = false});
}

// --- Schedules

void add_schedule(Suite& suite, const char* name, std::string torch, std::function<double(int64_t)> rate) {
  ProcedureSpec spec;
  spec.group = std::string("schedule ") + name;
  spec.label = torch;
  spec.torch = fmt::format("procedures.rates(lambda o: {})", torch);
  spec.tolerance = 1e-10;
  spec.run = [rate = std::move(rate)](const Place&) {
    TensorData rates(Dtype::F64, {kSteps});
    for (int64_t step = 0; step < kSteps; ++step) rates.as<double>()[static_cast<size_t>(step)] = rate(step);
    return Results{{"out/rates", std::move(rates)}};
  };
  suite.procedures.push_back(std::move(spec));
}

void add_schedules(Suite& suite) {
  // The optimizer `o` has a learning rate of 0.1.
  add_schedule(suite, "constant", "S.ConstantLR(o, 1.0)", tr::ConstantSchedule{.rate = 0.1});
  add_schedule(suite, "step", "S.StepLR(o, 30, 0.5)",
               tr::StepSchedule{.start = 0.1, .every = 30, .gamma = 0.5});
  add_schedule(suite, "exponential", "S.ExponentialLR(o, 0.97)",
               tr::ExponentialSchedule{.start = 0.1, .gamma = 0.97});
  add_schedule(suite, "cosine", "S.CosineAnnealingLR(o, 100, 0.01)",
               tr::CosineSchedule{.start = 0.1, .steps = 100, .floor = 0.01});
  add_schedule(suite, "linear", "S.LinearLR(o, 0.2, 0.8, 40)",
               tr::LinearSchedule{.start = 0.1, .start_factor = 0.2, .end_factor = 0.8, .steps = 40});
  add_schedule(suite, "polynomial", "S.PolynomialLR(o, 60, 2.0)",
               tr::PolynomialSchedule{.start = 0.1, .steps = 60, .power = 2});
  for (const bool linear : {false, true})
    add_schedule(suite, "one cycle",
                 fmt::format("S.OneCycleLR(o, 0.5, total_steps=100, pct_start=0.3, anneal_strategy='{}')",
                             linear ? "linear" : "cos"),
                 tr::OneCycleSchedule{.max = 0.5, .steps = 100, .linear = linear});
  add_schedule(suite, "warm-up cosine", "procedures.warmup_cosine(o, 10, 100)",
               tr::WarmupCosineSchedule{.peak = 0.1, .warmup = 10, .steps = 100});
  ProcedureSpec plateau;
  plateau.group = "schedule reduce on plateau";
  plateau.label = "metrics that stall";
  plateau.torch = "procedures.plateau()";
  plateau.tolerance = 1e-10;
  plateau.run = [](const Place&) {
    tr::ReduceOnPlateau schedule({.start = 0.1, .factor = 0.5, .patience = 3, .cooldown = 2});
    TensorData rates(Dtype::F64, {kSteps});
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto at = static_cast<double>(step);
      rates.as<double>()[static_cast<size_t>(step)] =
          schedule.update(1 / (1 + std::floor(at / 12)) + 0.01 * std::sin(at));
    }
    return Results{{"out/rates", std::move(rates)}};
  };
  suite.procedures.push_back(std::move(plateau));
}

// --- Random numbers: the expression gives how far the sample is from the distribution, in units of what
// chance allows at one in a million.

void add_random(Suite& suite, const char* name, std::string torch, std::function<GraphTensor(Graph&)> draw) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{7}}) {
    ProcedureSpec spec;
    spec.group = std::string("random ") + name;
    spec.label = fmt::format("{}, seed {}", torch, seed);
    spec.torch = fmt::format("procedures.{}", torch);
    spec.tolerance = 1;
    spec.torch_gives_error = true;
    spec.run = [draw, seed](const Place& place) {
      Graph cx;
      cx.set_device(place.device);
      cx.set_seed(seed);
      const GraphTensor first = draw(cx).retrieve(), second = draw(cx).retrieve();
      const std::function<void()> run = runner(cx, place);
      run();
      Results results{{"out/first", first.data()}, {"out/second", second.data()}};
      run();
      results.emplace("out/next run", first.data());
      return results;
    };
    suite.procedures.push_back(std::move(spec));
  }
}

void add_distributions(Suite& suite) {
  constexpr int64_t kCount = 1 << 16;
  for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
    const char* bits = dtype == Dtype::F32 ? "" : " f64";
    add_random(suite, "uniform", fmt::format("uniform(t, 0, 1) #{}", bits),
               [=](Graph& cx) { return cx.uniform({kCount}, 0, 1, dtype); });
    add_random(suite, "uniform", fmt::format("uniform(t, -3, 5) #{}", bits),
               [=](Graph& cx) { return cx.uniform({kCount}, -3, 5, dtype); });
    add_random(suite, "normal", fmt::format("normal(t, 0, 1) #{}", bits),
               [=](Graph& cx) { return cx.normal({kCount}, 0, 1, dtype); });
    add_random(suite, "normal", fmt::format("normal(t, 2, 0.5) #{}", bits),
               [=](Graph& cx) { return cx.normal({kCount}, 2, 0.5, dtype); });
  }
  for (const char* p : {"0.1", "0.5", "0.9"})
    add_random(suite, "dropout", fmt::format("dropout(t, {})", p),
               [p = std::stod(p)](Graph& cx) { return cx.ones({kCount}).dropout(p); });
}

}  // namespace

void add_training(Suite& suite) {
  add_losses(suite);
  add_optimizers(suite);
  add_clipping(suite);
  add_schedules(suite);
  add_distributions(suite);
}

}  // namespace luminal::validate
