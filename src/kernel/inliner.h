#pragma once
#include <optional>

#include "kernel/axes.h"
#include "kernel/compose.h"

namespace luminal::kernel {

/// Puts a producer's result in place of loads of it. Its axes become expressions over axes bound at the load;
/// what it reduces is instantiated as values of the target, once for each different map of coordinates.
class Inliner {
 public:
  /// `target` has the consumer's axes and both specs' slots, the producer's from `first_slot` on.
  Inliner(SpecParts& target, const KernelSpec& producer, int first_slot);

  /// What the load gives, over `operands`. Values it needs are appended to the target. Empty if there are too
  /// many axes.
  [[nodiscard]] std::optional<Scalar> inline_load(ScalarBuilder& b, std::vector<Operand>& operands,
                                                  const Operand& load);
  /// An output at an unmasked flat index as a value of the target, whatever it is. Its index is that of the first.
  [[nodiscard]] std::optional<int> instantiate_output(size_t output, const Expression& index);

  /// How often the dearest part of the producer is evaluated for each of its elements, after all loads are
  /// inlined.
  [[nodiscard]] double evaluations() const;

 private:
  /// Coordinates by producer axis, and what inner loads are masked with.
  struct Place {
    std::vector<Expression> coordinates;
    Expression valid = 1;
    Number fill = 0;
  };
  struct Instance {
    int source = 0, value = 0;
    std::vector<Expression> coordinates;  ///< of the source's free axes
    Expression valid;
    Number fill;
  };

  [[nodiscard]] Place place_of(const Expression& index, const Expression& valid) const;
  [[nodiscard]] const Value& producer_value(int at) const {
    return producer_.values()[static_cast<size_t>(at)];
  }
  [[nodiscard]] int result() const { return producer_.outputs()[0].value; }
  [[nodiscard]] Operand moved(const Operand& o, const Place& place);
  [[nodiscard]] int instance(int source, const Place& place);
  [[nodiscard]] std::optional<uint64_t> constant_under(int source, const Number& fill) const;
  [[nodiscard]] bool absorbs(const Number& fill, const Number& candidate) const;
  void count(int source, const Place& place);

  SpecParts& target_;
  const KernelSpec& producer_;
  int first_slot_;
  std::vector<DenseAxis> dense_;
  bool defined_ = true;
  std::vector<Instance> instances_;
  std::vector<double> counts_;  ///< by producer value
};

}  // namespace luminal::kernel
