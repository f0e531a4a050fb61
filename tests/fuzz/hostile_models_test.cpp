// What comes with language models, damaged: tokenizers, chat templates, grammars, folders, and what clients of a server
// send.
#include "fuzz/hostile_input.h"
#include "luminal/luminal.h"
#include "luminal/text/grammar.h"
#include "luminal/text/json_schema.h"
#include "serving/embeddings.h"
#include "serving/fields.h"
#include "serving/requests.h"

namespace luminal::fuzz {
namespace {

using test::content_of;
using Path = std::filesystem::path;
const std::string kUnit = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/";

std::vector<std::string> contents(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::string& name : names) result.push_back(content_of(kUnit + folder + "/" + name));
  return result;
}

void use_tokenizer(const text::TokenizerSpec& spec) {
  const text::Tokenizer tokenizer(spec);
  const std::vector<text::TokenId> ids = tokenizer.encode("It's 12 naïve 狐 \t<s>\n");
  (void)tokenizer.decode(ids, false);
  (void)tokenizer.token_bytes();
}

void use_gguf_tokenizer(const Path& path) {
  const GgufFile file(path);
  (void)models::gguf_stop_tokens(file.metadata());
  use_tokenizer(models::gguf_tokenizer(file.metadata()));
}

std::vector<std::string> chat_templates() {
  return {
      "{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m['content'] | trim }}{% endfor %}",
      "{%- set ns = namespace(n=0) -%}{% for m in messages if m.role != 'system' %}{% set ns.n = ns.n + 1 %}"
      "{{ loop.index0 }}{{ ns.n }}{{ m.content[:3] }}{% else %}none{% endfor %}",
      "{% macro say(x, end='.') %}{{ x }}{{ end }}{% endmacro %}{{ say(messages[0].content | tojson) }}"
      "{% if add_generation_prompt and tools is not defined %}{{ bos_token }}{% endif %}"};
}

void render_template(const std::string& source) {
  const text::ChatTemplate chat(source, {.steps = 100'000, .output_bytes = 1 << 16});
  (void)chat.render(
      {.messages = R"([{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "x"}])",
       .add_generation_prompt = true,
       .begin_token = "<s>"});
}

std::vector<std::string> grammars() {
  return {
      "root ::= object\nobject ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= string \":\" object\n"
      "string ::= \"\\\"\" [^\"\\\\\\x00-\\x1f]{0,9} \"\\\"\"\n",
      "root ::= [a-z]+ | \"x\"{2,3} tail?\ntail ::= . \"\\u00e9\" # end\n"};
}

/// The index is what is damaged; its files are whole.
void open_folder(const std::string& index) {
  const test::TemporaryFolder folder;
  (void)folder.file("config.json", R"({"model_type": "llama"})");
  (void)folder.file("model.safetensors.index.json", index);
  const TensorData one = TensorData::of<float>({1}, std::vector{1.0F});
  write_safetensors(folder.path() / "one.safetensors", {{"a", one}});
  write_safetensors(folder.path() / "two.safetensors", {{"b", one}});
  const ModelFolder model(folder.path());
  for (const std::string& name : model.names()) (void)model.read(name);
}

std::vector<std::string> schemas() {
  return {
      R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 9},)"
      R"( "age": {"type": "integer", "minimum": 0, "maximum": 120}, "tags": {"type": "array", "minItems": 1,)"
      R"( "maxItems": 3, "items": {"enum": ["a", "b", null, 1.5]}}}, "required": ["name"],)"
      R"( "additionalProperties": {"type": "number"}})",
      R"({"$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"},)"
      R"( {"type": "null"}]}}}}, "$ref": "#/$defs/node"})",
      R"({"oneOf": [{"const": {"a": [1, true]}}, {"type": ["string", "boolean"], "format": "date-time"},)"
      R"( {"allOf": [{"type": "object", "properties": {"x": {}}}, {"required": ["x"]}]}, {"pattern": "^a+$"}]})"};
}

void build_schema(const std::string& input) {
  (void)text::Grammar(text::json_schema_grammar(input)).matches("{\"name\":\"a\"}");
}

std::vector<std::string> completion_bodies() {
  return {
      R"({"model": "m", "prompt": ["Once", [1, 2]], "max_tokens": 7, "n": 2, "stop": ["END", "x"],)"
      R"( "temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1, "seed": -1, "logprobs": 2, "stream": true,)"
      R"( "logit_bias": {"5": -100, "6": 2.5}, "presence_penalty": 1, "frequency_penalty": -2,)"
      R"( "stream_options": {"include_usage": true}, "suffix": null, "best_of": 2, "grammar": "root ::= \"a\""})"};
}

std::vector<std::string> chat_bodies() {
  return {
      R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, {"role": "user",)"
      R"( "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",)"
      R"( "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}, {"role": "tool", "tool_call_id": "c1",)"
      R"( "content": "2"}], "tools": [{"type": "function", "function": {"name": "f", "description": "d",)"
      R"( "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}], "tool_choice":)"
      R"( {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false, "logprobs": true,)"
      R"( "top_logprobs": 3, "chat_template_kwargs": {"enable_thinking": false}})",
      R"({"messages": [{"role": "user", "content": "Hi"}], "response_format": {"type": "json_schema",)"
      R"( "json_schema": {"name": "n", "schema": {"type": "array", "items": {"type": "number"}}}}})"};
}

std::vector<Target> model_targets() {
  return {
      {"tokenizer.json",
       [] { return contents("text/data", {"gpt2.json", "llama2.json", "unigram.json", "word_piece.json"}); },
       [](const std::string& input, const Path&) { use_tokenizer(text::parse_tokenizer(input, "fuzz")); },
       200},
      {"GGUF tokenizer",
       [] {
         return contents("models/data", {"qwen2.gguf", "sp_bpe.gguf", "sp_unigram.gguf", "word_piece.gguf"});
       },
       [](const std::string&, const Path& file) { use_gguf_tokenizer(file); }, 200},
      {"chat template", chat_templates,
       [](const std::string& input, const Path&) { render_template(input); }},
      {"GBNF", grammars,
       [](const std::string& input, const Path&) { (void)text::Grammar(input).matches("{\"ab\":{}}"); }},
      {"JSON schema", schemas, [](const std::string& input, const Path&) { build_schema(input); }},
      {"completion body", completion_bodies,
       [](const std::string& input, const Path&) {
         (void)serving::parse_completion(serving::parse_body(input), {});
       }},
      {"chat body", chat_bodies,
       [](const std::string& input, const Path&) {
         (void)serving::parse_chat(serving::parse_body(input), {});
       }},
      {"embedding body",
       [] {
         return std::vector<std::string>{
             R"({"model": "m", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 16, "user": "u"})",
             R"({"input": "one"})"};
       },
       [](const std::string& input, const Path&) {
         (void)serving::parse_embedding_request(serving::parse_body(input), 16);
       }},
      {"model folder",
       [] {
         return std::vector<std::string>{
             R"({"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})"};
       },
       [](const std::string& input, const Path&) { open_folder(input); }, 100},
  };
}

class HostileModel : public testing::TestWithParam<Target> {};
TEST_P(HostileModel, IsReadOrRefused) { run(GetParam()); }
INSTANTIATE_TEST_SUITE_P(Parsers, HostileModel, testing::ValuesIn(model_targets()), test_name);

}  // namespace
}  // namespace luminal::fuzz
