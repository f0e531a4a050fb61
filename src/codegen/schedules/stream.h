#pragma once
#include <optional>
#include <vector>

#include "codegen/schedule.h"
#include "codegen/schedules/ramp.h"
#include "kernel/online.h"

/// Inside of the `stream` family (stream.cpp says what it does): which specs stream over one group of axes.
namespace luminal::codegen::stream {

/// A sum of products inside the stream, such as the scores of attention: for each streamed position and row.
/// One factor does not depend on the stream and is packed once for a task; the other is read where it lies.
struct Inner {
  int value = -1;
  std::vector<int> summed;
  ScalarFunction packed, read;
  bool read_varies = false;  ///< from row to row; otherwise one element serves all rows
};

/// A value folded over the stream at rows alone: a maximum, a sum of weights. `terms` is the body; what follows
/// a maximum reads what is maximised as one more input behind the operands.
struct Fold {
  int value = -1;
  std::optional<kernel::Online> online;
  ScalarFunction terms;
};

/// A sum over the stream with axes of its own: of a weight for each row times what is read at its columns. The
/// weight's inputs are as those of Fold::terms.
struct Columns {
  int value = -1;
  std::optional<kernel::Online> online;
  std::vector<int> axes;
  ScalarFunction weight, read;
  bool read_varies = false;
};

/// What the family takes: everything a single walk over the streamed axes can compute.
struct Stream {
  Dtype dtype = Dtype::F32;
  std::vector<int> batch;  ///< axes that what is read in the stream depends on
  std::vector<int> rows;   ///< other axes of the weights: they share what is read
  std::vector<int> streamed;
  std::vector<Inner> inner;
  std::vector<Fold> folds;  ///< those that others depend on first
  std::vector<Columns> columns;
};
[[nodiscard]] std::optional<Stream> stream_of(const kernel::KernelSpec& spec);

/// The parameters: a register tile is `tile` positions by `vectors` of rows; a task has `panels` of such rows
/// side by side and walks over the stream in blocks of `block` positions.
struct StreamForm {
  int64_t vectors = 2, tile = 8, panels = 2, block = 256;
};

[[nodiscard]] std::vector<Candidate> stream_candidates(const kernel::KernelSpec& spec, const Bucket& bucket,
                                                       const Target& target);

/// Coordinates of a block, by axis: first and last.
struct Box {
  std::vector<Expression> low, high;
};
/// 1 where masks make everything that is maximised in the box minus infinity: no fold changes there. A column's
/// weight of 0 then counts as nothing, whatever it multiplies (MathMode::Relaxed).
[[nodiscard]] Expression excluded(const kernel::KernelSpec& spec, const Stream& stream, const Box& box);

}  // namespace luminal::codegen::stream
