#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "e2e/command_run.h"
#include "e2e/program.h"
#include "support/api_client.h"
#include "support/files.h"

// `luminal serve` in a process of its own.
namespace luminal::cli {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

const std::string kServedModel = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/models/data/families/llama";

class ServedProgram : public testing::Test {
 protected:
  /// Waits for its address and returns the port.
  static int port_of(Program& program) {
    const auto said = [&] { return program.out().find("/v1)\n") != std::string::npos; };
    if (!program.wait_until(said)) {
      ADD_FAILURE() << program.err();
      return 0;
    }
    const std::string out = program.out();
    return std::stoi(out.substr(out.find("127.0.0.1:") + 10));
  }
  [[nodiscard]] static std::vector<std::string> serve(std::vector<std::string> more) {
    more.insert(more.begin(), {"serve", kServedModel, "--port", "0"});
    return more;
  }
  test::TemporaryFolder folder_;
};

TEST_F(ServedProgram, AnswersAndEndsCleanlyOnBothSignals) {
  const std::string keys = folder_.file("keys", "first\n\n  second \n").string();
  for (const int signal : {SIGINT, SIGTERM}) {
    const test::TemporaryFolder files;
    Program program(files.path(), serve({"--api-key-file", keys, "--alias", "tiny", "--parallel", "3"}));
    test::ApiClient client(port_of(program), "second");
    const Json stored = Json::parse(test::content_of(kServedModel + "/talk.json"));
    const Json reply =
        client.post("/v1/completions",
                    {{"prompt", stored["prompt"]}, {"max_tokens", stored["tokens"]}, {"temperature", 0}});
    EXPECT_EQ(reply["choices"][0]["text"], stored["continued"]);
    EXPECT_EQ(reply["model"], "tiny");
    EXPECT_THAT(program.err(), HasSubstr("tiny: LlamaForCausalLM"));
    EXPECT_THAT(program.err(), HasSubstr("(3 sequences of 128 tokens, 65.5 KB each)"));
    program.send(signal);
    EXPECT_EQ(program.wait(), 0) << program.err();
  }
}

TEST_F(ServedProgram, CutsAStreamWhenItStopsAndWritesNothing) {
  Program program(folder_.path(), serve({"-c", "20000", "--grace", "0.2", "--no-warmup"}));
  const int port = port_of(program);
  test::Streamed cut;
  std::atomic<bool> begun{false};
  std::jthread client([&] {
    const Json body{{"prompt", "Once"}, {"max_tokens", 20000}, {"logit_bias", {{"2", -100}}}};
    cut = test::ApiClient(port).stream("/v1/completions", body,
                                       [&](const test::Streamed&) { return begun = true; });
  });
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto begin = std::chrono::steady_clock::now();
  program.send(SIGTERM);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  client.join();
  EXPECT_EQ(cut.events.back()["error"]["code"], "shutting_down");
  EXPECT_TRUE(cut.done);
  for (const auto& entry :
       std::filesystem::directory_iterator(folder_.path()))  // the compiler's cache is none of it
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("out", "err", "cache"));
}

TEST(ServeCommand, SaysWhatIsWrong) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(luminal({"serve"}).err, HasSubstr("model is required"));
  const Result port = luminal({"serve", kServedModel, "--port", "70000", "--no-warmup"});
  EXPECT_EQ(port.code, kFailed);
  EXPECT_THAT(port.err, HasSubstr("the port is 70000; give one from 0"));
  EXPECT_THAT(luminal({"serve", kServedModel, "--parallel", "0"}).err, HasSubstr("0 sequences"));
  EXPECT_THAT(luminal({"serve", kServedModel, "--max-body", "0"}).err, HasSubstr("--max-body is 0"));
  EXPECT_THAT(luminal({"serve", kServedModel, "--api-key-file", folder.file("keys", " \n").string()}).err,
              HasSubstr("holds no API key"));
  EXPECT_THAT(luminal({"serve", "no/such/model"}).err, HasSubstr("no/such/model"));
}

}  // namespace
}  // namespace luminal::cli
