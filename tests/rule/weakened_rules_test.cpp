// Rules weakened in one place: each that says something else must be noticed by the tests of rules.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "rule/examples.h"
#include "rule/law_judge.h"
#include "rule/rule_mutants.h"
#include "support/effort.h"

namespace luminal::search {
namespace {

using test::judge_laws;
using test::Outcome;
using test::RuleMutant;
using test::Subject;

/// The graphs on which rules are judged in one math mode.
struct Collection {
  std::shared_ptr<SpecStore> store;
  std::map<std::string, Subject> examples;
  std::vector<Subject> others;  ///< the examples fused, random graphs, these fused

  [[nodiscard]] std::vector<const Subject*> all() const {
    std::vector<const Subject*> list;
    for (const auto& [name, subject] : examples) list.push_back(&subject);
    for (const Subject& subject : others) list.push_back(&subject);
    return list;
  }
};

Collection& collection(MathMode mode) {
  static std::map<MathMode, Collection> all;
  const auto [place, fresh] = all.try_emplace(mode);
  Collection& own = place->second;
  if (!fresh) return own;
  own.store = std::make_shared<SpecStore>(mode);
  for (const auto& [name, example] : test::examples()) {
    const Subject& plain = own.examples.emplace(name, test::example_subject(name, mode)).first->second;
    own.others.push_back(fused(plain, mode));
  }
  for (int64_t i = 0; i < effort::cases(20, 60); ++i) {
    own.others.push_back(test::random_subject(effort::seed(500) + static_cast<uint64_t>(i), mode));
    own.others.push_back(fused(own.others.back(), mode));
  }
  return own;
}

/// The language in which `rule` stands for the one of the library that is called `name`.
std::unique_ptr<Language> language_with(const std::string& name, const RuleText& rule, MathMode mode) {
  return std::make_unique<Language>(
      SearchOptions{.math = mode, .rules_off = {name}, .rules = test::file_text(rule)},
      collection(mode).store);
}

TEST(WeakenedRules, TheRightOnesHaveNoFault) {
  for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed, MathMode::Fast}) {
    Collection& own = collection(mode);
    Language language({.math = mode}, own.store);
    for (const Subject* subject : own.all())
      EXPECT_EQ(judge_laws(language, *subject, mode).fault, "")
          << subject->name << " " << luminal::name(mode);
  }
}

/// How a mutant was noticed.
enum class Notice {
  Refused,   ///< it does not type-check, so it is no rule
  Example,   ///< it does nothing where its rule fires
  NearMiss,  ///< it fires where its rule must not
  Numbers,   ///< kernels of one class compute different things, or cannot be
  None,
};

/// Looks at the mutants of one rule as the tests of rules look at the rule.
class Examiner {
 public:
  explicit Examiner(const RuleText& rule)
      : rule_(rule), right_(test::renamed(rule, "mutant-of-" + rule.name)) {}

  struct Finding {
    Notice notice = Notice::None;
    std::string how;
    std::string other;  ///< a graph of which it makes another e-graph; empty if there is none
  };

  [[nodiscard]] Finding look_at(const RuleText& mutant) const {
    const MathMode mode = std::max(rule_.mode, MathMode::Relaxed);  // as for Rules.*
    std::unique_ptr<Language> language;
    try {
      language = language_with(rule_.name, mutant, mode);
    } catch (const Error& error) {
      return {.notice = Notice::Refused, .how = error.what(), .other = {}};
    }
    const auto applied = [&](const std::string& example) {
      return judge_laws(*language, collection(mode).examples.at(example), mode, false).applied(mutant.name);
    };
    for (const std::string& example : rule_.fires)
      if (applied(example) == 0) return {.notice = Notice::Example, .how = example, .other = {}};
    for (const std::string& example : rule_.not_fires)
      if (applied(example) != 0) return {.notice = Notice::NearMiss, .how = example, .other = {}};
    Finding finding;
    for (const MathMode each : std::set<MathMode>{mutant.mode, rule_.mode, mode}) {
      compare(mutant, each, finding);
      if (finding.notice != Notice::None) return finding;
    }
    return finding;
  }

 private:
  void compare(const RuleText& mutant, MathMode mode, Finding& finding) const {
    const auto language = language_with(rule_.name, mutant, mode),
               right = language_with(rule_.name, right_, mode);
    for (const Subject* subject : collection(mode).all()) {
      const Outcome outcome = judge_laws(*language, *subject, mode);
      if (!outcome.fault.empty()) {
        finding = {.notice = Notice::Numbers, .how = subject->name + ": " + outcome.fault, .other = {}};
        return;
      }
      if (outcome.signature != judge_laws(*right, *subject, mode, false).signature)
        finding.other = subject->name;
    }
  }

  const RuleText& rule_;
  RuleText right_;  ///< under the name that mutants have, so that it stands in the same place among the rules
};

/// Mutants that say the same as their rule, and why.
struct Equivalent {
  std::string rule;
  std::vector<std::string> changes;
  std::string why;
};

const std::vector<Equivalent>& equivalents() {
  static const std::vector<Equivalent> all = {
      {"kernel-identity-vanishes",
       {"(arg k i) -> (arg k 0)"},
       "A kernel that only copies a tensor reads no other, so the slot is the first."},
      {"kernel-identity-over-reals", {"(arg k i) -> (arg k 0)"}, "The same."},
      {"slots-symmetric-swap",
       {"(< i j) -> nothing", "(< i j) -> (<= i j)", "(< i j) -> (> i j)", "(< i j) -> (>= i j)",
        "(< i j) -> (!= i j)", "(< i j) -> (< j i)", "(< i j) -> (< 0 j)",
        "(symmetric k i j) -> (symmetric k j i)", "(swap k i j) -> (swap k j i)"},
       "Slots change places both ways, and none with itself: the comparison halves the matches."},
      {"slots-symmetric-swap",
       {"(use k i x) -> (use other i x)", "(use k j y) -> (use other j y)"},
       "The fact counts slots; `symmetric` is undefined for those that the kernel has not."},
      {"sum-factor-leaves-producer",
       {"(rounds k) -> nothing", "(rounds k) -> (Op k)", "(rounds k) -> (rounds c)"},
       "`leave-sum-constants` is undefined for sums of integers: asked first, `rounds` saves composing "
       "them."},
      {"sum-factor-leaves-unbounded",
       {"(rounds k) -> nothing", "(rounds k) -> (Op k)", "(rounds k) -> (leave-sum k)"},
       "sum-factor-leaves-exact does the same to sums that do not round, in every mode."},
      {"sum-factor-leaves-unbounded-producer",
       {"(rounds k) -> (rounds c)"},
       "What is composed sums the same as the kernel that it is composed into: its producer sums nothing."},
      {"reduce-repeated-rounded",
       {"(rounds k) -> nothing", "(rounds k) -> (Op k)", "(rounds k) -> (reduce-repeated k)"},
       "reduce-repeated-exact does the same to what does not round, in every mode."},
  };
  return all;
}

/// What became of one rule's mutants.
struct Tally {
  std::map<Notice, int> noticed;
  int equivalent = 0, missed = 0;

  [[nodiscard]] int of(Notice notice) const {
    const auto found = noticed.find(notice);
    return found == noticed.end() ? 0 : found->second;
  }
  [[nodiscard]] std::string row(const std::string& name) const {
    const int example = of(Notice::Example), near_miss = of(Notice::NearMiss), numbers = of(Notice::Numbers);
    return fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name,
                       example + near_miss + numbers + equivalent + missed, example, near_miss, numbers,
                       equivalent, missed);
  }
  void add(const Tally& other) {
    for (const auto& [notice, count] : other.noticed) noticed[notice] += count;
    equivalent += other.equivalent, missed += other.missed;
  }
};

/// Takes the mutant's entry from `left`, if it has one.
bool take_entry(std::set<std::pair<std::string, std::string>>& left, const std::string& rule,
                const std::string& change) {
  const bool known = std::ranges::any_of(equivalents(), [&](const Equivalent& each) {
    return each.rule == rule && std::ranges::find(each.changes, change) != each.changes.end();
  });
  left.erase({rule, change});
  return known;
}

TEST(WeakenedRules, AreNoticed) {
  const auto heads = test::heads_of(rule_texts());
  std::set<std::pair<std::string, std::string>> left;
  for (const Equivalent& each : equivalents())
    for (const std::string& change : each.changes) left.insert({each.rule, change});
  std::string table;
  Tally whole;
  for (const RuleText& rule : rule_texts()) {
    const Examiner examiner(rule);
    Tally tally;
    for (const RuleMutant& mutant : test::mutants_of(rule, heads)) {
      const auto finding = examiner.look_at(mutant.rule);
      if (finding.notice != Notice::None) {
        ++tally.noticed[finding.notice];
        continue;
      }
      if (finding.other.empty() && take_entry(left, rule.name, mutant.change)) {
        ++tally.equivalent;
        continue;
      }
      ++tally.missed;
      ADD_FAILURE() << rule.name << " with " << mutant.change << " is not noticed"
                    << (finding.other.empty()
                            ? ", and makes the same e-graph of every graph: drop the guard, or say in "
                              "equivalents() why it may go unnoticed"
                            : ", though it makes another e-graph of " + finding.other)
                    << "; a graph that tells them apart belongs to tests/rule/examples.cpp and to the "
                       "rule's `fires` or `not`";
    }
    EXPECT_GE(tally.of(Notice::Example), 1) << rule.name << " has no mutants";
    table += tally.row(rule.name);
    whole.add(tally);
  }
  for (const auto& [rule, change] : left)
    ADD_FAILURE() << "equivalents() names a mutant of " << rule
                  << " that is noticed or is not made: " << change;
  std::cout
      << "| law | mutants | silent where it fires | fires at a near-miss | wrong by numbers | equivalent "
         "| missed |\n|---|---:|---:|---:|---:|---:|---:|\n"
      << table << whole.row("all") << whole.of(Notice::Refused) << " more do not type-check\n";
}

std::vector<std::string> changes_of(const std::string& text, MathMode mode) {
  std::vector<std::string> changes;
  const RuleText rule{
      .name = "r", .reason = "r", .file = "r", .mode = mode, .fires = {}, .not_fires = {}, .text = text};
  for (const RuleMutant& mutant : test::mutants_of(rule, {"A", "B"})) changes.push_back(mutant.change);
  return changes;
}

TEST(WeakenedRules, MutantsChangeOnePlaceEach) {
  EXPECT_THAT(
      changes_of(R"((rule ((= x (A y 7)) (< y 2.5)) ((union x y)) :ruleset relaxed :name "r"))",
                 MathMode::Relaxed),
      testing::UnorderedElementsAre(
          "(= x (A y 7)) -> nothing", "(< y 2.5) -> nothing",                         // dropped
          "(A y 7) -> (B y 7)", "(< y 2.5) -> (<= y 2.5)", "(< y 2.5) -> (> y 2.5)",  // asks otherwise
          "(< y 2.5) -> (>= y 2.5)", "(< y 2.5) -> (!= y 2.5)",                       //
          "(A y 7) -> (A 7 y)", "(< y 2.5) -> (< 2.5 y)",                             // other places
          "(A y 7) -> (A y 8)", "(A y 7) -> (A y 6)",                                 // other numbers
          "(< y 2.5) -> (< y 5.0000000000000000)", "(< y 2.5) -> (< y 1.2500000000000000)",
          "(= x (A y 7)) -> (= y (A y 7))", "(= x (A y 7)) -> (= other (A y 7))",  // other variables
          "(= x (A y 7)) -> (= 0 (A y 7))", "(= x (A y 7)) -> (= 1 (A y 7))",      //
          "(A y 7) -> (A x 7)", "(A y 7) -> (A other 7)", "(A y 7) -> (A 0 7)", "(A y 7) -> (A 1 7)",
          "(< y 2.5) -> (< x 2.5)", "(< y 2.5) -> (< other 2.5)", "(< y 2.5) -> (< 0 2.5)",
          "(< y 2.5) -> (< 1 2.5)",  //
          "(union x y) -> (union y y)", "(union x y) -> (union other y)", "(union x y) -> (union 0 y)",
          "(union x y) -> (union 1 y)", "(union x y) -> (union x x)", "(union x y) -> (union x other)",
          "(union x y) -> (union x 0)", "(union x y) -> (union x 1)",  //
          "(relaxed) -> (strict)"));
}

}  // namespace
}  // namespace luminal::search
