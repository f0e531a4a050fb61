#include "egraph/language/parse.h"

#include <algorithm>
#include <array>

#include "base/suggest.h"
#include "egraph/language/parser.h"

namespace luminal::egraph::language {

Symbol FreshNames::make(std::string_view hint) {
  const uint64_t count = used_[std::string(hint)]++;
  return symbols_->intern(count == 0 ? fmt::format("@{}", hint) : fmt::format("@{}{}", hint, count));
}

std::vector<Sexp> Sexp::items() const {
  std::vector<Sexp> out;
  for (uint32_t child = index_ + 1; child < node().end; child = tree_->nodes[child].end)
    out.emplace_back(*tree_, child);
  return out;
}

void Parser::parse_all(const std::function<void()>& callback) {
  if (callback) poll_ = &callback;
  for (uint32_t i = 0; i < tree_.nodes.size(); i = tree_.nodes[i].end) {
    poll();
    out_.commands.push_back(command(Sexp(tree_, i)));
  }
}

// One command may be all of the program.
void Parser::poll() const {
  if (poll_) (*poll_)();
}

// -- Small pieces

Symbol Parser::name(const Sexp& sexp, std::string_view what) const {
  if (!sexp.is_atom())
    fail_at(sexp.span(), "expected {}, found {}", what, sexp.is_list() ? "a list" : "a literal");
  return sexp.node().atom;
}

Symbol Parser::new_name(const Sexp& sexp, std::string_view what) const {
  const Symbol symbol = name(sexp, what);
  if (symbol.text()[0] == kReservedPrefix)
    fail_at(sexp.span(), "names that start with '@' are reserved for the language itself");
  return symbol;
}

std::vector<Symbol> Parser::names(List items, std::string_view what) const {
  std::vector<Symbol> out;
  for (const Sexp& item : items) out.push_back(name(item, what));
  return out;
}

std::string Parser::text(const Sexp& sexp, std::string_view what) const {
  const auto* value = sexp.is_literal() ? std::get_if<std::string>(&sexp.literal()) : nullptr;
  if (!value) fail_at(sexp.span(), "expected {} as a string in double quotes", what);
  return *value;
}

int64_t Parser::count(const Sexp& sexp, std::string_view what) const {
  const auto* value = sexp.is_literal() ? std::get_if<int64_t>(&sexp.literal()) : nullptr;
  if (!value || *value < 0) fail_at(sexp.span(), "expected {}, an integer that is not negative", what);
  return *value;
}

std::vector<Sexp> Parser::list(const Sexp& sexp, std::string_view what) const {
  if (!sexp.is_list()) fail_at(sexp.span(), "expected {} in parentheses", what);
  return sexp.items();
}

std::vector<Option> Parser::options(List items) const {
  std::vector<Option> out;
  for (size_t i = 0; i < items.size();) {
    if (!items[i].is_option()) fail_at(items[i].span(), "expected an option, which starts with ':'");
    size_t end = i + 1;
    while (end < items.size() && !items[end].is_option()) ++end;
    out.push_back({items[i], items.subspan(i + 1, end - i - 1)});
    i = end;
  }
  return out;
}

void Parser::wrong_use(const Sexp& whole) const {
  const std::vector<Sexp> items = whole.items();
  const auto found = commands().find(items[0].node().atom.text());
  fail_at(whole.span(), "usage: {}", found->second.usage);
}

bool Parser::constructor_option(const Option& option, std::optional<int64_t>& cost,
                                bool& unextractable) const {
  if (option.name() == ":cost" && option.values.size() == 1)
    cost = count(option.values[0], "the cost");
  else if (option.name() == ":unextractable" && option.values.empty())
    unextractable = true;
  else
    return false;
  return true;
}

void Parser::unknown_option(const Option& option, std::initializer_list<std::string> known) const {
  const std::vector<std::string> names(known);
  const bool is_known = std::find(names.begin(), names.end(), option.name()) != names.end();
  if (is_known)
    fail_at(option.key.span(), "option {} has {} values here", option.name(), option.values.size());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : " ") + name;
  fail_at(option.key.span(), "unknown option '{}'{} (known here: {})", option.name(),
          did_you_mean(option.name(), names), list);
}

Command Parser::start(Command::Kind kind, const Sexp& whole) const {
  Command command;
  command.kind = kind;
  command.span = whole.span();
  return command;
}

// -- Expressions, facts, actions

ExprId Parser::leaf_expr(const Sexp& sexp) {
  if (sexp.is_literal()) return out_.exprs.add_literal(sexp.literal(), sexp.span());
  if (sexp.is_list()) return out_.exprs.add_literal(std::monostate{}, sexp.span());  // "()"
  if (sexp.is_atom("_")) return out_.exprs.add_variable(fresh_.make("_"), sexp.span());
  return out_.exprs.add_variable(new_name(sexp, "a name"), sexp.span());
}

ExprId Parser::fresh_id(const Sexp& sexp) {
  const std::vector<Sexp> items = sexp.items();
  if (items.size() < 2) fail_at(sexp.span(), "usage: (unstable-fresh! <sort> [:cost <n>] [:unextractable])");
  FreshSyntax out;
  out.sort = name(items[1], "a sort");
  out.sort_span = items[1].span();
  for (const Option& option : options(List(items).subspan(2)))
    if (!constructor_option(option, out.cost, out.unextractable))
      unknown_option(option, {":cost", ":unextractable"});
  return out_.exprs.add_fresh(std::move(out), sexp.span());
}

// The tree is in pre-order, the pool in post-order: lists wait on a stack until their arguments are done.
ExprId Parser::expr(const Sexp& sexp) {
  struct Open {
    uint32_t sexp, next;
    ExprId first;
    std::vector<ExprId> args;
  };
  std::vector<Open> open;
  uint32_t at = sexp.index();
  for (;;) {
    poll();
    const Sexp here(tree_, at);
    const SexpNode& node = here.node();
    ExprId done;
    const bool is_fresh =
        here.is_list() && node.end > at + 1 && Sexp(tree_, at + 1).is_atom("unstable-fresh!");
    if (here.is_list() && node.end > at + 1 && !is_fresh) {
      const Sexp head(tree_, at + 1);
      if (!head.is_atom()) fail_at(head.span(), "a call starts with the name of a function");
      open.push_back({at, head.node().end, static_cast<ExprId>(out_.exprs.nodes.size()), {}});
    } else {
      done = is_fresh ? fresh_id(here) : leaf_expr(here);
      if (open.empty()) return done;
      open.back().args.push_back(done);
    }
    while (open.back().next == tree_.nodes[open.back().sexp].end) {
      const Open call = std::move(open.back());
      open.pop_back();
      done = out_.exprs.add_call(tree_.nodes[call.sexp + 1].atom, call.args, call.first,
                                 tree_.nodes[call.sexp].span);
      if (open.empty()) return done;
      open.back().args.push_back(done);
    }
    at = open.back().next;
    open.back().next = tree_.nodes[at].end;
  }
}

std::vector<ExprId> Parser::exprs(List items) {
  std::vector<ExprId> out;
  for (const Sexp& item : items) out.push_back(expr(item));
  return out;
}

Fact Parser::fact(const Sexp& sexp) {
  const std::vector<Sexp> items = list(sexp, "a fact");
  if (items.empty() || !items[0].is_atom()) fail_at(sexp.span(), "a fact is a call, or (= <expr> <expr>)");
  if (!items[0].is_atom("=")) return {.span = sexp.span(), .left = expr(sexp)};
  if (items.size() != 3) fail_at(sexp.span(), "usage: (= <expr> <expr>)");
  const ExprId left = expr(items[1]);
  return {.is_equality = true, .span = sexp.span(), .left = left, .right = expr(items[2])};
}

std::vector<Fact> Parser::facts(List items) {
  std::vector<Fact> out;
  for (const Sexp& item : items) out.push_back(fact(item));
  return out;
}

void Parser::call_target(const Sexp& sexp, ActionSyntax& out) {
  const std::vector<Sexp> items = list(sexp, "a call of a function");
  if (items.empty()) fail_at(sexp.span(), "expected (<function> <expr>*)");
  out.name = name(items[0], "the name of a function");
  out.args = exprs(List(items).subspan(1));
}

ActionSyntax Parser::action(const Sexp& sexp) {
  using Kind = ActionSyntax::Kind;
  const std::vector<Sexp> items = list(sexp, "an action");
  if (items.empty() || !items[0].is_atom()) fail_at(sexp.span(), "an action starts with a name");
  const std::string& head = items[0].node().atom.text();
  ActionSyntax out;
  out.span = sexp.span();
  const auto expect = [&](size_t args, std::string_view usage) {
    if (items.size() != args + 1) fail_at(sexp.span(), "usage: {}", usage);
  };
  if (head == "let" || head == "define") {
    expect(2, "(let <name> <expr>)");
    out.kind = Kind::Let;
    out.name = new_name(items[1], "a name");
    out.value = expr(items[2]);
  } else if (head == "set" || head == "set-cost") {
    expect(2, fmt::format("({} (<function> <expr>*) <expr>)", head));
    out.kind = head == "set" ? Kind::Set : Kind::SetCost;
    call_target(items[1], out);
    out.value = expr(items[2]);
  } else if (head == "delete" || head == "subsume") {
    expect(1, fmt::format("({} (<function> <expr>*))", head));
    out.kind = head == "delete" ? Kind::Delete : Kind::Subsume;
    call_target(items[1], out);
  } else if (head == "union") {
    expect(2, "(union <expr> <expr>)");
    out.kind = Kind::Union;
    out.value = expr(items[1]);
    out.right = expr(items[2]);
  } else if (head == "panic") {
    expect(1, "(panic <string>)");
    out.kind = Kind::Panic;
    out.message = text(items[1], "the message");
  } else {
    out.value = expr(sexp);
  }
  return out;
}

std::vector<ActionSyntax> Parser::actions(List items) {
  std::vector<ActionSyntax> out;
  for (const Sexp& item : items) out.push_back(action(item));
  return out;
}

// -- Schedules

namespace {
constexpr int kMaxNesting = 500;  // of schedules and of (fail ...), which recurse
}

std::vector<ScheduleSyntax> Parser::schedules(List items, int depth) {
  std::vector<ScheduleSyntax> out;
  for (const Sexp& item : items) out.push_back(schedule(item, depth));
  return out;
}

ScheduleSyntax Parser::schedule(const Sexp& sexp, int depth) {
  using Kind = ScheduleSyntax::Kind;
  if (depth > kMaxNesting) fail_at(sexp.span(), "schedules are nested deeper than {} levels", kMaxNesting);
  ScheduleSyntax out;
  out.span = sexp.span();
  if (sexp.is_atom()) {
    out.ruleset = sexp.node().atom;
    return out;
  }
  const std::vector<Sexp> items = list(sexp, "a schedule");
  const List args = items.empty() ? List() : List(items).subspan(1);
  if (items.empty() || !items[0].is_atom()) fail_at(sexp.span(), "a schedule starts with a name");
  const std::string& head = items[0].node().atom.text();
  if (head == "saturate" || head == "seq") {
    out.kind = head == "seq" ? Kind::Seq : Kind::Saturate;
    out.body = schedules(args, depth + 1);
  } else if (head == "repeat") {
    if (args.empty()) fail_at(sexp.span(), "usage: (repeat <number of iterations> <schedule>*)");
    out.kind = Kind::Repeat;
    out.count = count(args[0], "the number of iterations");
    out.body = schedules(args.subspan(1), depth + 1);
  } else if (head == "run") {
    out = run_step(sexp, args);
  } else if (head == "run-with") {
    if (args.empty()) fail_at(sexp.span(), "usage: (run-with <scheduler> [<ruleset>] [:until <fact>*])");
    out = run_step(sexp, args.subspan(1));
    (out.body.empty() ? out : out.body[0]).scheduler = name(args[0], "the name of a scheduler");
  } else if (head == "let-scheduler") {
    out = let_scheduler(sexp, args);
  } else {
    const std::vector<std::string> known{"saturate", "seq", "repeat", "run", "run-with", "let-scheduler"};
    fail_at(
        items[0].span(),
        "unknown schedule '{}'{} (known: saturate, seq, repeat, run, run-with, let-scheduler, or the name "
        "of a ruleset)",
        head, did_you_mean(head, known));
  }
  return out;
}

ScheduleSyntax Parser::let_scheduler(const Sexp& whole, List args) {
  constexpr std::string_view kUsage =
      "usage: (let-scheduler <name> (back-off [:match-limit <n>] [:ban-length <n>]))";
  const std::vector<Sexp> kind = args.size() == 2 ? list(args[1], "a scheduler") : std::vector<Sexp>();
  if (kind.empty() || !kind[0].is_atom("back-off")) fail_at(whole.span(), "{}", kUsage);
  ScheduleSyntax out;
  out.kind = ScheduleSyntax::Kind::LetScheduler;
  out.span = whole.span();
  out.scheduler = new_name(args[0], "the name of the scheduler");
  for (const Option& option : options(List(kind).subspan(1))) {
    int64_t* place = option.name() == ":match-limit"  ? &out.match_limit
                     : option.name() == ":ban-length" ? &out.ban_length
                                                      : nullptr;
    if (!place || option.values.size() != 1) unknown_option(option, {":match-limit", ":ban-length"});
    *place = count(option.values[0], "a number of matches or steps");
  }
  return out;
}

ScheduleSyntax Parser::run_step(const Sexp& whole, List args) {
  ScheduleSyntax out;
  out.span = whole.span();
  if (!args.empty() && !args[0].is_option()) {
    // The number in (run 3) inside a schedule: older programs repeat that way.
    if (args[0].is_atom()) {
      out.ruleset = args[0].node().atom;
      args = args.subspan(1);
    }
    if (!args.empty() && args[0].is_literal()) {
      out.count = count(args[0], "the number of iterations");
      out.kind = ScheduleSyntax::Kind::Repeat;
      args = args.subspan(1);
    }
  }
  out.until = until(whole, args);
  if (out.kind == ScheduleSyntax::Kind::Repeat) {
    ScheduleSyntax step = out;
    step.kind = ScheduleSyntax::Kind::Run;
    out.until.reset();
    out.body.push_back(std::move(step));
  }
  return out;
}

std::optional<std::vector<Fact>> Parser::until(const Sexp& whole, List items) {
  std::optional<std::vector<Fact>> out;
  for (const Option& option : options(items)) {
    if (option.name() != ":until") unknown_option(option, {":until"});
    if (out) fail_at(whole.span(), ":until is given twice");
    out = facts(option.values);
  }
  return out;
}

Program parse_program(const Source& source, SymbolTable& symbols, FreshNames& fresh,
                      const std::function<void()>& poll) {
  const Sexps tree = read_sexps(source, symbols, poll);
  Program program;
  program.exprs.nodes.reserve(tree.nodes.size());
  Parser(tree, program, symbols, fresh).parse_all(poll);
  return program;
}

bool mentions_rationals(const Source& source, SymbolTable& symbols, const std::function<void()>& poll) {
  if (source.text.find("ational") == std::string::npos) return false;
  const Sexps tree = read_sexps(source, symbols, poll);
  constexpr std::array<std::string_view, 5> kDefining{"sort", "datatype", "constructor", "function",
                                                      "relation"};
  bool used = false;
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < tree.nodes.size(); ++i) {
    while (!open.empty() && tree.nodes[open.back()].end <= i) open.pop_back();
    const SexpNode& node = tree.nodes[i];
    if (node.kind == SexpNode::Kind::List) {
      open.push_back(i);
      continue;
    }
    if (node.kind != SexpNode::Kind::Atom) continue;
    const bool is_sort = node.atom.text() == "Rational";
    if ((!is_sort && node.atom.text() != "rational") || open.empty()) continue;
    const Sexp list(tree, open.back());
    const bool is_head = i == list.index() + 1;
    const Sexp head(tree, list.index() + 1);
    const auto defines = [&](const Sexp& word) {
      return std::any_of(kDefining.begin(), kDefining.end(), [&](auto name) { return word.is_atom(name); });
    };
    const bool defined_here = !is_head && defines(head) && i == list.index() + 2;
    const bool is_variant = is_head && open.size() >= 2 && [&] {
      for (size_t k = open.size() - 1; k-- > 0;) {
        const Sexp outer(tree, open[k] + 1);
        if (outer.is_atom("datatype") || outer.is_atom("datatype*")) return true;
      }
      return false;
    }();
    if (defined_here || is_variant) return false;
    used |= is_sort != is_head;
  }
  return used;
}

}  // namespace luminal::egraph::language
