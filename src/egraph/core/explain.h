#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "egraph/core/state.h"

namespace luminal::egraph {

/// What happened, for explanations: which application first made each id, and a forest of unions, each with
/// its reason. Two ids are equal exactly if the forest connects them, and as edges are only added, the path
/// between ids that were equal at some time uses only edges of before (Flatt et al., FMCAD 2022, without
/// their search for small proofs).
class ExplanationLog {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  // -- Writing. Between begin and end, what is added is the doing of that rule.

  void begin_application(RuleId rule, std::span<const Value> bindings);
  void note_made(size_t action, Value term);
  void end_application();
  /// `id` is new and stands for function(key).
  void add_term(const EngineState& state, Value id, FunctionId function, std::span<const Value> key);
  /// Two ids of different classes are about to be united.
  void add_union(const EngineState& state, Value from, Value to);
  /// Two terms whose arguments became equal: unites them, if they are not yet.
  void add_congruence(EngineState& state, Value from, Value to);

  // -- Reading.

  struct Origin {
    FunctionId function{};
    std::vector<Value> args;
    uint32_t application = kNone;
    bool known = false;
  };
  [[nodiscard]] const Origin* origin(Value id) const {
    return id < origins_.size() && origins_[id].known ? &origins_[id] : nullptr;
  }
  [[nodiscard]] RuleId rule_of(uint32_t application) const { return applications_[application].rule; }
  [[nodiscard]] Explanation explain(const EngineState& state, Value left, Value right) const;

 private:
  struct Application {
    RuleId rule{};
    std::vector<Value> bindings, premises, made;
  };
  struct Edge {
    Value from, to;
    ExplanationStep::Kind kind;
    uint32_t application;
  };
  struct Parent {
    Value id = kNoValue;
    uint32_t edge = kNone;
  };

  uint32_t commit(const EngineState& state);
  void add_edge(Edge edge);
  [[nodiscard]] Parent parent(Value id) const { return id < parents_.size() ? parents_[id] : Parent{}; }
  [[nodiscard]] std::vector<uint32_t> path(Value from, Value to) const;
  template <class Need>
  void visit_dependencies(const EngineState& state, const Edge& edge, Need&& need) const;

  std::vector<Origin> origins_;            // by id
  std::vector<Application> applications_;  // those that changed something
  std::vector<Edge> edges_;
  std::vector<Parent> parents_;  // the forest, re-rooted with each edge
  Application current_;
  bool in_application_ = false;
  uint32_t committed_ = kNone;
};

}  // namespace luminal::egraph
