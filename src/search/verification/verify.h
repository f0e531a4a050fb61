#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/device.h"
#include "kernel/spec.h"
#include "luminal/graph.h"
#include "search/verification/contain.h"
#include "search/verification/derive.h"
#include "search/verification/trial.h"
#include "search/verification/value_range.h"

/// Checks kernels against the user's graph before they may win. The judge is the Oracle, which knows nothing
/// of specs, laws or schedules: a wrong law is caught as a wrong kernel is.
///
///   VerificationSuite suite = prepare_suite(graph, dims, unit, {});  // inputs; what must come out, at samples
///   const Verdict reference = verify(suite, independent, {.keep_outputs = true});
///   accept_beyond_laws(suite, reference);
///   if (Verdict v = verify(suite, kernels, {.threads = 2, .reference = &reference}); v.fault) ...
namespace luminal::search {

/// One or more kernels between values of the user's graph. Mostly one kernel; kernels whose results no user
/// named (a law made them) are verified together with those that read them.
struct Unit {
  struct Tensor {
    TensorType type;
    std::optional<Value> value;  ///< of the graph, if it is one
    std::vector<Value> aliases;  ///< further values that are equal to it by law
  };
  struct Kernel {
    std::vector<int> inputs, outputs;  ///< into tensors
    /// The input whose memory the first output takes: the kernel then runs both ways, which have to agree.
    int in_place = -1;
    kernel::KernelSpec spec = {};  ///< slots are `inputs`, in order; empty where nobody says what it computes
  };
  std::vector<Tensor> tensors;
  std::vector<Kernel> kernels;  ///< producers first
};

/// What is wrong with a kernel, for people and for a replay.
struct Fault {
  std::string message;  ///< "output 0 at [3, 17]: 1.25, must be 2.5 +- 1e-6 (integer inputs, 2 threads)"
  std::string data;     ///< name of the data set: "integers"
  int64_t position = -1;
  double got = 0, expected = 0, bound = 0;
  bool is_by_reference = false;  ///< it is what an independent kernel made that the element differs from
};

/// Inputs of one kind and what must come of them at sampled positions.
struct VerificationCase {
  std::string name;  ///< one of kInputKinds
  std::vector<std::shared_ptr<const TensorData>>
      tensors;  ///< by Unit tensor; null for what the unit computes
  /// By Unit tensor: comes from outside, and is what the graph makes of others that do, or of `origins`. (A
  /// kernel may read a value and compute it once more from what it is made of: both have to agree.)
  std::vector<bool> derived;
  Leaves origins;  ///< values of the graph, no tensors of the unit, that were drawn to derive some
  std::vector<ValueRange> ranges;  ///< by Unit tensor, from which these were drawn; empty where none was
  /// Laws of relaxed math may make something else of such inputs than the user's nodes: the independent
  /// kernel of the same spec is the measure.
  bool beyond_laws = false;
  struct Expectation {
    int tensor = 0;
    int64_t operations = 0;  ///< that the oracle took, for one position at least
    std::vector<int64_t> positions;
    std::vector<double> values, errors;
    std::vector<int64_t> integers;  ///< instead of `values` where the dtype is no float
    std::vector<bool> known;
    /// Laws of relaxed math make nothing else of it, even if the test case is beyond them: all inputs are finite, and no
    /// sum is too great (Oracle::Samples::unpromised).
    std::vector<bool> promised;
  };
  std::vector<Expectation> expectations;
};

struct VerificationSuite {
  Unit unit;
  DimMap dims;
  uint64_t seed = 0;  ///< inputs are a function of it, of the test case's name and number and the tensor
  std::vector<VerificationCase> cases;
  /// The user's, which outlives the suite; null where it was read from a file.
  const Graph* graph = nullptr;
  [[nodiscard]] double skipped_share()
      const;  ///< of the samples of common inputs: those that hang on a comparison too close to call
};

/// Elements that the unit computes, on all test cases.
[[nodiscard]] int64_t outputs_of(const VerificationSuite& suite);

struct SuiteOptions {
  uint64_t seed = 0;
  int64_t operations = 500'000;  ///< of the oracle, for the first test case
  /// One in so many of them for each further test case, and where a kernel of the same form passed: on all kinds of inputs
  /// every element is compared with an independent kernel, and samples judge that one and the laws.
  static constexpr int64_t kFurther = 10;
  int64_t of_one_sample = 10'000'000;  ///< the most operations; a value that takes more has no samples
  std::vector<int> unsampled;          ///< tensors that have none: one is known to take more
  /// By tensor: after so many elements it repeats (test_input).
  std::map<size_t, int64_t> periods = {};
  int samples = 48;                ///< per output, beside those that cover every slice and borders of tiles
  std::vector<int64_t> tiles;      ///< lengths in which the candidate may cut its work
  bool strict = false;             ///< the user's nodes judge NaN, infinities and overflow too
  std::vector<std::string> kinds;  ///< of inputs, a test case each; none: `input_kinds`
  /// A kernel of the same family and of the same operations passed on all kinds that its sizes call for.
  bool form_passed = false;
  /// The user's nodes judge each value under one of its names: that these are equal does not depend on sizes, and was
  /// looked at elsewhere.
  bool one_name = false;
  /// Inputs that depend on each other in the graph are made from what they depend on (derive.h). Without,
  /// every input is drawn: a kernel that stands then is right, but one may fall on inputs that no graph can
  /// produce, such as a row beside a number that is not its maximum.
  bool consistent = false;
  /// What values of the graph hold when it runs, as far as that is known; may be null.
  std::shared_ptr<const ValueRanges> ranges = nullptr;
};
/// Whether inputs of a unit depend on each other in the graph, so that a consistent suite has others.
[[nodiscard]] bool has_dependent_inputs(const Graph& graph, const DimMap& dims, const Unit& unit);
/// Whether long launches run all tasks on this kind of inputs: on small integers, sums of which show all that is left
/// out, or on plain ones where something else is reduced by, for maxima of small integers do not show it. On the
/// others they run a part of the tasks (VerifyOptions::in_parts). A kernel that nobody has described does on all.
[[nodiscard]] bool runs_all_tasks(const Unit& unit, std::string_view kind);
/// The kinds of inputs on which a unit is verified: all of them; five where a launch is long, and where nothing is
/// folded (each element is computed from numbers of one of these kinds alone); integers and plain ones where it takes long
/// to make consistent inputs; where a kernel of the same form passed (`SuiteOptions::form_passed`), those that show what
/// depends on sizes: integers and special ones, and plain ones where maxima are taken. The graph's own is among all others
/// if the range of an input is known.
[[nodiscard]] std::vector<std::string> input_kinds(const Graph& graph, const DimMap& dims, const Unit& unit,
                                                   const SuiteOptions& options);
/// Tensor t of a unit, drawn. Of a large unit there are no subnormal numbers in tensors that are short beside the
/// longest: where what is read along all of another tensor is subnormal, most of the operations are slow.
[[nodiscard]] std::shared_ptr<const TensorData> drawn_input(const Unit& unit, const DimMap& dims,
                                                            uint64_t seed, std::string_view kind, size_t t,
                                                            const ValueRange& range = {}, int64_t period = 0);
/// Draws inputs and asks the oracle about every computed tensor that is a value of the graph. If a tensor
/// from outside is none, nobody can be asked: the suite then has inputs only, which show crashes, strays and
/// candidates that differ.
[[nodiscard]] VerificationSuite prepare_suite(const Graph& graph, const DimMap& dims, const Unit& unit,
                                              const SuiteOptions& options);

/// Within the bound; NaN where NaN is due, infinities exactly.
[[nodiscard]] bool agrees(double got, double expected, double bound);

/// What came of a run.
struct Verdict {
  std::optional<Fault> fault;
  /// If they were asked for: all that was computed, by test case, then by Unit tensor (empty if from
  /// outside).
  std::vector<std::vector<TensorData>> outputs;
  int64_t compared = 0;  ///< outputs that were compared with those of an independent kernel
};

struct VerifyOptions {
  int threads = 1;
  /// What an independent kernel of the same spec made of the same cases: every element is compared.
  const Verdict* reference = nullptr;
  bool keep_outputs = false;
  /// Launches of the first test case one after the other, each with the same result; fewer if they take
  /// longer than `soak` together. Where one takes longer than that, each further test case is dealt out in
  /// another way instead of the first one again. 0: each test case once, in one call (or on `threads`), and
  /// nothing else.
  int launches = 8;
  /// Tasks are dealt out in other ways than one call as well: to threads, to a call each, to uneven calls.
  bool deals_out = true;
  /// In one of these ways alone, by this number: of a long launch that is dealt out in all of them at other sizes.
  std::optional<size_t> only_turn;
  /// Where launches take that long: test cases for which `runs_all_tasks` does not hold run some of the tasks, and what
  /// these compute is compared. For code that is one program for all tasks and inputs.
  bool in_parts = true;
  /// That launches take that long is known before the first one, which then may run a part of the tasks as well.
  bool is_long = false;
  /// One launch of some of the tasks, whatever the inputs: the first ones, the last ones and, by this number, some
  /// between. For code that is one program for all tasks and ran all of them at other sizes.
  std::optional<size_t> only_part;
  std::chrono::milliseconds soak{10};
  std::chrono::milliseconds timeout{20'000};  ///< of any one launch
};
/// Runs the unit's kernels in order on every test case in one contained process: in guarded memory,
/// misaligned and at the start of a page, with outputs and workspace that hold NaN, another pattern or what
/// was there before; tasks in one call, in a call each, in uneven calls and on threads; in place where the
/// unit says so.
[[nodiscard]] Verdict verify(const VerificationSuite& suite, std::span<const backends::Kernel* const> kernels,
                             const VerifyOptions& options);
/// The same within a contained process.
[[nodiscard]] Verdict verify_uncontained(const VerificationSuite& suite,
                                         std::span<const backends::Kernel* const> kernels,
                                         const VerifyOptions& options, Progress& progress);

/// The same for one test case after the other, so that only one of them need be in memory.
class CaseVerifier {
 public:
  /// Test cases of `about` are left aside, as is the reference of the options; the kernels and the progress
  /// outlive it.
  CaseVerifier(const VerificationSuite& about, std::span<const backends::Kernel* const> kernels,
               const VerifyOptions& options, Progress& progress);
  CaseVerifier(const CaseVerifier&) = delete;
  CaseVerifier& operator=(const CaseVerifier&) = delete;
  ~CaseVerifier();
  /// `reference`: what an independent kernel made of this case, by Unit tensor; may be null. `part`: of the
  /// tasks of a kernel that is one itself, to run nothing else.
  [[nodiscard]] std::optional<Fault> add(const VerificationCase& test_case,
                                         const std::vector<TensorData>* reference, bool is_last,
                                         const std::optional<TaskPart>& part = std::nullopt);
  /// Compares what the kernels made of the last case with another reference.
  [[nodiscard]] std::optional<Fault> compare(const VerificationCase& test_case,
                                             const std::vector<TensorData>* reference);
  /// The part that a test case runs if it is the next; none: all tasks.
  [[nodiscard]] std::optional<TaskPart> next_part(const VerificationCase& test_case) const;
  /// One launch, with what is looked at after it, takes longer than repetitions may.
  [[nodiscard]] bool is_long() const;
  /// Memory of long launches serves others until the next test case: large tensors take longer to get than to compute.
  void lend_memory();
  /// What further test cases are compared with takes long to make: of code that is one program for all tasks and inputs
  /// they run a part of the tasks, as long launches do.
  void spare_reference();
  /// Elements that were compared with an independent kernel's.
  [[nodiscard]] int64_t compared() const;
  /// What the kernels made of the last case, by Unit tensor; its memory is used again.
  [[nodiscard]] std::vector<TensorData>& made();

 private:
  class Runs;
  std::unique_ptr<Runs> runs_;
};

/// Samples of cases beyond the laws of which these promise nothing, and at which the independent kernel is not what the
/// user's nodes say, are no longer samples.
void accept_beyond_laws(VerificationSuite& suite, const Verdict& reference);
void accept_beyond_laws(VerificationCase& test_case, const std::vector<TensorData>& reference);

/// A suite as JSON, with which a kernel can be verified again without the graph, and back. Inputs are drawn
/// anew and checked by their hashes. Errors (parse): FormatError that says what is wrong or missing.
[[nodiscard]] std::string to_json(const VerificationSuite& suite);
[[nodiscard]] VerificationSuite parse_suite(std::string_view text);

}  // namespace luminal::search
