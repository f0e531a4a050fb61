#include "scalar/interpreter.h"

#include <algorithm>
#include <cstring>

#include "base/fail.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

constexpr int64_t kChunk = 256;  // elements: a few dozen buffers of 2 KiB stay in a second-level cache
constexpr uint32_t kNoPlace = ~uint32_t{0};

void fill(void* out, uint64_t bits, int64_t element_size, int64_t count) {
  auto* bytes = static_cast<char*>(out);
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(bytes + i * element_size, &bits, static_cast<size_t>(element_size));
}

/// The last step that reads each node; nodes that are outputs live to the end.
std::vector<size_t> last_uses(const ScalarFunction& f) {
  std::vector<size_t> last(f.nodes().size(), 0);
  for (size_t i = 0; i < f.nodes().size(); ++i)
    for (int k = 0; k < arity(f.nodes()[i].op); ++k)
      last[f.nodes()[i].operands[static_cast<size_t>(k)].index] = i;
  for (const Scalar s : f.outputs()) last[s.index] = f.nodes().size();
  return last;
}

}  // namespace

ScalarInterpreter::ScalarInterpreter(ScalarFunction function) : function_(std::move(function)) {
  const auto nodes = function_.nodes();
  place_.assign(nodes.size(), kNoPlace);
  const std::vector<size_t> last = last_uses(function_);
  std::vector<uint32_t> free;
  const auto take = [&] {
    if (free.empty()) return scratch_buffers_++;
    const uint32_t buffer = free.back();
    free.pop_back();
    return buffer;
  };
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const ScalarNode& n = nodes[i];
    if (n.op == ScalarOp::Constant) {
      constants_.push_back(i);
      place_[i] = scratch_buffers_++;  // filled once a run, so never given to another node
      continue;
    }
    if (arity(n.op) == 0) {
      leaves_.push_back(i);
      continue;
    }
    place_[i] = take();
    Step step{.kernel = nullptr, .out = i, .operands = {0, 0, 0}};
    for (int k = 0; k < arity(n.op); ++k) {
      const uint32_t operand = n.operands[static_cast<size_t>(k)].index;
      step.operands[k] = operand;
      const bool temporary = arity(nodes[operand].op) > 0;
      const bool seen = std::find(step.operands, step.operands + k, operand) != step.operands + k;
      if (temporary && !seen && last[operand] == i) free.push_back(place_[operand]);
    }
    step.kernel = element_kernel(n.op, n.dtype, nodes[step.operands[0]].dtype);
    steps_.push_back(step);
  }
}

void ScalarInterpreter::check_arguments(std::span<const void* const> inputs,
                                        std::span<const int64_t* const> coordinates,
                                        std::span<void* const> outputs) const {
  LUMINAL_CHECK(outputs.size() == function_.outputs().size(), "{} arrays for {} outputs", outputs.size(),
                function_.outputs().size());
  for (const uint32_t leaf : leaves_) {
    const ScalarNode& n = function_.nodes()[leaf];
    if (n.op == ScalarOp::Input)
      LUMINAL_CHECK(n.payload < inputs.size() && inputs[n.payload] != nullptr, "slot {} of {} arrays",
                    n.payload, inputs.size());
    else
      LUMINAL_CHECK(n.payload < coordinates.size() && coordinates[n.payload] != nullptr,
                    "axis {} of {} arrays", n.payload, coordinates.size());
  }
}

void ScalarInterpreter::operator()(int64_t count, std::span<const void* const> inputs,
                                   std::span<const int64_t* const> coordinates,
                                   std::span<void* const> outputs) const {
  if (count <= 0) return;
  check_arguments(inputs, coordinates, outputs);
  const auto nodes = function_.nodes();
  const int64_t chunk = std::min(count, kChunk);
  std::vector<uint64_t> scratch(scratch_buffers_ * static_cast<size_t>(chunk));
  std::vector<const void*> at(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    if (place_[i] != kNoPlace) at[i] = scratch.data() + place_[i] * static_cast<size_t>(chunk);
  for (const uint32_t i : constants_)
    fill(const_cast<void*>(at[i]), nodes[i].payload, element_bytes(nodes[i].dtype), chunk);

  for (int64_t begin = 0; begin < count; begin += chunk) {
    const int64_t n = std::min(chunk, count - begin);
    for (const uint32_t i : leaves_) {
      const void* base =
          nodes[i].op == ScalarOp::Input ? inputs[nodes[i].payload] : coordinates[nodes[i].payload];
      at[i] = static_cast<const char*>(base) + begin * element_bytes(nodes[i].dtype);
    }
    for (const Step& s : steps_)
      s.kernel(n, const_cast<void*>(at[s.out]), at[s.operands[0]], at[s.operands[1]], at[s.operands[2]]);
    // Outputs are copied last, so that an output may take the place of an input.
    for (size_t k = 0; k < outputs.size(); ++k) {
      const uint32_t node = function_.outputs()[k].index;
      const int64_t size = element_bytes(nodes[node].dtype);
      std::memmove(static_cast<char*>(outputs[k]) + begin * size, at[node], static_cast<size_t>(n * size));
    }
  }
}

}  // namespace luminal
