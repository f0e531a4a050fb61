#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "luminal/models/embedding_model.h"
#include "serving/json.h"

namespace luminal::serving {

struct EmbeddingRequest {
  std::string model;  ///< empty: the one there is
  std::vector<std::string> texts;
  bool base64 = false;  ///< vectors are the bytes of 32-bit floats, lowest first, as text
};
/// `size`: of the model's vectors. Errors: ApiError 400 that names the field.
[[nodiscard]] EmbeddingRequest parse_embedding_request(const Json& body, int64_t size);

/// An embedding model that several requests use, a part of their texts at a time. Thread safety: any number of threads.
class Embedder {
 public:
  Embedder(models::EmbeddingModel model, std::string name)
      : model_(std::move(model)), name_(std::move(name)) {}
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const models::EmbeddingModel& model() const { return model_; }
  /// `go_on` is called now and then, and may throw. Errors: as EmbeddingModel::embed.
  [[nodiscard]] Json answer(const EmbeddingRequest& request, const std::function<void()>& go_on);

 private:
  std::mutex turn_;
  models::EmbeddingModel model_;
  std::string name_;
};

/// The standard alphabet, with padding (RFC 4648).
[[nodiscard]] std::string base64_of(std::string_view bytes);

}  // namespace luminal::serving
