// The join order of rules with many atoms, by the rows that a search looks at.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "luminal/egglog.h"

namespace luminal::egraph {
namespace {

constexpr int kLinks = 20'000, kMarks = 6;

/// A long chain of links, and marks of five kinds on a few of its places. Place 0 and the four after it are
/// marked as the rule asks; no other place is.
std::string marked_chain() {
  std::string text = "(relation Link (i64 i64 i64)) (relation Found (i64))\n";
  for (int i = 0; i < kLinks; i++)
    text += "(Link " + std::to_string(i) + " " + std::to_string(i + 1) + " 0)\n";
  for (int kind = 0; kind < 5; kind++) {
    const std::string name = "Mark" + std::to_string(kind);
    text += "(relation " + name + " (i64))\n";
    for (int i = 0; i < kMarks; i++)
      text += "(" + name + " " + std::to_string(i * (1000 + kind) + kind) + ")\n";
  }
  return text;
}

const char* const kRule =
    "(rule ((Mark0 a) (Mark1 b) (Mark2 c) (Mark3 d) (Mark4 e)"
    "       (Link a b _) (Link b c _) (Link c d _) (Link d e _) (Link e f _)) ((Found f)))\n";

uint64_t searched(const EgglogProgram& program) { return program.report().rules.at(0).searched; }

// The product of all marks has 6^5 rows: marks that no link connects yet must not be joined.
TEST(JoinOrder, ManyAtomsAreJoinedAlongWhatConnectsThem) {
  EgglogProgram program;
  program.run(marked_chain() + kRule + "(run 1) (check (Found 5))");
  EXPECT_EQ(program.report().rules.at(0).matched, 1U);
  EXPECT_LE(searched(program), uint64_t{20} * kMarks);

  // Semi-naive: each of the ten atoms in turn matches what is new only.
  const uint64_t before = searched(program);
  program.run(
      "(Mark0 70000) (Mark1 70001) (Mark2 70002) (Mark3 70003) (Mark4 70004)"
      "(Link 70000 70001 0) (Link 70001 70002 0) (Link 70002 70003 0) (Link 70003 70004 0) (Link 70004 70005 "
      "0)"
      "(run 1) (check (Found 70005))");
  EXPECT_EQ(program.report().rules.at(0).matched, 2U);
  EXPECT_LE(searched(program) - before, uint64_t{10} * 20 * kMarks);
}

constexpr int kBranches = 6, kPlaces = 9000, kColoured = 3000, kHubs = 200, kHubLinks = 40;

/// Places each of which begins a path of two links for each of six colours, to a place of that colour. The colours
/// are rare among all places. And hubs, that have forty links to hubs each and never lead to a colour.
std::string paths_and_hubs() {
  std::string text =
      "(relation Place (i64)) (relation To (i64 i64)) (relation Found (i64)) (relation Ends (i64))\n"
      "(ruleset paths) (ruleset ends)\n";
  const auto add = [&](const char* relation, int a, int b) {
    text += fmt::format("({} {} {})\n", relation, a, b);
  };
  std::string rule = "(rule ((Place p)";
  for (int branch = 0; branch < kBranches; branch++) {
    text += fmt::format(
        "(relation Colour{0} (i64 i64)) (rule ((Colour{0} e _) (To m e) (To p m)) ((Ends p)) :ruleset "
        "ends)\n",
        branch);
    for (int i = 0; i < kColoured; i++)
      add(fmt::format("Colour{}", branch).c_str(), 10'000'000 + branch * 100'000 + i, 0);
    rule += fmt::format(" (To p m{0}) (To m{0} e{0}) (Colour{0} e{0} _)", branch);
  }
  for (int place = 0; place < kPlaces; place++) {
    text += fmt::format("(Place {})\n", 1'000'000 + place);
    for (int branch = 0; branch < kBranches; branch++) {
      const int middle = 2'000'000 + branch * 100'000 + place;
      add("To", 3'000'000 + place * 10 + branch, middle);
      add("To", middle, 10'000'000 + branch * 100'000 + place);
    }
  }
  for (int hub = 0; hub < kHubs; hub++)
    for (int i = 1; i <= kHubLinks; i++) add("To", hub, (hub + i) % kHubs);
  return text + rule + ") ((Found p)) :ruleset paths :name \"paths\") (run ends 1) (run paths 1)";
}

// A plan seems best that begins with the few new places, for a place has four links on average. But the new ones are
// hubs: on each of the six branches such a plan looks at 32,000 rows and finds nothing, and what it learns of one
// branch says nothing of the next. One that begins with a colour, whatever is new, looks at the coloured ends only.
TEST(JoinOrder, NewRowsThatAreUnlikeTheOthersAreNotTriedInEveryOrder) {
  EgglogProgram program;
  program.run(paths_and_hubs());
  const auto paths = [&] {
    for (const auto& one : program.report().rules)
      if (one.name == "paths") return one;
    throw Error("no rule is called paths");
  };
  const uint64_t before = paths().searched;
  std::string places = "(Place 500000)";
  for (int branch = 0; branch < kBranches; branch++)
    places += fmt::format("(To 500000 {})", 2'000'000 + branch * 100'000);
  for (int i = 0; i < 20; i++) places += fmt::format("(Place {})\n", i);
  program.run(places + "(run paths 1) (check (Found 500000))");
  EXPECT_EQ(paths().matched, 1U);
  EXPECT_LE(paths().searched - before, 250'000U);
}

// Atoms that nothing connects are joined all the same, after the connected ones.
TEST(JoinOrder, UnconnectedAtomsMultiply) {
  const std::string text =
      "(relation A (i64)) (relation B (i64)) (relation C (i64)) (relation D (i64)) (relation Out (i64 i64 "
      "i64))\n"
      "(A 1) (A 2) (B 1) (B 2) (B 3) (C 5) (C 6) (C 7) (D 5) (D 7)\n"
      "(rule ((A x) (B x) (A y) (B y) (C z) (D z) (C 5) (D 7)) ((Out x y z))) (run 1) (print-size Out)";
  EXPECT_EQ(run_program(text), "8\n");
}

}  // namespace
}  // namespace luminal::egraph
