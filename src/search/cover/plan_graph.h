#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "search/cover/fusion.h"

namespace luminal::search {

inline constexpr double kImpossible = std::numeric_limits<double>::infinity();

/// What a plan may consist of. Nodes are classes and, numbered behind them, hosts; a class reads the leaves
/// of the fusion that it takes. Costs of fusions may be guesses until their price is set.
class PlanGraph {
 public:
  PlanGraph(const CoverProblem& problem, const Structure& structure,
            const std::vector<std::vector<Fusion>>& fusions, bool guessed);

  [[nodiscard]] int class_count() const { return static_cast<int>(problem_.classes.size()); }
  [[nodiscard]] size_t node_count() const { return problem_.classes.size() + problem_.hosts.size(); }
  /// Wanted classes, then hosts that must run.
  [[nodiscard]] const std::vector<int>& roots() const { return roots_; }
  /// Classes that must be in memory.
  [[nodiscard]] const std::vector<char>& forced() const { return forced_; }
  [[nodiscard]] const CoverProblem& problem() const { return problem_; }
  [[nodiscard]] const Structure& structure() const { return structure_; }
  [[nodiscard]] bool takes_fusion(int node) const {
    return node < class_count() && !problem_.classes[static_cast<size_t>(node)].alternatives.empty() &&
           problem_.classes[static_cast<size_t>(node)].host < 0;
  }

  struct Entry {
    int fusion = -1;
    double cost_us = 0;
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  [[nodiscard]] const Fusion& fusion(int c, int number) const {
    return fusions_[static_cast<size_t>(c)][static_cast<size_t>(number)];
  }
  /// Classes that a fusion computes on the way and that at most one kernel of a plan may compute.
  [[nodiscard]] std::span<const int> computed_once(int c, int number) const { return needs(c, number).once; }

  /// What is in memory, as the fusions of each class ask for it: bits of its own for each class, in words that
  /// lie side by side.
  using Ready = std::vector<uint64_t>;
  [[nodiscard]] Ready ready_of(const std::vector<char>& in_memory) const;
  /// A class whose cheapest fusion may depend on whether another one is in memory, and the bit that tells it so.
  struct Reader {
    int c;
    size_t word;
    uint64_t bit;
  };
  [[nodiscard]] const std::vector<Reader>& readers(int c) const { return readers_[static_cast<size_t>(c)]; }
  /// The cheapest fusion of a class over what is in memory; `downhill`: among those only. No fusion (-1) if
  /// there is none.
  [[nodiscard]] Entry cheapest(int c, const Ready& ready, bool downhill) const;
  /// What a node reads; `number`: the fusion that a class takes.
  [[nodiscard]] std::span<const int> reads(int node, int number) const;
  /// Nodes that read a node, with some fusion or always.
  [[nodiscard]] const std::vector<int>& possible_readers(int node) const {
    return possible_readers_[static_cast<size_t>(node)];
  }

  /// A spec whose price is not known yet. Guesses are numbered.
  struct Guess {
    SpecId spec = 0;
    double cost_us = 0;
    /// What tells guessed specs apart however specs and classes are numbered: one of its classes by
    /// Structure::exact, and its place among the fusions of that.
    std::pair<uint64_t, size_t> mark{std::numeric_limits<uint64_t>::max(), 0};
    std::vector<int> classes;  ///< that have such fusions; none once the price is known
    /// The greatest one is that of the dearest guess.
    [[nodiscard]] auto rank() const { return std::pair(cost_us, mark); }
  };
  [[nodiscard]] const std::vector<Guess>& guesses() const { return guesses_; }
  /// Whether prices were ever left open.
  [[nodiscard]] bool has_guesses() const { return !guesses_.empty(); }
  /// The guess that a fusion costs; -1 if its price is known.
  [[nodiscard]] int guess(int c, int number) const { return guess_of_[need_of(c, number)]; }
  /// The spec of the guess costs that much from now on. Returns the classes with such fusions.
  std::vector<int> set_price(int guess, double cost_us);

 private:
  /// What decides whether a fusion may be taken: that of all fusions lies side by side.
  struct Needs {
    std::span<const int> leaves, once;
    bool downhill = true;
  };
  [[nodiscard]] size_t need_of(int c, int number) const {
    return first_need_[static_cast<size_t>(c)] + static_cast<size_t>(number);
  }
  [[nodiscard]] const Needs& needs(int c, int number) const { return needs_[need_of(c, number)]; }
  void find_needs();
  void find_bits();
  void sort(size_t c);
  void add_guesses();
  void link();

  const CoverProblem& problem_;
  const Structure& structure_;
  const std::vector<std::vector<Fusion>>& fusions_;
  std::vector<std::vector<Entry>> by_cost_;  ///< by class, cheapest first
  std::vector<size_t> first_need_;           ///< by class, into needs_
  std::vector<Needs> needs_;
  std::vector<int> needed_;  ///< what the lists of `Needs` are parts of
  /// Words of a class in `Ready`, and two masks of as many words for each of its fusions: what has to be in memory,
  /// and what must not be.
  struct Bits {
    size_t first = 0, words = 0, masks = 0;
  };
  std::vector<Bits> bits_;  ///< by class
  size_t words_ = 0;        ///< of all classes
  std::vector<uint64_t> masks_;
  std::vector<Guess> guesses_;
  std::vector<int> guess_of_;  ///< by need
  std::vector<char> forced_;
  std::vector<int> roots_;
  std::vector<std::vector<int>> host_reads_;
  std::vector<int> host_of_;  ///< by class
  std::vector<std::vector<Reader>> readers_;
  std::vector<std::vector<int>> possible_readers_;
};

}  // namespace luminal::search
