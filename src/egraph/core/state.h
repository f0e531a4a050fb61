#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "egraph/core/join_index.h"
#include "egraph/core/parallel_insert.h"
#include "egraph/core/plan.h"
#include "egraph/core/query.h"
#include "egraph/core/scratch.h"
#include "egraph/core/table.h"
#include "egraph/core/union_find.h"
#include "luminal/egraph.h"
#include "luminal/error.h"

namespace luminal::egraph {

inline constexpr size_t kBatch = 512;  ///< bindings that move through a join together
/// Matches whose actions run together, and rows that are put back together after a rebuild.
inline constexpr size_t kBlock = 16384;

template <class Id>
[[nodiscard]] constexpr uint32_t index_of(Id id) {
  return static_cast<uint32_t>(id);
}

enum class SortKind : uint8_t { Plain, Eq, Container };

struct SortInfo {
  SortKind kind = SortKind::Plain;
  ContainerSort hooks;
  /// Containers: the canonical form found for a handle, valid if `image_epoch` is the present rebuild pass.
  Column image, image_epoch;
};

/// Distinct values of some columns, estimated from a sample of rows.
struct ColumnStatistics {
  uint64_t columns = 0;  ///< bit set
  Row rows = 0;          ///< of the table when the sample was taken
  uint32_t generation = 0;
  double distinct = 0;
};

/// A merge that is a pure computation on values runs in place; one that touches tables runs as actions.
struct CompiledMerge {
  CompiledQuery slots;
  CompiledActions actions;
  Slot result = 0;
  bool pure = false;
  /// What is left of it where the old and the new output are equal.
  CompiledActions actions_if_equal;
  Slot result_if_equal = 0;
  bool runs_if_equal = false;  ///< false: it leaves such a value as it is
};

struct FunctionInfo {
  FunctionInfo(FunctionSpec declared, uint32_t key_width, bool has_output)
      : spec(std::move(declared)), table(key_width, has_output) {}
  FunctionSpec spec;
  Table table;
  std::vector<SortId> sorts;  ///< of the stored columns (a nullary function stores one Unit key)
  std::vector<SortKind> kinds;
  bool holds_ids = false, holds_containers = false;
  std::vector<JoinIndex> indexes;
  std::vector<ColumnStatistics> statistics;
  std::shared_ptr<const CompiledMerge> merge;
  /// Does a second output that equals the first one change anything?
  [[nodiscard]] bool merges_equal() const { return merge != nullptr && merge->runs_if_equal; }
  uint64_t scan_debt = 0;  ///< rows scanned by rebuilds since they could have used indexes
};

struct RuleInfo {
  RuleSpec spec;
  CompiledQuery query;
  CompiledActions actions;
  uint32_t seen = 0;  ///< clock of the last step that this rule finished; 0 = never
  bool has_id_constants = false;
  std::vector<PlanCache> plans;  ///< one per atom that may hold the new rows
};

struct RulesetInfo {
  std::string name;
  std::vector<RuleId> rules;
  std::vector<RulesetId> parts;
};

struct PrimitiveInfo {
  PrimitiveSpec spec;
  struct Memo;
  std::shared_ptr<Memo> memo;  ///< null unless asked for
  void remember_results();
};

/// Interned i64 (those that do not fit in place), f64 and String values. Never shrinks.
class Literals {
 public:
  [[nodiscard]] Value of(int64_t x);
  [[nodiscard]] int64_t as_i64(Value v) const;
  [[nodiscard]] Value of(double x);
  [[nodiscard]] double as_f64(Value v) const;
  [[nodiscard]] Value of(std::string_view x);
  [[nodiscard]] std::string_view as_string(Value v) const { return strings_[v]; }
  [[nodiscard]] size_t size_bytes() const;

 private:
  std::vector<int64_t> integers_;
  std::unordered_map<int64_t, Value> integer_of_;
  std::vector<double> floats_;
  std::unordered_map<uint64_t, Value> float_of_;
  std::deque<std::string> strings_;
  size_t string_bytes_ = 0;
  std::unordered_map<std::string_view, Value> string_of_;
};

class ExplanationLog;
class Limits;

/// What push() saves: everything but interned values and primitives.
struct Snapshot;

/// What an engine with more than one thread has.
struct Parallel {
  explicit Parallel(uint32_t threads)
      : team(threads), insert(team), scratch(threads), differ(team.pieces()) {}
  Team team;
  ParallelInsert insert;
  std::vector<Scratch> scratch;  ///< by thread of a search
  std::vector<Column> matches;   ///< memory for those of the pieces that are searched together
  std::vector<Column> differ;    ///< by piece of the pairs to unite: those of different classes
  size_t least_items = 4096;     ///< fewer go faster on one thread
};

using Clock = std::chrono::steady_clock;

/// Thrown by what may fail in the middle of a rule but does not know it: the message gets the rule's name
/// where that is known.
struct ErrorInRule : Error {
  using Error::Error;
};

struct EngineState {
  EngineState();
  ~EngineState();
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  std::vector<SortInfo> sorts;
  std::deque<FunctionInfo> functions;
  std::deque<RuleInfo> rules;
  std::vector<RulesetInfo> rulesets;
  std::deque<PrimitiveInfo> primitives;
  std::unordered_map<std::string, SortId> sort_names;
  std::unordered_map<std::string, FunctionId> function_names;
  std::unordered_map<std::string, RulesetId> ruleset_names;
  std::unordered_map<std::string, RuleId> rule_names;
  std::unordered_map<std::string, std::vector<PrimitiveId>> primitive_names;

  UnionFind ids;
  Literals literals;
  uint32_t clock = 1;  ///< counts steps
  bool in_step = false;
  uint64_t changes = 0;  ///< rows added, changed or deleted and effective unions, since birth
  std::vector<std::pair<FunctionId, Row>> subsumed_in_step;
  Scratch scratch;
  ElementMap to_canonical;  ///< what containers are rebuilt with
  uint32_t rebuild_epoch = 0;
  std::unique_ptr<ExplanationLog> log;
  /// While a proof is checked: what a row that a primitive asks for was when the rule ran.
  std::function<Value(FunctionId, std::span<const Value>)> replay;
  std::unique_ptr<Parallel> parallel;  ///< null: one thread
  std::vector<std::unique_ptr<Snapshot>> snapshots;
  size_t snapshot_bytes = 0;
  size_t host_bytes = 0;          ///< of what hosts interned, as they tell
  mutable size_t text_bytes = 0;  ///< of texts that are being printed, and of those that a program printed
  Limits* limits = nullptr;       ///< in force; see LimitsScope

  [[nodiscard]] FunctionInfo& at(FunctionId f) { return functions[index_of(f)]; }
  [[nodiscard]] const FunctionInfo& at(FunctionId f) const { return functions[index_of(f)]; }
  [[nodiscard]] const SortInfo& at(SortId s) const { return sorts[index_of(s)]; }
  [[nodiscard]] PrimitiveInfo& at(PrimitiveId p) { return primitives[index_of(p)]; }
  [[nodiscard]] const PrimitiveInfo& at(PrimitiveId p) const { return primitives[index_of(p)]; }
  [[nodiscard]] uint64_t total_rows() const;
  [[nodiscard]] size_t size_bytes() const;

  /// Null if so many items are better treated on one thread.
  [[nodiscard]] Parallel* parallel_for(size_t items) const {
    return parallel != nullptr && items >= parallel->least_items ? parallel.get() : nullptr;
  }

  [[nodiscard]] Team* team_for(size_t items) const {
    Parallel* p = parallel_for(items);
    return p == nullptr ? nullptr : &p->team;
  }

  /// The index covers rows [0, end) of the function's table afterwards.
  void ensure_index(FunctionInfo& info, uint32_t index, Row end) const {
    constexpr Row kRowsPerItem = 4;  // sorting one is that little work
    JoinIndex& sorted = info.indexes[index];
    sorted.ensure(info.table, end, team_for(sorted.to_sort(info.table, end) / kRowsPerItem));
  }

  /// So much was saved beside the last snapshot, and goes with it.
  void count_saved(size_t bytes);

  // rebuild.cpp
  [[nodiscard]] Value canonical(SortId sort, Value v);
  [[nodiscard]] Value canonical(SortId sort, Value v) const;
  /// Restores congruence: afterwards every live row is canonical and every key has one output. With limits it
  /// may stop between two blocks of rows; `needs_rebuild` holds then, and the next one goes on.
  void rebuild(Limits* within);
  /// All of it, or Stopped where the limits in force do not allow that.
  void rebuild();
  /// Canonical form of a container, computed once per pass.
  [[nodiscard]] Value container_image(SortId sort, Value v);
  [[nodiscard]] bool needs_rebuild() const { return ids.has_displaced(); }

  // write.cpp: single rows. Keys are padded as stored and canonical.
  Value get_or_insert(FunctionId f, std::span<const Value> key);
  void set_row(FunctionId f, std::span<const Value> key, Value output);
  void begin_step();
  /// Deletions, changes and subsumptions of the step take effect.
  void end_step();
  void unite(Value a, Value b) {
    if (log != nullptr) [[unlikely]]
      return unite_logged(a, b);
    if (ids.unite(a, b)) changes++;
  }
  /// As above; `a` and `b` are the terms that are claimed to be equal.
  void unite_logged(Value a, Value b);
  void remove_row(FunctionId f, std::span<const Value> key);
  void subsume_row(FunctionId f, std::span<const Value> key);
  /// The row's key got a second output.
  void merge_output(FunctionId f, Row row, Value output);
  /// Throws Stopped if the limits in force are spent.
  void poll() const {
    if (limits != nullptr) poll_limits();
  }
  void poll_limits() const;
  /// As `poll`, but looks at every call.
  void check_limits() const;
  /// Throws Stopped if so many more bytes, or so much more time, are beyond the limits in force. For what is
  /// made in one go.
  void require_memory(size_t bytes, double seconds = 0) const;
  [[nodiscard]] std::optional<Value> call_primitive(PrimitiveId p, std::span<const Value> args);
};

}  // namespace luminal::egraph
