// The format: Hugging Face's `tokenizers` package; tokenizer_json.cpp reads it.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "base/fail.h"
#include "base/file.h"
#include "luminal/text/tokenizer.h"

namespace luminal::text {
namespace {

using WrittenJson = nlohmann::json;

WrittenJson written(const Pattern& pattern) { return {{pattern.regex ? "Regex" : "String", pattern.text}}; }

WrittenJson written(const NormalizerStep& step) {
  using Kind = NormalizerStep::Kind;
  switch (step.kind) {
    case Kind::Nfc:
      return {{"type", "NFC"}};
    case Kind::Nfd:
      return {{"type", "NFD"}};
    case Kind::Nfkc:
      return {{"type", "NFKC"}};
    case Kind::Nfkd:
      return {{"type", "NFKD"}};
    case Kind::Lowercase:
      return {{"type", "Lowercase"}};
    case Kind::StripAccents:
      return {{"type", "StripAccents"}};
    case Kind::ByteLevel:
      return {{"type", "ByteLevel"}};
    case Kind::Nmt:
      return {{"type", "Nmt"}};
    case Kind::Strip:
      return {{"type", "Strip"}, {"strip_left", step.left}, {"strip_right", step.right}};
    case Kind::Replace:
      return {{"type", "Replace"}, {"pattern", written(step.pattern)}, {"content", step.content}};
    case Kind::Prepend:
      return {{"type", "Prepend"}, {"prepend", step.content}};
    case Kind::Bert:
      return {{"type", "BertNormalizer"},
              {"clean_text", step.clean},
              {"handle_chinese_chars", step.chinese},
              {"strip_accents", step.accents},
              {"lowercase", step.lowercase}};
  }
  return nullptr;
}

WrittenJson byte_level_json(bool prefix, bool words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"trim_offsets", true}, {"use_regex", words}};
}

WrittenJson written(const PreTokenizerStep& step) {
  using CutBehavior = PreTokenizerStep::Behavior;
  static const std::map<CutBehavior, const char*> behaviors{
      {CutBehavior::Removed, "Removed"},
      {CutBehavior::Isolated, "Isolated"},
      {CutBehavior::MergedWithPrevious, "MergedWithPrevious"},
      {CutBehavior::MergedWithNext, "MergedWithNext"},
      {CutBehavior::Contiguous, "Contiguous"}};
  using Lead = PreTokenizerStep::Prepend;
  if (step.kind == PreTokenizerStep::Kind::ByteLevel) return byte_level_json(false, false);
  if (step.kind == PreTokenizerStep::Kind::Metaspace)
    return {{"type", "Metaspace"},
            {"replacement", step.replacement},
            {"prepend_scheme", step.prepend == Lead::Always  ? "always"
                               : step.prepend == Lead::First ? "first"
                                                             : "never"},
            {"split", step.split}};
  return {{"type", "Split"},
          {"pattern", written(step.pattern)},
          {"behavior", behaviors.at(step.behavior)},
          {"invert", step.invert}};
}

WrittenJson written(const DecoderStep& step) {
  using Kind = DecoderStep::Kind;
  switch (step.kind) {
    case Kind::ByteLevel:
      return byte_level_json(true, true);
    case Kind::ByteFallback:
      return {{"type", "ByteFallback"}};
    case Kind::Fuse:
      return {{"type", "Fuse"}};
    case Kind::Metaspace:
      return {{"type", "Metaspace"},
              {"replacement", step.content},
              {"prepend_scheme", step.prefixed ? "always" : "never"},
              {"split", true}};
    case Kind::Replace:
      return {{"type", "Replace"}, {"pattern", written(step.pattern)}, {"content", step.content}};
    case Kind::Strip:
      return {{"type", "Strip"}, {"content", step.content}, {"start", step.start}, {"stop", step.stop}};
    case Kind::WordPiece:
      return {{"type", "WordPiece"}, {"prefix", step.content}, {"cleanup", step.cleanup}};
    case Kind::Suffix:
      return {{"type", "BPEDecoder"}, {"suffix", step.content}};
  }
  return nullptr;
}

/// One step as it is, several as a sequence, none as null.
WrittenJson sequence_of(WrittenJson steps, const char* key) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return steps.front();
  return {{"type", "Sequence"}, {key, std::move(steps)}};
}

/// The format has a blank before words only in ByteLevel, which may cut by GPT-2's pattern itself.
WrittenJson pre_tokenizers_json(const TokenizerSpec& spec) {
  using Kind = PreTokenizerStep::Kind;
  const auto& steps = spec.pre_tokenizers;
  WrittenJson list = WrittenJson::array();
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != Kind::Prefix) {
      list.push_back(written(steps[i]));
      continue;
    }
    const auto is_bytes = [&](size_t at) { return at < steps.size() && steps[at].kind == Kind::ByteLevel; };
    const bool words = is_bytes(i + 2) && steps[i + 1] == byte_level_style("gpt-2").pre_tokenizers.front();
    if (!words && !is_bytes(i + 1))
      fail<FormatError>(
          "[tokenizer] a blank before each word stands in front of other steps than ByteLevel, "
          "which tokenizer.json cannot say");
    list.push_back(byte_level_json(true, words));
    i += words ? 2 : 1;
  }
  return sequence_of(std::move(list), "pretokenizers");
}

/// The text of each id: vocabulary, and added tokens that have a place in it.
std::vector<std::string> all_tokens(const TokenizerSpec& spec) {
  std::vector<std::string> tokens = spec.vocabulary;
  for (const AddedToken& token : spec.added)
    if (const auto id = static_cast<size_t>(token.id); id < tokens.size() && tokens[id].empty())
      tokens[id] = token.content;
  return tokens;
}

WrittenJson vocabulary_json(const std::vector<std::string>& tokens) {
  WrittenJson vocabulary = WrittenJson::object();
  for (size_t id = 0; id < tokens.size(); ++id)
    if (!tokens[id].empty()) vocabulary.push_back({tokens[id], id});
  return vocabulary;
}

/// All pairs of pieces that join to a piece, the piece of the greatest score first.
std::vector<std::pair<std::string, std::string>> merges_by_score(const TokenizerSpec& spec) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < spec.vocabulary.size(); ++id)
    if (!spec.vocabulary[id].empty()) ids.emplace(spec.vocabulary[id], id);
  std::vector<std::tuple<double, size_t, size_t>> merges;  // score, piece, length of its first part
  for (const auto& [piece, id] : ids)
    for (size_t cut = 1; cut < piece.size(); ++cut)
      if (ids.contains(piece.substr(0, cut)) && ids.contains(piece.substr(cut)))
        merges.emplace_back(-spec.scores.at(id), id, cut);
  std::ranges::sort(merges);
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [score, id, cut] : merges)
    result.emplace_back(spec.vocabulary[id].substr(0, cut), spec.vocabulary[id].substr(cut));
  return result;
}

WrittenJson text_or_null(const std::string& text) {
  return text.empty() ? WrittenJson(nullptr) : WrittenJson(text);
}

WrittenJson model_json(const TokenizerSpec& spec) {
  const std::vector<std::string> tokens = all_tokens(spec);
  const std::string unknown = spec.unknown ? tokens.at(static_cast<size_t>(*spec.unknown)) : "";
  if (spec.model == TokenizerSpec::Model::Unigram) {
    WrittenJson pieces = WrittenJson::array();
    for (size_t id = 0; id < tokens.size(); ++id)
      pieces.push_back({tokens[id].empty() ? fmt::format("[unused{}]", id) : tokens[id], spec.scores.at(id)});
    return {{"type", "Unigram"},
            {"unk_id", spec.unknown ? WrittenJson(*spec.unknown) : WrittenJson(nullptr)},
            {"vocab", std::move(pieces)},
            {"byte_fallback", spec.byte_fallback}};
  }
  if (spec.model == TokenizerSpec::Model::WordPiece)
    return {{"type", "WordPiece"},
            {"unk_token", unknown},
            {"continuing_subword_prefix", spec.continuing_prefix},
            {"max_input_chars_per_word", spec.max_word_characters},
            {"vocab", vocabulary_json(tokens)}};
  WrittenJson merges = WrittenJson::array();
  for (auto& [first, second] :
       spec.merges.empty() && !spec.scores.empty() ? merges_by_score(spec) : spec.merges)
    merges.push_back({first, second});
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", text_or_null(unknown)},
          {"continuing_subword_prefix", text_or_null(spec.continuing_prefix)},
          {"end_of_word_suffix", text_or_null(spec.end_suffix)},
          {"fuse_unk", spec.fuse_unknown},
          {"byte_fallback", spec.byte_fallback},
          {"ignore_merges", spec.ignore_merges},
          {"vocab", vocabulary_json(tokens)},
          {"merges", std::move(merges)}};
}

WrittenJson post_processor_json(const TokenizerSpec& spec) {
  if (spec.begin.empty() && spec.end.empty()) return nullptr;
  WrittenJson single = WrittenJson::array(), pair, special = WrittenJson::object();
  std::vector<std::string> tokens = all_tokens(spec);
  for (const AddedToken& token : spec.added)
    if (static_cast<size_t>(token.id) >= tokens.size()) tokens.resize(static_cast<size_t>(token.id) + 1);
  for (const AddedToken& token : spec.added) tokens[static_cast<size_t>(token.id)] = token.content;
  const auto put = [&](const std::vector<TokenId>& ids) {
    for (const TokenId id : ids) {
      const std::string& token = tokens.at(static_cast<size_t>(id));
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      special[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    }
  };
  put(spec.begin);
  const size_t before = single.size();
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  put(spec.end);
  pair = single;
  const WrittenJson second{{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  pair.insert(pair.begin() + static_cast<ptrdiff_t>(before) + 1, second);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

WrittenJson added_tokens_json(const TokenizerSpec& spec) {
  std::vector<AddedToken> tokens = spec.added;
  std::ranges::sort(tokens, {}, &AddedToken::id);
  WrittenJson list = WrittenJson::array();
  for (const AddedToken& token : tokens)
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.left_strip},
                    {"rstrip", token.right_strip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  return list;
}

std::string utf8_text(const WrittenJson& json) {
  try {
    return json.dump(2) + "\n";
  } catch (const WrittenJson::type_error&) {
    fail<FormatError>("[tokenizer] a token is not UTF-8, which tokenizer.json cannot say");
  }
}

}  // namespace

std::string tokenizer_json(const TokenizerSpec& spec) {
  WrittenJson normalizers = WrittenJson::array(), decoders = WrittenJson::array();
  for (const NormalizerStep& step : spec.normalizers) normalizers.push_back(written(step));
  if (spec.decoders)
    for (const DecoderStep& step : *spec.decoders) decoders.push_back(written(step));
  return utf8_text({{"version", "1.0"},
                    {"truncation", nullptr},
                    {"padding", nullptr},
                    {"added_tokens", added_tokens_json(spec)},
                    {"normalizer", sequence_of(std::move(normalizers), "normalizers")},
                    {"pre_tokenizer", pre_tokenizers_json(spec)},
                    {"post_processor", post_processor_json(spec)},
                    {"decoder", sequence_of(std::move(decoders), "decoders")},
                    {"model", model_json(spec)}});
}

void write_tokenizer(const TokenizerSpec& spec, const std::filesystem::path& folder) {
  write_file_atomic(folder / "tokenizer.json", tokenizer_json(spec));
  WrittenJson config{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (!spec.begin_token.empty()) config["bos_token"] = spec.begin_token;
  if (!spec.end_token.empty()) config["eos_token"] = spec.end_token;
  if (!spec.chat_template.empty()) config["chat_template"] = spec.chat_template;
  write_file_atomic(folder / "tokenizer_config.json", utf8_text(config));
}

}  // namespace luminal::text
