#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/verification/batch.h"
#include "search/verification/fault_record.h"
#include "search/verification/freivalds.h"

/// What candidates are compared with in full checks (batch.h), within a contained process.
namespace luminal::search {

inline constexpr size_t kMostIndependent = 4;

/// At so many sizes, the first, all kinds of inputs are looked at.
inline constexpr size_t kFirstSizes = 2;

/// A full check on its way out of a contained process.
struct FullRecord {
  std::atomic<int> running;  ///< a Runner, or an independent kernel from kIndependent on
  size_t size;               ///< that is verified
  size_t tried_size;  ///< at which the last launch ran: what serves several sizes is made at one of them
  size_t next_sum;    ///< of a contraction; those before it fell at this size
  bool needs_whole;   ///< neither a sum of the candidate's own suffices, nor the first positions of an axis
  int64_t cases, compared, proven;
  double skipped_share;
  FaultRecord fault;
  SharedText<500> fell[kMostIndependent];
};
enum Runner : int { kNobody = 0, kCandidate = 1, kFirstPositions = 2, kIndependent = 3 };

/// The subject of a check with inputs of one kind alone. `is_first`: of the check's kinds. `periods`: SuiteOptions::periods
/// of the first one.
[[nodiscard]] Subject on_kind(const FullCheck& check, const std::string& kind, bool is_first,
                              const std::map<size_t, int64_t>& periods);

/// What the candidate of a check is compared with: what the first independent kernel makes of the test cases that
/// falls on none of them. One size.
class ReferenceMaker {
 public:
  /// `size`: of the check's. `is_first_part`: has the first kind of inputs.
  ReferenceMaker(const FullCheck& check, size_t size, bool is_first_part, int threads, FullRecord& record,
                 Progress& progress);

  /// A kernel fell that earlier test cases were compared with: they have to begin anew.
  struct BeginAnew {};

  /// Whether a candidate that is nothing but a sum is proven itself, so that no other sum has to be made: a peer does for
  /// the further kinds of inputs. Where a doubt is left everything begins anew, with a sum to compare with.
  [[nodiscard]] bool is_sumless() const { return is_sumless_; }
  /// By tensor: after how many elements the inputs of the first test case have to repeat; none: they need not.
  [[nodiscard]] const std::map<size_t, int64_t>& periods() const { return periods_; }
  /// What the candidate made of the first test case. Throws BeginAnew where that is not proven.
  void prove(const VerificationSuite& suite, std::span<const TensorData> made);

  /// By tensor of the unit, until the next call; null where no kernel stands. `suite` has one test case, in the
  /// first call that of all which may prove a sum. If all sums of a contraction are wrong, the record has the
  /// fault. Throws BeginAnew.
  /// `part`: of the tasks that the candidate runs. `is_long`: a launch of the candidate is.
  const std::vector<TensorData>* make(const VerificationSuite& suite, bool is_first, bool is_long,
                                      const std::optional<TaskPart>& part);
  /// Loops took long for the last test case that they made.
  [[nodiscard]] bool is_slow() const { return !sum_ && own_us_ > kSlowUs; }
  /// A candidate that differs from what was made last need not be wrong: `make_without_peer` tells.
  [[nodiscard]] bool is_by_peer() const { return is_by_peer_; }
  const std::vector<TensorData>* make_without_peer(const VerificationSuite& suite);

 private:
  /// A contraction of which no kernel's sum is proven, for the first test case did without: a peer does for the others.
  [[nodiscard]] bool has_no_sum() const { return is_sumless_ || (check_.split && !periods_.empty()); }
  [[nodiscard]] std::map<size_t, int64_t> periods_to_draw(size_t size) const;
  const std::vector<TensorData>* made_at_first_positions(const VerificationSuite& suite);
  [[noreturn]] void begin_with_whole();
  [[nodiscard]] bool are_others_enough(const VerificationSuite& suite) const;
  const std::vector<TensorData>* made_by_peer(const VerificationSuite& suite,
                                              const std::optional<TaskPart>& part);
  const std::vector<TensorData>* made_by_kernel(const VerificationSuite& suite, bool is_first,
                                                const std::optional<TaskPart>& part);
  void prove_sum(const VerificationSuite& suite);
  const std::vector<TensorData>* made_by_sum(const VerificationSuite& suite, bool is_first);

  static constexpr double kSlowUs = 500;

  const FullCheck& check_;
  int threads_;
  FullRecord& record_;
  Progress& progress_;
  const std::map<size_t, int64_t> periods_;
  bool is_sumless_;
  std::vector<TensorData> repeated_;  ///< what the first positions made
  size_t kernel_ = 0;
  std::unique_ptr<SplitVerifier> sum_;   ///< proven
  std::unique_ptr<CaseVerifier> plain_;  ///< of the independent kernel
  std::unique_ptr<CaseVerifier> peer_;
  bool is_by_peer_ = false;  ///< what was made last
  double own_us_ = 0;        ///< that loops or a sum took for the last kind that they made
};

/// The length of the outermost axis of all outputs, if named dims are nothing else in the spec: element for element a
/// kernel makes at a shorter one what it makes at a longer one.
///
///   out[i,k] = sum j in 64: x[i,j] * W[j,k]      with i in n      has      n
[[nodiscard]] std::optional<Expression> outermost_length(const kernel::KernelSpec& spec);

/// What the candidate of a check is compared with at all further sizes where its spec has an `outermost_length`: the
/// beginning of what is made once, at the longest of them.
class LongestReference {
 public:
  LongestReference(const FullCheck& check, std::string first_kind, int threads, FullRecord& record,
                   Progress& progress);
  /// By tensor of the unit, until the next call, on the first kind of inputs; null where the size needs a reference of its
  /// own. Throws BeginAnew.
  const std::vector<TensorData>* beginning_for(const VerificationSuite& suite);

 private:
  void make();

  const FullCheck& check_;
  const std::string kind_;
  int threads_;
  FullRecord& record_;
  Progress& progress_;
  size_t size_ = 0;  ///< the longest; 0 if there is none
  bool is_made_ = false;
  std::vector<std::shared_ptr<const TensorData>> inputs_;
  std::vector<TensorData> made_, beginning_;
};

}  // namespace luminal::search
