#pragma once
#include <memory>
#include <vector>

#include "graph/view_reader.h"
#include "luminal/op_def.h"
#include "luminal/tensor_data.h"
#include "scalar/monoid.h"

namespace luminal::reference {

/// How many elements are evaluated at a time: small enough for the caches, large enough to hide the cost of a
/// call.
inline constexpr int64_t kChunk = 2048;

/// Where a stream of elements comes from: a buffer read through a view, or an elementwise op over such
/// streams.
struct Source {
  Dtype dtype = Dtype::F32;
  // A leaf.
  const TensorData* buffer = nullptr;
  std::shared_ptr<const ViewReader> reader;
  // Or an op.
  ElementKernel kernel = nullptr;
  const Attributes* attributes = nullptr;
  std::vector<Source> inputs;

  /// Rough cost of an element, for choosing among orders of evaluation.
  [[nodiscard]] double cost() const;
};

/// Evaluates a source piece by piece, in order, from any start. One for each thread.
class Stream {
 public:
  Stream(const Source& source, int64_t start, int64_t largest_piece);
  /// The next `count` elements; valid until the next call. At most the largest piece at once.
  const void* next(int64_t count);
  /// As `next`, written to `out`.
  void next_into(int64_t count, void* out);

 private:
  const Source* source_;
  int64_t position_;
  std::unique_ptr<ViewCursor> cursor_;
  std::vector<Stream> inputs_;
  std::vector<std::byte> scratch_;
};

/// out[i] = source[i] for all i, on all threads.
void evaluate_elements(const Source& source, TensorData& out);

/// Folds the axes of a reduction. `rows` reads (outer..., reduced..., inner) where acc has the inner extent,
/// or (outer..., reduced...) with inner = 1.
void evaluate_reduction(const Source& source, const FoldLoops& loops, int64_t outer, int64_t reduced,
                        int64_t inner, TensorData& out);

}  // namespace luminal::reference
