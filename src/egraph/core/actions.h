#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "egraph/core/join.h"

namespace luminal::egraph {

/// Applies actions to batches of bindings, one action at a time over the whole batch. Fresh ids follow batch
/// order.
class ActionRun {
 public:
  /// No batch may be larger than `room`.
  ActionRun(EngineState& state, const CompiledQuery& query, const CompiledActions& actions,
            std::string_view where, size_t room);
  void apply(Batch& batch);
  /// How the hashes of tables grow if each binding adds all rows that it may.
  [[nodiscard]] Table::Growth growth(size_t bindings) const;
  /// Column of a slot after `apply`.
  [[nodiscard]] const uint32_t* column(Slot slot) const { return columns_[slot]; }

 private:
  void apply_one(const CompiledAction& action);
  void apply_logged(const CompiledAction& action);
  void call(const CompiledAction& action);
  void look_up(const CompiledAction& action);
  void insert(const CompiledAction& action);
  void set(const CompiledAction& action, Slot value);
  void unite();
  void primitive(const CompiledAction& action);
  void remove(const CompiledAction& action);
  void subsume(const CompiledAction& action);
  void drop_all_but(const std::vector<uint32_t>& kept);
  void read_key(const CompiledAction& action, uint32_t i);
  [[noreturn]] void raise(const CompiledAction& action, std::string_view what) const;

  EngineState& state_;
  const CompiledQuery& query_;
  const CompiledActions& actions_;
  std::string_view where_;
  Scratch::Mark mark_;
  std::vector<uint32_t*> columns_;
  std::vector<Slot> own_;              // slots that actions bind
  std::vector<const uint32_t*> keys_;  // of the present action
  std::vector<Value> key_;             // one row of it
  std::vector<uint32_t> conflicts_;
  // Where unions are logged (one binding at a time): terms of constructor calls, by slot.
  std::vector<Value> terms_;
  uint32_t count_ = 0;
};

/// Runs a block once. `slots` come from `bound_variables`; `initial` are the values of its first slots.
/// Returns the values of all slots.
std::vector<Value> run_once(EngineState& state, const CompiledQuery& slots, const CompiledActions& actions,
                            std::span<const Value> initial, std::string_view where);

}  // namespace luminal::egraph
