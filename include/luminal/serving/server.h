#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "luminal/models/embedding_model.h"
#include "luminal/models/language_model.h"
#include "luminal/text/sampler.h"

/// A language model behind OpenAI's HTTP interface.
///
///   serving::Server server(models::LanguageModel("model.gguf", {.sequences = 4}), {.port = 8080});
///   std::cout << "http://127.0.0.1:" << server.port() << "/v1\n";
///   server.stop();  // when nobody needs it any more
///
/// It answers /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /health, /metrics and, at /, with a
/// page to chat on (docs/serving.md).
namespace luminal::serving {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                         ///< 0: a free one
  std::string name = {};                   ///< of the model, for clients; empty: "model"
  std::string embedding_name = {};         ///< of the embedding model; empty: "embeddings"
  std::vector<std::string> api_keys = {};  ///< one of them opens the interface; empty: it is open to all
  int64_t queue = 64;                   ///< requests of a client that wait; of all clients four times as many
  int64_t connections = 256;            ///< at once
  size_t body_bytes = size_t{4} << 20;  ///< of a request
  double grace_s = 5;                   ///< answers that run when the server stops end within it, or are cut
  /// What requests that do not say it mean.
  text::SamplerOptions sampler = {};
  int64_t most_tokens = -1;  ///< of an answer in a chat; -1: as many as the context takes
};

/// Serves from its construction to stop(), on threads of its own. Nothing of what clients send is written to disk.
/// Thread safety: any number of threads.
class Server {
 public:
  /// The model's sequences are computed in turns; further requests wait. Errors: Error if the address cannot be
  /// listened on, or an option is out of its range; FormatError if the model's tokenizer or chat template is not
  /// understood.
  Server(models::LanguageModel model, ServerOptions options);
  /// And a model that answers /v1/embeddings.
  Server(models::LanguageModel model, models::EmbeddingModel embeddings, ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Stops.
  ~Server();

  [[nodiscard]] int port() const;
  /// False after stop(), and if the system has closed the socket that clients connect to.
  [[nodiscard]] bool listening() const;
  /// Refuses new requests and those that wait (503), lets running answers end within the time that the options say,
  /// ends the others with an error as their last event, and closes all connections.
  void stop();

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace luminal::serving
