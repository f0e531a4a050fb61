#include <algorithm>
#include <sstream>

#include "base/fail.h"
#include "base/suggest.h"
#include "search/saturate/language.h"
#include "search/saturate/rule_files.h"

namespace luminal::search {
namespace {

/// Reads one file: comments, then the command they tell of.
class RuleReader {
 public:
  /// `own`: laws of the program's, which need no examples.
  RuleReader(const RuleFile& file, bool own, std::vector<RuleText>& rules)
      : name_(file.name), lines_(std::string(file.text)), own_(own), rules_(rules) {}

  void run() {
    std::string line;
    while (next(line)) {
      if (line.empty())
        comments_.clear();
      else if (line.front() == ';')
        comments_.push_back(line.substr(
            line.find_first_not_of("; ") == std::string::npos ? line.size() : line.find_first_not_of("; ")));
      else
        command(line);
    }
  }

 private:
  bool next(std::string& line) {
    ++at_;
    return static_cast<bool>(std::getline(lines_, line));
  }
  [[noreturn]] void wrong(std::string_view what) const {
    luminal::fail("[rules] {}:{}: {}", name_, at_, what);
  }

  void command(std::string line) {
    RuleText rule{.file = std::string(name_)};
    if (!line.starts_with("(rule ")) wrong(fmt::format("expected '(rule ...', found '{}'", line));
    int depth = 0;
    do {
      rule.text += line + '\n';
      bool quoted = false;
      for (const char c : line) {
        if (c == '"') quoted = !quoted;
        if (!quoted) depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      }
    } while (depth > 0 && next(line));
    describe(rule);
    comments_.clear();
    rules_.push_back(std::move(rule));
  }

  void describe(RuleText& rule) {
    if (comments_.empty()) wrong("the rule has no comment; begin one with '; subject-law-detail (mode)'");
    const std::string& head = comments_[0];
    const size_t space = head.find(" (");
    if (space == std::string::npos || head.back() != ')')
      wrong(fmt::format("expected 'subject-law-detail (mode)' above the rule, found '{}'", head));
    rule.name = head.substr(0, space);
    const std::string mode = head.substr(space + 2, head.size() - space - 3);
    bool known = false;
    for (const MathMode each : {MathMode::Strict, MathMode::Relaxed, MathMode::Fast})
      if (luminal::name(each) == mode) {
        rule.mode = each;
        known = true;
      }
    if (!known) wrong(fmt::format("unknown mode '{}'; choose strict, relaxed or fast", mode));
    for (size_t i = 1; i < comments_.size(); ++i) {
      const std::string& text = comments_[i];
      if (text.starts_with("fires:"))
        rule.fires = words(text.substr(6));
      else if (text.starts_with("not:"))
        rule.not_fires = words(text.substr(4));
      else
        rule.reason += (rule.reason.empty() ? "" : " ") + text;
    }
    if (rule.reason.empty())
      wrong(fmt::format("rule '{}' has no reason; say in a comment why it holds", rule.name));
    if (rule.fires.empty() && !own_)
      wrong(fmt::format("rule '{}' has no example where it fires; add '; fires: EXAMPLE'", rule.name));
    if (rule.text.find(":name \"" + rule.name + '"') == std::string::npos)
      wrong(fmt::format("the comment names the rule '{}', but its :name differs", rule.name));
    if (rule.text.find(":ruleset " + mode) == std::string::npos)
      wrong(
          fmt::format("the comment puts rule '{}' into mode {}, but its :ruleset differs", rule.name, mode));
  }
  static std::vector<std::string> words(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> list;
    for (std::string word; stream >> word;) list.push_back(word);
    return list;
  }

  std::string_view name_;
  std::istringstream lines_;
  bool own_;
  std::vector<RuleText>& rules_;
  std::vector<std::string> comments_;
  int at_ = 0;
};

}  // namespace

const std::vector<RuleText>& rule_texts() {
  static const std::vector<RuleText> rules = [] {
    std::vector<RuleText> list;
    for (const RuleFile& file : rule_files()) RuleReader(file, false, list).run();
    return list;
  }();
  return rules;
}

std::vector<RuleText> rules_for(const SearchOptions& options) {
  std::vector<RuleText> rules = rule_texts();
  const size_t ours = rules.size();
  RuleReader({"SearchOptions::rules", options.rules}, true, rules).run();
  std::vector<std::string> names;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (i >= ours && std::ranges::find(names, rules[i].name) != names.end())
      luminal::fail("[rules] there are two rules '{}'; give yours another name", rules[i].name);
    names.push_back(rules[i].name);
  }
  for (const std::string& name : options.rules_off) {
    if (std::ranges::find(names, name) != names.end()) continue;
    const std::string meant = did_you_mean(name, names);
    luminal::fail(
        "[rules] unknown rule '{}' to switch off; `luminal explain` names those that fire in a graph{}", name,
        meant.empty() ? fmt::format("; there are {}", fmt::join(names, ", ")) : meant);
  }
  std::erase_if(rules, [&](const RuleText& rule) { return options.rules_off.contains(rule.name); });
  return rules;
}

}  // namespace luminal::search
