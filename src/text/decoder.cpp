#include "text/decoder.h"

#include <array>
#include <utility>

#include "base/fail.h"
#include "text/models.h"

namespace luminal::text {
namespace {

using Step = DecoderStep;

void replace_in(std::string& text, std::string_view what, std::string_view with) {
  if (what.empty()) return;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

/// As `tokenizers`' WordPiece decoder: token by token, in this order.
void clean_up(std::string& token) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules{{{" .", "."},
                                                                                  {" ?", "?"},
                                                                                  {" !", "!"},
                                                                                  {" ,", ","},
                                                                                  {" ' ", "'"},
                                                                                  {" n't", "n't"},
                                                                                  {" 'm", "'m"},
                                                                                  {" do not", " don't"},
                                                                                  {" 's", "'s"},
                                                                                  {" 've", "'ve"},
                                                                                  {" 're", "'re"}}};
  for (const auto& [what, with] : kRules) replace_in(token, what, with);
}

/// Takes a character off both ends, up to a count each.
std::string trimmed(std::string_view text, std::string_view content, size_t start, size_t stop) {
  for (; start > 0 && text.starts_with(content); --start) text.remove_prefix(content.size());
  for (; stop > 0 && text.ends_with(content); --stop) text.remove_suffix(content.size());
  return std::string(text);
}

bool is_utf8(std::string_view text) {
  Utf8Repair repair;
  std::string repaired;
  repair.push(text, repaired);
  repair.finish(repaired);
  return repaired == text;
}

}  // namespace

DecoderProgram::DecoderProgram(const std::optional<std::vector<Step>>& steps) : blanks_(!steps) {
  if (steps) steps_ = *steps;
  bool fused = false;
  for (const Step& step : steps_) {
    if (step.kind == Step::Kind::Replace)
      matchers_.emplace_back(step.pattern);
    else
      matchers_.emplace_back();
    const bool by_token = step.kind != Step::Kind::Fuse && step.kind != Step::Kind::Strip;
    if (fused && (by_token || step.stop > 0))
      fail<FormatError>(
          "[tokenizer] the decoder joins all tokens and goes on to change the text; only stripping its "
          "start is supported behind Fuse and ByteLevel");
    if (step.kind == Step::Kind::Strip && step.content.empty())
      fail<FormatError>("[tokenizer] the decoder strips an empty string");
    fused |= step.kind == Step::Kind::Fuse || step.kind == Step::Kind::ByteLevel;
  }
}

Decoding::Decoding(const DecoderProgram& program, bool whole_runs)
    : program_(program), whole_runs_(whole_runs), stages_(program.steps_.size()) {
  bool fused = false;
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages_[i].fused = fused;
    const Step::Kind kind = program.steps_[i].kind;
    fused |= kind == Step::Kind::Fuse || kind == Step::Kind::ByteLevel;
  }
}

void Decoding::push(std::string token, std::string& out) {
  if (program_.blanks_ && any_) out += ' ';
  any_ = true;
  step(0, std::move(token), out);
}

void Decoding::finish(std::string& out) {
  for (size_t i = 0; i < stages_.size(); ++i) flush(i, out);
}

void Decoding::byte_level(size_t index, const std::string& token, std::string& out) {
  std::string bytes, text;
  for (size_t at = 0; at < token.size();) {
    const auto [code, length] = character_at(token, at);
    const int byte = byte_of_character(code);
    at += length;
    if (byte < 0) {  // an added token, spelled as it is
      bytes = token;
      break;
    }
    bytes.push_back(static_cast<char>(byte));
  }
  stages_[index].repair.push(bytes, text);
  step(index + 1, std::move(text), out);
}

void Decoding::byte_fallback(size_t index, std::string token, std::string& out) {
  const int byte = byte_of_token(token);
  if (byte < 0) {
    flush(index, out);
    return step(index + 1, std::move(token), out);
  }
  const char c = static_cast<char>(byte);
  if (whole_runs_) {
    stages_[index].held.push_back(c);
    return;
  }
  std::string text;
  stages_[index].repair.push({&c, 1}, text);
  if (!text.empty()) step(index + 1, std::move(text), out);
}

void Decoding::flush(size_t index, std::string& out) {
  Stage& stage = stages_[index];
  std::string text;
  stage.repair.finish(text);
  std::string held = std::exchange(stage.held, {});  // the blank of a last suffix is dropped
  if (program_.steps_[index].kind == Step::Kind::ByteFallback && !held.empty()) {
    if (is_utf8(held))
      text = std::move(held);
    else
      for (size_t i = 0; i < held.size(); ++i) step(index + 1, "\xef\xbf\xbd", out);
  }
  if (!text.empty()) step(index + 1, std::move(text), out);
}

void Decoding::step(size_t index, std::string token, std::string& out) {
  if (index == stages_.size()) {
    out += token;
    return;
  }
  const Step& what = program_.steps_[index];
  Stage& stage = stages_[index];
  const bool first = std::exchange(stage.first, false);
  switch (what.kind) {
    case Step::Kind::ByteLevel:
      return byte_level(index, token, out);
    case Step::Kind::ByteFallback:
      return byte_fallback(index, std::move(token), out);
    case Step::Kind::Metaspace:
      replace_in(token, what.content, first && what.prefixed ? "" : " ");
      break;
    case Step::Kind::Replace:
      token = program_.matchers_[index]->replace(token, what.content);
      break;
    case Step::Kind::Strip:
      if (!stage.fused) {
        token = trimmed(token, what.content, what.start, what.stop);
        break;
      }
      for (; stage.stripped < what.start && token.starts_with(what.content); ++stage.stripped)
        token.erase(0, what.content.size());
      if (!token.empty()) stage.stripped = what.start;
      break;
    case Step::Kind::Fuse:
      break;
    case Step::Kind::WordPiece:
      if (!first) {
        if (token.starts_with(what.content))
          token.erase(0, what.content.size());
        else
          token.insert(0, 1, ' ');
      }
      if (what.cleanup) clean_up(token);
      break;
    case Step::Kind::Suffix: {  // the blank for a suffix comes with the next token: the last has none
      std::string blank = std::exchange(stage.held, {});
      if (token.find(what.content) != std::string::npos && !what.content.empty()) {
        // Where a suffix is inside of a token, it is replaced there as well.
        const size_t at = token.rfind(what.content);
        const bool ends = at + what.content.size() == token.size();
        std::string head = token.substr(0, ends ? at : token.size());
        replace_in(head, what.content, " ");
        token = std::move(head);
        if (ends) stage.held = " ";
      }
      token.insert(0, blank);
      break;
    }
  }
  step(index + 1, std::move(token), out);
}

}  // namespace luminal::text
