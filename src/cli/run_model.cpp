#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/fail.h"
#include "base/file.h"
#include "base/stopwatch.h"
#include "cli/command.h"
#include "cli/draft_choice.h"
#include "cli/interrupt.h"
#include "cli/model_choice.h"
#include "luminal/text/chat_template.h"
#include "luminal/text/grammar.h"
#include "luminal/text/json_schema.h"
#include "luminal/text/sampler.h"

namespace luminal::cli {
namespace {

using text::TokenId;

struct RunModelOptions : ModelChoice {
  DraftChoice draft;
  std::string prompt, prompt_file, system, grammar_file, schema_file;
  bool raw = false;
  int64_t most_tokens = -1, seed = -1;
  double temperature = 0.8, top_p = 0.95, min_p = 0.05, repeat_penalty = 1;
  int64_t top_k = 40;
};

std::string text_file(const std::string& path) { return read_file(path, size_t{1} << 24); }

/// Tokens and the time they took, without that of compiling.
struct Pace {
  int64_t tokens = 0;
  double seconds = 0;
  [[nodiscard]] std::string to_string() const {
    return fmt::format("{} tokens, {:.1f} t/s", tokens,
                       seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0);
  }
};

/// A model that writes on a console.
class Writer {
 public:
  Writer(const RunModelOptions& options, Console& console)
      : options_(options),
        console_(console),
        begin_(std::chrono::steady_clock::now()),
        model_(open_language_model(options)),
        seed_(options.seed >= 0 ? static_cast<uint64_t>(options.seed) : std::random_device()()) {
    const std::string& source = model_.tokenizer().spec().chat_template;
    if (!source.empty() && !options.raw) template_.emplace(source);
    if (!options.grammar_file.empty()) grammar_.emplace(text_file(options.grammar_file));
    if (!options.schema_file.empty())
      grammar_.emplace(text::json_schema_grammar(text_file(options.schema_file)));
    if (grammar_) grammar_tokens_.emplace(model_.tokenizer().token_bytes(), model_.end_tokens());
    if (auto drafter = open_drafter(options.draft, options, model_))
      speculative_.emplace(model_, std::move(drafter), options.draft.most);
  }

  [[nodiscard]] bool chats() const { return template_.has_value(); }
  [[nodiscard]] models::LanguageModel& model() { return model_; }

  /// The prompt that asks for an answer to these messages.
  [[nodiscard]] std::vector<TokenId> prompt_of(const nlohmann::json& messages) {
    const text::TokenizerSpec& spec = model_.tokenizer().spec();
    const std::string prompt = template_->render({.messages = messages.dump(),
                                                  .add_generation_prompt = true,
                                                  .begin_token = spec.begin_token,
                                                  .end_token = spec.end_token});
    return model_.tokenizer().encode(prompt, {.add_special = false});
  }
  [[nodiscard]] std::vector<TokenId> prompt_of(const std::string& text) {
    return model_.tokenizer().encode(text, {.parse_special = false});
  }

  /// Writes what follows `prompt` and returns it. Ctrl-C ends it early, a second one the program.
  std::string write(std::vector<TokenId> text) {
    const InterruptGuard guard;
    text::Sampler sampler({.temperature = options_.temperature,
                           .top_k = options_.top_k,
                           .top_p = options_.top_p,
                           .min_p = options_.min_p,
                           .repetition_penalty = options_.repeat_penalty,
                           .seed = seed_++});
    sampler.accept_prompt(text);
    std::optional<text::GrammarMatcher> matcher;
    if (grammar_) matcher.emplace(*grammar_, *grammar_tokens_);
    text::StreamDecoder decoder(model_.tokenizer());
    std::string answer;
    const auto show = [&](const std::string& piece) {
      answer += piece;
      console_.out << piece << std::flush;
    };
    int64_t written = 0;
    try {
      while (!is_full(text, written)) {
        const std::span<const float> logits = timed_logits(text, written == 0 ? prompt_ : generation_);
        std::span<const uint64_t> allowed;
        if (matcher) {
          allowed = matcher->allowed();
          if (std::ranges::all_of(allowed, [](uint64_t word) { return word == 0; })) {
            if (!matcher->complete())
              console_.err << "\n[run] the vocabulary has no token with which the answer could go on\n";
            break;
          }
        }
        const TokenId next = sampler.sample(logits, allowed);
        if (std::ranges::find(model_.end_tokens(), next) != model_.end_tokens().end()) break;
        if (matcher) matcher->accept(next);
        text.push_back(next);
        ++written;
        show(decoder.push(next));
      }
    } catch (const Cancelled&) {
      if (!interrupted()) throw;
    }
    show(decoder.finish());
    return answer;
  }

  /// What the run took so far, in a line.
  [[nodiscard]] std::string timing() const {
    std::string line =
        fmt::format("prompt {}; generation {}; {:.2f} s compiling; first token after {:.2f} s",
                    prompt_.to_string(), generation_.to_string(), compile_seconds(), first_token_s_);
    if (speculative_)
      line += fmt::format("; {} of {} guessed tokens accepted", speculative_->accepted_tokens(),
                          speculative_->drafted_tokens());
    return line;
  }

 private:
  [[nodiscard]] bool is_full(const std::vector<TokenId>& text, int64_t written) {
    if (interrupted() || (options_.most_tokens >= 0 && written >= options_.most_tokens)) return true;
    if (std::ssize(text) <= model_.context()) return false;
    if (written == 0)
      fail("[run] the prompt has {} tokens and the context {}; give a larger one with -c", text.size(),
           model_.context());
    console_.err << fmt::format("\n[run] the context of {} tokens is full\n", model_.context());
    return true;
  }

  [[nodiscard]] double compile_seconds() const {
    return speculative_ ? speculative_->compile_seconds() : model_.compile_seconds();
  }

  std::span<const float> timed_logits(const std::vector<TokenId>& text, Pace& pace) {
    const auto begin = std::chrono::steady_clock::now();
    const double compiled = compile_seconds();
    pace.tokens += std::max<int64_t>(1, std::ssize(text) - model_.known_tokens(text));
    const std::span<const float> logits = speculative_ ? speculative_->logits(text) : model_.logits(text);
    pace.seconds += seconds_since(begin) - (compile_seconds() - compiled);
    if (first_token_s_ == 0) first_token_s_ = seconds_since(begin_);
    // Tables of embeddings are often longer than the vocabulary.
    return logits.first(std::min(logits.size(), model_.tokenizer().size()));
  }

  const RunModelOptions& options_;
  Console& console_;
  std::chrono::steady_clock::time_point begin_;
  models::LanguageModel model_;
  std::optional<models::SpeculativeModel> speculative_;
  std::optional<text::ChatTemplate> template_;
  std::optional<text::Grammar> grammar_;  ///< of answers
  std::optional<text::GrammarTokens> grammar_tokens_;
  uint64_t seed_;
  Pace prompt_, generation_;
  double first_token_s_ = 0;
};

/// A conversation, line by line.
class Chat {
 public:
  Chat(Writer& writer, const RunModelOptions& options, Console& console)
      : writer_(writer), system_(options.system), console_(console) {
    clear();
  }

  void answer(const std::string& line) {
    if (!writer_.chats()) {
      text_ += line;
      text_ += writer_.write(writer_.prompt_of(text_));
      return;
    }
    messages_.push_back({{"role", "user"}, {"content", line}});
    messages_.push_back({{"role", "assistant"}, {"content", writer_.write(writer_.prompt_of(messages_))}});
  }

  /// Until the end of input or /exit.
  void talk() {
    console_.err << "/help lists commands; Ctrl-C stops an answer, Ctrl-D ends.\n";
    for (std::string line; prompt(line);) {
      if (line.empty()) continue;
      if (line.starts_with('/')) {
        if (!command(line)) return;
        continue;
      }
      answer(line);
      console_.out << "\n" << std::flush;
    }
  }

 private:
  void clear() {
    text_.clear();
    messages_ = nlohmann::json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }
  bool prompt(std::string& line) {
    if (isatty(STDIN_FILENO) != 0) console_.err << "> " << std::flush;
    return static_cast<bool>(std::getline(std::cin, line));
  }
  /// Whether the conversation goes on.
  bool command(const std::string& line) {
    if (line == "/exit" || line == "/quit") return false;
    if (line == "/clear") {
      clear();
    } else if (line == "/timing") {
      console_.err << writer_.timing() << "\n";
    } else if (line.starts_with("/system ")) {
      system_ = line.substr(8);
      clear();
    } else {
      if (line != "/help") console_.err << fmt::format("[run] '{}' is no command\n", line);
      console_.err << "/help         this list\n"
                      "/clear        forgets the conversation\n"
                      "/system TEXT  begins a new one, under this instruction\n"
                      "/timing       tokens a second so far\n"
                      "/exit         ends\n";
    }
    return true;
  }

  Writer& writer_;
  std::string system_;
  Console& console_;
  nlohmann::json messages_;
  std::string text_;  ///< of models without a chat template
};

int run_model(RunModelOptions& options, Console& console) {
  if (options.model.empty()) {
    options.model = shipped_model();
    console.err
        << "This is the small model that ships with Luminal, which knows a little about it; `luminal run "
           "MODEL` talks with another.\n";
  }
  if (!options.prompt_file.empty()) {
    std::ifstream in(options.prompt_file, std::ios::binary);
    if (!in) fail("[run] the prompt '{}' cannot be read; give a text file", options.prompt_file);
    options.prompt.assign(std::istreambuf_iterator<char>(in), {});
  }
  Writer writer(options, console);
  Chat chat(writer, options, console);
  if (options.prompt.empty()) {
    chat.talk();
  } else {
    chat.answer(options.prompt);
    console.out << "\n";
  }
  console.err << writer.timing() << "\n";
  return kDone;
}

Action declare_run_model(CLI::App& app) {
  auto options = std::make_shared<RunModelOptions>();
  app.add_option(
      "model", options->model,
      "A GGUF file, or a folder from Hugging Face (default: the small one that ships with Luminal)");
  auto* prompt =
      app.add_option("-p,--prompt", options->prompt, "Answer this and end; without it: a conversation");
  app.add_option("-f,--file", options->prompt_file, "Read the prompt from a file")->excludes(prompt);
  app.add_option("--system", options->system, "Instruction that leads the conversation");
  auto* grammar =
      app.add_option("--grammar-file", options->grammar_file, "Answers follow this grammar (GBNF)");
  app.add_option("--json-schema", options->schema_file, "Answers are JSON by the schema in this file")
      ->excludes(grammar);
  app.add_flag("--raw", options->raw, "Continue the prompt itself, without the model's chat template");
  app.add_option("-n,--predict", options->most_tokens, "Tokens of an answer at most; -1: until it ends")
      ->capture_default_str();
  app.add_option("-c,--ctx-size", options->context, "Tokens of a text at most; 0: as trained, up to 4096")
      ->capture_default_str();
  app.add_option("--temp", options->temperature, "Temperature; 0 takes the likeliest token")
      ->capture_default_str();
  app.add_option("--top-k", options->top_k, "Choose among so many tokens; 0: all")->capture_default_str();
  app.add_option("--top-p", options->top_p, "Choose among the tokens that reach this share")
      ->capture_default_str();
  app.add_option("--min-p", options->min_p, "Drop tokens below this share of the best")
      ->capture_default_str();
  app.add_option("--repeat-penalty", options->repeat_penalty, "Against tokens of the text so far; 1: none")
      ->capture_default_str();
  app.add_option("-s,--seed", options->seed, "Equal seeds give equal texts; -1: another each time")
      ->capture_default_str();
  declare_drafts(app, options->draft);
  declare_model_dtypes(app, *options);
  app.add_option("--mode", options->mode, "fast, optimal or budget=SECONDS")->capture_default_str();
  app.add_option("--device", options->device, "Where to compute");
  return [options](Console& console) { return run_model(*options, console); };
}

}  // namespace

extern const Command kRun;
const Command kRun{"run", "Talk with a language model, or have it continue a text", declare_run_model};

}  // namespace luminal::cli
