#include "ops/registry.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "base/fail.h"
#include "base/fork.h"
#include "base/suggest.h"
#include "luminal/ops.h"
#include "ops/lowering_check.h"

namespace luminal {
namespace ops {
namespace {

// Every record, sorted by name: a new op is one file and one line here.
constexpr std::array kBuiltIn{
    &kAdd,        &kAnd,          &kArgsort,
    &kBitcast,    &kCast,         &kConstant,
    &kCos,        &kCummax,       &kCumprod,
    &kCumsum,     &kCustomKernel, &kDetach,
    &kDiff,       &kDiv,          &kErf,
    &kExp,        &kExp2,         &kExpm1,
    &kFloor,      &kFunction,     &kGather,
    &kGraphBreak, &kInput,        &kIntDiv,
    &kIota,       &kLessThan,     &kLinearRecurrence,
    &kLog,        &kLog1p,        &kLog2,
    &kMax,        &kMaxReduce,    &kMod,
    &kMul,        &kOr,           &kPow,
    &kPrint,      &kProdReduce,   &kRandom,
    &kRandomBits, &kRecip,        &kScan,
    &kScatter,    &kShift,        &kSin,
    &kSqrt,       &kSumReduce,    &kTan,
    &kTanh,       &kWhere,        &kXor,
};

/// Ops that the program added. Records are owned by the program and live as long as it.
struct Added {
  Added() { hold_while_forking(mutex); }
  std::mutex mutex;
  std::map<std::string_view, const OpDef*> by_name;
};
Added& added() {
  static auto* const instance = new Added;
  return *instance;
}

const OpDef* find_built_in(std::string_view name) {
  const auto at =
      std::lower_bound(kBuiltIn.begin(), kBuiltIn.end(), name,
                       [](const OpDef* op, std::string_view wanted) { return op->name < wanted; });
  return at != kBuiltIn.end() && (*at)->name == name ? *at : nullptr;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

}  // namespace

std::span<const OpDef* const> built_in_ops() { return kBuiltIn; }

std::string contradiction(const OpDef& op) {
  const int evaluations = (op.elementwise ? 1 : 0) + (op.monoid ? 1 : 0) + (op.evaluate ? 1 : 0);
  if (!is_plain_name(op.name)) return "its name must be lower-case letters, digits and '_', a letter first";
  if (op.arity < -1) return fmt::format("its arity is {}; -1 stands for any number", op.arity);
  if (!op.infer) return "it has no shape and dtype rule (infer)";
  if (evaluations > 1) return "it has more than one of elementwise, monoid and evaluate";
  if (evaluations == 0 && &op != &kInput) return "it has none of elementwise, monoid and evaluate";
  if (op.is(Trait::Elementwise) != static_cast<bool>(op.elementwise))
    return "the trait Elementwise and an elementwise kernel come together or not at all";
  if (op.is(Trait::Elementwise) && !op.lower) return "it is elementwise and has no lowering (lower)";
  if (!op.is(Trait::Elementwise) && op.lower) return "it has a lowering and is not elementwise";
  if (op.monoid && op.arity != 1) return "it is a reduction and does not take one input";
  if (op.formula && !op.is(Trait::Leaf)) return "it has a formula and is no leaf";
  if (op.is(Trait::Leaf) != (op.arity == 0)) return "the trait Leaf and arity 0 come together or not at all";
  if (op.is(Trait::Commutative) && op.arity != 2) return "it is commutative and does not take two inputs";
  if (op.gradient && (op.is(Trait::NotDifferentiable) || op.is(Trait::ZeroGradient)))
    return "it has a gradient and a trait that says that there is none";
  if (op.doc.empty()) return "it has no documentation (doc)";
  return {};
}

}  // namespace ops

std::vector<const OpDef*> all_ops() {
  std::vector<const OpDef*> all(ops::kBuiltIn.begin(), ops::kBuiltIn.end());
  {
    const std::scoped_lock lock(ops::added().mutex);
    for (const auto& [name, op] : ops::added().by_name) all.push_back(op);
  }
  std::sort(all.begin(), all.end(), [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return all;
}

const OpDef& find_op(std::string_view name) {
  if (const OpDef* op = ops::find_built_in(name)) return *op;
  {
    const std::scoped_lock lock(ops::added().mutex);
    if (const auto at = ops::added().by_name.find(name); at != ops::added().by_name.end()) return *at->second;
  }
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) names.emplace_back(op->name);
  fail("[op] unknown op '{}'{}", name, did_you_mean(name, names));
}

void register_op(const OpDef& op) {
  std::string problem = ops::contradiction(op);
  if (problem.empty() && op.lower) problem = ops::lowering_fault(op);
  if (!problem.empty()) fail("[op] the record of '{}' cannot be registered: {}", op.name, problem);
  const std::scoped_lock lock(ops::added().mutex);
  if (ops::find_built_in(op.name) != nullptr || !ops::added().by_name.emplace(op.name, &op).second)
    fail("[op] the name '{}' is taken; names of ops are unique", op.name);
}

}  // namespace luminal
