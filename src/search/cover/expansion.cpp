#include "search/cover/expansion.h"

#include <algorithm>

#include "kernel/cost.h"

namespace luminal::search {
namespace {

constexpr double kLeastGrowth = 4;      // of a reduction's result over what it reads
constexpr double kLeastShare = 0.5;     // of a grown value that what is made of it has at least
constexpr double kLargeMask = 1 << 16;  // bytes
constexpr double kMaskOperations = 16;  // of one element, at most

double bytes_of(Dtype dtype, const Expression& elements, const DimMap& sizes) {
  return kernel::mean_element_bytes(dtype) * static_cast<double>(elements.exec(sizes));
}

class Expansions {
 public:
  Expansions(const CoverProblem& problem, const SpecStore& store, const CoverCosts& given)
      : problem_(problem), store_(store), given_(given), bytes_(problem.classes.size(), 0) {
    for (size_t c = 0; c < bytes_.size(); ++c)
      if (!problem.classes[c].alternatives.empty())
        bytes_[c] = result_bytes(problem.classes[c].alternatives[0].spec);
  }

  /// By class.
  [[nodiscard]] std::vector<char> find() const {
    std::vector<char> grown(bytes_.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t c = 0; c < grown.size(); ++c) {
        if (grown[c] != 0 || bytes_[c] <= given_.large_bytes) continue;
        grown[c] = std::ranges::any_of(problem_.classes[c].alternatives, [&](const auto& alternative) {
          return grows(c, alternative.spec) || continues(c, alternative, grown);
        });
        changed = changed || grown[c] != 0;
      }
    }
    const std::vector<char> masks = masks_of_coordinates();
    for (size_t c = 0; c < grown.size(); ++c)
      if (masks[c] != 0) grown[c] = 1;
    return grown;
  }

 private:
  [[nodiscard]] double result_bytes(SpecId spec) const {
    const kernel::KernelSpec& content = store_.at(spec);
    return bytes_of(content.result().dtype(), content.outputs()[0].elements, given_.sizes);
  }
  [[nodiscard]] bool grows(size_t c, SpecId spec) const {
    const kernel::KernelSpec& content = store_.at(spec);
    return std::ranges::any_of(content.values(),
                               [](const kernel::Value& v) { return v.monoid.has_value(); }) &&
           bytes_[c] >= kLeastGrowth * bytes_read(content, [](size_t) { return true; });
  }
  /// Of the slots that count.
  template <class Counts>
  [[nodiscard]] double bytes_read(const kernel::KernelSpec& content, Counts&& counts) const {
    double read = 0;
    for (size_t s = 0; s < content.slots().size(); ++s)
      if (counts(s)) read += bytes_of(content.slots()[s].dtype, content.slots()[s].elements, given_.sizes);
    return read;
  }
  /// Where keys lie behind a query is a comparison of coordinates, and what is added to scores is chosen by it: whoever
  /// reads it stored can't tell which blocks it excludes. Rows of one-hot encodings compare coordinates with a tensor that
  /// is small beside them. Tables of functions, such as sines, are none.
  [[nodiscard]] std::vector<char> masks_of_coordinates() const {
    std::vector<char> masks(bytes_.size(), 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t c = 0; c < masks.size(); ++c) {
        if (masks[c] != 0 || !is_mask_of_coordinates(c, masks)) continue;
        masks[c] = changed = true;
      }
    }
    return masks;
  }
  [[nodiscard]] bool is_mask_of_coordinates(size_t c, const std::vector<char>& masks) const {
    return bytes_[c] > std::min(kLargeMask, given_.large_bytes) &&
           std::ranges::any_of(problem_.classes[c].alternatives, [&](const auto& alternative) {
             const kernel::KernelSpec& content = store_.at(alternative.spec);
             const auto is_mask = [&](size_t slot) {
               return masks[static_cast<size_t>(alternative.arguments[slot])] != 0;
             };
             const auto is_chosen = [&](const kernel::Operand& o) {
               return is_coordinate(o) ||
                      (o.kind == kernel::Operand::Kind::Load && is_mask(static_cast<size_t>(o.slot)));
             };
             return !content.result().monoid && compares_cheaply(content.result().body) &&
                    std::ranges::any_of(content.result().operands, is_chosen) &&
                    bytes_[c] >= kLeastGrowth * bytes_read(content, [&](size_t s) { return !is_mask(s); });
           });
  }
  [[nodiscard]] static bool is_coordinate(const kernel::Operand& o) {
    return o.kind == kernel::Operand::Kind::Index;
  }
  [[nodiscard]] static bool compares_cheaply(const ScalarFunction& body) {
    const auto is_truth = [](const ScalarNode& n) { return n.dtype == Dtype::Bool; };
    return body.cost().weight() <= kMaskOperations && std::ranges::any_of(body.nodes(), is_truth);
  }
  [[nodiscard]] bool continues(size_t c, const CoverProblem::Alternative& alternative,
                               const std::vector<char>& grown) const {
    return std::ranges::any_of(alternative.arguments, [&](int argument) {
      const auto at = static_cast<size_t>(argument);
      return grown[at] != 0 && bytes_[c] >= kLeastShare * bytes_[at];
    });
  }

  const CoverProblem& problem_;
  const SpecStore& store_;
  const CoverCosts& given_;
  std::vector<double> bytes_;  ///< of what is computed
};

}  // namespace

std::optional<CoverProblem> without_expansions(const CoverProblem& problem, const SpecStore& store,
                                               const Cover& cover, const CoverCosts& given) {
  if (given.large_bytes < 0) return std::nullopt;
  std::vector<char> grown = Expansions(problem, store, given).find();
  for (size_t c = 0; c < grown.size(); ++c)
    if (problem.classes[c].wanted || problem.classes[c].no_recompute) grown[c] = 0;
  for (const auto& host : problem.hosts)
    for (const int input : host.inputs) grown[static_cast<size_t>(input)] = 0;
  const auto stores = [&](const CoverKernel& kernel) {
    return std::ranges::any_of(kernel.outputs, [&](int c) { return grown[static_cast<size_t>(c)] != 0; });
  };
  if (std::ranges::none_of(cover.kernels, stores)) return std::nullopt;
  CoverProblem result = problem;
  for (size_t c = 0; c < grown.size(); ++c) result.classes[c].unstored = grown[c] != 0;
  return result;
}

}  // namespace luminal::search
