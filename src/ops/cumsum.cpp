#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/copy_past_caches.h"
#include "base/threads.h"
#include "luminal/gradient.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"
#include "ops/float_sums.h"

namespace luminal {
namespace {

// --- Types

std::vector<TensorType> infer_cumsum(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("cumsum", inputs, 1);
  ops::check_dtype("cumsum", inputs[0], ops::Takes::Numbers);
  ops::check_axis("cumsum", inputs[0], attributes);
  return {inputs[0]};
}

// --- Evaluation: a sum and a rounding an element, in order. Long columns are cut into pieces, which depend on sizes
// alone: their totals are summed first, and then each piece knows what stands before it.

constexpr int64_t kCumsumGrain = int64_t{1} << 15;  // elements that are worth a thread
constexpr int64_t kFewColumns = 64;                 // more of them keep all threads busy
constexpr int64_t kColumnBlock = 512;         // columns side by side whose sums lie in a first-level cache
constexpr int64_t kPiece = int64_t{1} << 14;  // elements of a long column
constexpr int64_t kStaged = 1024;             // elements of a row that leave together
constexpr int kRowsAtOnce = 4;  // an addition waits for the one before it, and not for other rows'

template <class T>
class CumulativeSums {
 public:
  using Sum = std::conditional_t<is_float(dtype_of<T>()), double, T>;

  CumulativeSums(const TensorData& x, TensorData& out, int64_t axis, bool reverse)
      : x_(x.as<T>().data()),
        out_(out.as<T>().data()),
        reverse_(reverse),
        past_caches_(out.bytes.size() > kPastCachesBytes) {
    const auto on = static_cast<size_t>(axis);
    for (size_t d = 0; d < x.dims.size(); ++d) (d < on ? outer_ : d == on ? length_ : inner_) *= x.dims[d];
    const int64_t columns = outer_ * inner_;
    pieces_ = columns < kFewColumns ? std::max<int64_t>((length_ + kPiece - 1) / kPiece, 1) : 1;
  }

  void run() {
    if (outer_ * length_ * inner_ == 0) return;
    if (pieces_ > 1) sum_pieces();
    inner_ == 1 ? sum_rows() : sum_columns();
  }

 private:
  static Sum widen(T value) { return static_cast<Sum>(static_cast<ops::Compute<T>>(value)); }
  /// Where step j of row o begins.
  [[nodiscard]] int64_t at(int64_t o, int64_t j) const {
    return (o * length_ + (reverse_ ? length_ - 1 - j : j)) * inner_;
  }
  [[nodiscard]] int64_t begin_of(int64_t piece) const { return length_ * piece / pieces_; }
  /// What stands before a piece of row o, by column.
  [[nodiscard]] const Sum* before(int64_t o, int64_t piece) const {
    return before_.data() + (o * pieces_ + piece) * inner_;
  }

  void sum_pieces() {
    before_.resize(static_cast<size_t>(outer_ * pieces_ * inner_));
    parallel_for(outer_ * pieces_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t o = task / pieces_, piece = task % pieces_;
        Sum* sums = before_.data() + task * inner_;
        for (int64_t j = begin_of(piece); j < begin_of(piece + 1); ++j) add_to(sums, x_ + at(o, j), inner_);
      }
    });
    for (int64_t o = 0; o < outer_; ++o)
      for (int64_t i = 0; i < inner_; ++i) {
        Sum sum{};
        for (int64_t piece = 0; piece < pieces_; ++piece) {
          Sum& here = before_[static_cast<size_t>((o * pieces_ + piece) * inner_ + i)];
          sum = ops::add(sum, std::exchange(here, sum));
        }
      }
  }

  static void add_to(Sum* sums, const T* terms, int64_t count) {
    if constexpr (std::is_same_v<T, float>)
      ops::add_floats(sums, terms, count);
    else
      for (int64_t i = 0; i < count; ++i) sums[i] = ops::add(sums[i], widen(terms[i]));
  }
  static void add_and_round(Sum* sums, const T* terms, int64_t count, T* to) {
    if constexpr (std::is_same_v<T, float>) {
      ops::add_and_round_floats(sums, terms, count, to);
    } else {
      add_to(sums, terms, count);
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sums[i]);
    }
  }

  void sum_columns() {
    const int64_t blocks = (inner_ + kColumnBlock - 1) / kColumnBlock;
    const int64_t work = length_ / pieces_ * std::min(inner_, kColumnBlock);
    parallel_for(outer_ * blocks * pieces_, kCumsumGrain / std::max<int64_t>(work, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   const PastCaches copies;
                   for (int64_t task = begin; task < end; ++task) {
                     const int64_t piece = task % pieces_, o = task / pieces_ / blocks;
                     sum_block(o, piece, task / pieces_ % blocks * kColumnBlock);
                   }
                 });
  }
  void sum_block(int64_t o, int64_t piece, int64_t column) {
    const int64_t width = std::min(kColumnBlock, inner_ - column);
    std::array<Sum, kColumnBlock> sums{};
    std::array<T, kColumnBlock> rounded;
    if (pieces_ > 1) std::copy_n(before(o, piece) + column, width, sums.begin());
    for (int64_t j = begin_of(piece); j < begin_of(piece + 1); ++j) {
      const int64_t first = at(o, j) + column;
      add_and_round(sums.data(), x_ + first, width, past_caches_ ? rounded.data() : out_ + first);
      if (past_caches_)
        copy_past_caches(out_ + first, rounded.data(), static_cast<size_t>(width) * sizeof(T));
    }
  }

  void sum_rows() {
    const int64_t rows = outer_ * pieces_, work = std::max<int64_t>(length_ / pieces_, 1);
    parallel_for((rows + kRowsAtOnce - 1) / kRowsAtOnce, kCumsumGrain / (work * kRowsAtOnce) + 1,
                 [&](int64_t begin, int64_t end) {
                   const PastCaches copies;
                   for (int64_t group = begin; group < end; ++group)
                     reverse_ ? sum_some_rows<true>(group * kRowsAtOnce, rows)
                              : sum_some_rows<false>(group * kRowsAtOnce, rows);
                 });
  }
  /// Rows, or pieces of them, first ... first + kRowsAtOnce - 1; where there are not so many, the last one again.
  template <bool reverse>
  void sum_some_rows(int64_t first, int64_t rows) {
    constexpr int64_t kStep = reverse ? -1 : 1;
    std::array<int64_t, kRowsAtOnce> from{}, count{};
    std::array<Sum, kRowsAtOnce> sums{};
    for (size_t r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = std::min(first + static_cast<int64_t>(r), rows - 1), piece = row % pieces_;
      from[r] = at(row / pieces_, begin_of(piece)), count[r] = begin_of(piece + 1) - begin_of(piece);
      if (pieces_ > 1) sums[r] = *before(row / pieces_, piece);
    }
    const auto own = static_cast<size_t>(std::min<int64_t>(rows - first, kRowsAtOnce));
    const int64_t common = *std::ranges::min_element(count);
    std::array<std::array<T, kStaged>, kRowsAtOnce> staged;
    for (int64_t done = 0; done < common; done += kStaged) {
      const int64_t n = std::min(kStaged, common - done);
      std::array<const T*, kRowsAtOnce> x;
      for (size_t r = 0; r < kRowsAtOnce; ++r) x[r] = x_ + from[r] + kStep * done;
      for (int64_t k = 0; k < n; ++k)
        for (size_t r = 0; r < kRowsAtOnce; ++r) {
          sums[r] = ops::add(sums[r], widen(x[r][kStep * k]));
          staged[r][static_cast<size_t>(reverse ? n - 1 - k : k)] = static_cast<T>(sums[r]);
        }
      for (size_t r = 0; r < own; ++r) {
        T* to = out_ + (reverse ? from[r] - done - n + 1 : from[r] + done);
        copy_out(to, staged[r].data(), static_cast<size_t>(n) * sizeof(T), past_caches_);
      }
    }
    for (size_t r = 0; r < own; ++r)  // pieces differ by one element at most
      for (int64_t k = common; k < count[r]; ++k) {
        const int64_t here = from[r] + kStep * k;
        sums[r] = ops::add(sums[r], widen(x_[here]));
        out_[here] = static_cast<T>(sums[r]);
      }
  }

  const T* x_;
  T* out_;
  bool reverse_, past_caches_;
  int64_t outer_ = 1, length_ = 1, inner_ = 1, pieces_ = 1;
  std::vector<Sum> before_;  ///< of each piece of each row, by column
};

void cumsum(EvalContext& context) {
  const TensorData& x = *context.inputs[0];
  visit_dtype(x.dtype, [&]<class T>(T) {
    if constexpr (ops::takes_type<T, ops::Takes::Numbers>())
      CumulativeSums<T>(x, context.outputs[0], context.attributes.get<int64_t>("axis"),
                        context.attributes.get<bool>("reverse"))
          .run();
  });
}

void cumsum_gradient(Gradient& g) {
  Graph graph = g.upstream().graph();
  g.to(0, graph.add_op(kCumsum)
              .input(g.upstream())
              .attribute("axis", g.attributes().get<int64_t>("axis"))
              .attribute("reverse", !g.attributes().get<bool>("reverse"))
              .finish());
}

}  // namespace

const OpDef kCumsum = {
    .name = "cumsum",
    .arity = 1,
    .traits = Trait::Overwrites,
    .infer = infer_cumsum,
    .evaluate = cumsum,
    .gradient = cumsum_gradient,
    .variants = {{{"axis", int64_t{0}}, {"reverse", false}}, {{"axis", int64_t{0}}, {"reverse", true}}},
    .doc =
        "Sum of each element and all before it along an axis, or all behind it (reverse). Floats accumulate "
        "in f64 and "
        "are rounded for each element, integers wrap.",
};

}  // namespace luminal
