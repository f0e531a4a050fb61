#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "search/cover/selection.h"
#include "support/files.h"

/// The exact answer to "which values are in memory, and which fusion does each take": an integer program
/// over the same fusions, solved by CBC (Forrest and Lougee-Heimer, COIN-OR). Only tests need it.
namespace luminal::search::test {

/// Whether the solver is installed (Debian: coinor-cbc).
inline bool has_solver() { return std::system("command -v cbc >/dev/null 2>&1") == 0; }

/// Writes the problem in CPLEX's LP format.
///
///   x<c>_<i>  1 if class c is in memory, computed by its fusion i        (binary)
///   h<k>      1 if host k runs                                         (binary)
///   t<n>      place of a class or host in an order; only on cycles
class CoverIlp {
  template <class List, class I>
  static auto& at(List& list, I i) {
    return list[static_cast<size_t>(i)];
  }

 public:
  CoverIlp(const CoverProblem& problem, const std::vector<std::vector<Fusion>>& fusions)
      : problem_(problem), classes_(static_cast<int>(problem.classes.size())) {
    for (const auto& list : fusions) fusions_.push_back(worth_having(list));
    find_cycles();
    find_needs();
    for (int c = 0; c < classes_; ++c) add_class(c);
    for (int h = 0; h < static_cast<int>(problem.hosts.size()); ++h) add_host(h);
    for (int c = 0; c < classes_; ++c)
      if (at(problem.classes, c).no_recompute) add_once(c);
  }
  [[nodiscard]] bool has_cycles() const { return !places_.empty(); }

  [[nodiscard]] std::string text() const {
    std::string lp = "Minimize\n obj:" + (objective_.empty() ? " 0 nothing" : objective_) + "\nSubject To\n";
    for (size_t i = 0; i < rows_.size(); ++i) lp += fmt::format(" r{}:{}\n", i, rows_[i]);
    lp += "Bounds\n";
    for (const auto& [name, top] : places_) lp += fmt::format(" 0 <= {} <= {}\n", name, top);
    lp += "Binaries\n";
    for (const std::string& name : binaries_) lp += " " + name + "\n";
    return lp + "End\n";
  }

  /// Least cost of a plan, or a bound below it that is at most a thousandth away. Empty if the solver did not
  /// come that far in `seconds`.
  [[nodiscard]] std::optional<double> solve(int seconds = 120) const {
    const std::string log = run(fmt::format("ratio 0.001 sec {}", seconds));
    const auto number = [&](std::string_view label) -> std::optional<double> {
      const size_t found = log.find(label);
      if (found == std::string::npos) return std::nullopt;
      return std::stod(log.substr(found + label.size()));
    };
    if (log.find("Result - Optimal solution found") == std::string::npos) return std::nullopt;
    const auto bound = number("Lower bound:");
    return bound ? bound : number("Objective value:");
  }
  /// Whether there is a plan that costs less.
  enum class Answer : uint8_t { Yes, No, Unknown };
  [[nodiscard]] Answer is_there_one_below(double cost, int seconds = 120) const {
    const std::string log = run(fmt::format("cutoff {:.17g} maxSol 1 sec {}", cost, seconds));
    if (log.find("infeasible") != std::string::npos) return Answer::No;
    return log.find("Objective value:") != std::string::npos ? Answer::Yes : Answer::Unknown;
  }

 private:
  /// Without those that read all that another one reads and cost no less: wherever they stand the other can.
  [[nodiscard]] std::vector<Fusion> worth_having(const std::vector<Fusion>& list) const {
    std::vector<Fusion> kept;
    for (const Fusion& fusion : list) {  // cheapest first
      const auto within = [](const std::vector<int>& few, const std::vector<int>& many) {
        return std::ranges::all_of(few, [&](int c) { return std::ranges::find(many, c) != many.end(); });
      };
      const bool beaten = std::ranges::any_of(kept, [&](const Fusion& other) {
        return other.cost_us <= fusion.cost_us && within(other.leaves, fusion.leaves) &&
               within(once_in(other), once_in(fusion));
      });
      if (!beaten) kept.push_back(fusion);
    }
    return kept;
  }
  [[nodiscard]] std::vector<int> once_in(const Fusion& fusion) const {
    std::vector<int> list;
    for (const int c : fusion.interior)
      if (at(problem_.classes, c).no_recompute) list.push_back(c);
    return list;
  }
  /// What the solver prints.
  [[nodiscard]] std::string run(const std::string& options) const {
    const luminal::test::TemporaryFolder folder;
    const auto file = folder.file("cover.lp", text()), log = folder.path() / "log";
    const std::string command = fmt::format("cbc {} {} solve >{} 2>&1", file.string(), options, log.string());
    return std::system(command.c_str()) == 0 ? luminal::test::content_of(log) : std::string();
  }

  [[nodiscard]] bool is_computed(int c) const {
    return at(problem_.classes, c).host < 0 && !at(problem_.classes, c).alternatives.empty();
  }
  static std::string x(int c, size_t i) { return fmt::format("x{}_{}", c, i); }
  static std::string signed_sum(const std::vector<std::string>& names, double factor) {
    std::string text;
    for (size_t i = 0; i < names.size(); ++i)
      text += fmt::format("{} {:+.17g} {}", i % 8 == 7 ? "\n  " : "", factor, names[i]);
    return text;
  }
  /// What says that a class is in memory; empty if it always is.
  [[nodiscard]] std::vector<std::string> available(int c) const {
    if (at(problem_.classes, c).host >= 0) return {fmt::format("h{}", at(problem_.classes, c).host)};
    std::vector<std::string> names;
    if (is_computed(c))
      for (size_t i = 0; i < at(fusions_, c).size(); ++i) names.push_back(x(c, i));
    return names;
  }
  [[nodiscard]] bool always_there(int c) const { return at(problem_.classes, c).host < 0 && !is_computed(c); }
  [[nodiscard]] int node_of(int c) const {
    return at(problem_.classes, c).host >= 0 ? classes_ + at(problem_.classes, c).host : c;
  }

  void add_class(int c) {
    if (!is_computed(c)) {
      if (at(problem_.classes, c).wanted && !always_there(c))
        rows_.push_back(signed_sum(available(c), 1) + " >= 1");
      return;
    }
    const auto& fusions = at(fusions_, c);
    std::set<int> leaves;
    for (size_t i = 0; i < fusions.size(); ++i) {
      binaries_.push_back(x(c, i));
      objective_ += fmt::format("{} {:+.17g} {}", i % 8 == 7 ? "\n  " : "", fusions[i].cost_us, x(c, i));
      leaves.insert(fusions[i].leaves.begin(), fusions[i].leaves.end());
    }
    rows_.push_back(signed_sum(available(c), 1) + (at(problem_.classes, c).wanted ? " = 1" : " <= 1"));
    for (const int leaf : leaves) {
      std::vector<std::string> readers;
      for (size_t i = 0; i < fusions.size(); ++i)
        if (std::ranges::find(fusions[i].leaves, leaf) != fusions[i].leaves.end()) readers.push_back(x(c, i));
      add_reads(c, leaf, readers);
    }
    add_needs(c);
  }

  /// Fusions that read different classes may all need a third one, which is then in memory whichever is
  /// taken. Implied for whole numbers; without it a program that may take half of each fusion pays for a half
  /// only, and for a quarter of what lies behind.
  void add_needs(int c) {
    const auto& fusions = at(fusions_, c);
    std::map<int, std::vector<size_t>> fusions_that_need;
    for (size_t i = 0; i < fusions.size(); ++i)
      for (const int need : needs_of(fusions[i])) fusions_that_need[need].push_back(i);
    for (const auto& [need, list] : fusions_that_need) {
      // One class that all of these fusions read says the same.
      const auto covers_all = [&](int leaf) {
        return (leaf == need || at(needs_, leaf).contains(need)) && std::ranges::all_of(list, [&](size_t i) {
                 return std::ranges::find(fusions[i].leaves, leaf) != fusions[i].leaves.end();
               });
      };
      if (std::ranges::any_of(fusions[list[0]].leaves, covers_all)) continue;
      std::vector<std::string> takers;
      for (const size_t i : list) takers.push_back(x(c, i));
      rows_.push_back(signed_sum(takers, 1) + signed_sum(available(need), -1) + " <= 0");
    }
  }
  [[nodiscard]] std::set<int> needs_of(const Fusion& fusion) const {
    std::set<int> needs;
    for (const int leaf : fusion.leaves) {
      if (always_there(leaf)) continue;
      needs.insert(leaf);
      needs.insert(at(needs_, leaf).begin(), at(needs_, leaf).end());
    }
    return needs;
  }
  /// What is in memory in every plan in which a class is. Within a cycle less is said than could be.
  void find_needs() {
    needs_.resize(problem_.classes.size());
    std::vector<int> order;
    for (int c = 0; c < classes_; ++c) order.push_back(c);
    std::ranges::stable_sort(order, {}, [&](int c) { return at(component_, node_of(c)); });
    for (const int c : order) {
      if (!is_computed(c) || at(fusions_, c).empty()) continue;
      std::set<int> common = needs_of(at(fusions_, c)[0]);
      for (const Fusion& fusion : at(fusions_, c)) {
        const std::set<int> other = needs_of(fusion);
        std::erase_if(common, [&](int need) { return !other.contains(need); });
      }
      at(needs_, c) = std::move(common);
    }
  }

  /// One of `readers` makes `node` read `leaf`: it is in memory, and made before.
  void add_reads(int node, int leaf, const std::vector<std::string>& readers) {
    if (always_there(leaf)) return;
    rows_.push_back(signed_sum(readers, 1) + signed_sum(available(leaf), -1) + " <= 0");
    add_before(node_of(leaf), node, readers);
  }
  void add_before(int first, int second, const std::vector<std::string>& active) {
    const int component = at(component_, first);
    if (component != at(component_, second) || at(size_, component) < 2) return;
    const int top = at(size_, component);
    const std::string a = fmt::format("t{}", first), b = fmt::format("t{}", second);
    places_[a] = places_[b] = top - 1;
    rows_.push_back(fmt::format(" {} - {}", b, a) + signed_sum(active, -top) +
                    fmt::format(" >= {}", 1 - top));
  }

  void add_host(int h) {
    const std::string name = fmt::format("h{}", h);
    binaries_.push_back(name);
    if (at(problem_.hosts, h).must_run) rows_.push_back(" " + name + " >= 1");
    for (const int input : at(problem_.hosts, h).inputs) add_reads(classes_ + h, input, {name});
    for (const int other : at(problem_.hosts, h).after) {
      rows_.push_back(fmt::format(" {} - h{} <= 0", name, other));
      add_before(classes_ + other, classes_ + h, {name});
    }
  }

  void add_once(int c) {
    std::vector<std::string> makers = available(c);
    for (int other = 0; other < classes_; ++other)
      for (size_t i = 0; is_computed(other) && i < at(fusions_, other).size(); ++i) {
        const auto& interior = at(fusions_, other)[i].interior;
        if (std::ranges::find(interior, c) != interior.end()) makers.push_back(x(other, i));
      }
    if (!makers.empty()) rows_.push_back(signed_sum(makers, 1) + " <= 1");
  }

  // --- Strongly connected components (Tarjan, SIAM J. Comput. 1972): only within one can there be a cycle.
  [[nodiscard]] std::vector<int> reads(int node) const {
    std::vector<int> list;
    if (node >= classes_) {
      for (const int input : at(problem_.hosts, node - classes_).inputs) list.push_back(node_of(input));
      for (const int other : at(problem_.hosts, node - classes_).after) list.push_back(classes_ + other);
    } else if (is_computed(node)) {
      for (const Fusion& fusion : at(fusions_, node))
        for (const int leaf : fusion.leaves) list.push_back(node_of(leaf));
    }
    return list;
  }
  void find_cycles() {
    const size_t nodes = problem_.classes.size() + problem_.hosts.size();
    component_.assign(nodes, -1);
    std::vector<int> number(nodes, -1), low(nodes, 0), stack;
    int next = 0;
    const std::function<void(int)> visit = [&](int v) {
      at(number, v) = at(low, v) = next++;
      stack.push_back(v);
      for (const int w : reads(v)) {
        if (at(number, w) < 0) visit(w);
        if (at(component_, w) < 0) at(low, v) = std::min(at(low, v), at(low, w));
      }
      if (at(low, v) != at(number, v)) return;
      size_.push_back(0);
      for (int w = -1; w != v; ++size_.back()) {
        w = stack.back();
        stack.pop_back();
        at(component_, w) = static_cast<int>(size_.size()) - 1;
      }
    };
    for (int v = 0; v < static_cast<int>(nodes); ++v)
      if (at(number, v) < 0) visit(v);
  }

  const CoverProblem& problem_;
  std::vector<std::vector<Fusion>> fusions_;
  int classes_;
  std::string objective_;
  std::vector<std::string> rows_, binaries_;
  std::map<std::string, int> places_;
  std::vector<int> component_, size_;
  std::vector<std::set<int>> needs_;
};

}  // namespace luminal::search::test
