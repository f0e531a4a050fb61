#include "codegen/emit/llvm_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/fail.h"
#include "scalar/typing.h"

namespace luminal::codegen::llvm_text {

Writer::Writer() { open("entry"); }

LlvmValue Writer::pure(int level, const std::string& instruction) {
  if (const auto at = known_.find(instruction); at != known_.end()) return at->second;
  Scope& scope = scopes_[static_cast<size_t>(level)];
  const LlvmValue value{fresh_name(), level};
  chunks_[scope.chunk] += fmt::format("  {} = {}\n", value.text, instruction);
  known_.emplace(instruction, value);
  scope.known.push_back(instruction);
  return value;
}

LlvmValue Writer::here(const std::string& instruction) {
  const LlvmValue value{fresh_name(), level()};
  statement(fmt::format("{} = {}", value.text, instruction));
  return value;
}

void Writer::statement(const std::string& text) {
  std::string& chunk = chunks_[scopes_.back().chunk];
  chunk += "  ";
  chunk += text;
  chunk += '\n';
}

void Writer::label(const std::string& name) {
  chunks_[scopes_.back().chunk] += name + ":\n";
  scopes_.back().block = name;
}

size_t Writer::reserve() {
  chunks_.emplace_back();
  return chunks_.size() - 1;
}

void Writer::open(const std::string& name) {
  scopes_.push_back({.chunk = reserve(), .block = name, .known = {}});
}

void Writer::close(const std::string& name) {
  for (const std::string& key : scopes_.back().known) known_.erase(key);
  scopes_.pop_back();
  scopes_.back().chunk = reserve();
  label(name);
}

std::string Writer::text() const {
  std::string text;
  for (const std::string& c : chunks_) text += c;
  return text;
}

std::string Declarations::operator()(const std::string& name, const std::string& result,
                                     const std::string& parameters) {
  lines_.try_emplace(name, fmt::format("declare {} @{}({})\n", result, name, parameters));
  return "@" + name;
}

std::string Declarations::text() const {
  std::string text;
  for (const auto& [name, line] : lines_) text += line;
  return text;
}

namespace {

std::string scalar_text(Dtype d) {
  if (is_real(d)) return d == Dtype::F32 ? "float" : "double";
  return fmt::format("i{}", d == Dtype::Bool ? 1 : width_bits(d));
}

std::string splat(Type t, const std::string& scalar) {
  return t.lanes == 1 ? scalar : fmt::format("splat ({} {})", scalar_text(t.dtype), scalar);
}

}  // namespace

std::string type_text(Type t) {
  const std::string scalar = scalar_text(t.dtype);
  return t.lanes == 1 ? scalar : fmt::format("<{} x {}>", t.lanes, scalar);
}

Type memory_type(Type t) { return {t.dtype == Dtype::Bool ? Dtype::U8 : t.dtype, t.lanes}; }

std::string mangled(Type t) {
  const std::string scalar(is_real(t.dtype) ? name(t.dtype) : scalar_text(t.dtype));
  return t.lanes == 1 ? scalar : fmt::format("v{}{}", t.lanes, scalar);
}

namespace {

/// LLVM writes f32 literals as the f64 of the same value, in hexadecimal.
uint64_t literal_bits(uint32_t f32) {
  const bool is_nan = (f32 & 0x7fffffffU) > 0x7f800000U;
  return is_nan ? (uint64_t{f32 >> 31} << 63) | (uint64_t{0x7ff} << 52) | (uint64_t{f32 & 0x7fffffU} << 29)
                : std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(f32)));
}

}  // namespace

std::string literal(Type t, uint64_t bits) {
  if (is_real(t.dtype))
    return splat(t, fmt::format("0x{:016X}",
                                t.dtype == Dtype::F64 ? bits : literal_bits(static_cast<uint32_t>(bits))));
  if (t.dtype == Dtype::Bool) return splat(t, bits != 0 ? "true" : "false");
  const int shift = 64 - width_bits(t.dtype);
  return splat(t, fmt::format("{}", static_cast<int64_t>(bits << shift) >> shift));
}

std::string integer_literal(Type t, int64_t value) {
  return literal(t, static_cast<uint64_t>(value) & width_mask(t.dtype));
}

}  // namespace luminal::codegen::llvm_text
