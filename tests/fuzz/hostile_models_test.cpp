// What comes with language models, damaged: tokenizers, chat templates, grammars, folders.
#include "fuzz/hostile_input.h"
#include "luminal/luminal.h"

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
