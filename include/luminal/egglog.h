#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "luminal/egraph.h"
#include "luminal/error.h"

/// The egglog language on top of the engine: programs as text, with their printed output.
///
///   EgglogProgram program;
///   std::string out = program.run(R"(
///     (datatype Math (Num i64) (Mul Math Math))
///     (rewrite (Mul a b) (Mul b a))
///     (rewrite (Mul a (Num 1)) a)
///     (let $x (Mul (Num 1) (Mul (Num 7) (Num 1))))
///     (run 3)
///     (extract $x))");
///   assert(out == "(Num 7)\n");
///
/// docs/egraph.md is the tutorial and the reference of the language. Thread safety: as egraph.h.
namespace luminal::egraph {

struct EgglogOptions {
  std::filesystem::path fact_directory;  ///< where `input` and `output` look for relative file names
  bool seminaive = true;                 ///< false: rules match the whole database in every iteration
  bool strict_globals = false;           ///< a global without the prefix `$` is an error
  bool proofs = false;                   ///< log explanations, so that `prove` works
  bool prove_checks = false;             ///< every `check` also proves what it finds, and checks that proof
  uint32_t threads = 1;                  ///< results do not depend on it
  Budget budget;                         ///< for each run of a text, all that it does
  /// A run ends soon after this becomes true, which a signal handler may do; null: nothing interrupts it.
  const std::atomic<bool>* interrupt = nullptr;
  /// Gets each piece of output as soon as there is one; null: it is only returned.
  std::function<void(std::string_view)> on_output;
};

/// A run that ended where its budget was spent, memory ran out, or it was interrupted. The database holds
/// what was done before, is consistent, and takes further texts.
class BudgetError : public Error {
 public:
  BudgetError(const std::string& message, StopReason why) : Error(message), reason(why) {}
  const StopReason reason;
};

/// A program in progress: texts run one after the other against the same database.
class EgglogProgram {
 public:
  explicit EgglogProgram(EgglogOptions options = {});
  ~EgglogProgram();
  EgglogProgram(EgglogProgram&&) noexcept;
  EgglogProgram& operator=(EgglogProgram&&) noexcept;

  /// Runs a text; `file_name` is what messages call it. Returns what it prints, in egglog's format.
  /// Errors: BudgetError; luminal::Error whose message shows file, line, column and the place with a caret.
  /// Commands before the failing one have had their effect.
  std::string run(std::string_view text, std::string file_name = "<input>");
  std::string run_file(const std::filesystem::path& path);
  /// From the next run on. Errors: as of Budget.
  void set_budget(const Budget& budget);

  /// A sort whose values the host owns: texts that run later may name it. Errors: Error if the name is taken.
  SortId host_sort(PrimitiveSort sort);
  SortId host_sort(ContainerSort sort);
  /// A function of the host's for later texts. `inputs` and `output` are read: the sorts of its signature, in
  /// this program's graph. Errors: Error for a sort that no text can name.
  void host_primitive(PrimitiveSpec spec);

  /// True when the text ends inside an open list or string, so that a prompt should read on.
  [[nodiscard]] static bool is_incomplete(std::string_view text);

  [[nodiscard]] EGraph& graph();
  [[nodiscard]] const Report& report() const;  ///< of all runs so far, those before a `pop` included

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Runs a whole program in a new e-graph and returns what it prints.
std::string run_program(std::string_view text, std::string file_name = "<input>", EgglogOptions options = {});

}  // namespace luminal::egraph
