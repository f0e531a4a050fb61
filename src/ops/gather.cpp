#include <algorithm>
#include <array>

#include "base/copy_past_caches.h"
#include "base/threads.h"
#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "luminal/quantized.h"
#include "ops/indexing.h"

namespace luminal {
namespace {

constexpr int64_t kGatherGrain = int64_t{1} << 15;  // elements that are worth a thread

std::vector<TensorType> infer_gather(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("gather", inputs, 2);
  Shape dims = ops::indexed_dims("gather", inputs[0].dims, inputs[1], attributes);
  return {{is_quantized(inputs[0].dtype) ? Dtype::F32 : inputs[0].dtype, std::move(dims)}};
}

template <class Bits>
void gather_bits(const Bits* from, std::span<const int64_t> positions, Bits* out) {
  for (size_t i = 0; i < positions.size(); ++i) out[i] = from[positions[i]];
}

/// Neighbouring positions are dequantised together.
void gather_blocks(const TensorData& data, int64_t offset, std::span<const int64_t> positions,
                   std::span<float> out) {
  for (size_t i = 0; i < positions.size();) {
    size_t n = 1;
    while (i + n < positions.size() && positions[i + n] == positions[i] + static_cast<int64_t>(n)) ++n;
    dequantize(data.dtype, data.bytes.data(), offset + positions[i], out.subspan(i, n));
    i += n;
  }
}

void gather_elements(const ops::IndexedPlaces& places, const TensorData& data, TensorData& out) {
  const bool past_caches = out.bytes.size() > kPastCachesBytes;
  parallel_for(places.elements(), kGatherGrain, [&](int64_t begin, int64_t end) {
    const PastCaches copies;
    places.for_each_piece(begin, end, [&](int64_t first, int64_t offset, std::span<const int64_t> positions) {
      if (is_quantized(data.dtype))
        return gather_blocks(data, offset, positions,
                             out.as<float>().subspan(static_cast<size_t>(first), positions.size()));
      visit_word(data.dtype, [&]<class Word>(Word) {  // whatever the bits mean
        const Word* from = reinterpret_cast<const Word*>(data.bytes.data()) + offset;
        Word* to = reinterpret_cast<Word*>(out.bytes.data()) + first;
        if (!past_caches) return gather_bits(from, positions, to);
        std::array<Word, ops::IndexedPlaces::kPiece> found;
        gather_bits(from, positions, found.data());
        copy_past_caches(to, found.data(), positions.size() * sizeof(Word));
      });
    });
  });
}

/// Whole slices, or parts of long ones.
void gather_slices(const ops::IndexedPlaces& places, const TensorData& data, TensorData& out) {
  const int64_t inner = places.inner();
  const size_t bytes = is_quantized(data.dtype) ? 0 : element_bytes(data.dtype);
  const bool past_caches = out.bytes.size() > kPastCachesBytes;
  parallel_for(places.elements(), kGatherGrain, [&](int64_t begin, int64_t end) {
    const PastCaches copies;
    ops::IndexedPlaces::Buffer buffer;
    for (int64_t at = begin; at < end;) {
      const int64_t row = at / inner, i = at % inner, n = std::min(inner - i, end - at);
      const int64_t o = row / places.count(), j = row % places.count();
      const int64_t from = (o * places.length() + places.indices(j, 1, buffer)[0]) * inner + i;
      if (bytes == 0) {
        dequantize(data.dtype, data.bytes.data(), from,
                   out.as<float>().subspan(static_cast<size_t>(at), static_cast<size_t>(n)));
      } else {
        std::byte* to = out.bytes.data() + static_cast<size_t>(at) * bytes;
        const std::byte* source = data.bytes.data() + static_cast<size_t>(from) * bytes;
        const size_t length = static_cast<size_t>(n) * bytes;
        copy_out(to, source, length, past_caches);
      }
      at += n;
    }
  });
}

void gather(EvalContext& context) {
  constexpr int64_t kWideSlice = 16;  // elements; narrower ones are elements like others
  const TensorData& data = *context.inputs[0];
  TensorData& out = context.outputs[0];
  const ops::IndexedPlaces places("gather", *context.inputs[1], data, data.dims, context.attributes);
  const bool wide = places.form() == ops::IndexForm::Slices && places.inner() >= kWideSlice;
  places.checked([&] { wide ? gather_slices(places, data, out) : gather_elements(places, data, out); });
}

/// What is read adds up where it comes from.
void gather_gradient(Gradient& g) {
  if (!g.wants(0)) return;
  Graph graph = g.upstream().graph();
  const GraphTensor& data = g.input(0);
  auto node = graph.add_op(kScatter)
                  .input(graph.constant(0, data.dtype()))
                  .input(g.input(1))
                  .input(g.upstream())
                  .attribute("mode", std::string("add"))
                  .attribute("dims", data.dims());
  for (const auto& [name, value] : g.attributes().entries()) node.attribute(name, value);
  g.to(0, node.finish());
}

}  // namespace

const OpDef kGather = {
    .name = "gather",
    .arity = 2,
    .traits = Trait::Overwrites,
    .infer = infer_gather,
    .evaluate = gather,
    .gradient = gather_gradient,
    .flops_per_element = 0,
    .positions_input = 1,
    .doc =
        "Elements of the first input where the second says: at flat positions, or at places along an axis, "
        "of elements "
        "each or of whole slices. A place outside is an error at run time. Block-quantised data gives f32.",
};

}  // namespace luminal
