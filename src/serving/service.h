#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "luminal/serving/server.h"
#include "luminal/text/chat_template.h"
#include "serving/api_error.h"
#include "serving/connection.h"
#include "serving/embeddings.h"
#include "serving/metrics.h"
#include "serving/replies.h"
#include "serving/requests.h"
#include "serving/scheduler.h"
#include "serving/token_model.h"

namespace luminal::serving {

/// A request whose answers are computed.
struct RunningRequest {
  Ticket ticket;
  std::unique_ptr<Reply> reply;
  bool include_usage = false;
  std::vector<int64_t> prompt_tokens = {};  ///< by prompt
  size_t choices = 1;                       ///< answers to each prompt
  std::optional<Event> first = {};          ///< received, but not told yet
};

/// What the server is made of: the model with its scheduler, and the routes.
class Server::Service {
 public:
  Service(models::LanguageModel model, std::optional<models::EmbeddingModel> embeddings,
          ServerOptions options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] bool listening() const { return listening_; }
  void stop();

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;
  struct Route {
    const char* method;
    const char* path;
    bool open;  ///< without a key
    void (Service::*handle)(const Request&, Response&);
  };
  static const Route kRoutes[];

  void listen();
  /// The route of a request. Errors: ApiError 404, 405.
  [[nodiscard]] static const Route& route_of(const Request& request);
  [[nodiscard]] httplib::Server::HandlerResponse before_body(const Request& request, Response& response);
  void with_body(const Request& request, Response& response, const httplib::ContentReader& read);
  void check_key(const Request& request) const;
  void check_head(const Request& request) const;
  [[nodiscard]] std::string read_body(const httplib::ContentReader& read) const;
  void answer_error(const Request& request, Response& response, const ApiError& error);
  void count(const Request& request, const Response& response);

  void show_health(const Request&, Response&);
  void show_page(const Request&, Response&);
  void show_models(const Request&, Response&);
  void show_model(const Request&, Response&);
  void show_metrics(const Request&, Response&);
  void complete(const Request&, Response&);
  void chat(const Request&, Response&);
  void embed(const Request&, Response&);

  [[nodiscard]] Json model_json() const;
  [[nodiscard]] Json embedding_model_json() const;
  void check_model(const std::string& name) const;
  [[nodiscard]] std::vector<text::TokenId> tokens_of(const Prompt& prompt) const;
  [[nodiscard]] std::vector<text::TokenId> prompt_of(const ChatRequest& request) const;
  void check_prompt(const std::vector<text::TokenId>& prompt) const;
  [[nodiscard]] Ticket submit(const Request& request, const AnswerRequest& asked,
                              const std::vector<std::vector<text::TokenId>>& prompts,
                              bool show_control_tokens);
  void answer(const AnswerRequest& asked, std::shared_ptr<RunningRequest> running, Response& response);
  /// Errors: ApiError for what went wrong before anything was told; 499 if the client left.
  void await_first(RunningRequest& running) const;
  [[nodiscard]] Json collect(RunningRequest& running) const;
  [[nodiscard]] static bool stream(RunningRequest& running, Connection& connection, httplib::DataSink& sink);
  [[nodiscard]] static Usage usage_of(const RunningRequest& running, const std::vector<int64_t>& written,
                                      const std::vector<int64_t>& reused);

  const ServerOptions options_;
  const RequestDefaults defaults_;
  models::LanguageModel language_model_;
  std::optional<Embedder> embedder_;
  std::unique_ptr<TokenModel> model_;
  Vocabulary vocabulary_;
  std::optional<text::ChatTemplate> template_;
  std::optional<ToolStyle> tools_;
  int64_t started_;
  Metrics metrics_;
  Scheduler scheduler_;
  Connection::Limits limits_;
  std::atomic<bool> draining_{false}, cut_{false};
  std::atomic<int64_t> in_flight_{0};  ///< requests that are being answered
  HttpServer http_;
  int port_ = 0;
  std::atomic<bool> stopped_{false}, listening_{false};
  std::optional<std::jthread> listener_;
};

/// The page at /, one file of HTML.
[[nodiscard]] std::string_view chat_page();

}  // namespace luminal::serving
