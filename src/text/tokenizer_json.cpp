// tokenizer.json, as the `tokenizers` package writes it, and what stands beside it in a model's folder.
#include <map>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/file.h"
#include "luminal/text/tokenizer.h"

namespace luminal::text {
namespace {

using Json = nlohmann::json;
using Behavior = PreTokenizerStep::Behavior;
using Prepend = PreTokenizerStep::Prepend;

constexpr size_t kMostVocabulary = size_t{1} << 22;
constexpr size_t kMostFileBytes = size_t{1} << 28;

[[noreturn]] void unknown_part(std::string_view part, const Json& type) {
  fail<FormatError>("[tokenizer] the {} {} is not known", part, type.dump());
}

Pattern pattern_of(const Json& json) {
  if (json.contains("String")) return {json["String"].get<std::string>(), false};
  return {json.at("Regex").get<std::string>(), true};
}

void read_normalizer(const Json& json, std::vector<NormalizerStep>& steps) {
  using Kind = NormalizerStep::Kind;
  static const std::map<std::string, Kind> plain{{"NFC", Kind::Nfc},
                                                 {"NFD", Kind::Nfd},
                                                 {"NFKC", Kind::Nfkc},
                                                 {"NFKD", Kind::Nfkd},
                                                 {"Lowercase", Kind::Lowercase},
                                                 {"StripAccents", Kind::StripAccents},
                                                 {"ByteLevel", Kind::ByteLevel},
                                                 {"Nmt", Kind::Nmt}};
  const auto type = json.at("type").get<std::string>();
  if (const auto found = plain.find(type); found != plain.end()) {
    steps.push_back({.kind = found->second});
  } else if (type == "Sequence") {
    for (const Json& part : json.at("normalizers")) read_normalizer(part, steps);
  } else if (type == "Strip") {
    steps.push_back({.kind = Kind::Strip, .left = json.at("strip_left"), .right = json.at("strip_right")});
  } else if (type == "Replace") {
    steps.push_back(
        {.kind = Kind::Replace, .pattern = pattern_of(json.at("pattern")), .content = json.at("content")});
  } else if (type == "Prepend") {
    steps.push_back({.kind = Kind::Prepend, .content = json.at("prepend")});
  } else if (type == "BertNormalizer") {
    const bool lowercase = json.at("lowercase");
    const Json accents = json.value("strip_accents", Json());
    steps.push_back({.kind = Kind::Bert,
                     .clean = json.at("clean_text"),
                     .chinese = json.at("handle_chinese_chars"),
                     .lowercase = lowercase,
                     .accents = accents.is_null() ? lowercase : accents.get<bool>()});
  } else {
    unknown_part("normaliser", json["type"]);
  }
}

Behavior behavior_of(const Json& json) {
  static const std::map<std::string, Behavior> names{{"Removed", Behavior::Removed},
                                                     {"Isolated", Behavior::Isolated},
                                                     {"MergedWithPrevious", Behavior::MergedWithPrevious},
                                                     {"MergedWithNext", Behavior::MergedWithNext},
                                                     {"Contiguous", Behavior::Contiguous}};
  const auto found = names.find(json.get<std::string>());
  if (found == names.end()) unknown_part("way to split", json);
  return found->second;
}

Prepend prepend_of(const Json& json) {
  const std::string scheme =
      json.value("prepend_scheme", json.value("add_prefix_space", true) ? "always" : "never");
  if (scheme == "always") return Prepend::Always;
  if (scheme == "first") return Prepend::First;
  if (scheme != "never") unknown_part("prepend_scheme", Json(scheme));
  return Prepend::Never;
}

constexpr const char* kPunctuation = R"([\p{P}$+<=>^`|~])";

void read_pre_tokenizer(const Json& json, std::vector<PreTokenizerStep>& steps) {
  using Kind = PreTokenizerStep::Kind;
  const auto split = [&](const std::string& regex, Behavior behavior, bool invert = false) {
    steps.push_back({.pattern = {regex, true}, .behavior = behavior, .invert = invert});
  };
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const Json& part : json.at("pretokenizers")) read_pre_tokenizer(part, steps);
  } else if (type == "ByteLevel") {
    if (json.at("add_prefix_space").get<bool>()) steps.push_back({.kind = Kind::Prefix});
    if (json.value("use_regex", true)) steps.push_back(byte_level_style("gpt2").pre_tokenizers.front());
    steps.push_back({.kind = Kind::ByteLevel});
  } else if (type == "Split") {
    steps.push_back({.pattern = pattern_of(json.at("pattern")),
                     .behavior = behavior_of(json.at("behavior")),
                     .invert = json.value("invert", false)});
  } else if (type == "Metaspace") {
    steps.push_back({.kind = Kind::Metaspace,
                     .prepend = prepend_of(json),
                     .replacement = json.at("replacement"),
                     .split = json.value("split", true)});
  } else if (type == "BertPreTokenizer") {
    for (PreTokenizerStep& step : bert_pre_tokenizer()) steps.push_back(std::move(step));
  } else if (type == "Whitespace") {
    split(R"(\w+|[^\w\s]+)", Behavior::Removed, true);
  } else if (type == "WhitespaceSplit") {
    split(R"(\s)", Behavior::Removed);
  } else if (type == "Digits") {
    split(R"(\p{N})", json.at("individual_digits").get<bool>() ? Behavior::Isolated : Behavior::Contiguous);
  } else if (type == "Punctuation") {
    split(kPunctuation, json.contains("behavior") ? behavior_of(json["behavior"]) : Behavior::Isolated);
  } else if (type == "CharDelimiterSplit") {
    steps.push_back(
        {.pattern = {json.at("delimiter").get<std::string>(), false}, .behavior = Behavior::Removed});
  } else {
    unknown_part("pre-tokeniser", json["type"]);
  }
}

void read_decoder(const Json& json, std::vector<DecoderStep>& steps) {
  using Kind = DecoderStep::Kind;
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const Json& part : json.at("decoders")) read_decoder(part, steps);
  } else if (type == "ByteLevel") {
    steps.push_back({.kind = Kind::ByteLevel});
  } else if (type == "ByteFallback") {
    steps.push_back({.kind = Kind::ByteFallback});
  } else if (type == "Fuse") {
    steps.push_back({.kind = Kind::Fuse});
  } else if (type == "Metaspace") {
    steps.push_back({.kind = Kind::Metaspace,
                     .content = json.at("replacement"),
                     .prefixed = prepend_of(json) != Prepend::Never});
  } else if (type == "Replace") {
    steps.push_back(
        {.kind = Kind::Replace, .pattern = pattern_of(json.at("pattern")), .content = json.at("content")});
  } else if (type == "Strip") {
    steps.push_back({.kind = Kind::Strip,
                     .content = json.at("content"),
                     .start = json.at("start"),
                     .stop = json.at("stop")});
  } else if (type == "WordPiece") {
    steps.push_back(
        {.kind = Kind::WordPiece, .content = json.at("prefix"), .cleanup = json.value("cleanup", true)});
  } else if (type == "BPEDecoder") {
    steps.push_back({.kind = Kind::Suffix, .content = json.at("suffix")});
  } else {
    unknown_part("decoder", json["type"]);
  }
}

void read_post_processor(const Json& json, TokenizerSpec& spec) {
  const auto type = json.at("type").get<std::string>();
  if (type == "Sequence") {
    for (const Json& part : json.at("processors")) read_post_processor(part, spec);
  } else if (type == "TemplateProcessing") {
    bool behind = false;
    for (const Json& part : json.at("single")) {
      if (part.contains("Sequence")) {
        behind = true;
        continue;
      }
      const auto name = part.at("SpecialToken").at("id").get<std::string>();
      for (const TokenId id :
           whole_numbers<TokenId>(json.at("special_tokens").at(name).at("ids"), "tokenizer"))
        (behind ? spec.end : spec.begin).push_back(id);
    }
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    spec.begin.push_back(whole_number<TokenId>(json.at("cls").at(1), "tokenizer"));
    spec.end.push_back(whole_number<TokenId>(json.at("sep").at(1), "tokenizer"));
  } else if (type != "ByteLevel") {
    unknown_part("post-processor", json["type"]);
  }
}

std::string text_or_empty(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::string() : found->get<std::string>();
}

bool flag(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && !found->is_null() && found->get<bool>();
}

void read_vocabulary(const Json& vocabulary, TokenizerSpec& spec) {
  if (vocabulary.is_array()) {
    for (const Json& entry : vocabulary) {
      spec.vocabulary.push_back(entry.at(0));
      spec.scores.push_back(entry.at(1));
    }
    return;
  }
  for (const auto& [token, value] : vocabulary.items()) {
    const auto id = whole_number<size_t>(value, "tokenizer");
    if (id >= kMostVocabulary)
      fail<FormatError>("[tokenizer] token '{}' has the id {}; at most {} are read", token, id,
                        kMostVocabulary);
    if (id >= spec.vocabulary.size()) spec.vocabulary.resize(id + 1);
    spec.vocabulary[id] = token;
  }
}

void read_merges(const Json& merges, TokenizerSpec& spec) {
  for (const Json& merge : merges) {
    if (merge.is_array()) {
      spec.merges.emplace_back(merge.at(0), merge.at(1));
      continue;
    }
    const auto text = merge.get<std::string>();
    const size_t blank = text.find(' ');
    if (blank == std::string::npos) fail<FormatError>("[tokenizer] the merge '{}' lacks a blank", text);
    spec.merges.emplace_back(text.substr(0, blank), text.substr(blank + 1));
  }
}

void read_model(const Json& json, TokenizerSpec& spec) {
  const Json& vocabulary = json.at("vocab");
  const std::string type = json.value("type", json.contains("merges") ? "BPE"
                                              : vocabulary.is_array() ? "Unigram"
                                                                      : "WordPiece");
  read_vocabulary(vocabulary, spec);
  if (type == "BPE") {
    spec.model = TokenizerSpec::Model::Bpe;
    read_merges(json.at("merges"), spec);
    spec.fuse_unknown = flag(json, "fuse_unk");
    spec.ignore_merges = flag(json, "ignore_merges");
    spec.end_suffix = text_or_empty(json, "end_of_word_suffix");
  } else if (type == "Unigram") {
    spec.model = TokenizerSpec::Model::Unigram;
    if (json.contains("unk_id") && !json["unk_id"].is_null())
      spec.unknown = whole_number<TokenId>(json["unk_id"], "tokenizer");
  } else if (type == "WordPiece") {
    spec.model = TokenizerSpec::Model::WordPiece;
    spec.max_word_characters =
        whole_number<size_t>(json.value("max_input_chars_per_word", Json(100U)), "tokenizer");
  } else {
    unknown_part("model", Json(type));
  }
  spec.byte_fallback = flag(json, "byte_fallback");
  spec.continuing_prefix = text_or_empty(json, "continuing_subword_prefix");
  if (const std::string unknown = text_or_empty(json, "unk_token"); !unknown.empty())
    for (size_t id = 0; id < spec.vocabulary.size(); ++id)
      if (spec.vocabulary[id] == unknown) spec.unknown = static_cast<TokenId>(id);
}

AddedToken added_token(const Json& json) {
  return {.id = whole_number<TokenId>(json.at("id"), "tokenizer"),
          .content = json.at("content"),
          .special = flag(json, "special"),
          .normalized = flag(json, "normalized"),
          .single_word = flag(json, "single_word"),
          .left_strip = flag(json, "lstrip"),
          .right_strip = flag(json, "rstrip")};
}

/// Whether a part stands there and is not null.
bool has_part(const Json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

/// A token of tokenizer_config.json: its text, or an object that holds it.
std::string config_token(const Json& json, const char* key) {
  if (!has_part(json, key)) return {};
  return json[key].is_object() ? json[key].at("content").get<std::string>() : json[key].get<std::string>();
}

void read_config(const Json& json, TokenizerSpec& spec) {
  spec.begin_token = config_token(json, "bos_token");
  spec.end_token = config_token(json, "eos_token");
  if (!has_part(json, "chat_template")) return;
  const Json& given = json["chat_template"];
  if (given.is_string()) spec.chat_template = given;
  if (given.is_array())
    for (const Json& entry : given)
      if (spec.chat_template.empty() || entry.at("name") == "default")
        spec.chat_template = entry.at("template");
}

template <class Read>
auto with_json_errors(const std::string& where, const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    fail<FormatError>("{}: not a tokenizer's JSON: {}", where, error.what());
  } catch (const FormatError& error) {
    throw FormatError(where + ": " + error.what());
  }
}

}  // namespace

std::vector<PreTokenizerStep> bert_pre_tokenizer() {
  return {{.pattern = {R"(\s)", true}, .behavior = Behavior::Removed}, {.pattern = {kPunctuation, true}}};
}

TokenizerSpec parse_tokenizer(std::string_view text, const std::string& where) {
  return with_json_errors(where, [&] {
    const Json json = parse_bounded_json(text, "tokenizer");
    TokenizerSpec spec;
    read_model(json.at("model"), spec);
    if (has_part(json, "added_tokens"))
      for (const Json& token : json["added_tokens"]) spec.added.push_back(added_token(token));
    if (has_part(json, "normalizer")) read_normalizer(json["normalizer"], spec.normalizers);
    if (has_part(json, "pre_tokenizer")) read_pre_tokenizer(json["pre_tokenizer"], spec.pre_tokenizers);
    if (has_part(json, "post_processor")) read_post_processor(json["post_processor"], spec);
    if (has_part(json, "decoder")) read_decoder(json["decoder"], spec.decoders.emplace());
    return spec;
  });
}

TokenizerSpec read_tokenizer(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const std::filesystem::path file = folder ? path / "tokenizer.json" : path;
  TokenizerSpec spec = parse_tokenizer(read_file(file, kMostFileBytes), file.string());
  if (!folder) return spec;
  if (const auto config = path / "tokenizer_config.json"; std::filesystem::exists(config))
    with_json_errors(config.string(), [&] {
      read_config(parse_bounded_json(read_file(config, kMostFileBytes), "tokenizer"), spec);
    });
  if (const auto chat = path / "chat_template.jinja"; std::filesystem::exists(chat))
    spec.chat_template = read_file(chat, kMostFileBytes);
  return spec;
}

}  // namespace luminal::text
