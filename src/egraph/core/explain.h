#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
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
  /// What a call among the rule's actions gave, of constructors the term.
  void note_made(size_t action, Value value);
  void end_application();
  /// While one lives, a primitive is called by that action: the rows it asks for are noted.
  class PrimitiveCall {
   public:
    PrimitiveCall(ExplanationLog& log, size_t action) : log_(log) { log_.calling_ = action; }
    PrimitiveCall(const PrimitiveCall&) = delete;
    PrimitiveCall& operator=(const PrimitiveCall&) = delete;
    ~PrimitiveCall() { log_.calling_.reset(); }
    /// The term that stands for `result`, if that is what the last row gave.
    [[nodiscard]] Value term_of(Value result) const;

   private:
    ExplanationLog& log_;
  };
  void note_access(FunctionId function, std::span<const Value> args, Value term, Value value);
  /// While one lives, actions of a merge run: they are none of the rule's.
  class OtherActions {
   public:
    explicit OtherActions(ExplanationLog* log)
        : log_(log), was_(log != nullptr && std::exchange(log->notes_actions_, false)) {}
    OtherActions(const OtherActions&) = delete;
    OtherActions& operator=(const OtherActions&) = delete;
    ~OtherActions() {
      if (log_ != nullptr) log_->notes_actions_ = was_;
    }

   private:
    ExplanationLog* log_;
    bool was_;
  };
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
  /// About.
  [[nodiscard]] size_t size_bytes() const {
    return origins_.size() * sizeof(Origin) + applications_.size() * sizeof(Application) +
           edges_.size() * sizeof(Edge) + parents_.size() * sizeof(Parent) + list_bytes_;
  }

 private:
  struct Application {
    RuleId rule{};
    std::vector<Value> bindings, premises, made;
    std::vector<TableAccess> accesses;
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
  bool in_application_ = false, notes_actions_ = true;
  std::optional<size_t> calling_;  ///< the action whose primitive is being called
  uint32_t committed_ = kNone;
  size_t list_bytes_ = 0;  ///< of what origins and applications list
};

class GrowingText;
/// The term that `id` was made as; "#7" for an id that no term was made for. Ends in its middle once `out` is
/// longer than `most`.
void append_made_term(GrowingText& out, const EngineState& state, Value id, size_t most = SIZE_MAX);

}  // namespace luminal::egraph
