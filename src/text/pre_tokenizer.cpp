#include <algorithm>

#include "text/steps.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

using CutStep = PreTokenizerStep;

struct Cut {
  size_t begin = 0, end = 0;
  bool match = false;
};

/// Matches and what is between them, in order.
std::vector<Cut> cuts_of(std::string_view text, const std::vector<Span>& matches, bool invert) {
  std::vector<Cut> cuts;
  size_t at = 0;
  for (const Span& span : matches) {
    if (span.begin > at) cuts.push_back({at, span.begin, invert});
    cuts.push_back({span.begin, span.end, !invert});
    at = span.end;
  }
  if (at < text.size()) cuts.push_back({at, text.size(), invert});
  return cuts;
}

/// Which neighbours are one word.
std::vector<Cut> grouped(const std::vector<Cut>& cuts, CutStep::Behavior behavior) {
  std::vector<Cut> words;
  for (const Cut& cut : cuts) {
    bool join = false;
    if (!words.empty()) {
      const bool last = words.back().match;
      join = (behavior == CutStep::Behavior::MergedWithPrevious && cut.match && !last) ||
             (behavior == CutStep::Behavior::MergedWithNext && last && !cut.match) ||
             (behavior == CutStep::Behavior::Contiguous && cut.match == last);
    }
    if (behavior == CutStep::Behavior::Removed && cut.match) continue;
    if (join)
      words.back().end = cut.end, words.back().match = cut.match;
    else
      words.push_back(cut);
  }
  return words;
}

std::string metaspaced(std::string_view text, std::string_view replacement) {
  std::string result;
  for (const char c : text) c == ' ' ? result += replacement : result += std::string_view(&c, 1);
  return result;
}

std::string in_byte_characters(std::string_view text) {
  std::string result;
  for (const char c : text) result += character_of_byte(static_cast<uint8_t>(c));
  return result;
}

bool prepends(const CutStep& step, bool first) {
  return step.prepend == CutStep::Prepend::Always || (step.prepend == CutStep::Prepend::First && first);
}

}  // namespace

PreTokenizer::PreTokenizer(const std::vector<CutStep>& steps) : steps_(steps) {
  for (const CutStep& step : steps_) {
    if (step.kind == CutStep::Kind::Split)
      matchers_.emplace_back(step.pattern);
    else if (step.kind == CutStep::Kind::Metaspace && step.split)
      matchers_.emplace_back(Pattern{step.replacement, false});
    else
      matchers_.emplace_back();
  }
}

std::vector<std::string> PreTokenizer::operator()(std::string text, bool first) const {
  std::vector<Word> words, next;
  words.push_back({std::move(text), first});
  for (size_t i = 0; i < steps_.size(); ++i) {
    next.clear();
    for (Word& word : words)
      if (!word.text.empty()) apply(steps_[i], matchers_[i], std::move(word), next);
    words.swap(next);
  }
  std::vector<std::string> result;
  result.reserve(words.size());
  for (Word& word : words)
    if (!word.text.empty()) result.push_back(std::move(word.text));
  return result;
}

void PreTokenizer::apply(const CutStep& step, const std::optional<Matcher>& matcher, Word word,
                         std::vector<Word>& out) const {
  const auto split = [&](bool invert, CutStep::Behavior behavior) {
    for (const Cut& cut : grouped(cuts_of(word.text, matcher->matches(word.text), invert), behavior))
      out.push_back({word.text.substr(cut.begin, cut.end - cut.begin), word.first && cut.begin == 0});
  };
  switch (step.kind) {
    case CutStep::Kind::Split:
      return split(step.invert, step.behavior);
    case CutStep::Kind::Prefix:
      if (!word.text.starts_with(' ')) word.text.insert(0, 1, ' ');
      out.push_back(std::move(word));
      return;
    case CutStep::Kind::ByteLevel:
      out.push_back({in_byte_characters(word.text), word.first});
      return;
    case CutStep::Kind::Metaspace:
      word.text = metaspaced(word.text, step.replacement);
      if (prepends(step, word.first) && !word.text.starts_with(step.replacement))
        word.text.insert(0, step.replacement);
      if (step.split) return split(false, CutStep::Behavior::MergedWithNext);
      out.push_back(std::move(word));
  }
}

}  // namespace luminal::text
