#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "luminal/text/sampler.h"
#include "luminal/text/tokenizer.h"
#include "serving/json.h"

/// What clients ask for, read from OpenAI's JSON. Nothing here knows a model.
namespace luminal::serving {

/// What a field that is absent means.
struct RequestDefaults {
  text::SamplerOptions sampler = {};
  int64_t most_tokens = -1;  ///< of an answer; -1: as many as fit
};

/// What both endpoints ask.
struct AnswerRequest {
  std::string model;  ///< empty: the one there is
  bool stream = false, include_usage = false;
  int64_t choices = 1;       ///< answers to each prompt
  int64_t most_tokens = -1;  ///< -1: until it ends or the context is full
  std::vector<std::string> stops = {};
  text::SamplerOptions sampler = {};
  std::optional<uint64_t> seed = {};  ///< nothing: another each time
  bool logprobs = false;
  int64_t top_logprobs = 0;  ///< how many of the most probable tokens are reported beside the chosen one
  std::string grammar = {};  ///< GBNF; empty for none
};

using Prompt = std::variant<std::string, std::vector<text::TokenId>>;

struct CompletionRequest : AnswerRequest {
  std::vector<Prompt> prompts;
  bool echo = false;  ///< the prompt leads the answer
};

struct ChatRequest : AnswerRequest {
  Json messages;                 ///< as chat templates take them: contents are strings, arguments objects
  Json tools = {};               ///< null for none
  bool must_call = false;        ///< an answer is a call of a tool
  std::string called_tool = {};  ///< which one; empty: any
  bool several_calls = true;     ///< an answer may call more than one tool
  Json variables = {};           ///< further variables of the template, an object
};

/// Errors: ApiError 400 that names the field.
[[nodiscard]] CompletionRequest parse_completion(const Json& body, const RequestDefaults& defaults);
[[nodiscard]] ChatRequest parse_chat(const Json& body, const RequestDefaults& defaults);

}  // namespace luminal::serving
