#include "serving/requests.h"

#include <fmt/format.h>

#include <charconv>

#include "luminal/text/grammar.h"
#include "luminal/text/json_schema.h"
#include "serving/api_error.h"
#include "serving/chat_messages.h"
#include "serving/fields.h"

namespace luminal::serving {
namespace {

using text::TokenId;

constexpr int64_t kMostChoices = 128;
constexpr size_t kMostStops = 16, kMostStopBytes = 1024, kMostPrompts = 128;
constexpr int64_t kGreatestToken = std::numeric_limits<TokenId>::max();

std::vector<std::string> parse_stops(Fields& fields) {
  const Json* given = fields.any("stop");
  if (given == nullptr) return {};
  const Json list = given->is_string() ? Json::array({*given}) : *given;
  const std::string wanted = fmt::format(
      "a string or up to {} strings, none of them empty or longer than {} bytes", kMostStops, kMostStopBytes);
  if (!list.is_array() || list.size() > kMostStops) refuse_field(fields.path_of("stop"), *given, wanted);
  std::vector<std::string> stops;
  for (const Json& stop : list) {
    if (!stop.is_string()) refuse_field(fields.path_of("stop"), stop, wanted);
    stops.push_back(stop.get<std::string>());
    if (stops.back().empty() || stops.back().size() > kMostStopBytes)
      refuse_field(fields.path_of("stop"), stop, wanted);
  }
  return stops;
}

std::vector<std::pair<TokenId, double>> parse_biases(Fields& fields) {
  std::vector<std::pair<TokenId, double>> biases;
  const Json* given = fields.object("logit_bias");
  if (given == nullptr) return biases;
  Fields tokens(*given, "logit_bias");
  for (const auto& [name, value] : given->items()) {
    TokenId id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size() || id < 0)
      refuse_field("logit_bias", name, "ids of tokens as its keys");
    biases.emplace_back(id, tokens.number(name.c_str(), -100, 100).value_or(0));
  }
  return biases;
}

text::SamplerOptions parse_sampler(Fields& fields, text::SamplerOptions options) {
  constexpr double kLeastShare = 1e-9;  // the sampler wants more than 0
  options.temperature = fields.number("temperature", 0, 100).value_or(options.temperature);
  if (const auto share = fields.number("top_p", 0, 1)) options.top_p = std::max(*share, kLeastShare);
  options.top_k = fields.whole("top_k", 0).value_or(options.top_k);
  options.min_p = fields.number("min_p", 0, 1).value_or(options.min_p);
  if (const auto share = fields.number("typical_p", 0, 1)) options.typical_p = std::max(*share, kLeastShare);
  options.repetition_penalty =
      fields.number("repeat_penalty", 0.01, 100).value_or(options.repetition_penalty);
  options.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  options.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  options.logit_bias = parse_biases(fields);
  return options;
}

/// What grammar errors say of the field that they come from.
template <class Make>
std::string grammar_of(const std::string& path, Make&& make) {
  try {
    std::string gbnf = make();
    (void)text::Grammar(gbnf);
    return gbnf;
  } catch (const Error& error) {
    throw ApiError(400, fmt::format("'{}': {}", path, error.what()), path, "invalid_value");
  }
}

std::string parse_response_format(const Json& given) {
  Fields format(given, "response_format");
  const std::string type = format.text("type").value_or("");
  std::string grammar;
  if (type == "json_object") {
    grammar = text::json_schema_grammar(R"({"type": "object", "additionalProperties": true})");
  } else if (type == "json_schema") {
    const Json* wrapped = format.object("json_schema");
    if (wrapped == nullptr) refuse_field("response_format.json_schema", {}, "an object with a schema");
    Fields schema(*wrapped, "response_format.json_schema");
    schema.ignore({"name", "description", "strict"});
    const Json* content = schema.object("schema");
    if (content == nullptr) refuse_field("response_format.json_schema.schema", {}, "a JSON schema");
    grammar = grammar_of("response_format.json_schema.schema",
                         [&] { return text::json_schema_grammar(content->dump()); });
    schema.finish();
  } else if (type != "text") {
    refuse_field("response_format.type", type, "\"text\", \"json_object\" or \"json_schema\"");
  }
  format.finish();
  return grammar;
}

std::string parse_grammar(Fields& fields) {
  const Json* format = fields.object("response_format");
  const auto gbnf = fields.text("grammar");
  std::string grammar;
  if (format != nullptr) grammar = parse_response_format(*format);
  if (!gbnf) return grammar;
  if (!grammar.empty())
    throw ApiError(400, "'grammar' and 'response_format' both constrain the answer; give one of them",
                   "grammar");
  return grammar_of("grammar", [&] { return *gbnf; });
}

void parse_common(Fields& fields, const RequestDefaults& defaults, AnswerRequest& request) {
  request.model = fields.text("model").value_or("");
  request.stream = fields.flag("stream").value_or(false);
  if (const Json* options = fields.object("stream_options")) {
    Fields stream(*options, "stream_options");
    request.include_usage = stream.flag("include_usage").value_or(false);
    stream.ignore({"include_obfuscation"});
    stream.finish();
    if (!request.stream)
      throw ApiError(400, "'stream_options' is for streams; set 'stream' to true", "stream_options");
  }
  request.choices = fields.whole("n", 1, kMostChoices).value_or(1);
  request.stops = parse_stops(fields);
  request.sampler = parse_sampler(fields, defaults.sampler);
  if (const auto seed = fields.whole("seed", std::numeric_limits<int64_t>::min()))
    request.seed = static_cast<uint64_t>(*seed);
  request.grammar = parse_grammar(fields);
  // Names of end users, notes and wishes about billing, which change no answer.
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
}

/// What is not supported is refused unless it says what is done anyway.
void refuse_unless(Fields& fields, const char* name, const std::vector<Json>& harmless,
                   std::string_view why) {
  const Json* value = fields.any(name);
  if (value == nullptr || std::ranges::find(harmless, *value) != harmless.end()) return;
  throw ApiError(400, fmt::format("'{}' is not supported{}", name, why), name, "unsupported_parameter");
}

std::vector<TokenId> parse_tokens(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list) {
    if (!id.is_number_integer() ||
        (id.is_number_unsigned() ? id.get<uint64_t>() > uint64_t{kGreatestToken} : id.get<int64_t>() < 0))
      refuse_field("prompt", id, "ids of tokens, or strings");
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::vector<Prompt> parse_prompts(Fields& fields) {
  const Json* given = fields.any("prompt");
  const std::string wanted = fmt::format("a string, a list of tokens, or up to {} of either", kMostPrompts);
  if (given == nullptr) refuse_field("prompt", {}, wanted);
  if (given->is_string()) return {given->get<std::string>()};
  if (!given->is_array() || given->empty()) refuse_field("prompt", *given, wanted);
  if (given->front().is_number()) return {parse_tokens(*given)};
  if (given->size() > kMostPrompts) refuse_field("prompt", *given, wanted);
  std::vector<Prompt> prompts;
  for (const Json& each : *given) {
    if (each.is_string())
      prompts.emplace_back(each.get<std::string>());
    else if (each.is_array() && !each.empty())
      prompts.emplace_back(parse_tokens(each));
    else
      refuse_field("prompt", each, wanted);
  }
  return prompts;
}

}  // namespace

CompletionRequest parse_completion(const Json& body, const RequestDefaults& defaults) {
  constexpr int64_t kUsualTokens = 16;  // OpenAI's
  Fields fields(body);
  CompletionRequest request;
  parse_common(fields, defaults, request);
  request.prompts = parse_prompts(fields);
  request.most_tokens = fields.whole("max_tokens", 1).value_or(kUsualTokens);
  request.echo = fields.flag("echo").value_or(false);
  if (const auto top = fields.whole("logprobs", 0, 20)) {
    request.logprobs = true;
    request.top_logprobs = *top;
  }
  if (request.echo && request.logprobs)
    throw ApiError(400,
                   "'echo' and 'logprobs' at once are not supported: tokens of prompts have no shares here",
                   "echo", "unsupported_parameter");
  refuse_unless(fields, "suffix", {""}, "; the model continues texts");
  refuse_unless(fields, "best_of", {1, request.choices}, " unless it equals 'n'");
  fields.finish();
  if (static_cast<int64_t>(request.prompts.size()) * request.choices > kMostChoices)
    throw ApiError(
        400,
        fmt::format("{} prompts with {} answers each are more than {} answers; send several requests",
                    request.prompts.size(), request.choices, kMostChoices),
        "n");
  return request;
}

ChatRequest parse_chat(const Json& body, const RequestDefaults& defaults) {
  Fields fields(body);
  ChatRequest request;
  parse_common(fields, defaults, request);
  request.messages = parse_messages(fields);
  parse_tools(fields, request);
  const auto older = fields.whole("max_tokens", 1), newer = fields.whole("max_completion_tokens", 1);
  request.most_tokens = newer ? *newer : older.value_or(defaults.most_tokens);
  request.logprobs = fields.flag("logprobs").value_or(false);
  if (const auto top = fields.whole("top_logprobs", 0, 20)) {
    if (!request.logprobs)
      throw ApiError(400, "'top_logprobs' needs 'logprobs'; set it to true", "top_logprobs");
    request.top_logprobs = *top;
  }
  request.variables = Json::object();
  if (const Json* variables = fields.object("chat_template_kwargs")) request.variables = *variables;
  if (const auto effort = fields.text("reasoning_effort")) request.variables["reasoning_effort"] = *effort;
  refuse_unless(fields, "functions", {Json::array()}, "; use 'tools'");
  refuse_unless(fields, "function_call", {"none", "auto"}, "; use 'tool_choice'");
  refuse_unless(fields, "audio", {}, "; answers are texts");
  refuse_unless(fields, "modalities", {Json::array({"text"})}, "; answers are texts");
  refuse_unless(fields, "prediction", {}, "");
  refuse_unless(fields, "web_search_options", {}, "");
  refuse_unless(fields, "verbosity", {"medium"}, "");
  fields.finish();
  return request;
}

}  // namespace luminal::serving
