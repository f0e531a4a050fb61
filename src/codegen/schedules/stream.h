#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
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
/// Along what the lanes of folds lie. Rows: without an axis of their own one that they share with what is read takes
/// its place. Columns: rows are a loop, of which there may be none.
enum class Lanes : uint8_t { Rows, Columns };
[[nodiscard]] std::optional<Stream> stream_of(const kernel::KernelSpec& spec, Lanes lanes = Lanes::Rows);

/// The parameters: a register tile is `tile` positions by `vectors` of rows; a task has `panels` of such rows
/// side by side and walks over the stream in blocks of `block` positions.
struct StreamForm {
  int64_t vectors = 2, tile = 8, panels = 2, block = 256;
};

/// The parameters where rows are few: blocks of the stream, and the parts it is cut into, a task each.
struct FewRowsForm {
  int64_t block = 256, splits = 1;
};
/// Whether stream_few_rows.cpp takes this stream with lanes along columns.
[[nodiscard]] bool takes_few_rows(const kernel::KernelSpec& spec, const Stream& s);
[[nodiscard]] Program lower_few_rows(const kernel::KernelSpec& spec, Stream stream, FewRowsForm form,
                                     const Target& target);
/// Whether an output depends on axes beside rows and those that they share with what is read.
[[nodiscard]] bool has_columns(const kernel::KernelSpec& spec, const Stream& s, const kernel::Output& output);

[[nodiscard]] std::vector<Candidate> stream_candidates(const kernel::KernelSpec& spec, const Bucket& bucket,
                                                       const Target& target);

/// Coordinates of a block, by axis: first and last.
struct Box {
  std::vector<Expression> low, high;
};
/// A score that a mask hides: at most `most`, and `slope` times a bound on the magnitude of the product inside that
/// it is added to (-1: of none).
struct Hidden {
  double most = 0, slope = 0;
  int inner = -1;
};
/// By value of the products inside, numbers that no magnitude of theirs exceeds: lanes of rows, or one for all.
using Magnitudes = std::map<int, Id>;

/// A block that masks exclude (stream_skip.cpp says when it is sound to leave it out).
struct Excluded {
  /// Exponentials in weights, as formulas over operands of `value` and the hidden score behind them: each of rows, or
  /// of streamed positions.
  struct Factor {
    int value = -1;
    ScalarFunction formula;
    bool streams = false;
    Hidden score;
  };
  Expression where = 0;  ///< 1: nothing in the box counts if all factors are 0 and the maxima are far above
  /// By maximum, a bound on what is maximised in the box; none where minus infinity takes its place.
  std::map<int, Hidden> most;
  std::vector<Factor> factors;
  [[nodiscard]] bool has_conditions() const { return !most.empty() || !factors.empty(); }
  /// Whether blocks that are excluded come after all others: maxima have risen as far as they can by then. The same for
  /// every box.
  [[nodiscard]] bool comes_last() const { return !most.empty(); }
  [[nodiscard]] bool streams() const;
};
/// `bounded`: products whose magnitudes the caller bounds.
[[nodiscard]] Excluded excluded(const kernel::KernelSpec& spec, const Stream& stream, const Box& box,
                                const std::set<int>& bounded = {});
/// Those of the products inside to which something is added that may hide them: a mask of 0 and -1e9.
[[nodiscard]] std::set<int> hidden_by_adding(const kernel::KernelSpec& spec, const Stream& stream);
/// Lanes whose row has something to add in an excluded block, as far as rows tell. `maxima`: what they are so far.
Id rows_count(StageBuilder& b, const kernel::KernelSpec& spec, const Stream& s, const Excluded& e,
              const Ramp& ramp, std::span<const Expression> at, const std::map<int, Id>& maxima,
              const Magnitudes& magnitudes = {});
/// The same for streamed positions: lanes hold any of them. `magnitudes`: one for all rows.
Id positions_count(StageBuilder& b, const kernel::KernelSpec& spec, const Excluded& e,
                   const AxisGroup& streamed, int lanes, const Expression& first, const Expression& count,
                   std::span<const Expression> at, const Magnitudes& magnitudes = {});
/// Twice the sum of `count` packed numbers' magnitudes, lane by lane.
Id sum_of_magnitudes(StageBuilder& b, const Expression& count,
                     const std::function<Id(const Expression& position)>& packed);
/// The greatest magnitude of what a product reads at `count` streamed positions from `first` on; one for all rows.
Id greatest_magnitude(StageBuilder& b, const kernel::KernelSpec& spec, const Inner& inner,
                      const AxisGroup& streamed, int lanes, const Expression& first, const Expression& count,
                      std::span<const Expression> at);
/// First and last coordinates of `count` positions of a group from `first` on, by axis.
void bound(Box& box, const AxisGroup& group, const Expression& first, const Expression& count);

/// A maximum to compare with: 0 while it is minus infinity.
Id finite(StageBuilder& b, Id maximum);
/// A formula over a value's operands, of which it reads those that do not stream, and further inputs.
Id apply(StageBuilder& b, const Ramp& ramp, const ScalarFunction& f,
         std::span<const kernel::Operand> operands, std::span<const Expression> at,
         const std::vector<Id>& further);
/// The terms of a fold. `known`: values it reads; `kept`: what is maximised, the input behind the operands.
Id terms(StageBuilder& b, const Ramp& ramp, const ScalarFunction& f,
         std::span<const kernel::Operand> operands, std::span<const Expression> at,
         const std::map<int, Id>& known, Id kept);

}  // namespace luminal::codegen::stream
