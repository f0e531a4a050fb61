// Rules weakened in one place: each that says something else must be noticed by the tests of rules.
#include <fmt/format.h>
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

/// The collection of one math mode, with what the rules as they are make of it.
struct Collection {
  std::shared_ptr<SpecStore> store;
  std::map<std::string, Subject> examples;
  std::vector<Subject> others;  ///< the examples fused, random graphs, these fused
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
    for (const auto& [name, subject] : own.examples)
      EXPECT_EQ(judge_laws(language, subject, mode).fault, "") << name << " " << luminal::name(mode);
    for (const Subject& subject : own.others)
      EXPECT_EQ(judge_laws(language, subject, mode).fault, "") << subject.name << " " << luminal::name(mode);
  }
}

/// How a mutant was noticed, in the order in which it is looked for.
enum class Notice { Refused, Silent, NearMiss, Useless, Fault, No };

class Hunter {
 public:
  explicit Hunter(const RuleText& rule)
      : rule_(rule), plain_(test::renamed(rule, "mutant-of-" + rule.name)) {}

  struct Result {
    Notice notice = Notice::No;
    std::string how;
    bool same = true;  ///< the e-graphs of all graphs are those of the rule as it is
  };

  Result look_at(const RuleMutant& mutant) {
    const MathMode near = std::max(rule_.mode, MathMode::Relaxed);
    std::unique_ptr<Language> language;
    try {
      language = language_with(rule_.name, mutant.rule, near);
    } catch (const std::exception& error) {
      return {Notice::Refused, error.what()};
    }
    Collection& graphs = collection(near);
    const auto applied = [&](const std::string& example) {
      return judge_laws(*language, graphs.examples.at(example), near, false).applied(mutant.rule.name);
    };
    for (const std::string& example : rule_.fires)
      if (applied(example) == 0) return {Notice::Silent, example};
    for (const std::string& example : rule_.not_fires)
      if (applied(example) != 0) return {Notice::NearMiss, example};
    Result result;
    std::set<MathMode> modes{mutant.rule.mode, near, rule_.mode};
    for (const MathMode mode : modes) {
      if (mode != near) language = language_with(rule_.name, mutant.rule, mode);
      Collection& own = collection(mode);
      const auto right = language_with(rule_.name, plain_, mode);
      const auto look = [&](const Subject& subject) {
        const Outcome outcome = judge_laws(*language, subject, mode);
        if (!outcome.fault.empty()) {
          result = {Notice::Fault, subject.name + ": " + outcome.fault};
          return false;
        }
        result.same = result.same && outcome.signature == judge_laws(*right, subject, mode, false).signature;
        return true;
      };
      for (const auto& [name, subject] : own.examples)
        if (!look(subject)) return result;
      for (const Subject& subject : own.others)
        if (!look(subject)) return result;
      if (mode != near) language = language_with(rule_.name, mutant.rule, near);
    }
    return result;
  }

 private:
  const RuleText& rule_;
  RuleText plain_;
};

TEST(WeakenedRules, AreNoticed) {
  const auto heads = test::heads_of(rule_texts());
  for (const RuleText& rule : rule_texts()) {
    Hunter hunter(rule);
    std::map<Notice, int> counts;
    for (const RuleMutant& mutant : test::mutants_of(rule, heads)) {
      const auto result = hunter.look_at(mutant);
      ++counts[result.notice];
      if (result.notice == Notice::No)
        std::cout << "LEFT " << rule.name << (result.same ? " same: " : " OTHER: ") << mutant.change
                  << std::endl;
    }
    std::cout << rule.name;
    for (const auto& [notice, count] : counts) std::cout << " " << static_cast<int>(notice) << ":" << count;
    std::cout << std::endl;
  }
}

}  // namespace
}  // namespace luminal::search
