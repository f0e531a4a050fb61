// Every parser of text and files from outside on damaged input: a documented error or a result, nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <random>

#include "formats/gzip.h"
#include "formats/zip.h"
#include "kernel/spec.h"
#include "luminal/luminal.h"
#include "search/verify.h"
#include "support/effort.h"
#include "support/files.h"

namespace luminal {
namespace {

using test::content_of;

const std::string kFormats = std::string(LUMINAL_SOURCE_DIR) + "/tests/unit/formats/data/";
constexpr size_t kLimitBytes = size_t{1} << 24;  // of what a target may unpack to

struct Target {
  std::string name;
  std::vector<std::string> seeds;
  std::function<void(const std::string& input, const std::filesystem::path& file)> parse;
};

std::string spec_text() {
  return R"({"extents":["4","5"],"slots":[{"dtype":"f32","elements":"20"}],"values":[{"axes":[0],"reduced":[1],)"
         R"("combiner":"sum","body":{"nodes":[["input","f32","0"]],"result":0},"operands":[{"kind":"load",)"
         R"("dtype":"f32","slot":0,"index":"5 * i0[4] + i1[5]"}]}],"outputs":[{"value":0,"index":"i0[4]",)"
         R"("elements":"4"}]})";
}

std::string exam_text() {
  return R"({"exam":1,"seed":1,"dims":{},"tensors":[{"dtype":"f32","dims":[2]},{"dtype":"f32","dims":[2]}],)"
         R"("kernels":[{"inputs":[0],"outputs":[1],"in_place":-1}],"questions":[{"name":"plain","beyond_laws":false,"inputs":)"
         R"(["0000803f0000803f",null],"answers":[{"tensor":1,"positions":[0,1],"values":[1,"inf"],)"
         R"("errors":[0,1e-6],"integers":[],"known":[true,false]}]}]})";
}

std::vector<Target> targets() {
  const std::string table = "a,\"b c\",d\n1,2.5,-3\n\"4\",5e3,6\n";
  const std::string idx("\0\0\x08\2\0\0\0\2\0\0\0\3abcdef", 18);
  return {
      {"safetensors",
       {content_of(kFormats + "from_python.safetensors")},
       [](const std::string&, const auto& file) {
         const SafetensorsFile opened(file);
         for (const std::string& name : opened.names()) (void)opened.read(name);
       }},
      {"npz",
       {content_of(kFormats + "from_numpy.npz"), content_of(kFormats + "from_numpy_compressed.npz")},
       [](const std::string&, const auto& file) { (void)read_npz(file, kLimitBytes); }},
      {"zip",
       {zip({{"a", "text"}, {"b", std::string(500, 'b')}}, true), zip({{"a", "text"}}, false, 0)},
       [](const std::string& input, const auto&) { (void)unzip(input, "[fuzz]", kLimitBytes); }},
      {"idx",
       {idx, gzip(idx)},
       [](const std::string&, const auto& file) { (void)read_idx(file, kLimitBytes); }},
      {"csv",
       {table, gzip(table)},
       [](const std::string&, const auto& file) {
         const CsvTable read = read_csv(file, {.limit_bytes = kLimitBytes});
         for (const std::string& name : read.columns()) (void)read.numbers({name});
       }},
      {"spec JSON",
       {spec_text()},
       [](const std::string& input, const auto&) { (void)kernel::KernelSpec::parse_json(input); }},
      {"exam JSON",
       {exam_text()},
       [](const std::string& input, const auto&) { (void)search::parse_exam(input); }},
      {"expression",
       {"(i0[4] * 3 + s{1..64,/4}) % 7 // 2 - min(t, 4, -1) & (a < b | c >= 3)"},
       [](const std::string& input, const auto&) { (void)Expression::parse(input).simplify(); }},
  };
}

std::string mutated(std::string text, std::mt19937_64& random) {
  constexpr std::string_view kSigns = "0123456789[]{}(),:\"'+-*/%.<>&|\0\xff";
  for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
    if (text.empty()) text = "x";
    const size_t at = random() % text.size(), length = 1 + random() % std::min<size_t>(16, text.size() - at);
    const size_t digit = text.find_first_of("0123456789", at);
    if (digit != std::string::npos && random() % 3 == 0) {  // what still reads gets further
      text[digit] = static_cast<char>('0' + random() % 10);
      continue;
    }
    switch (random() % 6) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, 1, kSigns[random() % kSigns.size()]);
        break;
      case 4:
        text.insert(random() % text.size(), text.substr(at, length));
        break;
      default:
        for (size_t i = at; i < at + length; ++i) text[i] = random() % 2 == 0 ? '\xff' : '9';
    }
  }
  return text;
}

class HostileInput : public testing::TestWithParam<Target> {};

TEST_P(HostileInput, IsReadOrRefused) {
  const Target& target = GetParam();
  const test::TemporaryFolder folder;
  const uint64_t seed = effort::seed(2026);
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (const std::string& good : target.seeds) target.parse(good, folder.file("good", good));
  int64_t tried = 0, refused = 0;
  for (; effort::full_effort() ? std::chrono::steady_clock::now() < end : tried < 300; ++tried) {
    const std::string input = mutated(target.seeds[random() % target.seeds.size()], random);
    const auto file = folder.file("input", input);
    try {
      target.parse(input, file);
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ", case " << tried << ": " << error.what() << "\n" << input;
    }
  }
  RecordProperty("tried", std::to_string(tried));
  std::cout << target.name << ": " << tried << " tried, " << refused << " refused\n";
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Parsers, HostileInput, testing::ValuesIn(targets()), [](const auto& test) {
  std::string name = test.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

}  // namespace
}  // namespace luminal
