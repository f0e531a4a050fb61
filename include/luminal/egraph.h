#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Equality saturation: a relational e-graph engine.
///
/// An `EGraph` holds tables. A *constructor* maps arguments to an e-class id, a *function* maps them to any
/// value and says how two values merge, a *relation* is a set of tuples. *Rules* match conjunctions of table
/// rows and primitive calls, and add rows or unite ids; running them to a fixpoint, with congruence restored
/// after each round, holds every form that the rules can reach at once. Extraction then picks the cheapest.
///
///   EGraph g;
///   SortId math = g.eq_sort("Math");
///   g.constructor("Num", {kI64}, math);
///   g.constructor("Mul", {math, math}, math);
///   RulesetId rules = g.ruleset("arith");
///   g.rewrite(rules, "mul-comm", "(Mul ?a ?b)", "(Mul ?b ?a)");
///   g.rewrite(rules, "mul-one", "(Mul ?a (Num 1))", "?a");
///   Value x = g.add_term("(Mul (Num 1) (Mul (Num 7) (Num 1)))");
///   g.run(Schedule::saturate(Schedule::run(rules)));
///   assert(g.to_string(*Extractor(g).best(math, x)) == "(Num 7)");
///
/// Values are 32-bit: an e-class id, or the handle of interned content whose meaning its sort knows. The same
/// calls give the same database, ids included, on every machine and at every thread count. Engines share no
/// state. Thread safety: one thread at a time uses an engine. Source: Willsey et al., POPL 2021 (deferred
/// rebuilding); Zhang et al., PLDI 2023 (egglog: rules, merges, semi-naive evaluation).
namespace luminal::egraph {

/// An e-class id or an interned handle. Which of them is known from the column's sort.
using Value = uint32_t;
/// Never a value; marks "none".
inline constexpr Value kNoValue = std::numeric_limits<Value>::max();

enum class SortId : uint32_t {};
enum class FunctionId : uint32_t {};
enum class PrimitiveId : uint32_t {};
enum class RulesetId : uint32_t {};
enum class RuleId : uint32_t {};

/// Sorts that every engine has from birth; `EGraph::i64(...)` and its sisters make their values.
inline constexpr SortId kUnit{0}, kBool{1}, kI64{2}, kF64{3}, kString{4};
/// The only value of sort Unit; the output of every relation row.
inline constexpr Value kUnitValue = 0;

// --- Sorts

/// Maps a value of a sort to its canonical form: ids to their class's root, containers element by element.
using ElementMap = std::function<Value(SortId, Value)>;

/// A sort of interned handles that the host owns: equal content must mean an equal handle, handles stay valid
/// for the engine's life. Handles are best numbered 0, 1, 2 ... : indexes on dense columns are faster.
struct PrimitiveSort {
  std::string name = {};
  /// Text of a value; `children` are the texts of its elements (empty for plain sorts), in `elements` order.
  std::function<std::string(Value, std::span<const std::string> children)> print = {};
  /// The value of a text that `print` made; only needed to read e-graphs from JSON.
  std::function<std::optional<Value>(std::string_view)> parse = {};
  /// Total order by content, negative, 0 or positive; null = by print.
  std::function<int(Value, Value)> compare = {};
  /// Extraction cost of a literal of this sort, elements not counted.
  double cost = 1;
};

/// A sort whose values hold other values (vectors, sets, maps, function values). The engine calls `rebuild`
/// when ids inside may have been united; rows that held the old handle then hold the new one, and congruence
/// follows. Containers may nest.
struct ContainerSort : PrimitiveSort {
  /// The same container with `map` applied to each element, interned; the same handle if nothing changed.
  std::function<Value(Value, const ElementMap& map)> rebuild = {};
  /// Calls `visit` for each element, in an order that `print` knows.
  std::function<void(Value, const std::function<void(SortId, Value)>& visit)> elements = {};
  /// The container of such elements, in `elements` order; only needed to read e-graphs from JSON.
  std::function<std::optional<Value>(std::span<const Value> elements)> make = {};
};

// --- Core IR of queries, actions and rules

/// A variable of the surrounding query or action block (by index), or a constant value of a sort.
struct Term {
  enum class Kind : uint8_t { Variable, Constant };
  Kind kind = Kind::Variable;
  SortId sort{};    ///< of a constant; eq-sort constants are canonicalised whenever they are used
  uint32_t at = 0;  ///< index of the variable, or the constant's value

  [[nodiscard]] static Term variable(uint32_t index) { return {Kind::Variable, SortId{}, index}; }
  [[nodiscard]] static Term constant(SortId sort, Value value) { return {Kind::Constant, sort, value}; }
  [[nodiscard]] bool is_variable() const { return kind == Kind::Variable; }
  friend bool operator==(const Term&, const Term&) = default;
};

struct Variable {
  std::string name = {};
  SortId sort{};
};

/// `output = function(args...)` is a row of the function's table. A relation's output is Unit; leave it out.
struct Atom {
  FunctionId function{};
  std::vector<Term> args = {};
  Term output = Term::constant(kUnit, kUnitValue);
};

/// `output = primitive(args...)`. A call that fails, or whose result differs from a bound output, is no
/// match.
struct PrimitiveAtom {
  PrimitiveId primitive{};
  std::vector<Term> args = {};
  Term output = {};
};

struct Equality {
  Term left = {}, right = {};
};

/// A conjunction. Every variable must be bound by an atom, an equality or the output of a primitive call.
struct Query {
  std::vector<Variable> variables = {};
  std::vector<Atom> atoms = {};
  std::vector<PrimitiveAtom> primitives = {};
  std::vector<Equality> equalities = {};
  bool match_subsumed = false;  ///< rules do not see subsumed rows; `check` commands do
};

/// One step of a rule's right-hand side, a merge or a top-level command.
struct Action {
  enum class Kind : uint8_t { Call, Primitive, Set, Union, Delete, Subsume, Panic };
  Kind kind = Kind::Call;
  FunctionId function{};
  PrimitiveId primitive{};
  std::vector<Term> args = {};
  Term value = {};               ///< Call, Primitive: the variable bound; Set: the new output
  bool skip_on_failure = false;  ///< Call, Primitive: a failure drops this match instead of raising an Error
  std::string message = {};      ///< Panic, and the text of the error a failing Call or Primitive raises

  /// value = function(args): constructors and relations insert the row if it is missing (a constructor with a
  /// fresh id), functions without the row fail.
  [[nodiscard]] static Action call(FunctionId function, std::vector<Term> args, Term value);
  /// value = primitive(args).
  [[nodiscard]] static Action primitive_call(PrimitiveId primitive, std::vector<Term> args, Term value,
                                             bool skip_on_failure = false);
  /// function(args) := value, through the function's merge; on a constructor: unites with the present output.
  [[nodiscard]] static Action set(FunctionId function, std::vector<Term> args, Term value);
  [[nodiscard]] static Action unite(Term left, Term right);
  [[nodiscard]] static Action remove(FunctionId function, std::vector<Term> args);
  /// The row stays, for congruence and look-ups, but neither rules nor extraction see it any more. A missing
  /// row of a constructor or relation is created, subsumed.
  [[nodiscard]] static Action subsume(FunctionId function, std::vector<Term> args);
  /// Raises an Error with this message when a match gets here; a step's other rules run first.
  [[nodiscard]] static Action panic(std::string message);
};

/// Actions over variables; `Query::variables` of a rule come first, `variables` are the further ones.
struct ActionBlock {
  std::vector<Variable> variables = {};
  std::vector<Action> actions = {};
};

struct RuleSpec {
  std::string name = {};    ///< unique within the engine
  std::string origin = {};  ///< where it was written, for messages: "arith.egg:12:3"
  Query query = {};
  ActionBlock actions = {};  ///< its variables are numbered after the query's
  bool naive = false;        ///< match the whole database every time, not only what is new
};

// --- Functions

enum class FunctionKind : uint8_t { Constructor, Function, Relation };

/// What happens when a row gets a second output. Different outputs are merged in all kinds. Of two equal ones
/// a Program computes what its result needs, too: (+ old new) doubles. There a call of a table of the
/// result's sort denotes the value that both are, as in egglog; so (C old new) leaves it unchanged.
struct Merge {
  enum class Kind : uint8_t { Union, AssertEqual, Old, New, Program, Callback };
  Kind kind = Kind::AssertEqual;
  ActionBlock program = {};  ///< Program: variable 0 is the old output, 1 the new one, `variables` start at 2
  Term result = {};          ///< Program: the merged output
  std::function<Value(Value previous, Value next)> callback = {};  ///< Callback: pure, idempotent

  [[nodiscard]] static Merge unite() { return {Kind::Union, {}, {}, {}}; }
  [[nodiscard]] static Merge assert_equal() { return {Kind::AssertEqual, {}, {}, {}}; }
  [[nodiscard]] static Merge keep_old() { return {Kind::Old, {}, {}, {}}; }
  [[nodiscard]] static Merge keep_new() { return {Kind::New, {}, {}, {}}; }
  [[nodiscard]] static Merge computed(ActionBlock program, Term result);
  [[nodiscard]] static Merge computed(std::function<Value(Value previous, Value next)> callback);
};

struct FunctionSpec {
  std::string name = {};
  FunctionKind kind = FunctionKind::Constructor;
  std::vector<SortId> inputs = {};
  SortId output = kUnit;
  double cost = 1;             ///< of one node in extraction, its children not counted
  bool unextractable = false;  ///< never part of an extracted term
  bool hidden = false;         ///< a helper of the front-end: not listed by `functions_listed`, not in JSON
  Merge merge = {};            ///< Functions only; constructors unite
};

/// A pure function on values; nullopt = it does not apply (the rule does not fire). Must depend on content
/// only, never on the numbering of handles. It may intern new values and call the const members of the
/// engine.
using PrimitiveFunction = std::function<std::optional<Value>(std::span<const Value> args)>;

struct PrimitiveSpec {
  std::string name = {};
  PrimitiveFunction call = {};
  bool memo = false;        ///< remember results by argument; for functions that cost over a microsecond
  bool mutates = false;     ///< it may call `add`, `set`, `unite` on the engine: then only in actions
  bool reads = false;       ///< it looks rows up: proofs take what it gave as a condition on trust
  bool idempotent = false;  ///< of equal arguments it gives that argument: merges skip it for equal outputs
  std::vector<SortId> inputs = {};  ///< optional; `rewrite` and `add_term` use them to tell overloads apart
  SortId output = kUnit;
};

// --- Schedules, budgets, reports

/// Applies a rule's matches only in steps where they are few, so that rules which explode do not take all the
/// time and room: one with more than `match_limit` matches is banned for `ban_length` steps. Its matches are
/// kept meanwhile and looked at again afterwards; limit and length double with each ban. A step that changes
/// nothing while rules are banned ends the shortest ban. Source: the scheduler of egg (Willsey et al., POPL
/// 2021).
///
/// A handle: copies share what is known of the rules. Serves one engine; what it keeps is lost with the last
/// copy, and must not outlive a `pop` of the rules.
class BackOff {
 public:
  explicit BackOff(uint64_t match_limit = 1000, uint64_t ban_length = 5);
  struct State;
  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

struct Schedule {
  enum class Kind : uint8_t { Run, Seq, Repeat, Saturate };
  Kind kind = Kind::Run;
  RulesetId ruleset{};
  int64_t count = 1;                ///< Repeat: times
  std::vector<Schedule> body = {};  ///< Seq: in order; Repeat, Saturate: one or more, in order
  std::vector<Query> until = {};  ///< Run: skipped, and the surrounding repeat stops, once all of them match
  std::optional<BackOff> scheduler = {};  ///< Run: decides which rules apply their matches; none: all do

  /// One iteration of a ruleset.
  [[nodiscard]] static Schedule run(RulesetId ruleset, std::vector<Query> until = {});
  /// One iteration in which the scheduler decides which rules apply their matches.
  [[nodiscard]] static Schedule run_with(BackOff scheduler, RulesetId ruleset, std::vector<Query> until = {});
  [[nodiscard]] static Schedule seq(std::vector<Schedule> body);
  [[nodiscard]] static Schedule repeat(int64_t count, Schedule body);
  /// Repeats until an iteration of the body changes nothing.
  [[nodiscard]] static Schedule saturate(Schedule body);
};

/// Limits on one `EGraph::run`. They hold inside an iteration and inside a rebuild (time is checked every few
/// hundred matches and few thousand rows, and no index or larger hash is begun that would take too long;
/// sizes so often that a few hundred matches go past them at most), and inside primitives. The e-graph is
/// consistent afterwards: a rebuild that ran out of time is completed by the next call that reads. Running
/// again continues where it stopped. Errors: Error for seconds that are not more than 0.
struct Budget {
  double seconds = std::numeric_limits<double>::infinity();  ///< no limit
  uint64_t nodes = std::numeric_limits<uint64_t>::max();     ///< rows of all tables together
  uint64_t bytes = std::numeric_limits<uint64_t>::max();     ///< of tables, indexes, the union-find, interned
                                                             ///< values, explanations, what `push` saved, and
                                                             ///< texts that are printed
};

/// Finished: the schedule ran to its end. Saturated: so, and its last iteration changed nothing and held
/// nothing back. Interrupted: by the flag of EgglogOptions.
enum class StopReason : uint8_t {
  Finished,
  Saturated,
  Until,
  TimeBudget,
  NodeBudget,
  ByteBudget,
  Interrupted
};
[[nodiscard]] std::string_view name_of(StopReason reason);

struct RuleReport {
  RuleId rule{};
  std::string name = {};
  uint64_t runs = 0;
  uint64_t searched = 0;  ///< rows looked at
  uint64_t matched = 0;   ///< bindings found
  uint64_t applied = 0;   ///< rows added or changed, and effective unions
  double search_s = 0, apply_s = 0;
};

struct Report {
  StopReason stop = StopReason::Finished;
  bool updated = false;    ///< the database changed
  bool held_back = false;  ///< the last iteration changed nothing, but its scheduler keeps matches back
  uint64_t iterations = 0;
  uint64_t unions = 0;
  double total_s = 0, rebuild_s = 0, plan_s = 0;  ///< plan: choosing joins and building indexes
  std::vector<uint64_t> rows_after;               ///< rows of all tables after each iteration
  std::vector<RuleReport> rules;                  ///< every rule that ran, in order of declaration
  void add(const Report& later);                  ///< sums; `stop` becomes the later one's
};

// --- Terms

using Cost = double;

/// Is this row wanted?
using RowFilter = std::function<bool(FunctionId, std::span<const Value> args, Value output)>;

/// An extracted term, shared subterms stored once. Children come before parents.
struct TermDag {
  struct Node {
    bool is_function = false;
    FunctionId function{};   ///< of a function application
    SortId sort{};           ///< the node's sort
    Value value = kNoValue;  ///< the e-class, or the literal's or container's handle
    std::vector<uint32_t> children;
  };
  std::vector<Node> nodes;
  uint32_t root = 0;
  Cost cost = 0;
};

/// How extraction prices a term. Null members mean the additive default: constructor cost plus children.
/// Must be monotone: the result is at least each child's cost, and grows with them.
struct CostModel {
  std::function<Cost(FunctionId, std::span<const Value> args, std::span<const Cost> children)> node = {};
  std::function<Cost(SortId, Value, std::span<const Cost> elements)> literal = {};
};

/// A row that a primitive made or looked up while an action called it (`EGraph::add`, `EGraph::lookup`).
struct TableAccess {
  size_t action = 0;  ///< of the rule's
  FunctionId function{};
  std::vector<Value> args = {};
  Value term = kNoValue;   ///< of constructors: what stands for function(args)
  Value value = kNoValue;  ///< of the row; none if there is no such row
};

/// `from` = `to`: ids of terms (see `EGraph::term_of`), for the reason given.
struct ExplanationStep {
  enum class Kind : uint8_t {
    Given,       ///< united from outside, or by a merge that a set from outside caused
    Rule,        ///< united by a rule's action
    Congruence,  ///< two applications of one function to arguments that are equal by earlier steps
  };
  Kind kind = Kind::Given;
  Value from = kNoValue, to = kNoValue;
  RuleId rule{};                     ///< Rule
  std::vector<Value> bindings = {};  ///< Rule: values of the query's variables
  std::vector<Value> premises =
      {};  ///< Rule: for each atom the term whose row matched; relations, functions: none
  std::vector<Value> made =
      {};  ///< Rule: for each action that is a call what it gave, of constructors the term; else none
  std::vector<TableAccess> accesses = {};  ///< Rule: by the primitives that its actions call, in order
};

/// Why two ids are equal. Each step follows from earlier ones; `chain` leads from the left id to the right
/// one.
struct Explanation {
  struct Link {
    uint32_t step = 0;
    bool backward = false;  ///< the step is read from `to` to `from`
  };
  std::vector<ExplanationStep> steps;
  std::vector<Link> chain;
};

/// The function application that first made an id, with the ids it was made from.
struct TermOrigin {
  FunctionId function{};
  std::vector<Value> args;
  std::optional<RuleId> rule;  ///< the rule whose action made it
};

// --- The engine

struct EngineState;

class EGraph {
 public:
  EGraph();
  ~EGraph();
  EGraph(EGraph&&) noexcept;
  EGraph& operator=(EGraph&&) noexcept;

  // -- Declarations. Names are unique per kind; a second declaration is an Error.

  SortId eq_sort(std::string name);
  SortId primitive_sort(PrimitiveSort sort);
  SortId container_sort(ContainerSort sort);
  FunctionId function(FunctionSpec spec);
  FunctionId constructor(std::string name, std::vector<SortId> inputs, SortId output, double cost = 1);
  FunctionId relation(std::string name, std::vector<SortId> inputs);
  PrimitiveId primitive(PrimitiveSpec spec);
  RulesetId ruleset(std::string name);
  /// A ruleset that runs the rules of others (also those added to them later), once each.
  RulesetId combined_ruleset(std::string name, std::vector<RulesetId> parts);
  RuleId rule(RulesetId ruleset, RuleSpec spec);

  // -- Rules and terms as text. S-expressions: `?x` is a variable, `(Name arg ...)` a constructor, function
  // or primitive call (relations in conditions only), 42, 2.5, "text", true, false are literals, `_` matches
  // anything. Errors name the text, the position and the nearest known name.

  /// Wherever `left` matches and all `conditions` hold, unites it with `right`. A condition is a pattern
  /// (a row that must exist, or a primitive call that must not fail) or `(= pattern pattern)`.
  RuleId rewrite(RulesetId ruleset, std::string name, std::string_view left, std::string_view right,
                 std::vector<std::string> conditions = {});
  /// A general rule in the same notation: facts as conditions above; actions are `(union a b)`,
  /// `(set (f a) b)`, `(let ?x term)`, `(delete (f a))`, `(subsume (f a))`, `(panic "text")` or a term.
  RuleId rule(RulesetId ruleset, std::string name, std::vector<std::string> facts,
              std::vector<std::string> actions);
  /// Adds a ground term; returns its value.
  Value add_term(std::string_view term);
  [[nodiscard]] std::string to_string(const TermDag& term) const;

  // -- Values of the built-in sorts. Small integers are stored in place, everything else is interned.

  [[nodiscard]] Value i64(int64_t x);
  [[nodiscard]] int64_t as_i64(Value v) const;
  [[nodiscard]] Value f64(double x);  ///< -0.0 is the value 0.0, and all NaNs are one value
  [[nodiscard]] double as_f64(Value v) const;
  [[nodiscard]] Value string(std::string_view x);
  [[nodiscard]] std::string_view as_string(Value v) const;  ///< valid as long as the engine
  [[nodiscard]] static Value boolean(bool x) { return x ? 1 : 0; }
  [[nodiscard]] static bool as_bool(Value v) { return v != 0; }

  // -- Facts. Arguments may be stale ids. Changes are seen by queries at once; congruence is restored lazily,
  // by the next call that reads (or by `rebuild`).

  /// The row's output; inserts it if missing (constructors: a fresh id; relations: Unit). Functions: Error if
  /// missing.
  Value add(FunctionId function, std::span<const Value> args);
  Value add(FunctionId function, std::initializer_list<Value> args);
  void set(FunctionId function, std::span<const Value> args, Value output);
  /// Appends many rows, column-wise: `columns` holds one span per argument, then the output for functions
  /// (constructors get fresh ids, relations none). The fast way in.
  void add_rows(FunctionId function, std::span<const std::span<const Value>> columns);
  void unite(Value left, Value right);
  void remove(FunctionId function, std::span<const Value> args);
  void subsume(FunctionId function, std::span<const Value> args);
  /// Runs an action block once; returns the values of all its variables. `initial` are those of the first
  /// variables of the block's numbering.
  std::vector<Value> execute(const ActionBlock& block, std::span<const Value> initial = {});
  /// A fresh id that no row mentions.
  Value fresh_id();
  void rebuild();
  /// Forgets all rows and ids; keeps declarations, rules and interned values: an engine is reused this way.
  void clear_facts();

  // -- Reading.

  [[nodiscard]] Value find(Value id) const;                   ///< root of an e-class id
  [[nodiscard]] Value canonical(SortId sort, Value v) const;  ///< of any sort, containers included
  [[nodiscard]] std::optional<Value> lookup(FunctionId function, std::span<const Value> args) const;
  [[nodiscard]] bool is_subsumed(FunctionId function, std::span<const Value> args) const;
  [[nodiscard]] uint64_t row_count(FunctionId function) const;
  [[nodiscard]] uint64_t row_count() const;
  [[nodiscard]] uint64_t class_count() const;
  [[nodiscard]] uint64_t size_bytes() const;
  /// Rows in order of insertion; `visit(args, output, subsumed)` returns false to stop.
  void for_each_row(
      FunctionId function,
      const std::function<bool(std::span<const Value> args, Value output, bool subsumed)>& visit) const;
  /// Calls `visit` with the values of the query's variables for each match, until it returns false. Returns
  /// how many were visited. `visit` must not change the engine.
  uint64_t match(const Query& query, const std::function<bool(std::span<const Value>)>& visit) const;
  [[nodiscard]] bool check(const Query& query) const;

  [[nodiscard]] const FunctionSpec& spec(FunctionId function) const;
  [[nodiscard]] const RuleSpec& spec(RuleId rule) const;
  [[nodiscard]] const PrimitiveSpec& spec(PrimitiveId primitive) const;
  [[nodiscard]] const std::string& sort_name(SortId sort) const;
  [[nodiscard]] bool is_eq_sort(SortId sort) const;
  [[nodiscard]] bool is_container_sort(SortId sort) const;
  [[nodiscard]] const ContainerSort& sort_hooks(SortId sort) const;  ///< of primitive and container sorts
  [[nodiscard]] std::optional<SortId> find_sort(std::string_view name) const;
  [[nodiscard]] std::optional<FunctionId> find_function(std::string_view name) const;
  [[nodiscard]] std::optional<RulesetId> find_ruleset(std::string_view name) const;
  [[nodiscard]] std::vector<FunctionId> functions_listed()
      const;  ///< in order of declaration, hidden ones not
  [[nodiscard]] std::vector<SortId> sorts() const;

  // -- Running.

  Report run(const Schedule& schedule, const Budget& budget = {});
  Report run(RulesetId ruleset, int64_t iterations = 1, const Budget& budget = {});

  /// Threads that `run` and `rebuild` may use, the caller's included; 1 at first. What they do does not
  /// depend on it. The further ones sleep between calls.
  void set_threads(uint32_t count);
  [[nodiscard]] uint32_t threads() const;

  // -- Snapshots: declarations, rules and facts. Interned values stay.

  void push();
  void pop(size_t levels = 1);

  // -- Explanations. Off by default and then free; on, each union and each new id is logged.

  /// Error unless the e-graph is still empty.
  void enable_explanations();
  [[nodiscard]] bool explanations_enabled() const;
  /// Error if the ids are not equal, or if explanations are off.
  [[nodiscard]] Explanation explain(Value left, Value right) const;
  /// The term that an id denotes. Error if explanations are off or the id came from `fresh_id`.
  [[nodiscard]] TermOrigin term_of(Value id) const;
  /// The term of an id as text, as it was first made.
  [[nodiscard]] std::string term_text(Value id) const;
  /// Checks every step against the rules and the terms' origins alone, with its own union-find; given
  /// steps and rows of relations and functions are trusted. Returns "" or what is wrong.
  [[nodiscard]] std::string check_explanation(Value left, Value right, const Explanation& explanation) const;
  /// One line for each link of the chain: terms and reasons.
  [[nodiscard]] std::string to_string(const Explanation& explanation, Value left) const;

  // -- JSON: eq-sorts, functions that are not hidden, and their rows.
  //
  //   {"luminal-egraph": 1, "sorts": ["Math"],
  //    "functions": [{"name": "Num", "kind": "constructor", "inputs": ["i64"], "output": "Math", "cost": 1,
  //                   "rows": [{"args": [7], "output": 0}]}, ...]}
  //
  // Ids are numbered from 0 in order of appearance. i64, f64, bool and String are JSON's own values (an f64
  // that is not finite is its name), Unit is null, other sorts are {"text": ...}, containers {"elements":
  // [{"sort": ..., "value": ...}, ...]}. Optional: "unextractable" of a function, "subsumed" of a row.

  /// With `keep`, only the rows that it wants; it is asked in the order of `functions_listed`, then of rows.
  [[nodiscard]] std::string to_json(const RowFilter& keep = {}) const;
  /// Adds the rows of such a text; eq-sorts, constructors and relations that are missing are declared, a
  /// function must be there (its merge is not in the text). Errors: FormatError with the place.
  void load_json(std::string_view text);

  [[nodiscard]] EngineState& state() { return *state_; }
  [[nodiscard]] const EngineState& state() const { return *state_; }

 private:
  std::unique_ptr<EngineState> state_;
};

/// Cheapest terms. Computed for the engine's present state by the constructor; later changes are not seen.
/// Cost: linear in the rows per round of improvement, a handful of rounds.
class Extractor {
 public:
  explicit Extractor(EGraph& graph, CostModel model = {});
  ~Extractor();
  Extractor(Extractor&&) noexcept;

  /// Tree cost of the best term; nullopt if none is finite.
  [[nodiscard]] std::optional<Cost> cost(SortId sort, Value value) const;
  /// The term of least tree cost. Ties go to the older row. Never cyclic.
  [[nodiscard]] std::optional<TermDag> best(SortId sort, Value value) const;
  /// Up to k different terms, one per top-level row of the class, cheapest first; each is best below its
  /// root.
  [[nodiscard]] std::vector<TermDag> variants(SortId sort, Value value, size_t k) const;
  /// The k cheapest different terms by tree cost, choices below the root included. `model.node` must be null.
  [[nodiscard]] std::vector<TermDag> k_best(SortId sort, Value value, size_t k) const;
  /// A term in which a shared subterm is paid once. Exact by branch and bound while at most `exact_classes`
  /// classes are reachable, greedy and locally improved beyond. Additive costs only.
  [[nodiscard]] std::optional<TermDag> best_dag(SortId sort, Value value, size_t exact_classes = 24) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::egraph
