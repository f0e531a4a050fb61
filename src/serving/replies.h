#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serving/answer.h"
#include "serving/json.h"
#include "serving/tool_calls.h"

namespace luminal::serving {

/// Tokens of a request.
struct Usage {
  int64_t prompt = 0, reused = 0, written = 0;
  [[nodiscard]] Json to_json() const;
};

/// The JSON of a request's answers, as a whole or in chunks. Thread safety: one thread at a time.
class Reply {
 public:
  Reply(std::string id, std::string model, const Vocabulary& vocabulary);
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  virtual ~Reply() = default;

  /// Chunks of a stream, in order.
  [[nodiscard]] virtual std::vector<Json> chunks(size_t answer, Piece piece) = 0;
  /// All answers at once: the pieces of each, joined.
  [[nodiscard]] Json whole(std::vector<Piece> answers, const Usage& usage);
  /// The last chunk of a stream that tells the usage.
  [[nodiscard]] Json usage_chunk(const Usage& usage) const;

 protected:
  /// The object of a chunk with one choice.
  [[nodiscard]] Json chunk_of(Json choice) const;
  [[nodiscard]] virtual const char* kind(bool chunk) const = 0;
  [[nodiscard]] virtual Json choice(size_t answer, Piece piece) = 0;
  [[nodiscard]] Json head(bool chunk) const;
  std::string id_, model_;
  const Vocabulary& vocabulary_;
  int64_t created_;
};

/// Answers of /v1/completions. `lead`: what stands before each answer.
[[nodiscard]] std::unique_ptr<Reply> completion_reply(std::string model, const Vocabulary& vocabulary,
                                                      std::vector<std::string> lead, bool logprobs);
/// Answers of /v1/chat/completions. `tools`: how calls are written; nothing if there are none.
[[nodiscard]] std::unique_ptr<Reply> chat_reply(std::string model, const Vocabulary& vocabulary,
                                                size_t answers, std::optional<ToolStyle> tools,
                                                bool logprobs);

}  // namespace luminal::serving
