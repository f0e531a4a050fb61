#include "luminal/serving/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "luminal/error.h"
#include "luminal/safetensors.h"
#include "serving/embeddings.h"
#include "support/api_client.h"
#include "support/files.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern "C" size_t __sanitizer_get_current_allocated_bytes();  // GCC installs no header that declares it
#endif

// A server on a free port with a tiny stored model, and clients that speak HTTP.
namespace luminal::serving {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::ApiClient;
using test::Streamed;
using testing::HasSubstr;

const std::string kTalker = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families/llama";
const std::string kText = "/v1/completions", kChat = "/v1/chat/completions";

json stored_answers() { return json::parse(test::content_of(kTalker + "/talk.json")); }

/// Answers within this context may be so long that nobody waits for their end.
class TinyServer {
 public:
  explicit TinyServer(ServerOptions options = {}, int64_t sequences = 2, int64_t context = 20000,
                      const std::filesystem::path& model = kTalker) {
    options.port = 0;
    options.name = "tiny";
    server_.emplace(models::LanguageModel(model, {.context = context, .sequences = sequences}), options);
  }
  [[nodiscard]] ApiClient client(const std::string& key = "") const {
    return ApiClient(server_->port(), key);
  }
  [[nodiscard]] int port() const { return server_->port(); }
  void stop() { server_->stop(); }

 private:
  std::optional<Server> server_;
};

/// A request whose answer has no end of its own.
json endless(int64_t tokens = 20000) {
  return {{"prompt", "Once"}, {"max_tokens", tokens}, {"temperature", 0}, {"logit_bias", {{"2", -100}}}};
}
json message(const std::string& text) { return {{{"role", "user"}, {"content", text}}}; }

template <class Condition>
[[nodiscard]] bool soon(Condition&& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

/// One server for the tests that need nothing special.
class ServedModel : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_.emplace(); }
  static void TearDownTestSuite() { server_.reset(); }
  static std::optional<TinyServer> server_;
  ApiClient client_ = server_->client();
};
std::optional<TinyServer> ServedModel::server_;

TEST_F(ServedModel, ContinuesATextAsTransformersDoes) {
  const json stored = stored_answers();
  const json body{
      {"model", "tiny"}, {"prompt", stored["prompt"]}, {"max_tokens", stored["tokens"]}, {"temperature", 0}};
  const json reply = client_.post(kText, body);
  EXPECT_EQ(reply["object"], "text_completion");
  EXPECT_EQ(reply["choices"][0]["text"], stored["continued"]);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(reply["usage"]["completion_tokens"], stored["tokens"]);
  EXPECT_EQ(reply["usage"]["prompt_tokens"], 16);
  EXPECT_EQ(reply["usage"]["total_tokens"], 16 + stored["tokens"].get<int>());
  json echoed = body;
  echoed["echo"] = true;
  EXPECT_EQ(client_.post(kText, echoed)["choices"][0]["text"],
            stored["prompt"].get<std::string>() + stored["continued"].get<std::string>());
}

TEST_F(ServedModel, ContinuesAConversationAsTransformersDoes) {
  const json stored = stored_answers();
  json messages = json::array();
  for (const json& turn : stored["turns"]) {
    messages.push_back({{"role", "user"}, {"content", turn[0]}});
    const json body{{"messages", messages}, {"max_completion_tokens", stored["tokens"]}, {"temperature", 0}};
    const json reply = client_.post(kChat, body);
    EXPECT_EQ(reply["object"], "chat.completion");
    EXPECT_EQ(reply["choices"][0]["message"]["role"], "assistant");
    EXPECT_EQ(reply["choices"][0]["message"]["content"], turn[1]);
    const Streamed streamed = client_.stream(kChat, body);
    EXPECT_EQ(turn[1], streamed.text());
    messages.push_back(reply["choices"][0]["message"]);
  }
}

TEST_F(ServedModel, StreamsWhatItAnswersAtOnce) {
  json body{{"messages", message("Hello")}, {"max_tokens", 40}, {"temperature", 2}, {"seed", 5}, {"n", 3}};
  const json whole = client_.post(kChat, body);
  ASSERT_EQ(whole["choices"].size(), 3);
  EXPECT_NE(whole["choices"][0]["message"]["content"], whole["choices"][1]["message"]["content"]);
  body["stream_options"] = {{"include_usage", true}};
  const Streamed streamed = client_.stream(kChat, body);
  EXPECT_TRUE(streamed.done);
  EXPECT_EQ(streamed.other, "");
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(whole["choices"][i]["message"]["content"], streamed.text(i));
    json finish;
    for (const json& event : streamed.events)
      for (const json& choice : event["choices"])
        if (choice["index"] == i && !choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    EXPECT_EQ(finish, whole["choices"][i]["finish_reason"]);
  }
  EXPECT_EQ(streamed.events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(streamed.events.front()["object"], "chat.completion.chunk");
  EXPECT_TRUE(streamed.events.front()["usage"].is_null());
  EXPECT_TRUE(streamed.events.back()["choices"].empty());
  EXPECT_EQ(streamed.events.back()["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]);
}

TEST_F(ServedModel, EndsAtStopStringsInStreamsToo) {
  const std::string all = stored_answers()["continued"];  // a letter a token
  const std::string stop = all.substr(4, 3), before = all.substr(0, all.find(stop));
  const json body{
      {"prompt", stored_answers()["prompt"]}, {"max_tokens", 12}, {"temperature", 0}, {"stop", {"@@", stop}}};
  const json reply = client_.post(kText, body);
  EXPECT_EQ(reply["choices"][0]["text"], before);
  EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(client_.stream(kText, body).text(), before);
}

TEST_F(ServedModel, TellsLogprobs) {
  const json body{{"prompt", "Once upon a time"}, {"max_tokens", 3}, {"temperature", 0}, {"logprobs", 2}};
  const json logprobs = client_.post(kText, body)["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    const std::string token = logprobs["tokens"][i];
    EXPECT_EQ(logprobs["top_logprobs"][i][token], logprobs["token_logprobs"][i]);
    for (const json& other : logprobs["top_logprobs"][i]) EXPECT_LE(other, logprobs["token_logprobs"][i]);
  }
  const json chat = client_.post(kChat, {{"messages", message("Hello there")},
                                         {"max_tokens", 2},
                                         {"temperature", 0},
                                         {"logprobs", true},
                                         {"top_logprobs", 3}})["choices"][0];
  ASSERT_EQ(chat["logprobs"]["content"].size(), 2);
  const json& first = chat["logprobs"]["content"][0];
  EXPECT_EQ(first["top_logprobs"].size(), 3);
  EXPECT_EQ(first["top_logprobs"][0]["token"], first["token"]);
  EXPECT_EQ(first["bytes"][0], first["token"].get<std::string>()[0]);
}

TEST_F(ServedModel, AnswersSeveralPromptsInTheirOrder) {
  const json body{
      {"prompt", {"Once upon a time", "zzz", "Once upon a time"}}, {"max_tokens", 4}, {"temperature", 0}};
  const json reply = client_.post(kText, body);
  ASSERT_EQ(reply["choices"].size(), 3);
  EXPECT_EQ(reply["choices"][0]["text"], stored_answers()["continued"].get<std::string>().substr(0, 4));
  EXPECT_EQ(reply["choices"][0]["text"], reply["choices"][2]["text"]);
  EXPECT_NE(reply["choices"][0]["text"], reply["choices"][1]["text"]);
}

TEST_F(ServedModel, ShowsItselfAndItsPage) {
  auto& http = client_.http();
  EXPECT_EQ(http.Get("/health")->status, 200);
  const json models = json::parse(http.Get("/v1/models")->body);
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(json::parse(http.Get("/v1/models/tiny")->body)["meta"]["sequences"], 2);
  EXPECT_EQ(http.Get("/v1/models/other")->status, 404);
  const auto page = http.Get("/");
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(page->body, test::content_of(std::string(LUMINAL_SOURCE_DIR) + "/src/serving/page.html"));
  EXPECT_EQ(page->body.find("http://"), std::string::npos);  // nothing from elsewhere
  EXPECT_EQ(page->body.find("https://"), std::string::npos);
}

TEST_F(ServedModel, RefusesWhatItCannotDo) {
  auto& http = client_.http();
  EXPECT_EQ(client_.post("/v1/embeddings", {{"input", "a"}}, 501)["error"]["code"], "not_implemented");
  EXPECT_EQ(client_.post(kText, {{"prompt", "a"}, {"model", "gpt"}}, 404)["error"]["code"],
            "model_not_found");
  EXPECT_EQ(client_.post(kText, {{"prompt", std::string(30000, 'a')}}, 400)["error"]["code"],
            "context_length_exceeded");
  EXPECT_EQ(client_.post(kText, {{"prompt", {1, 64}}}, 400)["error"]["param"], "prompt");
  EXPECT_EQ(client_.post(kText, {{"prompt", "a"}, {"logit_bias", {{"64", 1}}}}, 400)["error"]["type"],
            "invalid_request_error");
  EXPECT_THAT(client_
                  .post(kChat,
                        {{"messages", message("a")},
                         {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}},
                        400)["error"]["message"]
                  .get<std::string>(),
              HasSubstr("knows no tools"));
  EXPECT_EQ(http.Get("/v1/nothing")->status, 404);
  EXPECT_EQ(http.Get(kText)->status, 405);
  EXPECT_EQ(http.Post(kText, "{}", "text/plain")->status, 415);
  EXPECT_EQ(http.Post(kText, "{", "application/json")->status, 400);
  const auto refused = http.Post("/health", "{}", "application/json");
  EXPECT_EQ(refused->status, 405);
  EXPECT_EQ(json::parse(refused->body)["error"]["code"], "method_not_allowed");
  EXPECT_EQ(http.Get("/health")->status, 200);
}

/// The tiny model with other tokens: what JSON is made of in place of capitals, and a template that knows tools.
void write_json_talker(const std::filesystem::path& folder) {
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(kTalker + "/" + file, folder / file);
  json tokenizer = json::parse(test::content_of(kTalker + "/tokenizer.json"));
  json& vocabulary = tokenizer["model"]["vocab"];
  const std::string characters = "{}[]\"0123456789_-/=";
  for (size_t i = 0; i < characters.size(); ++i) {
    const std::string capital(1, static_cast<char>('A' + i));
    vocabulary[characters.substr(i, 1)] = vocabulary.at(capital);
    vocabulary.erase(capital);
  }
  std::ofstream(folder / "tokenizer.json") << tokenizer;
  std::ofstream(folder / "tokenizer_config.json")
      << json{{"bos_token", "<s>"},
              {"eos_token", "</s>"},
              {"chat_template",
               "{% for tool in tools or [] %}{{ tool.function.name }} <tool_call>{% endfor %}"
               "{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}"}};
}

class JsonTalker : public testing::Test {
 protected:
  JsonTalker() { write_json_talker(folder_.path()); }
  test::TemporaryFolder folder_;
};

TEST_F(JsonTalker, KeepsToASchema) {
  TinyServer server({}, 2, 4000, folder_.path());
  const json schema = json::parse(R"({"type": "object", "required": ["ok", "n"], "properties": {
      "ok": {"type": "boolean"}, "n": {"enum": [1, 2]}}})");
  for (const int seed : {1, 2, 3}) {
    const json body{
        {"messages", message("hello")},
        {"seed", seed},
        {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}};
    const json reply = server.client().post(kChat, body);
    const json answer = json::parse(reply["choices"][0]["message"]["content"].get<std::string>());
    EXPECT_TRUE(answer["ok"].is_boolean());
    EXPECT_TRUE(answer["n"] == 1 || answer["n"] == 2);
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
  }
}

TEST_F(JsonTalker, CallsTools) {
  TinyServer server({}, 2, 4000, folder_.path());
  const json tools = json::parse(R"([{"type": "function", "function": {"name": "look_up", "parameters": {
      "type": "object", "properties": {"page": {"enum": [7, 8]}}, "required": ["page"]}}}])");
  const json body{{"messages", message("hello")},
                  {"tools", tools},
                  {"tool_choice", "required"},
                  {"parallel_tool_calls", false},
                  {"seed", 1}};
  const json choice = server.client().post(kChat, body)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1);
  const json function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "look_up");
  const json arguments = json::parse(function["arguments"].get<std::string>());
  EXPECT_TRUE(arguments == json({{"page", 7}}) || arguments == json({{"page", 8}}));
  const Streamed streamed = server.client().stream(kChat, body);
  EXPECT_EQ(streamed.text(), "");
  EXPECT_EQ(streamed.events.back()["choices"][0]["finish_reason"], "tool_calls");
  const json delta = streamed.events[streamed.events.size() - 2]["choices"][0]["delta"];
  EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
  EXPECT_EQ(delta["tool_calls"][0]["function"], function);
  // The next turn shows the call to the template.
  json next = body;
  next.erase("tool_choice");
  next["messages"].push_back(choice["message"]);
  next["messages"].push_back({{"role", "tool"}, {"tool_call_id", "x"}, {"content", "a page"}});
  next["max_tokens"] = 3;
  EXPECT_EQ(server.client().post(kChat, next)["choices"][0]["finish_reason"], "length");
}

/// A connection of its own, byte by byte.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection() { close(); }
  void send(const std::string& bytes) const {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }
  void end_writing() const { ::shutdown(socket_, SHUT_WR); }
  /// All that comes until the server closes.
  [[nodiscard]] std::string receive() const {
    std::string all;
    std::array<char, 4096> buffer{};
    for (ssize_t count = 0; (count = ::recv(socket_, buffer.data(), buffer.size(), 0)) > 0;)
      all.append(buffer.data(), static_cast<size_t>(count));
    return all;
  }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

 private:
  int socket_;
};

/// What a server answers to bytes until it closes the connection. Who ends writing has left: answers that take long
/// do not come then.
std::string answer_to(int port, const std::string& bytes, bool end_writing = false) {
  const RawConnection connection(port);
  connection.send(bytes);
  if (end_writing) connection.end_writing();
  return connection.receive();
}

std::string head_of(const std::string& more) {
  return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
         "application/json\r\n" +
         more + "\r\n";
}

TEST(ServerLimits, BodiesAreNotLongerThanAllowed) {
  TinyServer server({.body_bytes = 100000});
  EXPECT_THAT(answer_to(server.port(), head_of("Content-Length: 99999999999999\r\n") + std::string(10, ' ')),
              HasSubstr(" 413 "));
  std::string chunks;
  for (int i = 0; i < 40; ++i) chunks += "1000\r\n" + std::string(4096, ' ') + "\r\n";
  EXPECT_THAT(answer_to(server.port(), head_of("Transfer-Encoding: chunked\r\n") + chunks),
              HasSubstr(" 413 "));
  EXPECT_THAT(answer_to(server.port(), head_of("")), HasSubstr(" 411 "));
  EXPECT_THAT(
      answer_to(server.port(), head_of("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n"),
      HasSubstr(" 400 "));
  const std::string body = R"({"prompt": "a", "max_tokens": 1})";
  EXPECT_THAT(
      answer_to(server.port(), head_of("Transfer-Encoding: chunked\r\n") + "20\r\n" + body + "\r\n0\r\n\r\n"),
      HasSubstr(" 200 "));
  EXPECT_THAT(answer_to(server.port(), head_of("Content-Length: -1\r\n")), HasSubstr(" 413 "));
  EXPECT_THAT(answer_to(server.port(), head_of("Content-Length: x\r\n")), HasSubstr(" 400 "));
  // The rest of a body that was refused is no request.
  const std::string answers =
      answer_to(server.port(),
                "POST /nothing HTTP/1.1\r\nContent-Length: 30\r\n\r\nGET /health HTTP/1.1\r\n\r\n12345678");
  EXPECT_THAT(answers, HasSubstr(" 404 "));
  EXPECT_EQ(answers.find("\"ok\""), std::string::npos);
}

/// A hundred megabytes of blanks in a hundred kilobytes.
TEST(ServerLimits, CompressedBodiesAreNotLongerEither) {
  TinyServer server({.body_bytes = 1000000});
  const test::TemporaryFolder folder;
  const std::string packed = (folder.path() / "blanks.gz").string();
  ASSERT_EQ(std::system(("head -c 100000000 /dev/zero | tr '\\0' ' ' | gzip -9 > " + packed).c_str()), 0);
  const std::string bytes = test::content_of(packed);
  EXPECT_THAT(answer_to(server.port(), head_of("Content-Encoding: gzip\r\nContent-Length: " +
                                               std::to_string(bytes.size()) + "\r\n") +
                                           bytes),
              HasSubstr(" 413 "));
}

TEST(ServerLimits, HeadsAreNotEndless) {
  TinyServer server;
  std::string many = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 10000; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  EXPECT_THAT(answer_to(server.port(), many + "\r\n"), testing::AnyOf(HasSubstr(" 400 "), ""));
  EXPECT_THAT(answer_to(server.port(), "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n"),
              HasSubstr(" 414 "));
  EXPECT_THAT(answer_to(server.port(), "GET /" + std::string(1000000, 'a') + " HTTP/1.1\r\n\r\n"),
              testing::A<std::string>());
  EXPECT_EQ(server.client().http().Get("/health")->status, 200);
}

TEST(ServerLimits, GarbageDoesNotStopIt) {
  TinyServer server;
  std::mt19937 random(3);
  const std::string good = head_of("Content-Length: 32\r\n") + R"({"prompt": "a", "max_tokens": 1})";
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    for (int n = 0; n < 1 + i % 7; ++n) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 3 == 0) bytes.resize(random() % bytes.size());
    (void)answer_to(server.port(), bytes, true);
  }
  EXPECT_EQ(server.client().http().Get("/health")->status, 200);
}

/// All values of a document, in order.
void collect_values(json& value, std::vector<json*>& values) {
  values.push_back(&value);
  if (value.is_structured())
    for (json& each : value) collect_values(each, values);
}

// A good request in which values are replaced by others: an answer, or an error that tells what is wrong.
TEST(ServerLimits, NoValueOfAFieldBreaksIt) {
  TinyServer server({}, 2, 64);
  ApiClient client = server.client();
  const json good =
      json::parse(R"({"model": "tiny", "messages": [{"role": "user", "content": "hi", "name": "x"},
      {"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": []}], "max_tokens": 2, "n": 1,
      "stop": ["zz"], "temperature": 1, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "typical_p": 0.9, "seed": 3,
      "repeat_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"5": 1},
      "logprobs": true, "top_logprobs": 2, "stream": false, "response_format": {"type": "text"}, "tools": [],
      "tool_choice": "auto", "parallel_tool_calls": true, "chat_template_kwargs": {"a": 1}, "user": "u"})");
  const std::vector<json> nasty{nullptr,
                                true,
                                0,
                                -1,
                                1e300,
                                -1e-300,
                                18446744073709551615U,
                                INT64_MIN,
                                "",
                                "\n",
                                std::string(3000, 'a'),
                                std::string("\0", 1),
                                json::array(),
                                json::object(),
                                json::array({json::array({json::array()})}),
                                {{"type", "function"}},
                                "\xf0\x9f\x99\x82"};
  std::mt19937 random(4);
  std::map<int, int> statuses;
  for (int i = 0; i < 1500; ++i) {
    json body = good;
    std::vector<json*> values;
    collect_values(body, values);
    *values[random() % values.size()] = nasty[random() % nasty.size()];
    const auto result = client.http().Post(kChat, body.dump(), "application/json");
    ASSERT_TRUE(result) << body.dump();
    ++statuses[result->status];
    if (result->body.ends_with("data: [DONE]\n\n")) continue;  // a stream was asked for
    const json answer = json::parse(result->body, nullptr, false);
    ASSERT_TRUE(answer.contains(result->status == 200 ? "choices" : "error")) << result->body;
    ASSERT_TRUE(result->status == 200 || result->status == 400 || result->status == 404)
        << body.dump() << "\n"
        << result->status << " " << result->body;
  }
  EXPECT_GT(statuses[200], 100);
  EXPECT_GT(statuses[400], 500);
}

TEST(ServerLimits, ConnectionsBeyondTheLimitAreRefused) {
  TinyServer server({.connections = 2});
  std::vector<ApiClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(server.client());
    EXPECT_EQ(clients.back().http().Get("/health")->status, 200);  // and stays open
  }
  EXPECT_THAT(answer_to(server.port(), "GET /health HTTP/1.1\r\n\r\n"), HasSubstr(" 503 "));
  clients.clear();
  EXPECT_TRUE(soon([&] {
    const auto result = server.client().http().Get("/health");
    return result && result->status == 200;
  }));
}

TEST(ServerLimits, TheQueueHasAnEnd) {
  TinyServer server({.queue = 1}, 1);
  std::atomic<int> full{0}, cut{0};
  std::vector<std::jthread> clients;
  std::atomic<bool> leave{false};
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      ApiClient client = server.client();
      const Streamed streamed = client.stream(kText, endless(), [&](const Streamed&) { return !leave; });
      if (streamed.status == 429) ++full;
      if (streamed.status == 200) ++cut;
    });
  EXPECT_TRUE(soon([&] { return full == 2; }));
  ApiClient last = server.client();
  EXPECT_EQ(last.metric("luminal_requests_waiting"), 1);
  EXPECT_EQ(last.post(kText, endless(), 429)["error"]["code"], "queue_full");
  leave = true;
  clients.clear();
  EXPECT_TRUE(soon([&] { return last.metric("luminal_sequences_running") == 0; }));
  EXPECT_EQ(full, 2);
}

TEST(ServerKeys, AreNeeded) {
  TinyServer server({.api_keys = {"alpha", "beta"}});
  const json body{{"prompt", "a"}, {"max_tokens", 1}};
  for (const std::string key : {"", "alph", "alphaa", "betb"}) {
    ApiClient client = server.client(key);
    EXPECT_EQ(client.post(kText, body, 401)["error"]["code"], "invalid_api_key");
    EXPECT_EQ(client.http().Get("/metrics")->status, 401);
    EXPECT_EQ(client.http().Get("/v1/models")->status, 401);
    EXPECT_EQ(client.http().Get("/health")->status, 200);
    EXPECT_EQ(client.http().Get("/")->status, 200);
  }
  EXPECT_EQ(server.client("alpha").post(kText, body)["object"], "text_completion");
  EXPECT_EQ(server.client("beta").post(kText, body)["object"], "text_completion");
}

// Streams, whole answers and requests that wait: what nobody reads is not computed.
TEST(ServerCancellation, WhatAClientLeavesStops) {
  TinyServer server({}, 1);
  ApiClient watcher = server.client();
  ApiClient streaming = server.client();
  const Streamed left =
      streaming.stream(kText, endless(), [](const Streamed& so_far) { return so_far.events.size() < 3; });
  EXPECT_EQ(left.status, 200);
  streaming.http().stop();
  EXPECT_TRUE(soon([&] { return watcher.metric("luminal_sequences_running") == 0; }));
  // A whole answer, and one that waits for it; the one or the other leaves first.
  const std::string body = endless().dump();
  const std::string request = head_of("Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
  for (const bool waiting_first : {true, false}) {
    RawConnection running(server.port()), waiting(server.port());
    running.send(request);
    ASSERT_TRUE(soon([&] { return watcher.metric("luminal_sequences_running") == 1; }));
    waiting.send(request);
    ASSERT_TRUE(soon([&] { return watcher.metric("luminal_requests_waiting") == 1; }));
    (waiting_first ? waiting : running).close();
    EXPECT_TRUE(soon([&] { return watcher.metric("luminal_requests_waiting") == 0; }));
    EXPECT_EQ(watcher.metric("luminal_sequences_running"), 1);
    (waiting_first ? running : waiting).close();
    EXPECT_TRUE(soon([&] { return watcher.metric("luminal_sequences_running") == 0; }));
  }
  const double tokens = watcher.metric("luminal_generated_tokens_total");
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(watcher.metric("luminal_generated_tokens_total"), tokens);
  EXPECT_LT(tokens, 19000);
}

TEST(ServerShutdown, CutsStreamsWithALastEvent) {
  TinyServer server({.grace_s = 0.2}, 1);
  Streamed cut, waited;
  std::atomic<bool> begun{false};
  std::jthread running(
      [&] { cut = server.client().stream(kText, endless(), [&](const Streamed&) { return begun = true; }); });
  ASSERT_TRUE(soon([&] { return begun.load(); }));
  std::jthread waiting([&] { waited = server.client().stream(kText, endless()); });
  ASSERT_TRUE(soon([&] { return server.client().metric("luminal_requests_waiting") == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  server.stop();
  running.join();
  waiting.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_EQ(waited.status, 503);
  EXPECT_EQ(cut.status, 200);
  ASSERT_FALSE(cut.events.empty());
  EXPECT_EQ(cut.events.back()["error"]["code"], "shutting_down");
  EXPECT_TRUE(cut.done);
}

TEST(ServerShutdown, LetsShortAnswersEnd) {
  TinyServer server({.grace_s = 60}, 1);
  Streamed whole;
  std::atomic<bool> begun{false};
  std::jthread running([&] {
    whole = server.client().stream(kText, endless(300), [&](const Streamed&) { return begun = true; });
  });
  ASSERT_TRUE(soon([&] { return begun.load(); }));
  server.stop();
  running.join();
  EXPECT_TRUE(whole.done);
  EXPECT_EQ(whole.events.back()["choices"][0]["finish_reason"], "length");
}

// What the process holds. Sanitizers keep freed blocks and notes of their own, so there it is what is allocated.
int64_t bytes_held() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
#endif
}

// 16 clients at once, some of which leave: every other gets all of its answer, and memory stops growing. The first rounds
// may grow: they compile steps, and the allocator fills its caches. In a round each client leaves at least once and waits
// for at least four answers, however slow the machine is.
TEST(ServerLoad, ManyClientsLoseNothing) {
  TinyServer server({}, 4, 256);
  const json body{{"messages", message("Hello there")}, {"max_tokens", 12}, {"temperature", 0}};
  const std::string wanted = stored_answers()["turns"][0][1];
  std::atomic<int64_t> right{0}, wrong{0}, left{0};
  // What the HTTP library makes at its first use is made by one thread.
  EXPECT_EQ(server.client().stream(kChat, body).text(), wanted);
  EXPECT_EQ(server.client().post(kChat, body)["choices"][0]["message"]["content"], wanted);
  const auto load = [&](std::chrono::milliseconds time) {
    std::vector<std::jthread> clients;
    const auto end = std::chrono::steady_clock::now() + time;
    for (int i = 0; i < 16; ++i)
      clients.emplace_back([&, i] {
        for (int n = i; n < i + 5 || std::chrono::steady_clock::now() < end; ++n) {
          ApiClient client = server.client();
          if (n % 5 == 0) {
            (void)client.stream(kChat, body, [](const Streamed& so_far) { return so_far.events.size() < 4; });
            ++left;
            continue;
          }
          const std::string text =
              n % 2 == 0 ? client.stream(kChat, body).text()
                         : client.post(kChat, body)["choices"][0]["message"]["content"].get<std::string>();
          ++(text == wanted ? right : wrong);
        }
      });
  };
  constexpr int64_t kStill = 1 << 20;
  int64_t growth = 2 * kStill;
  for (int round = 0; round < 10 && growth > kStill; ++round) {
    const int64_t before = bytes_held();
    load(1500ms);
    growth = bytes_held() - before;
  }
  EXPECT_LE(growth, kStill);
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 50);
  EXPECT_GT(left, 5);
  EXPECT_TRUE(soon([&] { return server.client().metric("luminal_sequences_running") == 0; }));
}

// The stored vectors are those of transformers.
TEST(ServerEmbeddings, AreThoseOfTransformers) {
  const std::string encoder = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/encoders/mean";
  const Server server(models::LanguageModel(kTalker, {.context = 2000}), models::EmbeddingModel(encoder),
                      {.port = 0, .name = "tiny", .embedding_name = "mean"});
  const json texts = json::parse(test::content_of(encoder + "/texts.json"));
  const TensorData wanted = SafetensorsFile(encoder + "/expected.safetensors").read("vectors");
  const auto size = static_cast<size_t>(wanted.dims[1]);
  // While answers are computed, too.
  std::jthread talk([&] { EXPECT_TRUE(ApiClient(server.port()).stream(kText, endless(300)).done); });
  ApiClient client(server.port());
  const json reply = client.post("/v1/embeddings", {{"model", "mean"}, {"input", texts}});
  ASSERT_EQ(reply["data"].size(), texts.size());
  EXPECT_GE(reply["usage"]["prompt_tokens"], 3 * texts.size());
  const json packed = client.post(
      "/v1/embeddings", {{"input", texts[0]}, {"encoding_format", "base64"}})["data"][0]["embedding"];
  EXPECT_EQ(packed.get<std::string>().size(), (size * sizeof(float) + 2) / 3 * 4);
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(reply["data"][i]["index"], i);
    ASSERT_EQ(reply["data"][i]["embedding"].size(), size);
    for (size_t j = 0; j < size; ++j)
      ASSERT_NEAR(reply["data"][i]["embedding"][j].get<float>(), wanted.as<float>()[i * size + j], 1e-5F);
  }
  for (const auto& [body, param] : {std::pair<json, std::string>({{"input", json::array()}}, "input"),
                                    {{{"input", {1, 2}}}, "input"},
                                    {{{"input", ""}}, "input"},
                                    {{{"input", "a"}, {"encoding_format", "x"}}, "encoding_format"},
                                    {{{"input", "a"}, {"dimensions", 1}}, "dimensions"}})
    EXPECT_EQ(client.post("/v1/embeddings", body, 400)["error"]["param"], param);
  EXPECT_EQ(client.post("/v1/embeddings", {{"input", "a"}, {"model", "tiny"}}, 404)["error"]["param"],
            "model");
  EXPECT_EQ(json::parse(client.http().Get("/v1/models")->body)["data"][1]["id"], "mean");
  EXPECT_EQ(json::parse(client.http().Get("/v1/models/mean")->body)["meta"]["embedding"], size);
}

TEST(ServerEmbeddings, Base64IsThatOfTheStandard) {  // RFC 4648, section 10
  for (const auto& [bytes, text] :
       {std::pair("", ""), std::pair("f", "Zg=="), std::pair("fo", "Zm8="), std::pair("foo", "Zm9v"),
        std::pair("foob", "Zm9vYg=="), std::pair("fooba", "Zm9vYmE="), std::pair("foobar", "Zm9vYmFy")})
    EXPECT_EQ(base64_of(bytes), text);
}

TEST(ServerOptionsTest, AreChecked) {
  const auto refused = [](ServerOptions options) {
    return test::error_of<Error>(
        [&] { Server(models::LanguageModel(kTalker, {.context = 64}), std::move(options)); });
  };
  EXPECT_THAT(refused({.port = 70000}), HasSubstr("the port is 70000"));
  EXPECT_THAT(refused({.port = 0, .queue = -1}), HasSubstr("the queue holds -1"));
  EXPECT_THAT(refused({.port = 0, .api_keys = {""}}), HasSubstr("an API key is empty"));
  EXPECT_THAT(refused({.port = 0, .connections = 0}), HasSubstr("0 connections"));
  EXPECT_THAT(refused({.port = 0, .sampler = {.temperature = -1}}), HasSubstr("temperature is -1"));
  EXPECT_THAT(refused({.host = "no.such.host.invalid", .port = 0}), HasSubstr("cannot be listened on"));
  const TinyServer other;
  EXPECT_THAT(refused({.port = other.port()}), HasSubstr("cannot be listened on"));
}

}  // namespace
}  // namespace luminal::serving
