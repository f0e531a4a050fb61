#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "luminal/graph.h"

/// LUMINAL_CHECK=finite: which tensor was the first to get a NaN or an infinity.
namespace luminal {

/// Flat positions of the first NaN and the first infinity in some data.
struct NotFinite {
  std::optional<size_t> nan, infinity;
};
[[nodiscard]] NotFinite not_finite(const TensorData& data);
/// "nan at [0, 1]", "-inf at row 3": the element at this position.
[[nodiscard]] std::string element_at(const TensorData& data, size_t position);

/// Whether some values hold NaNs or infinities; those of several operands add up.
struct Tainted {
  bool nan = false, infinity = false;
  Tainted& operator|=(const Tainted& other);
  /// The position of a NaN or an infinity in data made from operands that hold only these, if that is a
  /// fault.
  [[nodiscard]] std::optional<size_t> unexplained(const NotFinite& found) const;
};

/// Follows a run from value to value. A NaN is a fault where no operand has one, an infinity where all
/// operands are finite. Constants and the fill of padding stand where the user wrote them, and minus infinity
/// in an input is what masks are made of: these excuse infinities, not NaNs.
class FiniteCheck {
 public:
  explicit FiniteCheck(const Graph& graph) : graph_(graph) {}
  /// A value that the run starts from. Errors: Error if it holds a NaN or plus infinity.
  void given(const Value& value, const TensorData& data);
  /// Notes what a node has computed. Returns the position of a fault.
  [[nodiscard]] std::optional<size_t> computed(const Value& value, const TensorData& data);
  /// Throws Error that names the node. `operands`: what an elementwise node reads, dense, in the dims of
  /// `data`; may be empty.
  [[noreturn]] void report(const Value& value, const TensorData& data, size_t position,
                           std::span<const TensorData> operands) const;
  /// What is known of a value; nothing if the check was not told of it.
  [[nodiscard]] const Tainted* find(const Value& value) const;

 private:
  /// Of the operands of a node. Those that the check was not told of are looked through.
  [[nodiscard]] Tainted operands_of(const Node& node) const;

  const Graph& graph_;
  std::unordered_map<Value, Tainted> known_;
};

}  // namespace luminal
