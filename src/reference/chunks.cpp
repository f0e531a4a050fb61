#include "reference/chunks.h"

#include <algorithm>

#include "base/fail.h"
#include "base/threads.h"

namespace luminal::reference {

double Source::cost() const {
  if (buffer != nullptr || reader) return reader->cost();
  double total = 1;
  for (const Source& input : inputs) total += input.cost();
  return total;
}

Stream::Stream(const Source& source, int64_t start, int64_t largest_piece)
    : source_(&source), position_(start) {
  if (source.reader) {
    if (!source.reader->is_direct()) cursor_ = std::make_unique<ViewCursor>(*source.reader, start);
  } else {
    for (const Source& input : source.inputs) inputs_.emplace_back(input, start, largest_piece);
  }
  if (!source.reader || cursor_)
    scratch_.resize(static_cast<size_t>(largest_piece * element_bytes(source.dtype)));
}

const void* Stream::next(int64_t count) {
  if (source_->reader && !cursor_) {
    const std::byte* place = source_->buffer->bytes.data() + position_ * element_bytes(source_->dtype);
    position_ += count;
    return place;
  }
  next_into(count, scratch_.data());
  return scratch_.data();
}

void Stream::next_into(int64_t count, void* out) {
  if (cursor_) return cursor_->read(source_->buffer->bytes.data(), source_->dtype, count, out);
  if (source_->reader) {
    std::memcpy(out, next(count), static_cast<size_t>(count * element_bytes(source_->dtype)));
    return;
  }
  constexpr size_t kMostInputs = 8;
  const void* values[kMostInputs];
  LUMINAL_CHECK(inputs_.size() <= kMostInputs, "an elementwise op with {} inputs", inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) values[i] = inputs_[i].next(count);
  source_->kernel(values, out, count, *source_->attributes);
}

void evaluate_elements(const Source& source, TensorData& out) {
  const int64_t width = element_bytes(out.dtype);
  parallel_for(out.element_count(), 8 * kChunk, [&](int64_t begin, int64_t end) {
    Stream stream(source, begin, kChunk);
    for (int64_t at = begin; at < end; at += kChunk)
      stream.next_into(std::min(kChunk, end - at), out.bytes.data() + at * width);
  });
}

namespace {

/// One accumulator for each output: a run of `reduced` elements folds into it.
void fold_runs(Stream& stream, const FoldLoops& loops, int64_t outputs, int64_t reduced, std::byte* out,
               int64_t width) {
  alignas(16) std::byte accumulator[16];
  for (int64_t i = 0; i < outputs; ++i) {
    loops.fill(accumulator, 1);
    for (int64_t done = 0; done < reduced; done += kChunk) {
      const int64_t count = std::min(kChunk, reduced - done);
      loops.fold_all(accumulator, stream.next(count), count);
    }
    loops.finish(accumulator, out + i * width, 1);
  }
}

/// A row of accumulators for each outer index: `reduced` rows of `inner` elements fold into it one by one.
void fold_rows(Stream& stream, const FoldLoops& loops, int64_t outer, int64_t reduced, int64_t inner,
               Dtype value, std::byte* out) {
  const int64_t width = element_bytes(value), rows = std::max<int64_t>(1, kChunk / inner);
  std::vector<std::byte> accumulators(static_cast<size_t>(inner * element_bytes(loops.accumulator)));
  for (int64_t i = 0; i < outer; ++i) {
    loops.fill(accumulators.data(), inner);
    for (int64_t done = 0; done < reduced; done += rows) {
      const int64_t now = std::min(rows, reduced - done);
      const auto* values = static_cast<const std::byte*>(stream.next(now * inner));
      for (int64_t row = 0; row < now; ++row)
        loops.fold_each(accumulators.data(), values + row * inner * width, inner);
    }
    loops.finish(accumulators.data(), out + i * inner * width, inner);
  }
}

}  // namespace

void evaluate_reduction(const Source& source, const FoldLoops& loops, int64_t outer, int64_t reduced,
                        int64_t inner, TensorData& out) {
  const int64_t width = element_bytes(out.dtype);
  if (outer == 0 || inner == 0) return;
  const int64_t work = std::max<int64_t>(1, reduced * inner);
  const int64_t grain = std::max<int64_t>(1, 16 * kChunk / work);
  parallel_for(outer, grain, [&](int64_t begin, int64_t end) {
    Stream stream(source, begin * reduced * inner, std::max(kChunk, inner));
    std::byte* place = out.bytes.data() + begin * inner * width;
    if (inner == 1)
      fold_runs(stream, loops, end - begin, reduced, place, width);
    else
      fold_rows(stream, loops, end - begin, reduced, inner, source.dtype, place);
  });
}

}  // namespace luminal::reference
