#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/matcher.h"
#include "text/unicode.h"

namespace luminal::text {

/// The decoder steps of a spec with their patterns compiled. Errors: FormatError where a step cannot work on
/// text that arrives in pieces.
class DecoderProgram {
 public:
  explicit DecoderProgram(const std::optional<std::vector<DecoderStep>>& steps);

 private:
  friend class Decoding;
  std::vector<DecoderStep> steps_;
  std::vector<std::optional<Matcher>> matchers_;
  bool blanks_ = false;  ///< there are no steps: tokens are joined by blanks
};

/// One text that is being decoded: tokens go in, text comes out as soon as it is certain.
class Decoding {
 public:
  /// `whole_runs`: bytes of byte tokens wait for the last of their run, and a run that is not UTF-8 becomes
  /// U+FFFD for each byte, as in `tokenizers`; otherwise characters are handed on when they are complete.
  Decoding(const DecoderProgram& program, bool whole_runs);
  void push(std::string token, std::string& out);
  void finish(std::string& out);

 private:
  struct Stage {
    bool first = true;
    bool fused = false;   ///< what comes in are pieces of one string
    size_t stripped = 0;  ///< characters at its start
    std::string held;     ///< bytes of a run; the blank of a suffix
    Utf8Repair repair;
  };
  void step(size_t index, std::string token, std::string& out);
  void flush(size_t index, std::string& out);
  void byte_level(size_t index, const std::string& token, std::string& out);
  void byte_fallback(size_t index, std::string token, std::string& out);
  const DecoderProgram& program_;
  bool whole_runs_;
  std::vector<Stage> stages_;
  bool any_ = false;
};

}  // namespace luminal::text
