#include "rule/rule_mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <stdexcept>

#include "luminal/math_mode.h"

namespace luminal::search::test {
namespace {

/// A term of the rule language: an atom, or a list whose first part is its head.
struct Term {
  std::string atom;
  std::vector<Term> parts;
  [[nodiscard]] bool is_list() const { return atom.empty(); }
};

class TermReader {
 public:
  explicit TermReader(const std::string& text) : text_(text) {}

  Term read() {
    skip_spaces();
    if (peek() == '(') return list();
    if (peek() == '"') return quoted();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '(' && text_[at_] != ')' && !is_space(text_[at_])) ++at_;
    if (at_ == begin) throw std::invalid_argument("expected a term");
    return {.atom = text_.substr(begin, at_ - begin), .parts = {}};
  }

 private:
  static bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  [[nodiscard]] char peek() const { return text_.at(at_); }
  Term list() {
    Term term;
    for (++at_, skip_spaces(); peek() != ')'; skip_spaces()) term.parts.push_back(read());
    ++at_;
    return term;
  }
  Term quoted() {
    const size_t end = text_.find('"', at_ + 1);
    Term term{.atom = text_.substr(at_, end + 1 - at_), .parts = {}};
    at_ = end + 1;
    return term;
  }

  const std::string& text_;
  size_t at_ = 0;
};

std::string print(const Term& term) {
  if (!term.is_list()) return term.atom;
  std::string text = "(";
  for (const Term& part : term.parts) text += (text.size() > 1 ? " " : "") + print(part);
  return text + ")";
}

bool is_number(const std::string& atom) {
  return std::isdigit(static_cast<unsigned char>(atom[atom.size() > 1 && atom[0] == '-' ? 1 : 0])) != 0;
}
bool is_comparison(const std::string& head) {
  return head == "<" || head == "<=" || head == ">" || head == ">=" || head == "!=";
}
/// Its arguments may change places.
bool is_symmetric(const std::string& head) { return head == "=" || head == "!=" || head == "union"; }

/// How often each variable stands there.
void collect_variables(const Term& term, std::map<std::string, int>& variables) {
  if (!term.is_list()) {
    if (!is_number(term.atom)) ++variables[term.atom];
    return;
  }
  for (size_t i = 1; i < term.parts.size(); ++i) collect_variables(term.parts[i], variables);
}

void collect_heads(const Term& term, std::set<std::string>& heads) {
  if (!term.is_list() || term.parts.empty()) return;
  const std::string& head = term.parts[0].atom;
  if (!head.empty() && head != "=" && head != "union" && !is_comparison(head)) heads.insert(head);
  for (const Term& part : term.parts) collect_heads(part, heads);
}

class Mutator {
 public:
  Mutator(const RuleText& rule, const std::vector<std::string>& heads)
      : rule_(rule), heads_(heads), whole_(TermReader(rule.text).read()) {
    texts_.insert(print(whole_));
    for (const size_t side : {kFacts, kActions})
      for (const Term& each : whole_.parts.at(side).parts) collect_variables(each, variables_);
  }

  std::vector<RuleMutant> run() {
    drop_facts();
    for (const size_t side : {kFacts, kActions})
      for (Term& each : whole_.parts[side].parts) change(each);
    for (int mode = 0; mode < static_cast<int>(rule_.mode); ++mode) change_mode(static_cast<MathMode>(mode));
    return std::move(mutants_);
  }

 private:
  static constexpr size_t kFacts = 1, kActions = 2;  ///< of (rule (facts ..) (actions ..) ..)

  void drop_facts() {
    std::vector<Term>& facts = whole_.parts[kFacts].parts;
    for (size_t i = 0; i < facts.size(); ++i) {
      const Term dropped = facts[i];
      facts.erase(facts.begin() + static_cast<ptrdiff_t>(i));
      emit(print(dropped) + " -> nothing");
      facts.insert(facts.begin() + static_cast<ptrdiff_t>(i), dropped);
    }
  }

  void change(Term& call) {
    if (!call.is_list()) return;
    change_head(call);
    const bool symmetric = is_symmetric(call.parts[0].atom);
    for (size_t i = 1; !symmetric && i < call.parts.size(); ++i)
      for (size_t j = i + 1; j < call.parts.size(); ++j) {
        Term exchanged = call;
        std::swap(exchanged.parts[i], exchanged.parts[j]);
        replace(call, call, exchanged);
      }
    for (size_t i = 1; i < call.parts.size(); ++i) {
      if (call.parts[i].is_list())
        change(call.parts[i]);
      else
        change_atom(call, call.parts[i]);
    }
  }

  void change_head(Term& call) {
    const std::string head = call.parts[0].atom;
    const auto become = [&](const std::string& other) {
      if (other != head) replace(call, call.parts[0], {.atom = other, .parts = {}});
    };
    if (is_comparison(head))
      for (const char* other : {"<", "<=", ">", ">=", "!="}) become(other);
    else if (!is_symmetric(head))
      for (const std::string& other : heads_) become(other);
  }

  void change_atom(Term& call, Term& atom) {
    const std::string was = atom.atom;
    const auto become = [&](const std::string& other) {
      if (other != was) replace(call, atom, {.atom = other, .parts = {}});
    };
    if (is_number(was)) {
      for (const std::string& other : other_numbers(was)) become(other);
      return;
    }
    for (const auto& [other, count] : variables_) become(other);
    if (variables_.at(was) > 1) become("other");  // otherwise that is another name for the same
    for (const char* other : {"0", "1"}) become(other);
  }

  static std::vector<std::string> other_numbers(const std::string& number) {
    if (number.find('.') == std::string::npos)
      return {std::to_string(std::stoll(number) + 1), std::to_string(std::stoll(number) - 1)};
    const double value = std::stod(number);
    return {fmt::format("{:#.17g}", value * 2), fmt::format("{:#.17g}", value / 2)};
  }

  void change_mode(MathMode mode) {
    RuleMutant mutant = made(fmt::format("({}) -> ({})", luminal::name(rule_.mode), luminal::name(mode)));
    mutant.rule.mode = mode;
    std::string& text = mutant.rule.text;
    const std::string from = fmt::format(":ruleset {}", luminal::name(rule_.mode));
    text.replace(text.find(from), from.size(), fmt::format(":ruleset {}", luminal::name(mode)));
    mutants_.push_back(std::move(mutant));
  }

  /// `place` stands in `call`, or is it.
  void replace(Term& call, Term& place, const Term& by) {
    const std::string before = print(call);
    const Term was = place;
    place = by;
    emit(before + " -> " + print(call));
    place = was;
  }

  [[nodiscard]] RuleMutant made(std::string change) const {
    RuleText rule = rule_;
    rule.text = print(whole_);
    return {std::move(change), renamed(rule, "mutant-of-" + rule_.name)};
  }
  void emit(const std::string& change) {
    if (texts_.insert(print(whole_)).second) mutants_.push_back(made(change));
  }

  const RuleText& rule_;
  const std::vector<std::string>& heads_;
  Term whole_;
  std::map<std::string, int> variables_;
  std::set<std::string> texts_;
  std::vector<RuleMutant> mutants_;
};

}  // namespace

std::vector<RuleMutant> mutants_of(const RuleText& rule, const std::vector<std::string>& heads) {
  return Mutator(rule, heads).run();
}

std::vector<std::string> heads_of(const std::vector<RuleText>& rules) {
  std::set<std::string> heads;
  for (const RuleText& rule : rules) {
    const Term whole = TermReader(rule.text).read();
    for (const size_t side : {1U, 2U})
      for (const Term& each : whole.parts.at(side).parts) collect_heads(each, heads);
  }
  return {heads.begin(), heads.end()};
}

RuleText renamed(const RuleText& rule, const std::string& name) {
  RuleText result = rule;
  const std::string from = ":name \"" + rule.name + '"';
  result.text.replace(result.text.find(from), from.size(), ":name \"" + name + '"');
  result.name = name;
  return result;
}

std::string file_text(const RuleText& rule) {
  return fmt::format("; {} ({})\n; {}\n{}\n", rule.name, luminal::name(rule.mode), rule.reason, rule.text);
}

}  // namespace luminal::search::test
