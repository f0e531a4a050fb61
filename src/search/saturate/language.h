#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/egglog.h"
#include "luminal/search_options.h"
#include "search/encode/kernel_graph.h"
#include "search/saturate/spec_store.h"

namespace luminal::search {

/// A rule as its file tells of it, above the rule itself:
///
///   ; identity-slot-copied (strict)
///   ; A kernel that only copies a tensor is that tensor.
///   ; fires: add-minus-zero transpose-twice
///   ; not: add-one
///   (rule ((= t (Op k)) ...) ((union t x)) :ruleset strict :name "identity-slot-copied")
struct RuleText {
  std::string name, reason, file;
  MathMode mode = MathMode::Strict;
  std::vector<std::string> fires, not_fires;  ///< names of examples, see tests/rule
  std::string text;                           ///< the command
};

/// The rules of all files under rules/, in order. Errors: Error that names file and line of what does not
/// read as above; a build step runs this.
[[nodiscard]] const std::vector<RuleText>& rule_texts();
/// Those that a search with these options uses: ours and its own, less those that are off. Errors: Error for
/// a name that is unknown or there twice, and as above.
[[nodiscard]] std::vector<RuleText> rules_for(const SearchOptions& options);

/// The e-graph in which graphs of kernels are saturated: the sorts Tensor and Kernel (a spec and what it
/// reads), constructors
///
///   (Op Kernel)   (Input i64)   (Host i64 i64)      ; host and output number
///
/// the relation (use Kernel i64 Tensor), partial primitives on kernels, and the rules. One engine serves many
/// graphs, one after the other.
class Language {
 public:
  explicit Language(const SearchOptions& options, std::shared_ptr<SpecStore> store);
  ~Language();

  [[nodiscard]] SpecStore& store();
  [[nodiscard]] egraph::EGraph& graph();

  /// The e-graph of a program: its classes by tensor.
  std::vector<egraph::Value> load(const KernelGraph& kernel_graph);
  /// To the fixpoint, or until there are `growth` times as many rows as at the start.
  egraph::Report saturate(double growth = 8);

  /// What a rule matches in the e-graph as it stands, a line each: its variables, with kernels written out.
  [[nodiscard]] std::vector<std::string> matches_of(egraph::RuleId rule);

  /// Rows of Op.
  [[nodiscard]] size_t kernel_count();

  [[nodiscard]] SpecId spec_of(egraph::Value kernel) const;
  [[nodiscard]] std::span<const egraph::Value> tensors_of(egraph::Value kernel) const;  ///< by slot
  struct Functions {
    egraph::FunctionId op{}, input{}, host{}, use{};
  };
  [[nodiscard]] const Functions& functions() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::search
