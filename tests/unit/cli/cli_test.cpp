#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <sstream>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/machine.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/train_run.h"
#include "luminal/safetensors.h"
#include "luminal/version.h"
#include "support/effort.h"
#include "support/files.h"

namespace luminal::cli {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code;
  std::string out, err;
};

Outcome luminal(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  Console console{out, err};
  const int code = run(arguments, console);
  return {code, out.str(), err.str()};
}

/// What `luminal bench --serve` answers to the lines.
std::vector<nlohmann::json> served(const std::string& lines) {
  std::istringstream in(lines);
  std::streambuf* const before = std::cin.rdbuf(in.rdbuf());
  const Outcome outcome = luminal({"bench", "--serve", "--mode", "fast"});
  std::cin.rdbuf(before);
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  std::vector<nlohmann::json> answers;
  std::istringstream out(outcome.out);
  for (std::string line; std::getline(out, line);) answers.push_back(nlohmann::json::parse(line));
  return answers;
}

TEST(Cli, InspectShowsWhatAFileOfWeightsHolds) {
  const std::string data = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/formats/data/";
  const Outcome table = luminal({"inspect", data + "from_python.gguf"});
  ASSERT_EQ(table.code, kDone) << table.err;
  EXPECT_THAT(table.out, HasSubstr("GGUF version 3, 1 file, 896 bytes\n"));
  EXPECT_THAT(table.out, HasSubstr("  test.words            text[3]   ['one', 'two', '']\n"));
  EXPECT_THAT(table.out, HasSubstr("  c  Q8_0           136 bytes  [2,64]\n"));
  EXPECT_THAT(table.out, HasSubstr("8.50 bits an element"));

  const Outcome json = luminal({"inspect", data + "from_python.gguf", "--json"});
  ASSERT_EQ(json.code, kDone) << json.err;
  const auto gguf = nlohmann::json::parse(json.out);
  EXPECT_EQ(gguf.at("metadata").at("test.nested"), nlohmann::json::parse("[[1, 2], [3]]"));
  EXPECT_EQ(gguf.at("tensors").at(2).at("shape"), nlohmann::json::parse("[2, 64]"));
  EXPECT_EQ(gguf.at("total").at("size_bytes"), 24 + 8 + 136);

  const Outcome safetensors = luminal({"inspect", data + "from_python.safetensors", "--json"});
  ASSERT_EQ(safetensors.code, kDone) << safetensors.err;
  EXPECT_EQ(nlohmann::json::parse(safetensors.out).at("format"), "safetensors");
  EXPECT_EQ(luminal({"inspect", data + "from_numpy.npz"}).code, kFailed);
}

TEST(Cli, InspectShowsAModelsFolderAndNoControlCharacters) {
  const test::TemporaryFolder folder;
  (void)folder.file("config.json", R"({"model_type": "llama", "rope": {"theta": 1e4}, "bad\u001bkey": 1})");
  const TensorData weight = TensorData::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4});
  const std::string turned =
      "b\u202e\u009b\x7f";  // turns the direction of writing, begins a sequence, deletes
  write_safetensors(folder.path() / "model.safetensors", {{"a\x1b[2J", weight}, {turned, weight}});
  const Outcome table = luminal({"inspect", folder.path().string()});
  ASSERT_EQ(table.code, kDone) << table.err;
  EXPECT_THAT(table.out, HasSubstr("model folder, 1 file, "));
  EXPECT_THAT(table.out, HasSubstr(R"(config.json: model_type)"));
  EXPECT_THAT(table.out, HasSubstr(R"(a\x1b[2J)"));
  EXPECT_THAT(table.out, HasSubstr(R"(bad\x1bkey)"));
  EXPECT_THAT(table.out, testing::Not(HasSubstr("\x1b")));
  const Outcome json = luminal({"inspect", folder.path().string(), "--json"});
  EXPECT_TRUE(std::ranges::all_of(json.out, [](char c) { return c == '\n' || (c >= ' ' && c < '\x7f'); }));
  EXPECT_EQ(nlohmann::json::parse(json.out).at("tensors").at(1).at("name"), turned);
}

TEST(Cli, BenchAnswersALineWithALine) {
  const auto answers = served(R"lines({"what": "x:f32[64,64].relu()", "ms": 1, "peak": true}
{"what": "x:f32[64,64].relu()", "ms": 1}
{"what": "x:f32[64,64].rleu()", "ms": 1}
{"ms": 1}
not json
)lines");
  ASSERT_EQ(answers.size(), 5U);
  EXPECT_GT(answers[0].at("us").get<double>(), 0);
  EXPECT_GT(answers[0].at("flops_per_us").get<double>(), 0);
  EXPECT_GT(answers[1].at("us").get<double>(), 0);
  EXPECT_EQ(answers[1].at("compile_us"), answers[0].at("compile_us"));  // compiled once
  EXPECT_FALSE(answers[1].contains("flops_per_us"));
  EXPECT_THAT(answers[2].at("error").get<std::string>(), HasSubstr("rleu"));
  EXPECT_THAT(answers[3].at("error").get<std::string>(), HasSubstr("what"));
  EXPECT_TRUE(answers[4].contains("error"));
}

TEST(Cli, BenchRefusesRequestsOfOtherTypesAndRanges) {
  const std::string what = R"({"what": "x:f32[n,4] * 2", )";
  const std::string sizes = "\"dims\" of a request takes a whole number from 0 to 9223372036854775807, not ";
  const std::vector<std::pair<std::string, std::string>> requests = {
      {R"("dims": {"n": 1e30}})", sizes + "1e+30"},
      {R"("dims": {"n": -1}})", sizes + "-1"},
      {R"("dims": {"n": 2.5}})", sizes + "2.5"},
      {R"("dims": {"n": "4"}})", sizes + "\"4\""},
      {R"("dims": {"n": [[4]]}})", sizes + "[[4]]"},
      {R"("dims": {"n": 18446744073709551615}})", sizes + "18446744073709551615"},
      {R"("dims": {"n": nan}})", "parse error"},
      {R"("dims": [4]})", "\"dims\" of a request takes an object of names and sizes, not [4]"},
      {R"("dims": {"m": 4}})", "has no dim 'm'"},
      {R"("seed": -1})", "\"seed\" of a request takes a whole number from 0 to 18446744073709551615, not -1"},
      {R"("classes": 0})", "\"classes\" of a request takes a whole number from 1 to 2147483647, not 0"},
      {R"("ms": "1"})", "\"ms\" of a request takes a number from 0 to 60000, not \"1\""},
      {R"("ms": 1e999})", "number overflow"},
      {R"("grad": "x"})", "\"grad\" of a request takes a list of texts, not \"x\""},
      {R"("peak": 1})", "\"peak\" of a request takes true or false, not 1"},
      {R"("mode": [[]]})", "\"mode\" of a request takes a text, not [[]]"},
  };
  std::string lines;
  for (const auto& [request, message] : requests) lines += what + request + "\n";
  const auto answers = served(lines + what + R"("dims": {"n": 4}, "ms": 1})" + "\n");
  ASSERT_EQ(answers.size(), requests.size() + 1);
  for (size_t i = 0; i < requests.size(); ++i)
    EXPECT_THAT(answers[i].value("error", ""), HasSubstr(requests[i].second)) << requests[i].first;
  EXPECT_GT(answers.back().at("us").get<double>(), 0);
}

TEST(Cli, BenchTellsRequestsOfOtherSizesApart) {
  const std::string what = R"({"what": "x:f32[n,4] * 2", "ms": 0, "dims": {"n": )";
  const auto answers = served(what + "4}}\n" + what + "5}}\n" + what + "4}}\n");
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_NE(answers[0].at("compile_us"), answers[1].at("compile_us"));
  EXPECT_EQ(answers[0].at("compile_us"), answers[2].at("compile_us"));
}

TEST(Cli, BenchTimesGradientsOfTheInputsNamed) {
  const auto answers = served(R"lines({"what": "a:f32[8,16] @ b:f32[16,4]", "grad": ["a", "b"], "ms": 1}
{"what": "a:f32[8,16] @ b:f32[16,4]", "grad": ["c"], "ms": 1}
{"what": "mnist-step", "grad": ["images"], "ms": 1}
{"what": "gather(t:f32[50,4], i:i32[30])", "classes": 50, "ms": 1}
{"what": "gather(t:f32[50,4], i:i32[30])", "classes": 51000, "ms": 1}
)lines");
  ASSERT_EQ(answers.size(), 5U);
  EXPECT_GT(answers[0].at("us").get<double>(), 0);
  EXPECT_EQ(answers[1].at("error"),
            "[grad] the formula has no input 'c'; its inputs are a, b; did you mean 'a'?");
  EXPECT_EQ(answers[2].at("error"),
            "[grad] 'mnist-step' is a whole graph; --grad takes the inputs of a formula");
  EXPECT_GT(answers[3].at("us").get<double>(), 0);
  EXPECT_THAT(answers[4].at("error").get<std::string>(), HasSubstr("valid are 0 to 49"));
}

TEST(Cli, ExplainShowsTheKernelsOfGradients) {
  const Outcome outcome = luminal(
      {"explain", "--mode", "fast", "--device", "cpu", "--grad", "w", "(x:f32[8,16] @ w:f32[16,4]).exp()"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("input \"upstream\""));
}

TEST(Cli, VersionIsTheProjects) {
  const Outcome outcome = luminal({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  std::smatch match;
  const std::string build = test::content_of(std::string(LUMINAL_SOURCE_DIR) + "/CMakeLists.txt");
  ASSERT_TRUE(std::regex_search(build, match, std::regex(R"(project\(luminal VERSION ([0-9.]+))")));
  EXPECT_EQ(outcome.out, "luminal " + match[1].str() + "\n");
}

TEST(Cli, HelpNamesEveryCommand) {
  const Outcome outcome = luminal({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const Command* command : commands())
    EXPECT_THAT(outcome.out, HasSubstr(std::string(command->summary)));
  EXPECT_EQ(luminal({}).code, 2);
  EXPECT_EQ(luminal({}).err, outcome.out);
}

TEST(Cli, EveryCommandHasHelpAndRefusesUnknownOptions) {
  for (const Command* command : commands()) {
    const std::string name(command->name);
    const Outcome help = luminal({name, "--help"});
    EXPECT_EQ(help.code, 0) << name;
    EXPECT_THAT(help.out, HasSubstr("luminal " + name)) << name;
    const Outcome unknown = luminal({name, "--no-such-thing"});
    EXPECT_EQ(unknown.code, 2) << name;
    EXPECT_EQ(unknown.out, "") << name;
    EXPECT_EQ(std::count(unknown.err.begin(), unknown.err.end(), '\n'), 1) << unknown.err;
  }
}

TEST(Cli, CommandsAreSortedAndAllAreListed) {
  const auto all = commands();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](auto* a, auto* b) { return a->name < b->name; }));
  size_t defined = 0;
  const std::filesystem::path folder = std::filesystem::path(LUMINAL_SOURCE_DIR) / "src/cli";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".cpp")
      defined += std::regex_search(test::content_of(entry.path()), std::regex(R"(const Command k\w+ ?[{=])"));
  EXPECT_EQ(all.size(), defined) << "a file under src/cli is not listed in commands.cpp";
}

TEST(Cli, SaysWhatIsWrongWithTheCommandLine) {
  const auto error = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = luminal(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_EQ(error({"evn"}), "luminal: unknown command 'evn'; did you mean 'env'? (see 'luminal --help')\n");
  EXPECT_EQ(error({"quux"}), "luminal: unknown command 'quux' (see 'luminal --help')\n");
  EXPECT_EQ(error({"--versoin"}),
            "luminal: unknown option '--versoin'; did you mean '--version'? (see 'luminal --help')\n");
  EXPECT_EQ(error({"env", "--jsn"}),
            "luminal env: unknown option '--jsn'; did you mean '--json'? (see 'luminal env --help')\n");
  EXPECT_EQ(error({"env", "--jsn=1"}),
            "luminal env: unknown option '--jsn'; did you mean '--json'? (see 'luminal env --help')\n");
  EXPECT_EQ(error({"env", "all"}), "luminal env: unexpected argument 'all' (see 'luminal env --help')\n");
}

TEST(Cli, ABadVariableStopsTheProgram) {
  ::setenv("LUMINAL_DEBUG", "11", 1);
  const Outcome outcome = luminal({"env"});
  ::unsetenv("LUMINAL_DEBUG");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("luminal: [environment] LUMINAL_DEBUG='11' is invalid"));
}

TEST(Cli, OutputThatCannotBeWrittenIsAnError) {
  std::ofstream full("/dev/full");
  std::ostringstream err;
  Console console{full, err};
  EXPECT_EQ(run(std::vector<std::string>{"env"}, console), 1);
  EXPECT_EQ(err.str(), "luminal: cannot write the output; is the disk full?\n");
}

TEST(Env, ShowsEveryVariable) {
  ::setenv("LUMINAL_THREADS", "3", 1);
  const Outcome table = luminal({"env"});
  const auto json = nlohmann::json::parse(luminal({"env", "--json"}).out);
  ::unsetenv("LUMINAL_THREADS");
  EXPECT_EQ(json["version"], std::string(version()));
  EXPECT_GE(json["cores"].get<int>(), 1);
  EXPECT_GT(json["memory_bytes"].get<int64_t>(), int64_t{1} << 28);
  EXPECT_THAT(json["devices"], testing::Contains("reference"));
  ASSERT_EQ(json["variables"].size(), environment::variables().size());
  for (const auto& variable : json["variables"]) {
    EXPECT_THAT(table.out, HasSubstr(variable["name"].get<std::string>()));
    EXPECT_THAT(table.out, HasSubstr(variable["help"].get<std::string>()));
    if (variable["name"] == "LUMINAL_THREADS") {
      EXPECT_EQ(variable["value"], "3");
    }
  }
}

TEST(Env, ReadsWhatLinuxSaysOfTheMachine) {
  const char* meminfo = "MemTotal:       16384 kB\nMemFree:          100 kB\nMemAvailable:    8192 kB\n";
  const Machine intel = machine_from(
      "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some Xeon @ 2.0GHz\nflags\t\t: fpu sse2 avx fma avx2 "
      "avx512f avx512dq "
      "avx512bw avx512vl\n\nprocessor\t: 1\nmodel name\t: another\n",
      meminfo);
  EXPECT_EQ(intel.cpu, "Some Xeon @ 2.0GHz");
  EXPECT_EQ(intel.vector_isa, "AVX-512");
  EXPECT_EQ(intel.memory_bytes, 16384 * 1024);
  EXPECT_EQ(intel.available_bytes, 8192 * 1024);
  EXPECT_EQ(machine_from("flags : sse2 avx avx2 fma avx512f\n", "").vector_isa, "AVX2");
  EXPECT_EQ(machine_from("flags : sse2 avx avx2\n", "").vector_isa, "AVX");
  const Machine arm = machine_from("processor : 0\nFeatures : fp asimd crc32\n", "");
  EXPECT_EQ(arm.vector_isa, "NEON");
  EXPECT_EQ(arm.cpu, "unknown");
  EXPECT_EQ(machine_from("", "").vector_isa, "none");
}

TEST(Interrupt, TheFirstSignalIsNotedTheSecondActs) {
  {
    const InterruptGuard guard;
    EXPECT_FALSE(interrupted());
    std::raise(SIGINT);
    EXPECT_TRUE(interrupted());
  }
  {
    const InterruptGuard again;
    EXPECT_FALSE(interrupted());
    std::raise(SIGTERM);
    EXPECT_TRUE(interrupted());
  }
  EXPECT_EXIT(
      {
        const InterruptGuard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

/// Lines that are none of ours, or half written, go; what was done behind the step goes too.
TEST(RunLog, GoesOnBehindAStepWhateverTheFileHolds) {
  const test::TemporaryFolder folder;
  RunOptions options;
  options.metrics = folder.file(
      "metrics.jsonl",
      "{\"step\":1}\n{\"step\":\"two\"}\n[2]\n{\"step\":1e300}\n{\"loss\":2}\n{\"step\":3}\n{\"st");
  RunLog(options, 2).write({{"step", 3}});
  EXPECT_EQ(test::content_of(options.metrics), "{\"step\":1}\n{\"loss\":2}\n{\"step\":3}\n");
}

TEST(Cli, ServingAnswersEveryRequest) {
  const std::string good = R"({"what":"a:f32[4] + 1","mode":"fast","ms":0})";
  std::string lines =
      "[]\nnull\n5\n{\"what\":1}\n" + std::string(100'000, '[') +
      "\n{\"what\":\"a:f32[100000000000000]\"}\n{\"what\":\"a:f32[9999999999999,9999999999]\"}\n"
      "{\"what\":\"\xff(\"}\n" +
      good + "\n";
  constexpr size_t kFixed = 9;
  const uint64_t seed = effort::seed(5);
  std::mt19937_64 random(seed);
  const size_t mutations = static_cast<size_t>(effort::cases(300, 20'000));
  for (size_t n = 0; n < mutations; ++n) {
    std::string bad = good;
    bad[random() % 9] = "[]{},:\"x"[random() % 8];  // the names of fields; the formula stays small
    if (random() % 2 == 0) bad.resize(1 + random() % bad.size());
    lines += bad + "\n";
  }
  const auto answers = served(lines + good + "\n");
  ASSERT_EQ(answers.size(), kFixed + mutations + 1) << "seed " << seed;
  for (size_t n = 0; n + 1 < kFixed; ++n) EXPECT_TRUE(answers[n].contains("error")) << n;
  EXPECT_TRUE(answers[kFixed - 1].contains("us"));
  EXPECT_TRUE(answers.back().contains("us"));
  EXPECT_EQ(answers[0].at("error"), R"([bench] a request is a JSON object, such as {"what": FORMULA})");
  EXPECT_EQ(answers[4].at("error"), "[bench] the JSON is nested deeper than 64 levels");
  EXPECT_THAT(answers[5].at("error").get<std::string>(),
              HasSubstr("[bench] an input of 100000000000000 elements does not fit in"));
}

}  // namespace
}  // namespace luminal::cli
