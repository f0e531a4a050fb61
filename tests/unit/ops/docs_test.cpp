#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "ops/registry.h"

namespace luminal {
namespace {

std::string kind_of(const OpDef& op) {
  if (op.is(Trait::Elementwise)) return "elementwise";
  if (op.monoid) return "reduction";
  if (op.is(Trait::Leaf)) return "leaf";
  if (op.is(Trait::Opaque)) return "opaque";
  return op.arity < 0 ? "loop" : "indexing";
}

std::string gradient_of(const OpDef& op) {
  if (op.gradient) return "yes";
  if (op.is(Trait::ZeroGradient)) return "zero";
  return op.is(Trait::Leaf) ? "" : "no";
}

/// docs/ops.md, from the records.
std::string table() {
  std::string text =
      "# The primitive ops\n"
      "The whole vocabulary that compilers see; everything else is composed from it. Made from the records "
      "in "
      "`src/ops/`\n"
      "(see [adding_an_op.md](adding_an_op.md)). ULP bounds the error of the generated code in f32; exact "
      "means the "
      "same\n"
      "bits on every target. Gradient \"zero\" stops silently, as in PyTorch.\n\n"
      "| op | inputs | kind | gradient | ULP | meaning |\n"
      "|---|---|---|---|---|---|\n";
  for (const OpDef* op : ops::built_in_ops()) {
    std::string doc(op->doc);
    for (size_t at = 0; (at = doc.find('|', at)) != std::string::npos; at += 2) doc.insert(at, "\\");
    const std::string ulp = !op->lower ? "" : op->ulp <= 0.5 ? "exact" : fmt::format("{:g}", op->ulp);
    text += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", op->name,
                        op->arity < 0 ? "any" : std::to_string(op->arity), kind_of(*op), gradient_of(*op),
                        ulp, doc);
  }
  return text;
}

TEST(OpsTable, IsWhatTheRecordsSay) {
  const std::string path = LUMINAL_SOURCE_DIR "/docs/ops.md", wanted = table();
  std::string found;
  try {
    found = read_file(path);
  } catch (const std::exception&) {
    found = "(absent)";
  }
  if (found == wanted) return;
  const std::string fresh = testing::TempDir() + "ops.md";
  write_file_atomic(fresh, wanted);
  ADD_FAILURE() << "docs/ops.md is out of date: cp " << fresh << " " << path;
}

}  // namespace
}  // namespace luminal
