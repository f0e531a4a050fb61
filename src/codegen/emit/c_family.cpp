#include "codegen/emit/c_family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/fail.h"
#include "codegen/emit/c_text.h"

namespace luminal::codegen {
namespace c_text {

std::string buffer_name(const Program& program, size_t buffer) {
  const Buffer& b = program.buffers[buffer];
  const std::string name = fmt::format("b{}{}", buffer, is_identifier(b.name) ? "_" + b.name : "");
  return b.space == Space::Table ? fmt::format("{}_{}", program.name, name) : name;
}

bool is_private(const Buffer& buffer, const Dialect& dialect) {
  const std::optional<int64_t> count = buffer.elements.constant();
  return buffer.space == Space::Local && count &&
         *count * element_bytes(buffer.dtype) <= dialect.most_private_bytes;
}

namespace {

std::string tables_of(const Program& program, const Spelling& spelling) {
  std::string text;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const Buffer& b = program.buffers[k];
    if (b.space != Space::Table) continue;
    text += fmt::format("{} {} {}[{}] = {{{}}};\n\n", spelling.dialect().table, spelling.type(Word::I32, 1),
                        buffer_name(program, k), b.values.size(), fmt::join(b.values, ", "));
  }
  return text;
}

}  // namespace

std::vector<Parameter> parameters_of(const Program& program, const Dialect& dialect) {
  std::vector<Parameter> list;
  for (size_t k = 0; k < program.buffers.size(); ++k)
    if (program.buffers[k].space <= Space::Output)
      list.push_back({Parameter::Kind::Buffer, static_cast<int>(k)});
  const auto workspace = [&](Parameter::Kind kind, const Workspace& w) {
    if (w.bytes.constant() != 0) list.push_back({kind});
  };
  workspace(Parameter::Kind::Shared, workspace_of(program, Space::Shared));
  workspace(Parameter::Kind::Prepared, workspace_of(program, Space::Prepared));
  workspace(Parameter::Kind::Local, local_workspace_of(program, dialect));
  for (size_t k = 0; k < program.dims.size(); ++k)
    list.push_back({Parameter::Kind::Dim, static_cast<int>(k)});
  list.push_back({Parameter::Kind::FirstTask});
  return list;
}

}  // namespace c_text

Workspace local_workspace_of(const Program& program, const Dialect& dialect) {
  Program shared = {.name = program.name, .dims = program.dims, .buffers = program.buffers};
  for (Buffer& b : shared.buffers)
    if (c_text::is_private(b, dialect)) b.elements = 0;
  return workspace_of(shared, Space::Local);
}

std::string emit_c(std::span<const Program> programs, const Dialect& dialect) {
  const c_text::Spelling spelling(dialect);
  c_text::Functions functions;
  std::string kernels;
  for (const Program& program : programs) {
    if (program.native)
      throw InternalError(fmt::format("[c] {} is native code, which has no loops to print", program.name));
    verify(program);
    if (dialect.thread.empty() &&
        std::ranges::any_of(program.stages, [](const Stage& stage) { return stage.threads > 1; }))
      throw InternalError(fmt::format("[c] {} runs tasks by blocks of threads, which {} has not",
                                      program.name, dialect.name));
    kernels += c_text::tables_of(program, spelling);
    for (size_t s = 0; s < program.stages.size(); ++s)
      kernels += c_text::stage_text(program, s, spelling, functions);
  }
  return fmt::format("{}\n{}{}", dialect.preamble, functions.text(), kernels);
}

std::string emit_c(const Program& program, const Dialect& dialect) {
  return emit_c(std::span(&program, 1), dialect);
}

}  // namespace luminal::codegen
