#include "rule/law_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/hash.h"
#include "kernel/evaluate.h"
#include "luminal/reference.h"
#include "rule/examples.h"
#include "unit/passes/random_graph.h"
#include "unit/search/pipeline.h"

namespace luminal::search::test {
namespace {

using luminal::test::RandomGraph;

template <class T>
size_t at(T i) {
  return static_cast<size_t>(i);
}

enum class Inputs { Plain, Special, GreatFirst, SmallFirst };

std::vector<Inputs> inputs_of(MathMode mode) {
  if (mode == MathMode::Fast) return {Inputs::Plain};
  if (mode == MathMode::Relaxed) return {Inputs::Plain, Inputs::GreatFirst, Inputs::SmallFirst};
  return {Inputs::Plain, Inputs::Special, Inputs::GreatFirst, Inputs::SmallFirst};
}

/// `number`: how many inputs there were before.
double input_value(Inputs kind, int number, std::mt19937_64& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kSpecial[] = {
      0.0,   -0.0, 1.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
      1e-40, 3e38, -3,  0.5,  -6e-8,     7,          -1e30};
  const double plain = static_cast<double>(random() % 4000) / 1000.0 - 2.0003;
  switch (kind) {
    case Inputs::Plain:
      return plain;
    case Inputs::Special:
      return random() % 2 == 0 ? kSpecial[random() % std::size(kSpecial)] : plain;
    case Inputs::GreatFirst:
    case Inputs::SmallFirst:
      return ((kind == Inputs::GreatFirst) == (number == 0) ? 2e37 : 1e-36) * (1 + std::abs(plain));
  }
  return 0;
}

TensorData input_data(const TensorType& type, Inputs kind, int number, std::mt19937_64& random) {
  TensorData data(type.dtype, exec(type.dims, {}));
  visit_dtype(type.dtype, [&]<class T>(T) {
    for (T& x : data.as<T>())
      if constexpr (std::is_integral_v<T>)
        x = static_cast<T>(random() % 9);
      else
        x = static_cast<T>(input_value(kind, number, random));
  });
  return data;
}

/// Every tensor of the program, kernel by kernel, over what the graph holds or else inputs of this kind.
std::vector<TensorData> values_of(const Graph& graph, const KernelGraph& kernel_graph, Inputs kind,
                                  uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TensorData> values;
  int number = 0;
  const auto all = [&](const std::vector<TensorId>& ids) {
    std::vector<TensorData> list;
    for (const TensorId id : ids) list.push_back(values[at(id)]);
    return list;
  };
  for (const KernelGraph::Tensor& tensor : kernel_graph.tensors) {
    if (tensor.kind == KernelGraph::Tensor::Kind::Kernel) {
      values.push_back(kernel::evaluate(tensor.spec, all(tensor.arguments), graph.dims())[0]);
    } else if (tensor.kind == KernelGraph::Tensor::Kind::Host) {
      const KernelGraph::Host& host = kernel_graph.hosts[at(tensor.host)];
      std::vector<TensorData> inputs = all(host.inputs);
      for (size_t k = 0; k < inputs.size(); ++k)
        inputs[k].dims = exec(kernel_graph.tensors[at(host.inputs[k])].type.dims, graph.dims());
      const Node& node = graph.node(host.node);
      values.push_back(
          evaluate_op(*node.op, node.attributes, inputs, graph.dims(), graph.step())[at(tensor.output)]);
    } else {
      const auto given = graph.value(*tensor.value);
      values.push_back(given != nullptr ? *given : input_data(tensor.type, kind, number, random));
      ++number;
    }
  }
  return values;
}

bool same_bits(const TensorData& a, const TensorData& b) {
  bool same = true;
  visit_dtype(a.dtype, [&]<class T>(T) {
    const auto x = a.as<T>(), y = b.as<T>();
    for (size_t i = 0; i < x.size(); ++i)
      if constexpr (!std::is_integral_v<T>)
        same = same && ((std::isnan(static_cast<double>(x[i])) && std::isnan(static_cast<double>(y[i]))) ||
                        std::memcmp(&x[i], &y[i], sizeof(T)) == 0);
      else
        same = same && x[i] == y[i];
  });
  return same;
}

/// Empty if `got` is what is `wanted`, as far as the mode promises.
std::string difference(const TensorData& got, const TensorData& wanted, MathMode mode) {
  if (got.dtype != wanted.dtype || got.bytes.size() != wanted.bytes.size()) return "other elements";
  if (same_bits(got, wanted)) return {};
  const auto x = elements(got), y = elements(wanted);
  double greatest = 1e-30;  // subnormal numbers round coarsely
  for (const double each : y)
    if (std::isfinite(each)) greatest = std::max(greatest, std::abs(each));
  // An integer may come of a float that rounded.
  const double error = (is_float(got.dtype) ? 1e-4 : 1e-12) * greatest;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool differ = mode == MathMode::Strict ? x[i] != y[i] || std::signbit(x[i]) != std::signbit(y[i])
                                                 : std::isfinite(y[i]) && !(std::abs(x[i] - y[i]) <= error);
    if (differ && !(std::isnan(x[i]) && std::isnan(y[i])))
      return fmt::format("element {} is {}, not {}", i, x[i], y[i]);
  }
  return {};
}

/// The values of one set of inputs against all kernels of all classes.
std::string compare_classes(const SaturatedGraph& saturated, SpecStore& store, const Subject& subject,
                            const std::vector<TensorData>& values, MathMode mode) {
  const CoverProblem& problem = saturated.cover;
  std::vector<std::unique_ptr<TensorData>> known(problem.classes.size());
  for (size_t t = 0; t < values.size(); ++t) {
    auto& own = known[at(saturated.class_of[t])];
    if (own == nullptr)
      own = std::make_unique<TensorData>(values[t]);
    else if (const std::string text = difference(values[t], *own, mode); !text.empty())
      return "two tensors of a class: " + text;
  }
  std::vector<std::vector<bool>> done(problem.classes.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (size_t c = 0; c < problem.classes.size(); ++c) {
      const auto& alternatives = problem.classes[c].alternatives;
      done[c].resize(alternatives.size(), false);
      for (size_t k = 0; k < alternatives.size(); ++k) {
        const auto ready = [&](int argument) { return known[at(argument)] != nullptr; };
        if (done[c][k] || !std::ranges::all_of(alternatives[k].arguments, ready)) continue;
        done[c][k] = progress = true;
        std::vector<TensorData> slots;
        for (const int argument : alternatives[k].arguments) slots.push_back(*known[at(argument)]);
        TensorData result = kernel::evaluate(store.at(alternatives[k].spec), slots, subject.dims)[0];
        if (known[c] == nullptr)
          known[c] = std::make_unique<TensorData>(std::move(result));
        else if (const std::string text = difference(result, *known[c], mode); !text.empty())
          return text + " by\n" + store.at(alternatives[k].spec).to_string();
      }
    }
  }
  return {};
}

/// Colours refined by kernels and what they read, as often as kernels follow each other in what rules make.
std::vector<uint64_t> signature_of(const SaturatedGraph& saturated, const SpecStore& store) {
  constexpr int kRounds = 6;
  std::vector<uint64_t> colours;
  for (const auto& tensors : saturated.tensors_of)
    colours.push_back(hash_bytes(tensors.data(), tensors.size() * sizeof(TensorId)));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint64_t> next;
    for (size_t c = 0; c < colours.size(); ++c) {
      uint64_t sum = 0;
      for (const auto& alternative : saturated.cover.classes[c].alternatives) {
        uint64_t one = store.at(alternative.spec).hash();
        for (const int argument : alternative.arguments) one = combine(one, colours[at(argument)]);
        sum += combine(one, 1);
      }
      next.push_back(combine(colours[c], sum));
    }
    colours = std::move(next);
  }
  std::ranges::sort(colours);
  return colours;
}

}  // namespace

uint64_t Outcome::applied(std::string_view rule) const {
  for (const auto& each : report.rules)
    if (each.name == rule) return each.applied;
  return 0;
}

Subject example_subject(const std::string& name, MathMode mode) {
  Graph graph;
  examples().at(name)(graph);
  Subject subject{
      .name = name, .kernel_graph = encode(graph, false, mode), .dims = graph.dims(), .values = {}};
  for (const Inputs kind : inputs_of(mode))
    for (const uint64_t seed : {1, 2})
      subject.values.push_back(values_of(graph, subject.kernel_graph, kind, seed));
  return subject;
}

Subject random_subject(uint64_t seed, MathMode mode) {
  RandomGraph random(seed, mode == MathMode::Strict ? RandomGraph::Kind::Wild : RandomGraph::Kind::Tame);
  Graph& graph = random.graph();
  Subject subject{.name = fmt::format("seed {}", seed),
                  .kernel_graph = encode(graph, false, mode),
                  .dims = {},
                  .values = {}};
  subject.values.push_back(values_of(graph, subject.kernel_graph, Inputs::Plain, seed));
  return subject;
}

Subject fused(const Subject& subject, MathMode mode) {
  Subject result = subject;
  result.name += ", fused";
  std::vector<int> readers(subject.kernel_graph.tensors.size(), 0);
  for (const KernelGraph::Tensor& tensor : subject.kernel_graph.tensors)
    for (const TensorId id : tensor.arguments) ++readers[at(id)];
  for (KernelGraph::Tensor& tensor : result.kernel_graph.tensors)
    for (size_t slot = 0; slot < tensor.arguments.size(); ++slot) {
      const TensorId read = tensor.arguments[slot];
      const KernelGraph::Tensor& producer = result.kernel_graph.tensors[at(read)];
      if (tensor.kind != KernelGraph::Tensor::Kind::Kernel || producer.kind != tensor.kind ||
          readers[at(read)] != 1)
        continue;
      const std::vector<uint32_t> own(tensor.arguments.begin(), tensor.arguments.end()),
          given(producer.arguments.begin(), producer.arguments.end());
      const auto composed =
          kernel::compose(tensor.spec, static_cast<int>(slot), producer.spec, own, given, {.mode = mode});
      if (!composed) continue;
      std::vector<TensorId> arguments;
      for (const auto& from : composed->slots)
        arguments.push_back((from.producer ? producer.arguments : tensor.arguments)[at(from.slot)]);
      tensor.spec = composed->spec;
      tensor.arguments = std::move(arguments);
      slot = static_cast<size_t>(-1);  // from the start: slots have moved
    }
  return result;
}

Outcome judge_laws(Language& language, const Subject& subject, MathMode mode, bool with_values) {
  Outcome outcome;
  try {
    const auto classes = language.load(subject.kernel_graph);
    outcome.report = language.saturate();
    const SaturatedGraph saturated = read_classes(language, subject.kernel_graph, classes);
    outcome.signature = signature_of(saturated, language.store());
    for (const auto& values : subject.values)
      if (with_values && outcome.fault.empty())
        outcome.fault = compare_classes(saturated, language.store(), subject, values, mode);
  } catch (const std::exception& error) {
    outcome.fault = error.what();
  }
  return outcome;
}

}  // namespace luminal::search::test
