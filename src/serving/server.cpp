#include "luminal/serving/server.h"

#include "serving/service.h"

namespace luminal::serving {

Server::Server(models::LanguageModel model, ServerOptions options)
    : service_(std::make_unique<Service>(std::move(model), std::nullopt, std::move(options))) {}
Server::Server(models::LanguageModel model, models::EmbeddingModel embeddings, ServerOptions options)
    : service_(std::make_unique<Service>(std::move(model), std::move(embeddings), std::move(options))) {}
Server::~Server() = default;

int Server::port() const { return service_->port(); }
bool Server::listening() const { return service_->listening(); }
void Server::stop() { service_->stop(); }

}  // namespace luminal::serving
