#include "serving/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/fail.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "base/thread.h"

// Routes, keys and limits; and the server's beginning and end.
namespace luminal::serving {
namespace {

ServerOptions checked_server(ServerOptions options) {
  if (options.port < 0 || options.port > 65535)
    fail("[serve] the port is {}; give one from 0 (any free one) to 65535", options.port);
  if (options.queue < 0) fail("[serve] the queue holds {} requests; give 0 or more", options.queue);
  if (options.connections < 1 || options.connections > 900)
    fail("[serve] {} connections are allowed; give from 1 to 900", options.connections);
  if (options.body_bytes < 1) fail("[serve] requests have at most 0 bytes; give more");
  if (options.grace_s < 0) fail("[serve] running answers get {} s; give 0 or more", options.grace_s);
  if (std::ranges::any_of(options.api_keys, &std::string::empty))
    fail("[serve] an API key is empty; give one with characters, or none");
  (void)text::Sampler(options.sampler);
  if (options.name.empty()) options.name = "model";
  if (options.embedding_name.empty()) options.embedding_name = "embeddings";
  return options;
}

/// Takes as long for every key that is wrong.
bool same_secret(std::string_view given, std::string_view secret) {
  size_t differences = given.size() ^ secret.size();
  for (size_t i = 0; i < given.size(); ++i)
    differences |= static_cast<size_t>(static_cast<unsigned char>(given[i]) ^
                                       static_cast<unsigned char>(secret[i % secret.size()]));
  return differences == 0;
}

std::string busy_answer() {
  const std::string body = json_text(
      ApiError(503, "too many connections are open; try again later", {}, "too_many_connections").to_json());
  return fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: "
      "close\r\nContent-Length: {}\r\n\r\n{}",
      body.size(), body);
}

std::optional<text::ChatTemplate> template_of(const std::string& source) {
  if (source.empty()) return std::nullopt;
  return text::ChatTemplate(source);
}

}  // namespace

const Server::Service::Route Server::Service::kRoutes[] = {
    {"GET", "/", true, &Service::show_page},
    {"GET", "/health", true, &Service::show_health},
    {"GET", "/metrics", false, &Service::show_metrics},
    {"GET", "/v1/models", false, &Service::show_models},
    {"GET", "/v1/models/", false, &Service::show_model},  // and what follows
    {"POST", "/v1/chat/completions", false, &Service::chat},
    {"POST", "/v1/completions", false, &Service::complete},
    {"POST", "/v1/embeddings", false, &Service::embed},
};

Server::Service::Service(models::LanguageModel model, std::optional<models::EmbeddingModel> embeddings,
                         ServerOptions options)
    : options_(checked_server(std::move(options))),
      defaults_{.sampler = options_.sampler, .most_tokens = options_.most_tokens},
      language_model_(std::move(model)),
      model_(token_model_of(language_model_)),
      vocabulary_(language_model_.tokenizer(), language_model_.end_tokens(),
                  language_model_.sizes().vocabulary),
      template_(template_of(vocabulary_.tokenizer.spec().chat_template)),
      tools_(tool_style_of(vocabulary_.tokenizer.spec().chat_template)),
      started_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      scheduler_(*model_, {.queue = options_.queue}, metrics_),
      limits_{.body_bytes = options_.body_bytes},
      http_(limits_, static_cast<size_t>(options_.connections), busy_answer()) {
  if (embeddings) embedder_.emplace(std::move(*embeddings), options_.embedding_name);
  http_.set_pre_routing_handler(
      [this](const Request& request, Response& response) { return before_body(request, response); });
  http_.Post(".*", [this](const Request& request, Response& response, const httplib::ContentReader& read) {
    with_body(request, response, read);
  });
  // What httplib refuses by itself: heads that it does not understand.
  http_.set_error_handler([](const Request&, Response& response) {
    if (!response.body.empty()) return;
    const char* what = response.status == 414 ? "the address is too long" : "the request is not understood";
    response.set_content(json_text(ApiError(response.status, what).to_json()), "application/json");
  });
  port_ = http_.bind(options_.host, options_.port);
  listen();
}

Server::Service::~Service() { stop(); }

void Server::Service::listen() {
  listening_ = true;
  listener_ = start_thread<std::jthread>([this] {
    http_.listen_after_bind();
    listening_ = false;
  });
  if (!listener_) fail("[serve] the system gives no thread to listen with");
  while (listening_ && !http_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Server::Service::stop() {
  if (stopped_.exchange(true)) return;
  const auto begin = std::chrono::steady_clock::now();
  const auto wait_until = [&](double seconds) {
    while (in_flight_ > 0 && seconds_since(begin) < seconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  draining_ = true;
  scheduler_.drain();
  wait_until(options_.grace_s);
  cut_ = true;
  scheduler_.cut();
  wait_until(options_.grace_s + 2);  // the last events are written
  http_.end_connections();
  http_.stop();
  listener_.reset();
}

const Server::Service::Route& Server::Service::route_of(const Request& request) {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const char* other = nullptr;
  for (const Route& route : kRoutes) {
    const std::string_view path = route.path;
    const bool prefix = path.size() > 1 && path.ends_with('/');
    if (prefix ? !request.path.starts_with(path) || request.path.size() == path.size() : request.path != path)
      continue;
    if (method == route.method) return route;
    other = route.method;
  }
  if (other == nullptr)
    throw ApiError(404, fmt::format("there is nothing at '{}'", request.path.substr(0, 100)), {},
                   "not_found");
  throw ApiError(405, fmt::format("'{}' is asked by {}, not by {}", request.path, other, request.method), {},
                 "method_not_allowed");
}

void Server::Service::check_key(const Request& request) const {
  if (options_.api_keys.empty()) return;
  const std::string given = request.get_header_value("Authorization");
  constexpr std::string_view kScheme = "Bearer ";
  bool known = false;
  for (const std::string& key : options_.api_keys)
    known |= given.starts_with(kScheme) && same_secret(std::string_view(given).substr(kScheme.size()), key);
  if (!known)
    throw ApiError(401,
                   given.empty() ? "an API key is needed: Authorization: Bearer KEY" : "the API key is wrong",
                   {}, "invalid_api_key");
}

void Server::Service::check_head(const Request& request) const {
  if (draining_) throw ApiError(503, "the server is shutting down; try again later", {}, "shutting_down");
  std::string type = request.get_header_value("Content-Type");
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  // A page of another site may send texts and forms here, but not this type.
  if (!type.starts_with("application/json"))
    throw ApiError(415, "the body is JSON: send it as Content-Type: application/json");
  if (request.has_header("Content-Length") &&
      request.get_header_value<uint64_t>("Content-Length") > options_.body_bytes)
    throw ApiError(413, fmt::format("the body has more than {} bytes", options_.body_bytes), {},
                   "body_too_large");
  const bool has_length = request.has_header("Content-Length"),
             in_chunks = request.has_header("Transfer-Encoding");
  // A proxy and this server might take different parts of what follows for the body.
  if (has_length && in_chunks)
    throw ApiError(400, "the request says both Content-Length and Transfer-Encoding; send one of them");
  if (!has_length && !in_chunks)
    throw ApiError(411, "the request does not say how long its body is; send Content-Length");
}

httplib::Server::HandlerResponse Server::Service::before_body(const Request& request, Response& response) {
  try {
    const Route& route = route_of(request);
    if (!route.open) check_key(request);
    if (route.method == std::string_view("POST")) {
      check_head(request);
      return httplib::Server::HandlerResponse::Unhandled;
    }
    (this->*route.handle)(request, response);
    count(request, response);
  } catch (...) {
    // What follows the head, if anything, is not read.
    Connection::current().close_after_answer();
    response.set_header("Connection", "close");
    answer_error(request, response, api_error_of(std::current_exception()));
  }
  return httplib::Server::HandlerResponse::Handled;
}

std::string Server::Service::read_body(const httplib::ContentReader& read) const {
  std::string body;
  bool too_long = false;
  const bool whole = read([&](const char* bytes, size_t count) {
    too_long = body.size() + count > options_.body_bytes;
    if (!too_long) body.append(bytes, count);
    return !too_long;
  });
  if (too_long)
    throw ApiError(413, fmt::format("the body has more than {} bytes", options_.body_bytes), {},
                   "body_too_large");
  if (!whole) throw ApiError(400, "the body does not arrive as the head of the request says");
  return body;
}

void Server::Service::with_body(const Request& request, Response& response,
                                const httplib::ContentReader& read) {
  ++in_flight_;
  const std::shared_ptr<void> counted(nullptr, [this](void*) { --in_flight_; });
  bool body_read = false;
  try {
    Request whole = request;
    whole.body = read_body(read);
    body_read = true;
    response.status = -1;
    (this->*route_of(request).handle)(whole, response);
    count(request, response);
  } catch (...) {
    if (!body_read) {
      Connection::current().close_after_answer();
      response.set_header("Connection", "close");
    }
    answer_error(request, response, api_error_of(std::current_exception()));
  }
}

void Server::Service::answer_error(const Request& request, Response& response, const ApiError& error) {
  response.status = error.status();
  response.set_content(json_text(error.to_json()), "application/json");
  if (error.status() == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (error.status() == 429 || error.status() == 503) response.set_header("Retry-After", "1");
  if (error.status() == 500) debug(1, "serve: {} {}: {}", request.method, request.path, error.what());
  count(request, response);
}

void Server::Service::count(const Request& request, const Response& response) {
  const auto route = std::ranges::find(kRoutes, request.path, &Route::path);
  metrics_.count_request(route != std::end(kRoutes) ? route->path : "other",
                         response.status == -1 ? 200 : response.status);
}

void Server::Service::show_health(const Request&, Response& response) {
  if (draining_) response.status = 503;
  response.set_content(json_text({{"status", draining_ ? "shutting down" : "ok"}}), "application/json");
}

void Server::Service::show_page(const Request&, Response& response) {
  // What the page shows comes from a model; it runs nothing but its own script and asks nobody else.
  response.set_header(
      "Content-Security-Policy",
      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_content(std::string(chat_page()), "text/html; charset=utf-8");
}

Json Server::Service::model_json() const {
  return {{"id", options_.name},
          {"object", "model"},
          {"created", started_},
          {"owned_by", "luminal"},
          {"meta",
           {{"architecture", language_model_.architecture()},
            {"parameters", language_model_.parameter_count()},
            {"weight_bytes", language_model_.weight_bytes()},
            {"context", model_->context()},
            {"sequences", model_->sequences()},
            {"chat", template_.has_value()},
            {"tools", template_.has_value() && tools_.has_value()}}}};
}

Json Server::Service::embedding_model_json() const {
  const models::EmbeddingModel& model = embedder_->model();
  return {{"id", embedder_->name()},
          {"object", "model"},
          {"created", started_},
          {"owned_by", "luminal"},
          {"meta",
           {{"architecture", model.architecture()},
            {"parameters", model.parameter_count()},
            {"weight_bytes", model.weight_bytes()},
            {"context", model.context()},
            {"embedding", model.size()}}}};
}

void Server::Service::show_models(const Request&, Response& response) {
  Json models = Json::array({model_json()});
  if (embedder_) models.push_back(embedding_model_json());
  response.set_content(json_text({{"object", "list"}, {"data", models}}), "application/json");
}

void Server::Service::show_model(const Request& request, Response& response) {
  const std::string name = request.path.substr(std::string_view("/v1/models/").size());
  const bool embeds = embedder_ && name == embedder_->name();
  if (!embeds) check_model(name);
  response.set_content(json_text(embeds ? embedding_model_json() : model_json()), "application/json");
}

void Server::Service::show_metrics(const Request&, Response& response) {
  response.set_content(metrics_.to_text({{"luminal_requests_waiting", "Requests that wait for a sequence.",
                                          static_cast<double>(scheduler_.waiting())},
                                         {"luminal_sequences_running", "Sequences that are computed.",
                                          static_cast<double>(scheduler_.running())},
                                         {"luminal_sequences", "Sequences that there are.",
                                          static_cast<double>(model_->sequences())}}),
                       "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace luminal::serving
