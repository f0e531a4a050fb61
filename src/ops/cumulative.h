#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/copy_past_caches.h"
#include "base/threads.h"
#include "luminal/graph_tensor.h"
#include "luminal/op_def.h"
#include "ops/elementwise.h"

/// Ops that walk along an axis with a state: cumulative sums, products, maxima and linear recurrences. Each element of
/// the output is the state after the element of the inputs at its place.
namespace luminal::ops {

/// An element in the type in which it is computed.
template <class T>
[[nodiscard]] Compute<T> widened_element(T value) {
  return static_cast<Compute<T>>(value);
}

/// One walk of each column along an axis: rows some at a time, since a step waits for the one before it and not for
/// other rows'; other columns in blocks whose states lie in a first-level cache. How the work is cut depends on sizes
/// alone. `Walk` says what the state is before the first element, and takes a step; steps are taken in order. With
/// `join`, how the state of a stretch follows that of the stretch before it, long columns are cut into pieces; with
/// `advance` (both forms), steps of `count` columns side by side have loops of their own.
///
///   template <class T> struct Sums {
///     using State = double;
///     static constexpr size_t kInputs = 1;
///     static State start();
///     static State step(State state, const T* const* in, int64_t at);
///     static State join(State before, State after);                                            // or none
///     static void advance(State* states, const T* const* in, int64_t at, int64_t count);       // or none
///     static void advance(State* states, const T* const* in, int64_t at, int64_t count, T* to);
///   };
template <class T, class Walk>
class Cumulative {
 public:
  using State = typename Walk::State;

  /// All tensors have the same dims.
  Cumulative(std::span<const TensorData* const> inputs, TensorData& out, int64_t axis, bool reverse)
      : out_(out.as<T>().data()), reverse_(reverse), past_caches_(out.bytes.size() > kPastCachesBytes) {
    for (size_t k = 0; k < in_.size(); ++k) in_[k] = inputs[k]->as<T>().data();
    const auto on = static_cast<size_t>(axis);
    for (size_t d = 0; d < out.dims.size(); ++d)
      (d < on ? outer_ : d == on ? length_ : inner_) *= out.dims[d];
    if (kJoins && outer_ * inner_ < kFewColumns)
      pieces_ = std::max<int64_t>((length_ + kPiece - 1) / kPiece, 1);
  }

  void run() {
    if (outer_ * length_ * inner_ == 0) return;
    if (pieces_ > 1) fold_pieces();
    inner_ == 1 ? walk_rows() : walk_columns();
  }

 private:
  static constexpr int64_t kGrain = int64_t{1} << 15;  // elements that are worth a thread
  static constexpr int64_t kFewColumns = 64;           // more of them keep all threads busy
  static constexpr int64_t kColumnBlock = 512;         // whose states lie in a first-level cache
  static constexpr int64_t kPiece = int64_t{1} << 14;  // elements of a long column
  static constexpr int64_t kStaged = 1024;             // elements of a row that leave together
  static constexpr int kRowsAtOnce = 4;
  static constexpr bool kJoins = requires(State s) { Walk::join(s, s); };

  void advance(State* states, int64_t at, int64_t count) const {
    if constexpr (requires { Walk::advance(states, in_.data(), at, count); })
      Walk::advance(states, in_.data(), at, count);
    else
      for (int64_t i = 0; i < count; ++i) states[i] = Walk::step(states[i], in_.data(), at + i);
  }
  /// The same, and what each state is then.
  void advance(State* states, int64_t at, int64_t count, T* to) const {
    if constexpr (requires { Walk::advance(states, in_.data(), at, count, to); }) {
      Walk::advance(states, in_.data(), at, count, to);
    } else {
      advance(states, at, count);
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(states[i]);
    }
  }
  /// Where step j of row o begins.
  [[nodiscard]] int64_t at(int64_t o, int64_t j) const {
    return (o * length_ + (reverse_ ? length_ - 1 - j : j)) * inner_;
  }
  [[nodiscard]] int64_t begin_of(int64_t piece) const { return length_ * piece / pieces_; }
  /// The states before a piece of row o, by column.
  [[nodiscard]] const State* before(int64_t o, int64_t piece) const {
    return before_.data() + (o * pieces_ + piece) * inner_;
  }

  void fold_pieces() {
    if constexpr (kJoins) {
      before_.assign(static_cast<size_t>(outer_ * pieces_ * inner_), Walk::start());
      parallel_for(outer_ * pieces_, 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t o = task / pieces_, piece = task % pieces_;
          State* states = before_.data() + task * inner_;
          for (int64_t j = begin_of(piece); j < begin_of(piece + 1); ++j) advance(states, at(o, j), inner_);
        }
      });
      for (int64_t o = 0; o < outer_; ++o)
        for (int64_t i = 0; i < inner_; ++i) {
          State state = Walk::start();
          for (int64_t piece = 0; piece < pieces_; ++piece) {
            State& here = before_[static_cast<size_t>((o * pieces_ + piece) * inner_ + i)];
            state = Walk::join(state, std::exchange(here, state));
          }
        }
    }
  }

  void walk_columns() {
    const int64_t blocks = (inner_ + kColumnBlock - 1) / kColumnBlock;
    const int64_t work = length_ / pieces_ * std::min(inner_, kColumnBlock);
    parallel_for(outer_ * blocks * pieces_, kGrain / std::max<int64_t>(work, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   const PastCaches copies;
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t piece = task % pieces_, o = task / pieces_ / blocks;
                     walk_block(o, piece, task / pieces_ % blocks * kColumnBlock);
                   }
                 });
  }
  void walk_block(int64_t o, int64_t piece, int64_t column) {
    const int64_t width = std::min(kColumnBlock, inner_ - column);
    std::array<State, kColumnBlock> states;
    std::array<T, kColumnBlock> rounded;
    if (pieces_ > 1)
      std::copy_n(before(o, piece) + column, width, states.begin());
    else
      states.fill(Walk::start());
    for (int64_t j = begin_of(piece); j < begin_of(piece + 1); ++j) {
      const int64_t first = at(o, j) + column;
      advance(states.data(), first, width, past_caches_ ? rounded.data() : out_ + first);
      if (past_caches_)
        copy_past_caches(out_ + first, rounded.data(), static_cast<size_t>(width) * sizeof(T));
    }
  }

  void walk_rows() {
    const int64_t rows = outer_ * pieces_, work = std::max<int64_t>(length_ / pieces_, 1);
    parallel_for((rows + kRowsAtOnce - 1) / kRowsAtOnce, kGrain / (work * kRowsAtOnce) + 1,
                 [&](int64_t begin, int64_t end) {
                   const PastCaches copies;
                   for (int64_t group = begin; group < end; ++group)
                     reverse_ ? walk_some_rows<true>(group * kRowsAtOnce, rows)
                              : walk_some_rows<false>(group * kRowsAtOnce, rows);
                 });
  }
  /// Rows, or pieces of them, first ... first + kRowsAtOnce - 1; where there are not so many, the last one again.
  template <bool reverse>
  void walk_some_rows(int64_t first, int64_t rows) {
    constexpr int64_t kStep = reverse ? -1 : 1;
    std::array<int64_t, kRowsAtOnce> from{}, count{};
    std::array<State, kRowsAtOnce> states;
    states.fill(Walk::start());
    for (size_t r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = std::min(first + static_cast<int64_t>(r), rows - 1), piece = row % pieces_;
      from[r] = at(row / pieces_, begin_of(piece)), count[r] = begin_of(piece + 1) - begin_of(piece);
      if (pieces_ > 1) states[r] = *before(row / pieces_, piece);
    }
    const auto own = static_cast<size_t>(std::min<int64_t>(rows - first, kRowsAtOnce));
    const int64_t common = *std::ranges::min_element(count);
    std::array<std::array<T, kStaged>, kRowsAtOnce> staged;
    for (int64_t done = 0; done < common; done += kStaged) {
      const int64_t n = std::min(kStaged, common - done);
      for (int64_t k = 0; k < n; ++k)
        for (size_t r = 0; r < kRowsAtOnce; ++r) {
          states[r] = Walk::step(states[r], in_.data(), from[r] + kStep * (done + k));
          staged[r][static_cast<size_t>(reverse ? n - 1 - k : k)] = static_cast<T>(states[r]);
        }
      for (size_t r = 0; r < own; ++r) {
        T* to = out_ + (reverse ? from[r] - done - n + 1 : from[r] + done);
        copy_out(to, staged[r].data(), static_cast<size_t>(n) * sizeof(T), past_caches_);
      }
    }
    for (size_t r = 0; r < own; ++r)  // pieces differ by one element at most
      for (int64_t k = common; k < count[r]; ++k) {
        const int64_t here = from[r] + kStep * k;
        states[r] = Walk::step(states[r], in_.data(), here);
        out_[here] = static_cast<T>(states[r]);
      }
  }

  std::array<const T*, Walk::kInputs> in_{};
  T* out_;
  bool reverse_, past_caches_;
  int64_t outer_ = 1, length_ = 1, inner_ = 1, pieces_ = 1;
  std::vector<State> before_;  ///< of each piece of each row, by column
};

/// Evaluates an op with Walk<T> for inputs of type T.
template <template <class> class Walk>
void walk_along_axis(EvalContext& context) {
  visit_dtype(context.inputs[0]->dtype, [&]<class T>(T) {
    if constexpr (takes_type<T, Takes::Numbers>())
      Cumulative<T, Walk<T>>(context.inputs, context.outputs[0], context.attributes.get<int64_t>("axis"),
                             context.attributes.get<bool>("reverse"))
          .run();
  });
}

/// What the records share: numbers of one type and dims; attributes "axis", and "reverse" for walks from the end.
[[nodiscard]] InferRule cumulative_types(std::string_view op, int arity);
[[nodiscard]] std::vector<Attributes> cumulative_variants();

/// What their gradients are written with: a way along an axis.
struct Walkway {
  int axis = 0;
  bool reverse = false;

  [[nodiscard]] static Walkway of(const Attributes& attributes);
  [[nodiscard]] Walkway back() const { return {axis, !reverse}; }
  [[nodiscard]] GraphTensor walk(const OpDef& op, std::span<const GraphTensor> inputs) const;
  /// At each place the element before it, `first` at the first place.
  [[nodiscard]] GraphTensor before(const GraphTensor& x, Number first) const;
};

}  // namespace luminal::ops
