#include <fmt/format.h>

#include <random>

#include "serving/fields.h"
#include "serving/service.h"
#include "serving/tool_calls.h"

// From a request to its answers.
namespace luminal::serving {
namespace {

using std::chrono::milliseconds;
using text::TokenId;

/// How often a request that waits looks whether its client is still there.
constexpr milliseconds kLook{50};
/// No client reads what this status says: it has left (nginx's number).
constexpr int kClientLeft = 499;

/// Looks now and then whether a client is still there, however often it is asked.
class ClientWatch {
 public:
  explicit ClientWatch(const Connection& connection) : connection_(connection) {}
  [[nodiscard]] bool left() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return false;
    next_ = now + kLook;
    return connection_.client_left();
  }

 private:
  const Connection& connection_;
  std::chrono::steady_clock::time_point next_ = {};
};

ApiError client_has_left() { return {kClientLeft, "the client has left"}; }

std::string sse_line(const Json& data) { return "data: " + json_text(data) + "\n\n"; }

}  // namespace

void Server::Service::check_model(const std::string& name) const {
  if (name.empty() || name == options_.name) return;
  throw ApiError(404,
                 fmt::format("there is no model '{}' here; the one there is is '{}'", name.substr(0, 100),
                             options_.name),
                 "model", "model_not_found");
}

void Server::Service::check_prompt(const std::vector<TokenId>& prompt) const {
  if (prompt.empty())
    throw ApiError(400, "the prompt has no tokens; give at least one", "prompt", "invalid_value");
  if (std::ssize(prompt) > model_->context())
    throw ApiError(
        400,
        fmt::format(
            "the prompt has {} tokens, and the context holds {}; shorten it, or start the server with "
            "a larger context",
            prompt.size(), model_->context()),
        {}, "context_length_exceeded");
  for (const TokenId id : prompt)
    if (id < 0 || static_cast<size_t>(id) >= vocabulary_.size)
      throw ApiError(400,
                     fmt::format("'prompt' names token {}, and there are {} tokens", id, vocabulary_.size),
                     "prompt", "invalid_value");
}

std::vector<TokenId> Server::Service::tokens_of(const Prompt& prompt) const {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  return vocabulary_.tokenizer.encode(std::get<std::string>(prompt));
}

std::vector<TokenId> Server::Service::prompt_of(const ChatRequest& request) const {
  if (!template_)
    throw ApiError(400, "the model has no chat template, so it knows no messages; use /v1/completions",
                   "messages");
  const text::TokenizerSpec& spec = vocabulary_.tokenizer.spec();
  const std::string prompt =
      template_->render({.messages = request.messages.dump(),
                         .add_generation_prompt = true,
                         .begin_token = spec.begin_token,
                         .end_token = spec.end_token,
                         .tools = request.tools.is_null() ? "" : request.tools.dump(),
                         .variables = request.variables.empty() ? "" : request.variables.dump()});
  return vocabulary_.tokenizer.encode(prompt, {.add_special = false});
}

Ticket Server::Service::submit(const Request& request, const AnswerRequest& asked,
                               const std::vector<std::vector<TokenId>>& prompts, bool show_control_tokens) {
  AnswerOptions options{.sampler = asked.sampler,
                        .most_tokens = asked.most_tokens,
                        .stops = asked.stops,
                        .logprobs = asked.logprobs,
                        .top_logprobs = asked.top_logprobs,
                        .show_control_tokens = show_control_tokens};
  if (!asked.grammar.empty()) options.grammar.emplace(asked.grammar);
  options.sampler.seed =
      asked.seed.value_or((uint64_t{std::random_device()()} << 32) | std::random_device()());
  std::vector<Answer> answers;
  for (const auto& prompt : prompts)
    for (int64_t choice = 0; choice < asked.choices; ++choice) {
      answers.emplace_back(vocabulary_, options, prompt, model_->context());
      ++options.sampler.seed;
    }
  // Clients are told apart by their addresses, and by their keys where there are several.
  std::string client = request.remote_addr;
  if (options_.api_keys.size() > 1) client += " " + request.get_header_value("Authorization");
  return scheduler_.submit(client, std::move(answers));
}

void Server::Service::complete(const Request& request, Response& response) {
  const CompletionRequest asked = parse_completion(parse_body(request.body), defaults_);
  check_model(asked.model);
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::string> leads;
  std::vector<int64_t> sizes;
  for (const Prompt& prompt : asked.prompts) {
    prompts.push_back(tokens_of(prompt));
    check_prompt(prompts.back());
    sizes.push_back(std::ssize(prompts.back()));
    const auto* text = std::get_if<std::string>(&prompt);
    const std::string lead = !asked.echo       ? ""
                             : text != nullptr ? *text
                                               : vocabulary_.tokenizer.decode(prompts.back(), false);
    leads.insert(leads.end(), static_cast<size_t>(asked.choices), lead);
  }
  answer(asked,
         std::make_shared<RunningRequest>(
             RunningRequest{submit(request, asked, prompts, false),
                            completion_reply(options_.name, vocabulary_, std::move(leads), asked.logprobs),
                            asked.include_usage, std::move(sizes), static_cast<size_t>(asked.choices)}),
         response);
}

void Server::Service::chat(const Request& request, Response& response) {
  ChatRequest asked = parse_chat(parse_body(request.body), defaults_);
  check_model(asked.model);
  const bool tools = !asked.tools.is_null();
  if (tools && !tools_)
    throw ApiError(400, "the model's chat template knows no tools; leave 'tools' out", "tools",
                   "unsupported_parameter");
  if (asked.must_call) {
    if (!asked.grammar.empty())
      throw ApiError(400, "an answer cannot follow 'response_format' and call a tool; leave one of them out",
                     "tool_choice");
    try {
      asked.grammar = tool_call_grammar(asked.tools, asked.called_tool, *tools_, asked.several_calls);
      (void)text::Grammar(asked.grammar);
    } catch (const Error& error) {
      throw ApiError(400, fmt::format("'tools': {}", error.what()), "tools", "invalid_value");
    }
  }
  const std::vector<TokenId> prompt = prompt_of(asked);
  check_prompt(prompt);
  const auto choices = static_cast<size_t>(asked.choices);
  answer(asked,
         std::make_shared<RunningRequest>(RunningRequest{
             submit(request, asked, {prompt}, tools),
             chat_reply(options_.name, vocabulary_, choices, tools ? tools_ : std::nullopt, asked.logprobs),
             asked.include_usage,
             {std::ssize(prompt)},
             choices}),
         response);
}

void Server::Service::embed(const Request& request, Response& response) {
  if (!embedder_)
    throw ApiError(501, "the model that is served has no embeddings; start the server with --embedding-model",
                   {}, "not_implemented");
  const EmbeddingRequest asked = parse_embedding_request(parse_body(request.body), embedder_->model().size());
  if (!asked.model.empty() && asked.model != embedder_->name())
    throw ApiError(404, fmt::format("the embeddings here are those of '{}'", embedder_->name()), "model",
                   "model_not_found");
  const Connection& connection = Connection::current();
  const Json answer = embedder_->answer(asked, [&] {
    if (connection.client_left()) throw client_has_left();
    if (cut_) throw ApiError(503, "the server is shutting down; try again later", {}, "shutting_down");
  });
  response.set_content(json_text(answer), "application/json");
}

void Server::Service::await_first(RunningRequest& running) const {
  while (!(running.first = running.ticket.box().receive(kLook)))
    if (Connection::current().client_left()) throw client_has_left();
  if (running.first->error) throw api_error_of(running.first->error);
}

void Server::Service::answer(const AnswerRequest& asked, std::shared_ptr<RunningRequest> running,
                             Response& response) {
  await_first(*running);
  if (!asked.stream) {
    response.set_content(json_text(collect(*running)), "application/json");
    return;
  }
  response.set_header("Cache-Control", "no-cache");
  response.set_header("X-Accel-Buffering", "no");  // proxies hand events on at once
  ++in_flight_;
  const std::shared_ptr<void> counted(nullptr, [this](void*) { --in_flight_; });
  Connection& connection = Connection::current();
  response.set_chunked_content_provider("text/event-stream", [running = std::move(running), counted,
                                                              &connection](size_t, httplib::DataSink& sink) {
    const bool whole = stream(*running, connection, sink);
    if (!whole) running->ticket.box().leave();
    return whole;
  });
}

Usage Server::Service::usage_of(const RunningRequest& running, const std::vector<int64_t>& written,
                                const std::vector<int64_t>& reused) {
  Usage usage;
  for (const int64_t tokens : written) usage.written += tokens;
  // A prompt counts once, however many answers it has.
  for (size_t i = 0; i < running.prompt_tokens.size(); ++i) {
    usage.prompt += running.prompt_tokens[i];
    usage.reused += reused[i * running.choices];
  }
  return usage;
}

Json Server::Service::collect(RunningRequest& running) const {
  const size_t count = running.prompt_tokens.size() * running.choices;
  std::vector<Piece> answers(count);
  std::vector<int64_t> written(count), reused(count);
  ClientWatch client(Connection::current());
  for (size_t open = count; open > 0;) {
    std::optional<Event> event = std::exchange(running.first, std::nullopt);
    if (!event) event = running.ticket.box().receive(kLook);
    if (client.left()) throw client_has_left();
    if (!event) continue;
    if (event->error) throw api_error_of(event->error);
    Piece& all = answers[event->answer];
    all.text += event->piece.text;
    all.tokens.insert(all.tokens.end(), std::make_move_iterator(event->piece.tokens.begin()),
                      std::make_move_iterator(event->piece.tokens.end()));
    all.finish = event->piece.finish;
    written[event->answer] = event->written;
    reused[event->answer] = event->reused_tokens;
    if (all.finish) --open;
  }
  return running.reply->whole(std::move(answers), usage_of(running, written, reused));
}

/// False if the client cannot be told any more.
bool Server::Service::stream(RunningRequest& running, Connection& connection, httplib::DataSink& sink) {
  const auto write = [&](const std::string& text) { return sink.write(text.data(), text.size()); };
  const size_t count = running.prompt_tokens.size() * running.choices;
  std::vector<int64_t> written(count), reused(count);
  ClientWatch client(connection);
  for (size_t open = count; open > 0;) {
    std::optional<Event> event = std::exchange(running.first, std::nullopt);
    if (!event) event = running.ticket.box().receive(kLook);
    if (client.left()) return false;
    if (!event) continue;
    if (event->error) {
      connection.close_after_answer();
      if (!write(sse_line(api_error_of(event->error).to_json()))) return false;
      break;
    }
    written[event->answer] = event->written;
    reused[event->answer] = event->reused_tokens;
    if (event->piece.finish) --open;
    for (Json& chunk : running.reply->chunks(event->answer, std::move(event->piece))) {
      if (running.include_usage) chunk["usage"] = nullptr;
      if (!write(sse_line(chunk))) return false;
    }
    if (open == 0 && running.include_usage &&
        !write(sse_line(running.reply->usage_chunk(usage_of(running, written, reused)))))
      return false;
  }
  if (!write("data: [DONE]\n\n")) return false;
  sink.done();
  return true;
}

}  // namespace luminal::serving
