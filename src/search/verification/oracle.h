#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/view_reader.h"
#include "luminal/error.h"
#include "luminal/graph.h"

namespace luminal::search {

/// The elements asked for cannot be evaluated: they depend on a value that is no leaf and that nobody can
/// compute here.
class OracleGap : public Error {
 public:
  using Error::Error;
};

/// Judging them takes more operations than allowed.
class OracleLimit : public OracleGap {
 public:
  using OracleGap::OracleGap;
};

/// Elements of a value where they lie, row-major: dense or in blocks.
struct Elements {
  Dtype dtype;
  std::span<const std::byte> bytes;
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};
[[nodiscard]] inline Elements elements_of(const TensorData& data) { return {data.dtype, data.bytes}; }
[[nodiscard]] inline std::vector<Elements> elements_of(std::span<const TensorData> tensors) {
  std::vector<Elements> elements;
  for (const TensorData& data : tensors) elements.push_back(elements_of(data));
  return elements;
}
using KnownElements = std::unordered_map<Value, Elements>;

class FoldedRows;

/// What single elements of the user's graph must be, computed on demand in f64 with a running error bound:
/// the judge of every kernel. It reads the op records of the graph and nothing of what the search made of it.
///
///   Oracle oracle(graph, dims);
///   oracle.set_leaf(x, data);                       // values that are taken as they are
///   Samples s = oracle.at(y, positions);            // recursion stops at leaves
///
/// The bound of a result covers what any order of summation and any evaluation within the ops' stated ULP may
/// do: rounding in the graph's dtypes, ULP of each op, 4*sqrt(n)*u*sum|x| of sums in their accumulation dtype
/// (Higham, "Accuracy and Stability of Numerical Algorithms", 4.2), and how errors of operands move results,
/// found by evaluating at the ends of the operands' intervals. Where a comparison lies within the bound the
/// element is not `known`.
class Oracle {
 public:
  /// 0 or 1 for each element, in bytes: several are looked at at once.
  using Flags = std::vector<uint8_t>;
  /// Elements [k] of what was asked for: float dtypes in f64 with a bound, others exactly.
  struct Samples {
    TensorData values;           ///< F64, or the value's own dtype if that is no float
    std::vector<double> errors;  ///< absolute bounds; empty if exact
    Flags known;
    /// Rounding to the dtype made an infinity of a finite value; empty where that happened nowhere. Sums that
    /// fold such a value in by an fma see the finite one.
    Flags overflowed;
    /// On the way lies a sum whose terms are not finite, or so great together that relaxed math promises nothing
    /// (docs/design.md, math modes); empty where there is none.
    Flags unpromised;
  };

  Oracle(const Graph& graph, DimMap dims) : graph_(graph), dims_(std::move(dims)) {}
  /// Dense data of a value, of its dtype. Of blocks, those that are asked for are decoded. Later cases stop there.
  void set_leaf(const Value& value, std::shared_ptr<const TensorData> data);
  /// Leaves that several oracles share and that outlive them, but for `computed`, which this one is asked about. Their
  /// sizes are those of the values.
  void share_leaves(const KnownElements& leaves, const Value& computed);
  /// Elements of a value at flat positions (row-major).
  /// Errors: OracleLimit if the recursion needs more elementary operations than `allow` left,
  /// OracleGap if it meets an op with an evaluation of its own that is no leaf.
  [[nodiscard]] Samples at(const Value& value, std::span<const int64_t> positions);
  /// From now on questions may take so many operations together.
  void allow(int64_t operations);
  static constexpr int64_t kUsuallyAllowed = 10'000'000;
  /// Roundings of a sum do not depend on each other. Where data has few different values they repeat, always
  /// in the same direction, and the bound of a sum is n*u*sum|x|.
  bool independent_roundings = true;
  /// Every input holds small integers. Elsewhere an integer that cancelled others (127 - 126) has the bound of their
  /// sum: a kernel that folds a sum of sums at once rounds them together with fractions.
  bool small_integers = false;
  [[nodiscard]] int64_t operations() const { return operations_; }
  /// Operations that answers of earlier questions spared the last one.
  [[nodiscard]] int64_t spared() const { return spared_; }

 private:
  void forget();
  /// All but the first `answers` of those that take few operations: what is computed again lies in the processor's cache.
  void forget_cheap(size_t answers);
  using Positions = std::shared_ptr<const std::vector<int64_t>>;
  using Answer = std::shared_ptr<const Samples>;
  /// What an answer took, and the last question that needed it.
  struct Price {
    int64_t operations = 0;
    int64_t question = 0;
  };
  void take_kept(Price& price);
  /// What was computed. A value that several others read is evaluated once, at least where the same of its elements
  /// are asked for again: without that a chain of x = x + x * c takes 2^n steps.
  struct Kept {
    Positions positions;
    Answer samples;
    Price price;
  };
  /// An element of a sum, a maximum or a product over a long row: values that read the same sum may ask for it beside
  /// different others.
  struct KeptRow {
    std::array<std::byte, 8> value;
    double error = 0;
    uint8_t is_known = 1, is_unpromised = 0;
    Price price;
  };
  [[nodiscard]] std::optional<Elements> known(const Value& value) const;
  [[nodiscard]] Answer answer(const Value& value, const Positions& positions);
  [[nodiscard]] Samples compute(const Value& value, const Positions& positions);
  [[nodiscard]] Answer through(const Edge& edge, const Positions& positions);
  [[nodiscard]] Samples leaf(const Elements& data, std::span<const int64_t> positions) const;
  [[nodiscard]] Samples elementwise(const Node& node, const Positions& positions);
  /// Outputs of a leaf op, which equal nodes share: a model has one of positions in each layer.
  [[nodiscard]] const std::vector<TensorData>& made(const Node& node);
  [[nodiscard]] bool is_free_of_folds(const Value& value) const;
  [[nodiscard]] Samples reduction(const Value& value, std::span<const int64_t> positions);
  /// Elements of a reduction's result, ascending and without repeats, rounded to its dtype.
  [[nodiscard]] Samples kept_rows(const Value& value, const FoldedRows& layout,
                                  std::span<const int64_t> rows);
  [[nodiscard]] Samples fold_rows(const Node& node, const FoldedRows& layout, std::span<const int64_t> rows);
  void spend(int64_t operations);

  const Graph& graph_;
  DimMap dims_;
  std::unordered_map<Value, std::shared_ptr<const TensorData>> leaves_;
  const KnownElements* shared_ = nullptr;
  std::optional<Value> computed_;  ///< no leaf, though it is among the shared
  std::vector<std::pair<const Node*, std::vector<TensorData>>> made_;  ///< leaf ops, evaluated whole
  std::unordered_map<Value, std::vector<Kept>> kept_;
  std::unordered_map<Value, std::unordered_map<int64_t, KeptRow>> kept_rows_;  ///< by position
  std::vector<std::pair<Value, Positions>> cheap_;                             ///< among the answers kept
  size_t kept_elements_ = 0;
  std::unordered_map<const Edge*, ViewReader> readers_;
  int64_t operations_ = 0, spared_ = 0;
  int64_t question_ = 0;
  int64_t allowed_ = kUsuallyAllowed, limit_ = allowed_;
};

/// Elementary operations that samples of one value may take.
struct OracleBudget {
  int64_t operations = 100'000;
  int64_t of_one = Oracle::kUsuallyAllowed;  ///< where one sample takes more than `operations`
};
/// Elements of a value at as many of `positions` as the budget allows, spread over them; the others are taken
/// out of `positions`, of which there is at least one.
/// Errors: OracleGap; OracleLimit if one takes too many operations.
[[nodiscard]] Oracle::Samples ask_within(const OracleBudget& budget, Oracle& oracle, const Value& value,
                                         std::vector<int64_t>& positions);

}  // namespace luminal::search
