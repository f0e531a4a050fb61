#include <mutex>
#include <unordered_map>

#include "base/fork.h"
#include "luminal/egraph.h"
#include "luminal/error.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"
#include "symbolic/prove.h"

/// Simplification by equality saturation. The e-graph holds binary terms; each class carries the smallest
/// canonical formula seen for it (`form`), computed bottom-up from its terms and merged by size. Laws that
/// the canonical form does not apply by itself, because they lead through longer formulas or pay off only in
/// company, make further terms; the form of the root is the answer. Facts reach the rules as conditions on
/// forms. No rule brings in a division that its left side lacks, so no error at zero can be added.
namespace luminal {
namespace {

using egraph::kI64;
using egraph::Value;
using symbolic::Kind;
using symbolic::kind_of;
using symbolic::Node;

constexpr uint64_t kMaxRows = 6000;  // of one saturation
constexpr int64_t kMaxRounds = 8;    // of all rules
constexpr int kMaxRestarts = 3;      // from the form found, while it gets smaller
constexpr uint32_t kMaxInput = 400;  // nodes; larger formulas are returned as they are

bool smaller(const Expression& a, const Expression& b) {
  if (a.node().size != b.node().size) return a.node().size < b.node().size;
  return symbolic::compare(a, b) < 0;
}

using BinaryOp = Expression (*)(const Expression&, const Expression&);

Expression less_than(const Expression& a, const Expression& b) { return a.lt(b); }

struct Operation {
  const char* name;
  BinaryOp apply;
};
constexpr Operation kOperations[] = {
    {"Add", symbolic::add},    {"Mul", symbolic::multiply}, {"Div", symbolic::divide},
    {"Mod", symbolic::modulo}, {"Min", symbolic::minimum},  {"Max", symbolic::maximum},
    {"Less", less_than},       {"And", symbolic::bit_and},  {"Or", symbolic::bit_or},
};

struct Law {
  const char *name, *left, *right;
  std::vector<std::string> conditions = {};
};

// Source of the laws on floors: Graham, Knuth, Patashnik, "Concrete Mathematics", chapter 3; on min and max:
// any distributive lattice that addition respects.
const std::vector<Law>& laws() {
  static const auto* const all = new std::vector<Law>{
      {"add-commutes", "(Add ?a ?b)", "(Add ?b ?a)"},
      {"add-associates", "(Add (Add ?a ?b) ?c)", "(Add ?a (Add ?b ?c))"},
      {"mul-commutes", "(Mul ?a ?b)", "(Mul ?b ?a)"},
      {"mul-associates", "(Mul (Mul ?a ?b) ?c)", "(Mul ?a (Mul ?b ?c))"},
      {"factor-out", "(Add (Mul ?a ?b) (Mul ?a ?c))", "(Mul ?a (Add ?b ?c))"},
      // x - n*(x/n) is a remainder.
      {"mod-from-div",
       "(Add ?x (Mul ?m (Div ?x ?n)))",
       "(Mod ?x ?n)",
       {"(= ?fm (form ?m))", "(= ?fn (form ?n))", "(opposite ?fm ?fn)"}},
      {"mod-from-div-symbolic",
       "(Add ?x (Mul ?k (Mul ?n (Div ?x ?n))))",
       "(Mod ?x ?n)",
       {"(= ?fk (form ?k))", "(is-minus-one ?fk)"}},
      {"min-commutes", "(Min ?a ?b)", "(Min ?b ?a)"},
      {"max-commutes", "(Max ?a ?b)", "(Max ?b ?a)"},
      {"min-associates", "(Min (Min ?a ?b) ?c)", "(Min ?a (Min ?b ?c))"},
      {"max-associates", "(Max (Max ?a ?b) ?c)", "(Max ?a (Max ?b ?c))"},
      {"min-common-summand", "(Min (Add ?a ?c) (Add ?b ?c))", "(Add (Min ?a ?b) ?c)"},
      {"max-common-summand", "(Max (Add ?a ?c) (Add ?b ?c))", "(Add (Max ?a ?b) ?c)"},
      {"min-common-summand-alone", "(Min ?c (Add ?b ?c))", "(Add (Min (Num 0) ?b) ?c)"},
      {"max-common-summand-alone", "(Max ?c (Add ?b ?c))", "(Add (Max (Num 0) ?b) ?c)"},
      {"min-common-factor",
       "(Min (Mul ?c ?a) (Mul ?c ?b))",
       "(Mul ?c (Min ?a ?b))",
       {"(= ?fc (form ?c))", "(nonnegative ?fc)"}},
      {"max-common-factor",
       "(Max (Mul ?c ?a) (Mul ?c ?b))",
       "(Mul ?c (Max ?a ?b))",
       {"(= ?fc (form ?c))", "(nonnegative ?fc)"}},
      {"min-of-negated",
       "(Mul ?k (Min ?a ?b))",
       "(Max (Mul ?k ?a) (Mul ?k ?b))",
       {"(= ?fk (form ?k))", "(is-minus-one ?fk)"}},
      {"max-of-negated",
       "(Mul ?k (Max ?a ?b))",
       "(Min (Mul ?k ?a) (Mul ?k ?b))",
       {"(= ?fk (form ?k))", "(is-minus-one ?fk)"}},
      {"min-plus-max", "(Add (Min ?a ?b) (Max ?a ?b))", "(Add ?a ?b)"},
      {"min-absorbs", "(Min ?a (Max ?a ?b))", "?a"},
      {"max-absorbs", "(Max ?a (Min ?a ?b))", "?a"},
      {"min-over-max", "(Max (Min ?a ?b) (Min ?a ?c))", "(Min ?a (Max ?b ?c))"},
      {"max-over-min", "(Min (Max ?a ?b) (Max ?a ?c))", "(Max ?a (Min ?b ?c))"},
      {"and-commutes", "(And ?a ?b)", "(And ?b ?a)"},
      {"or-commutes", "(Or ?a ?b)", "(Or ?b ?a)"},
      {"and-associates", "(And (And ?a ?b) ?c)", "(And ?a (And ?b ?c))"},
      {"or-associates", "(Or (Or ?a ?b) ?c)", "(Or ?a (Or ?b ?c))"},
      {"and-absorbs", "(And ?a (Or ?a ?b))", "?a"},
      {"or-absorbs", "(Or ?a (And ?a ?b))", "?a"},
      {"and-over-or", "(Or (And ?a ?b) (And ?a ?c))", "(And ?a (Or ?b ?c))"},
      {"or-over-and", "(And (Or ?a ?b) (Or ?a ?c))", "(Or ?a (And ?b ?c))"},
      // On 0 and 1 a product is a conjunction, and 1 - x a negation.
      {"and-from-mul",
       "(Mul ?a ?b)",
       "(And ?a ?b)",
       {"(= ?fa (form ?a))", "(= ?fb (form ?b))", "(boolean ?fa)", "(boolean ?fb)"}},
      {"not-less",
       "(Add (Num 1) (Mul ?k (Less ?a ?b)))",
       "(Less ?b (Add ?a (Num 1)))",
       {"(= ?fk (form ?k))", "(is-minus-one ?fk)"}},
  };
  return *all;
}

// An engine with the laws loaded; one for each thread, reused.
class Saturation {
 public:
  Saturation() {
    term_ = graph_.eq_sort("Term");
    egraph::PrimitiveSort forms;
    forms.name = "Form";
    forms.print = [this](Value v, std::span<const std::string>) { return forms_[v].to_text(); };
    forms.compare = [this](Value a, Value b) { return symbolic::compare(forms_[a], forms_[b]); };
    form_sort_ = graph_.primitive_sort(std::move(forms));
    number_ = graph_.constructor("Num", {kI64}, term_);
    leaf_ = graph_.constructor("Leaf", {form_sort_}, term_);
    egraph::FunctionSpec form;
    form.name = "form";
    form.kind = egraph::FunctionKind::Function;
    form.inputs = {term_};
    form.output = form_sort_;
    form.merge =
        egraph::Merge::computed([this](Value a, Value b) { return smaller(forms_[b], forms_[a]) ? b : a; });
    form_ = graph_.function(std::move(form));
    rules_ = graph_.ruleset("laws");
    declare_operations();
    declare_conditions();
    for (const Law& law : laws()) graph_.rewrite(rules_, law.name, law.left, law.right, law.conditions);
  }
  Saturation(const Saturation&) = delete;
  Saturation& operator=(const Saturation&) = delete;

  Expression smallest(const Expression& e) {
    graph_.clear_facts();
    terms_.clear();
    const Value root = insert(e);
    egraph::Budget budget;
    budget.nodes = kMaxRows;
    graph_.run(rules_, kMaxRounds, budget);
    const Value key = graph_.find(root);
    const auto best = graph_.lookup(form_, std::span(&key, 1));
    return best ? forms_[*best] : e;
  }

 private:
  // op(form a, form b) is a form of (Op a b).
  void declare_operations() {
    for (const Operation& op : kOperations) {
      operations_[op.name] = graph_.constructor(op.name, {term_, term_}, term_);
      const std::string of_forms = std::string("form-") + op.name;
      egraph::PrimitiveSpec primitive;
      primitive.name = of_forms;
      primitive.inputs = {form_sort_, form_sort_};
      primitive.output = form_sort_;
      primitive.memo = true;
      primitive.call = [this, apply = op.apply](std::span<const Value> args) -> std::optional<Value> {
        try {
          return handle(apply(forms_[args[0]], forms_[args[1]]));
        } catch (const Error&) {  // overflows in this form: the class keeps its others
          return std::nullopt;
        }
      };
      graph_.primitive(std::move(primitive));
      const std::string name = op.name;
      graph_.rule(rules_, "form-of-" + name,
                  {"(= ?t (" + name + " ?a ?b))", "(= ?x (form ?a))", "(= ?y (form ?b))",
                   "(= ?z (" + of_forms + " ?x ?y))"},
                  {"(set (form ?t) ?z)"});
    }
  }

  void declare_condition(const char* name, size_t arity, bool (*holds)(std::span<const Expression>)) {
    egraph::PrimitiveSpec primitive;
    primitive.name = name;
    primitive.inputs.assign(arity, form_sort_);
    primitive.call = [this, holds](std::span<const Value> args) -> std::optional<Value> {
      std::vector<Expression> of;
      for (Value v : args) of.push_back(forms_[v]);
      if (!holds(of)) return std::nullopt;
      return egraph::kUnitValue;
    };
    graph_.primitive(std::move(primitive));
  }
  void declare_conditions() {
    declare_condition("nonnegative", 1, [](auto of) { return symbolic::proves_nonnegative(of[0]); });
    declare_condition("boolean", 1, [](auto of) { return symbolic::is_boolean(of[0]); });
    declare_condition("is-minus-one", 1, [](auto of) { return symbolic::is_constant(of[0], -1); });
    declare_condition("opposite", 2, [](auto of) {
      const auto a = of[0].constant(), b = of[1].constant();
      return a && b && *a != INT64_MIN && *b == -*a;
    });
  }

  Value handle(const Expression& e) {
    const auto [at, fresh] = handles_.emplace(&e.node(), static_cast<Value>(forms_.size()));
    if (fresh) forms_.push_back(e);
    return at->second;
  }

  Value binary(const char* op, Value a, Value b) { return graph_.add(operations_.at(op), {a, b}); }

  // The formula as binary terms, its canonical subformulas as their first forms.
  Value insert(const Expression& e) {
    if (const auto at = terms_.find(&e.node()); at != terms_.end()) return at->second;
    const Value id = insert_new(e);
    const Value key[] = {id};
    graph_.set(form_, key, handle(e));
    terms_.emplace(&e.node(), id);
    return id;
  }

  Value insert_new(const Expression& e) {
    const Node& n = e.node();
    const auto along = [&](const char* op) {
      Value all = insert(n.args[0]);
      for (size_t i = 1; i < n.args.size(); ++i) all = binary(op, all, insert(n.args[i]));
      return all;
    };
    switch (n.kind) {
      case Kind::Constant:
        return graph_.add(number_, {graph_.i64(n.value)});
      case Kind::FloorDiv:
        return along("Div");
      case Kind::Mod:
        return along("Mod");
      case Kind::Min:
        return along("Min");
      case Kind::Max:
        return along("Max");
      case Kind::And:
        return along("And");
      case Kind::Or:
        return along("Or");
      case Kind::Product:
        return along("Mul");
      case Kind::Negative:
        return binary("Less", insert(n.args[0]), insert(0));
      case Kind::Sum:
        return insert_sum(n);
      default:
        return graph_.add(leaf_, {handle(e)});
    }
  }

  Value insert_sum(const Node& n) {
    std::optional<Value> sum;
    const auto append = [&](Value v) { sum = sum ? binary("Add", *sum, v) : v; };
    for (const symbolic::Term& t : n.terms) {
      const Value m = insert(t.monomial);
      append(t.coefficient == 1 ? m : binary("Mul", insert(t.coefficient), m));
    }
    if (n.value != 0) append(insert(n.value));
    return *sum;
  }

  egraph::EGraph graph_;
  egraph::SortId term_{}, form_sort_{};
  egraph::FunctionId number_{}, leaf_{}, form_{};
  egraph::RulesetId rules_{};
  std::unordered_map<std::string, egraph::FunctionId> operations_;
  std::vector<Expression> forms_;
  std::unordered_map<const Node*, Value> handles_;
  std::unordered_map<const Node*, Value> terms_;
};

Expression saturate(const Expression& e) {
  static thread_local Saturation saturation;
  Expression best = e;
  for (int k = 0; k < kMaxRestarts; ++k) {
    const Expression found = saturation.smallest(best);
    if (found.node().size >= best.node().size) break;
    best = found;
  }
  return best;
}

struct Known {
  std::mutex mutex;
  std::unordered_map<const Node*, Expression> forms;
  Known() {
    hold_while_forking(mutex);
    (void)laws();
  }
};
Known& known() {
  static auto* const made = new Known;  // outlives every static that holds an Expression
  return *made;
}
[[maybe_unused]] const Known& kMadeBeforeMain = known();  // as in interner.cpp

}  // namespace

Expression Expression::simplify() const {
  if (node_->size < 4 || node_->size > kMaxInput) return *this;
  {
    const std::lock_guard lock(known().mutex);
    if (const auto at = known().forms.find(node_); at != known().forms.end()) return at->second;
  }
  const Expression result =
      saturate(*this);  // unlocked: two threads may do the same work, with the same result
  const std::lock_guard lock(known().mutex);
  return known().forms.emplace(node_, result).first->second;
}

}  // namespace luminal
