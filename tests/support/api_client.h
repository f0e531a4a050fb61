#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serving/httplib.h"

namespace luminal::test {

/// What a stream of server-sent events said.
struct Streamed {
  int status = 0;
  std::vector<nlohmann::json> events;  ///< without [DONE]
  bool done = false;                   ///< [DONE] was the last
  std::string other;                   ///< what was no event
  /// The texts of a choice, joined.
  [[nodiscard]] std::string text(size_t choice = 0) const {
    std::string all;
    for (const nlohmann::json& event : events)
      for (const nlohmann::json& each : event.value("choices", nlohmann::json::array())) {
        if (each["index"] != choice) continue;
        if (each.contains("text")) all += each["text"].get<std::string>();
        if (each.contains("delta") && each["delta"].contains("content"))
          all += each["delta"]["content"].get<std::string>();
      }
    return all;
  }
};

/// A client of a server on this machine.
class ApiClient {
 public:
  explicit ApiClient(int port, const std::string& key = "") : http_("127.0.0.1", port) {
    http_.set_read_timeout(60);
    http_.set_keep_alive(true);
    http_.set_tcp_nodelay(true);  // it sends heads and bodies apart
    if (!key.empty()) http_.set_default_headers({{"Authorization", "Bearer " + key}});
  }
  [[nodiscard]] httplib::Client& http() { return http_; }

  /// The answer's JSON; `status` is what came.
  nlohmann::json post(const std::string& path, const nlohmann::json& body, int status = 200) {
    const auto result = http_.Post(path, body.dump(), "application/json");
    if (!result) {
      ADD_FAILURE() << path << ": no answer: " << httplib::to_string(result.error());
      return nullptr;
    }
    EXPECT_EQ(result->status, status) << result->body;
    return nlohmann::json::parse(result->body, nullptr, false);
  }
  /// `on_event` returns whether the client stays.
  Streamed stream(
      const std::string& path, nlohmann::json body,
      const std::function<bool(const Streamed&)>& on_event = [](const Streamed&) { return true; }) {
    body["stream"] = true;
    Streamed streamed;
    std::string held;
    httplib::Request request;
    request.method = "POST";
    request.path = path;
    request.set_header("Content-Type", "application/json");
    request.body = body.dump();
    request.response_handler = [&](const httplib::Response& response) {
      streamed.status = response.status;
      return true;
    };
    request.content_receiver = [&](const char* bytes, size_t count, uint64_t, uint64_t) {
      held.append(bytes, count);
      for (size_t end = 0; (end = held.find("\n\n")) != std::string::npos; held.erase(0, end + 2)) {
        const std::string line = held.substr(0, end);
        if (line == "data: [DONE]")
          streamed.done = true;
        else if (line.starts_with("data: "))
          streamed.events.push_back(nlohmann::json::parse(line.substr(6)));
        else
          streamed.other += line;
        if (!on_event(streamed)) return false;
      }
      return true;
    };
    (void)http_.send(request);
    streamed.other += held;
    return streamed;
  }
  /// The number behind a metric's name; -1 if there is none.
  double metric(const std::string& name) {
    const auto result = http_.Get("/metrics");
    if (!result) return -1;
    const size_t at = result->body.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stod(result->body.substr(at + name.size() + 2));
  }

 private:
  httplib::Client http_;
};

}  // namespace luminal::test
