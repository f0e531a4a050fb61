#include "serving/replies.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "serving/api_error.h"

namespace luminal::serving {
namespace {

/// "chatcmpl-" and 24 digits.
std::string new_id(std::string_view prefix) {
  thread_local std::mt19937_64 random(std::random_device{}());
  return fmt::format("{}{:016x}{:08x}", prefix, random(), static_cast<uint32_t>(random()));
}

Json finish_name(const std::optional<Finish>& finish) {
  if (!finish) return nullptr;
  return *finish == Finish::Stop ? "stop" : "length";
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

class CompletionReply : public Reply {
 public:
  CompletionReply(std::string model, const Vocabulary& vocabulary, std::vector<std::string> lead,
                  bool logprobs)
      : Reply(new_id("cmpl-"), std::move(model), vocabulary), lead_(std::move(lead)), logprobs_(logprobs) {}

  std::vector<Json> chunks(size_t answer, Piece piece) override {
    piece.text.insert(0, std::exchange(lead_[answer], {}));
    if (piece.text.empty() && piece.tokens.empty() && !piece.finish) return {};
    return {chunk_of(choice(answer, std::move(piece)))};
  }

 protected:
  [[nodiscard]] const char* kind(bool) const override { return "text_completion"; }
  [[nodiscard]] Json choice(size_t answer, Piece piece) override {
    piece.text.insert(0, std::exchange(lead_[answer], {}));
    return {{"index", answer},
            {"text", std::move(piece.text)},
            {"logprobs", logprobs_ ? shares(piece.tokens) : Json()},
            {"finish_reason", finish_name(piece.finish)}};
  }

 private:
  [[nodiscard]] Json shares(const std::vector<TokenShare>& tokens) const {
    Json names = Json::array(), logprobs = Json::array(), tops = Json::array(), offsets = Json::array();
    for (const TokenShare& token : tokens) {
      names.push_back(vocabulary_.shown(token.id));
      logprobs.push_back(token.logprob);
      Json top{{vocabulary_.shown(token.id), token.logprob}};  // the chosen one is always among them
      for (const auto& [id, logprob] : token.top) top[vocabulary_.shown(id)] = logprob;
      tops.push_back(std::move(top));
      offsets.push_back(token.begin);
    }
    return {
        {"tokens", names}, {"token_logprobs", logprobs}, {"top_logprobs", tops}, {"text_offset", offsets}};
  }
  std::vector<std::string> lead_;
  bool logprobs_;
};

class ChatReply : public Reply {
 public:
  ChatReply(std::string model, const Vocabulary& vocabulary, size_t answers, std::optional<ToolStyle> tools,
            bool logprobs)
      : Reply(new_id("chatcmpl-"), std::move(model), vocabulary), logprobs_(logprobs), begun_(answers) {
    if (tools) readers_.assign(answers, ToolReader(*tools));
  }

  std::vector<Json> chunks(size_t answer, Piece piece) override {
    std::vector<Json> result;
    if (!begun_[answer]) {
      begun_[answer] = true;
      result.push_back(delta(answer, {{"role", "assistant"}, {"content", ""}}, {}, nullptr));
    }
    const std::vector<ToolCall> calls = read_calls(answer, piece);
    if (!piece.text.empty() || !piece.tokens.empty())
      result.push_back(delta(answer, {{"content", piece.text}}, piece.tokens, nullptr));
    for (size_t i = 0; i < calls.size(); ++i) {
      Json call = json_of(calls[i]);
      call["index"] = i;
      result.push_back(delta(answer, {{"tool_calls", Json::array({call})}}, {}, nullptr));
    }
    if (piece.finish)
      result.push_back(
          delta(answer, Json::object(), {}, calls.empty() ? finish_name(piece.finish) : "tool_calls"));
    return result;
  }

 protected:
  [[nodiscard]] const char* kind(bool chunk) const override {
    return chunk ? "chat.completion.chunk" : "chat.completion";
  }
  [[nodiscard]] Json choice(size_t answer, Piece piece) override {
    const std::vector<ToolCall> calls = read_calls(answer, piece);
    Json message{{"role", "assistant"}, {"content", piece.text}, {"refusal", nullptr}};
    if (!calls.empty()) {
      if (piece.text.empty()) message["content"] = nullptr;
      for (const ToolCall& call : calls) message["tool_calls"].push_back(json_of(call));
    }
    return {{"index", answer},
            {"message", message},
            {"logprobs", shares(piece.tokens)},
            {"finish_reason", calls.empty() ? finish_name(piece.finish) : "tool_calls"}};
  }

 private:
  /// Leaves in the piece what is text; calls are there when the answer is complete.
  [[nodiscard]] std::vector<ToolCall> read_calls(size_t answer, Piece& piece) {
    if (readers_.empty()) return {};
    piece.text = readers_[answer].push(piece.text);
    if (!piece.finish) return {};
    return readers_[answer].finish(piece.text);
  }
  [[nodiscard]] static Json json_of(const ToolCall& call) {
    return {{"id", new_id("call_")},
            {"type", "function"},
            {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
  }
  [[nodiscard]] Json delta(size_t answer, Json content, const std::vector<TokenShare>& tokens,
                           const Json& finish) const {
    return chunk_of({{"index", answer},
                     {"delta", std::move(content)},
                     {"logprobs", tokens.empty() ? Json() : shares(tokens)},
                     {"finish_reason", finish}});
  }
  [[nodiscard]] Json share(text::TokenId id, double logprob) const {
    const std::string& text = vocabulary_.shown(id);
    return {{"token", text}, {"logprob", logprob}, {"bytes", bytes_of(text)}};
  }
  [[nodiscard]] Json shares(const std::vector<TokenShare>& tokens) const {
    if (!logprobs_) return nullptr;
    Json content = Json::array();
    for (const TokenShare& token : tokens) {
      Json entry = share(token.id, token.logprob);
      entry["top_logprobs"] = Json::array();
      for (const auto& [id, logprob] : token.top) entry["top_logprobs"].push_back(share(id, logprob));
      content.push_back(std::move(entry));
    }
    return {{"content", content}, {"refusal", nullptr}};
  }

  bool logprobs_;
  std::vector<bool> begun_;
  std::vector<ToolReader> readers_;  ///< by answer; empty without tools
};

}  // namespace

Json Usage::to_json() const {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", written},
          {"total_tokens", prompt + written},
          {"prompt_tokens_details", {{"cached_tokens", reused}}}};
}

Reply::Reply(std::string id, std::string model, const Vocabulary& vocabulary)
    : id_(std::move(id)),
      model_(std::move(model)),
      vocabulary_(vocabulary),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()) {}

Json Reply::head(bool chunk) const {
  return {{"id", id_}, {"object", kind(chunk)}, {"created", created_}, {"model", model_}};
}

Json Reply::chunk_of(Json choice) const {
  Json chunk = head(true);
  chunk["choices"] = Json::array({std::move(choice)});
  return chunk;
}

Json Reply::whole(std::vector<Piece> answers, const Usage& usage) {
  Json reply = head(false);
  reply["choices"] = Json::array();
  for (size_t i = 0; i < answers.size(); ++i) reply["choices"].push_back(choice(i, std::move(answers[i])));
  reply["usage"] = usage.to_json();
  return reply;
}

Json Reply::usage_chunk(const Usage& usage) const {
  Json chunk = head(true);
  chunk["choices"] = Json::array();
  chunk["usage"] = usage.to_json();
  return chunk;
}

std::unique_ptr<Reply> completion_reply(std::string model, const Vocabulary& vocabulary,
                                        std::vector<std::string> lead, bool logprobs) {
  return std::make_unique<CompletionReply>(std::move(model), vocabulary, std::move(lead), logprobs);
}

std::unique_ptr<Reply> chat_reply(std::string model, const Vocabulary& vocabulary, size_t answers,
                                  std::optional<ToolStyle> tools, bool logprobs) {
  return std::make_unique<ChatReply>(std::move(model), vocabulary, answers, tools, logprobs);
}

}  // namespace luminal::serving
