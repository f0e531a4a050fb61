#include "base/threads.h"
#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/quantized.h"
#include "ops/indexing.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_gather(std::span<const TensorType> inputs, const Attributes&) {
  ops::check_arity("gather", inputs, 2);
  ops::check_index("gather", inputs[1]);
  return {{is_quantized(inputs[0].dtype) ? Dtype::F32 : inputs[0].dtype, inputs[1].dims}};
}

template <class Bits>
void gather_bits(const TensorData& data, std::span<const int64_t> positions, std::span<Bits> out) {
  const auto* from = reinterpret_cast<const Bits*>(data.bytes.data());  // whatever the bits mean
  for (size_t i = 0; i < positions.size(); ++i) out[i] = from[static_cast<size_t>(positions[i])];
}

/// Neighbouring positions, as rows of an embedding have them, are dequantised together.
void gather_blocks(const TensorData& data, std::span<const int64_t> positions, std::span<float> out) {
  for (size_t i = 0; i < positions.size();) {
    size_t n = 1;
    while (i + n < positions.size() && positions[i + n] == positions[i] + static_cast<int64_t>(n)) ++n;
    dequantize(data.dtype, data.bytes.data(), positions[i], out.subspan(i, n));
    i += n;
  }
}

void gather(EvalContext& context) {
  constexpr int64_t kGrain = int64_t{1} << 15;
  const TensorData& data = *context.inputs[0];
  const ops::FlatPositions positions("gather", *context.inputs[1], data, context.attributes);
  TensorData& out = context.outputs[0];
  const auto gather_some = [&](int64_t begin, int64_t end) {
    positions.for_each_piece(begin, end, [&](int64_t first, std::span<const int64_t> piece) {
      const auto at = static_cast<size_t>(first);
      if (is_quantized(data.dtype))
        return gather_blocks(data, piece, out.as<float>().subspan(at, piece.size()));
      visit_word(data.dtype, [&]<class Word>(Word) {
        gather_bits<Word>(data, piece, {reinterpret_cast<Word*>(out.bytes.data()) + at, piece.size()});
      });
    });
  };
  positions.checked([&] { parallel_for(positions.count(), kGrain, gather_some); });
}

}  // namespace

const OpDef kGather = {
    .name = "gather",
    .arity = 2,
    .infer = infer_gather,
    .evaluate = gather,
    .gradient =
        [](Gradient& g) {
          if (!g.wants(0)) return;
          Graph graph = g.upstream().graph();
          const GraphTensor& data = g.input(0);
          g.to(0, graph.add_op(kScatter)
                      .input(graph.zeros(data.dims(), data.dtype()))
                      .input(g.input(1))
                      .input(g.upstream())
                      .attribute("mode", std::string("add"))
                      .finish());
        },
    .flops_per_element = 0,
    .positions_input = 1,
    .doc =
        "Elements of the first input at the flat positions in the second, whose dims the result has. A "
        "position outside is an error at run time. Block-quantised data gives f32.",
};

}  // namespace luminal
