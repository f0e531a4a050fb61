#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <thread>

#include "base/fail.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/stopwatch.h"
#include "cli/command.h"
#include "cli/compile_mode.h"
#include "cli/interrupt.h"
#include "cli/model_choice.h"
#include "luminal/serving/server.h"

namespace luminal::cli {
namespace {

struct ServeOptions : ModelChoice {
  serving::ServerOptions server;
  std::string key, key_file, embedding_model;
  double body_megabytes = 4;
  bool warm = true;
};

/// The keys of a file, one a line.
std::vector<std::string> keys_in(const std::string& path) {
  std::vector<std::string> keys;
  std::istringstream lines(read_file(path, size_t{1} << 20));
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    keys.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
  }
  if (keys.empty()) fail("[serve] '{}' holds no API key; write one a line", path);
  return keys;
}

/// Compiles the steps that most requests need, so that the first ones do not wait for it.
void warm_up(models::LanguageModel& model, std::ostream& err) {
  const auto begin = std::chrono::steady_clock::now();
  const auto vocabulary = static_cast<text::TokenId>(model.sizes().vocabulary);
  std::vector<text::TokenId> text;
  for (const int64_t length : {1, 9, 41, 169}) {  // 1, 8, 32 and 128 tokens behind those that are known
    if (length > model.context()) break;
    while (std::ssize(text) < length)
      text.push_back(static_cast<text::TokenId>(std::ssize(text)) % vocabulary);
    (void)model.logits(text);
  }
  std::vector<models::LanguageModel::SequenceText> together;
  for (const int64_t texts : models::LanguageModel::kJointTexts) {
    if (std::ssize(together) == model.sequences()) break;
    while (std::ssize(together) < std::min(texts, model.sequences()))
      together.push_back({std::ssize(together), std::span(text).first(1)});
    if (together.size() > 1) (void)model.joint_logits(together);
  }
  err << fmt::format("{:.1f} s to load and compile\n", seconds_since(begin));
}

void describe(const models::LanguageModel& model, const ServeOptions& options, std::ostream& err) {
  const auto cache = static_cast<size_t>(model.cache_bytes());
  const auto sequences = static_cast<size_t>(model.sequences());
  err << fmt::format("{}: {}, {:.1f} M parameters\n", options.server.name, model.architecture(),
                     static_cast<double>(model.parameter_count()) / 1e6);
  err << fmt::format("memory: weights {}, keys and values {} ({} sequences of {} tokens, {} each)\n",
                     readable_bytes(static_cast<size_t>(model.weight_bytes())),
                     readable_bytes(cache * sequences), sequences, model.context(), readable_bytes(cache));
}

/// As a client writes it: an IPv6 address in brackets.
std::string address_of(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}", host, port)
                                             : fmt::format("http://[{}]:{}", host, port);
}

std::string name_of(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).stem().string();
}

std::unique_ptr<serving::Server> start_server(models::LanguageModel model, const ServeOptions& options,
                                              std::ostream& err) {
  if (options.embedding_model.empty())
    return std::make_unique<serving::Server>(std::move(model), options.server);
  models::EmbeddingModel embeddings(options.embedding_model,
                                    {.device = options.device, .mode = parse_mode(options.mode)});
  err << fmt::format("{}: {}, vectors of {}, weights {}\n", options.server.embedding_name,
                     embeddings.architecture(), embeddings.size(),
                     readable_bytes(static_cast<size_t>(embeddings.weight_bytes())));
  return std::make_unique<serving::Server>(std::move(model), std::move(embeddings), options.server);
}

int serve(ServeOptions& options, Console& console) {
  if (!options.key.empty()) options.server.api_keys.push_back(options.key);
  if (!options.key_file.empty())
    for (std::string& key : keys_in(options.key_file)) options.server.api_keys.push_back(std::move(key));
  if (!(options.body_megabytes > 0 && options.body_megabytes <= 1024))
    fail("[serve] --max-body is {}; give from 0.001 to 1024 MB", options.body_megabytes);
  options.server.body_bytes = static_cast<size_t>(options.body_megabytes * 1e6);
  if (options.server.name.empty()) options.server.name = name_of(options.model);
  options.server.embedding_name = name_of(options.embedding_model);
  const InterruptGuard guard;
  models::LanguageModel model = open_language_model(options);
  describe(model, options, console.err);
  if (options.warm) warm_up(model, console.err);
  const auto server = start_server(std::move(model), options, console.err);
  const std::string address = address_of(options.server.host, server->port());
  console.out << fmt::format("listening on {} (API: {}/v1)\n", address, address) << std::flush;
  const bool local = options.server.host == "127.0.0.1" || options.server.host == "localhost" ||
                     options.server.host == "::1";
  if (!local && options.server.api_keys.empty())
    console.err << "[serve] everybody who reaches this machine may use the model; --api-key asks for a key\n";
  while (!interrupted()) {
    if (!server->listening())
      fail("[serve] the system has closed the listening socket; start the server again");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  console.err << "stopping; again to stop at once\n";
  server->stop();
  return kDone;
}

void declare_sampling(CLI::App& app, ServeOptions& options) {
  text::SamplerOptions& sampler = options.server.sampler;
  sampler = {.temperature = 0.8, .top_k = 40, .top_p = 0.95, .min_p = 0.05};  // as `luminal run`
  const std::string group = "What requests that do not say it get";
  app.add_option("-n,--predict", options.server.most_tokens,
                 "Tokens of an answer in a chat at most; -1: until it ends")
      ->capture_default_str()
      ->group(group);
  app.add_option("--temp", sampler.temperature, "Temperature; 0 takes the likeliest token")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-k", sampler.top_k, "Choose among so many tokens; 0: all")
      ->capture_default_str()
      ->group(group);
  app.add_option("--top-p", sampler.top_p, "Choose among the tokens that reach this share")
      ->capture_default_str()
      ->group(group);
  app.add_option("--min-p", sampler.min_p, "Drop tokens below this share of the best")
      ->capture_default_str()
      ->group(group);
  app.add_option("--repeat-penalty", sampler.repetition_penalty, "Against tokens of the text so far; 1: none")
      ->capture_default_str()
      ->group(group);
}

Action declare_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  serving::ServerOptions& server = options->server;
  options->sequences = 4;
  app.add_option("model", options->model, "A GGUF file, or a folder from Hugging Face")->required();
  app.add_option("--host", server.host, "Address to listen on; 0.0.0.0: all of this machine")
      ->capture_default_str();
  app.add_option("--port", server.port, "0: a free one")->capture_default_str();
  app.add_option("-a,--alias", server.name, "Name of the model for clients; otherwise its file's");
  app.add_option("--embedding-model", options->embedding_model,
                 "Another model, for embeddings: a file or a folder");
  app.add_option("-c,--ctx-size", options->context, "Tokens of a text at most; 0: as trained, up to 4096")
      ->capture_default_str();
  app.add_option("--parallel", options->sequences,
                 "Answers that are computed at once, each with a cache of its own")
      ->capture_default_str();
  auto* key = app.add_option("--api-key", options->key, "Clients must send this key");
  app.add_option("--api-key-file", options->key_file,
                 "Clients must send one of the keys in this file, one a line")
      ->excludes(key);
  app.add_option("--queue", server.queue,
                 "Requests of one client that wait at most; of all clients, four times as many")
      ->capture_default_str();
  app.add_option("--connections", server.connections, "Connections at once")->capture_default_str();
  app.add_option("--max-body", options->body_megabytes, "Megabytes of a request at most")
      ->capture_default_str();
  app.add_option("--grace", server.grace_s, "Seconds that running answers get when the server stops")
      ->capture_default_str();
  app.add_flag("!--no-warmup", options->warm, "Compile when the first requests come");
  declare_sampling(app, *options);
  declare_model_dtypes(app, *options);
  app.add_option("--mode", options->mode, "fast, optimal or budget=SECONDS")->capture_default_str();
  app.add_option("--device", options->device, "Where to compute");
  return [options](Console& console) { return serve(*options, console); };
}

}  // namespace

extern const Command kServe;
const Command kServe{"serve", "Serve a language model to clients of OpenAI's API", declare_serve};

}  // namespace luminal::cli
