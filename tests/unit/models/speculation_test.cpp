#include "luminal/models/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "luminal/error.h"
#include "luminal/models/llama.h"
#include "luminal/text/sampler.h"
#include "support/files.h"
#include "unit/models/stored_models.h"

// Texts that a model writes with guesses beside those that it writes without.
namespace luminal::models {
namespace {

using test::error_of;
using test::kModels;
using test::relative_error;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using text::TokenId;
using Tokens = std::vector<TokenId>;

constexpr int64_t kRoom = 96;  // tokens of a text

/// Guesses what stands in a text that it was given, but for every `wrong`-th token of it, and counts its calls, each of
/// which compiles for a second.
class TextDrafter : public Drafter {
 public:
  TextDrafter(Tokens whole, size_t wrong) : whole_(std::move(whole)) {
    for (size_t i = wrong - 1; i < whole_.size(); i += wrong) whole_[i] = (whole_[i] + 1) % 64;
  }
  Tokens draft(std::span<const TokenId> text, int64_t most) override {
    ++calls;
    const size_t end = std::min(whole_.size(), text.size() + static_cast<size_t>(most));
    return {whole_.begin() + static_cast<ptrdiff_t>(std::min(text.size(), end)),
            whole_.begin() + static_cast<ptrdiff_t>(end)};
  }
  [[nodiscard]] double compile_seconds() const override { return calls; }
  int calls = 0;

 private:
  Tokens whole_;
};

/// Goes on with `text` to so many tokens, each chosen from what `logits` gives.
template <class Logits>
Tokens written(Tokens text, size_t length, const text::SamplerOptions& options, const Logits& logits) {
  text::Sampler sampler(options);
  sampler.accept_prompt(text);
  while (text.size() < length) text.push_back(sampler.sample(logits(text)));
  return text;
}

struct Writing {
  std::string name;
  text::SamplerOptions options;
};
const std::vector<Writing> kWritings{
    {"greedy", {.temperature = 0}},
    {"warm", {.temperature = 0.7, .top_k = 40, .top_p = 0.95, .seed = 7}},
    {"penalized", {.temperature = 2, .repetition_penalty = 1.1, .frequency_penalty = 0.2, .seed = 11}}};
const std::vector<Tokens> kPrompts{{5}, {5, 17, 9, 40, 3, 22, 8, 30}, {4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6}};

class SpeculativeTexts : public testing::TestWithParam<std::string> {};

// Guesses are right, wrong now and then, wrong nearly always, looked up: the tokens are the same, up to the last that
// the context has room for.
TEST_P(SpeculativeTexts, AreThoseWithoutGuesses) {
  LanguageModel plain(kModels / GetParam(), {.context = kRoom}),
      model(kModels / GetParam(), {.context = kRoom});
  for (const Writing& writing : kWritings)
    for (const Tokens& prompt : kPrompts) {
      const Tokens wanted =
          written(prompt, kRoom + 1, writing.options, [&](const Tokens& text) { return plain.logits(text); });
      const auto expect_same = [&](std::unique_ptr<Drafter> drafter, int64_t most, const std::string& how) {
        SpeculativeModel guessed(model, std::move(drafter), most);
        (void)model.logits(Tokens{63, 63});  // nothing of the text is known
        EXPECT_EQ(written(prompt, kRoom + 1, writing.options,
                          [&](const Tokens& text) { return guessed.logits(text); }),
                  wanted)
            << writing.name << ", " << how << ", prompt of " << prompt.size();
        return std::pair(guessed.drafted_tokens(), guessed.accepted_tokens());
      };
      const auto [drafted, accepted] = expect_same(std::make_unique<TextDrafter>(wanted, 1000), 7, "right");
      EXPECT_EQ(accepted, drafted);
      EXPECT_GT(drafted, (kRoom - std::ssize(prompt)) * 7 / 8 - 6);
      const auto [partly, kept] =
          expect_same(std::make_unique<TextDrafter>(wanted, 5), 7, "each fifth wrong");
      EXPECT_GT(kept, 0);
      EXPECT_LT(kept, partly);
      const auto [bad, none] = expect_same(std::make_unique<TextDrafter>(wanted, 1), 3, "wrong");
      EXPECT_EQ(none, 0);
      EXPECT_EQ(bad, kRoom - std::ssize(prompt) - (prompt.size() > 1 ? 1 : 0));  // one in each step
      (void)expect_same(std::make_unique<LookUpDrafter>(1), 7, "looked up by one token");
      (void)expect_same(std::make_unique<LookUpDrafter>(), 5, "looked up");
    }
}
INSTANTIATE_TEST_SUITE_P(Families, SpeculativeTexts, testing::Values("llama", "mistral", "gptoss"),
                         [](const auto& each) { return each.param; });

// An answer ends inside a run of right guesses, and another text goes on from there.
TEST(SpeculativeModel, GoesOnBehindAnEndAmongTheGuesses) {
  LanguageModel plain(kModels / "llama", {.context = kRoom}), model(kModels / "llama", {.context = kRoom});
  const auto logits = [&](const Tokens& text) { return plain.logits(text); };
  const Tokens whole = written({5, 17, 9}, 30, {.temperature = 0}, logits);
  SpeculativeModel guessed(model, std::make_unique<TextDrafter>(whole, 1000));
  Tokens text =
      written({5, 17, 9}, 7, {.temperature = 0}, [&](const Tokens& t) { return guessed.logits(t); });
  EXPECT_EQ(text, Tokens(whole.begin(), whole.begin() + 7));
  EXPECT_GT(model.known_tokens(whole), 7);  // guesses are in the cache
  text.insert(text.end(), {60, 61, 62});
  const auto got = guessed.logits(text);
  EXPECT_EQ(model.computed_tokens(), 3);
  const std::vector<float> kept(got.begin(), got.end());
  EXPECT_LT(relative_error(kept, plain.logits(text)), 1e-5);
  // Back to a text whose tail was checked: answered by what is known of another text no more.
  text[7] = 59;
  const auto other = guessed.logits(text);
  const std::vector<float> changed(other.begin(), other.end());
  EXPECT_LT(relative_error(changed, plain.logits(text)), 1e-5);
}

TEST(SpeculativeModel, ChecksNoGuessesWithAPrompt) {
  LanguageModel model(kModels / "llama", {.context = kRoom});
  auto drafter = std::make_unique<TextDrafter>(Tokens(50, 5), 1000);
  const TextDrafter& calls = *drafter;
  SpeculativeModel guessed(model, std::move(drafter), 2);
  (void)guessed.logits(Tokens{5, 17, 9, 40});
  EXPECT_EQ(calls.calls, 0);
  EXPECT_EQ(model.computed_tokens(), 4);
  Tokens text{5, 17, 9, 40, 8};
  (void)guessed.logits(text);
  EXPECT_EQ(calls.calls, 1);
  EXPECT_EQ(model.computed_tokens(), 2);
  EXPECT_EQ(guessed.drafted_tokens(), 1);
  EXPECT_EQ(guessed.compile_seconds(), model.compile_seconds() + 1);
  text.insert(text.end(), {5, 6});  // one was right: up to three more, here two
  (void)guessed.logits(std::span(text).first(6));
  (void)guessed.logits(text);
  EXPECT_EQ(model.computed_tokens(), 3);
  EXPECT_EQ(guessed.drafted_tokens(), 3);
  EXPECT_EQ(guessed.accepted_tokens(), 1);
  EXPECT_EQ(error_of<Error>([&] { SpeculativeModel(model, nullptr, 8); }),
            "[draft] 8 tokens are guessed at once at most; give 1 to 7");
}

TEST(LookUpDrafter, GuessesWhatFollowedTheLongestPassage) {
  LookUpDrafter two(2);
  EXPECT_THAT(two.draft(Tokens{1, 2, 3, 4, 9, 2, 3}, 2), ElementsAre(4, 9));
  EXPECT_THAT(two.draft(Tokens{1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3}, 3),
              ElementsAre(4, 9, 2));                                          // longer, if older
  EXPECT_THAT(two.draft(Tokens{2, 3, 4, 2, 3, 5, 2, 3}, 1), ElementsAre(5));  // the last of equals
  EXPECT_THAT(two.draft(Tokens{1, 2, 3, 4, 9, 8, 3}, 2), IsEmpty());
  EXPECT_THAT(two.draft(Tokens{8, 1, 2, 1, 2}, 5), ElementsAre(1, 2, 1, 2, 1));  // goes on with guesses
  EXPECT_THAT(LookUpDrafter(3).draft(Tokens(40, 7), 4), ElementsAre(7, 7, 7, 7));
  EXPECT_THAT(two.draft(Tokens{}, 4), IsEmpty());
  EXPECT_THAT(LookUpDrafter(1).draft(Tokens{6}, 4), IsEmpty());
  EXPECT_EQ(error_of<Error>([] { LookUpDrafter(0); }), "[draft] 0 tokens must agree at least; give 1 to 16");
}

/// Writes a Llama of random weights that reads bytes.
void write_random_llama(const std::filesystem::path& path, int64_t layers, int64_t size, uint64_t seed) {
  const Llama::Options options{.layers = layers, .size = size, .heads = 4, .kv_heads = 2};
  Graph cx;
  cx.set_seed(seed);
  const Llama module(cx, options);
  write_llama_gguf(options, nn::state_dict(module), kRoom, text::byte_tokenizer(), {}, path);
}

TEST(ModelDrafter, GuessesWhatItsModelFindsLikeliest) {
  const test::TemporaryFolder folder;
  const auto large = folder.path() / "large.gguf", small = folder.path() / "small.gguf";
  write_random_llama(large, 2, 32, 1);
  write_random_llama(small, 1, 16, 2);
  const auto open = [](const std::filesystem::path& path) { return LanguageModel(path, {.context = kRoom}); };
  LanguageModel plain = open(large), model = open(large);
  for (const Writing& writing : kWritings) {
    const Tokens wanted =
        written({5, 200, 9}, 60, writing.options, [&](const Tokens& text) { return plain.logits(text); });
    const auto expect_same = [&](const std::filesystem::path& draft) {
      SpeculativeModel guessed(model, std::make_unique<ModelDrafter>(open(draft), model, 0));
      (void)model.logits(Tokens{63, 63});
      EXPECT_EQ(
          written({5, 200, 9}, 60, writing.options, [&](const Tokens& text) { return guessed.logits(text); }),
          wanted)
          << writing.name << " " << draft;
      return std::pair(guessed.drafted_tokens(), guessed.accepted_tokens());
    };
    const auto [own, accepted] = expect_same(large);
    EXPECT_GT(own, 0);
    if (writing.name == "greedy") {
      EXPECT_GT(accepted, own - 8);  // the last guesses are behind the end
    }
    const auto [others, few] = expect_same(small);
    EXPECT_GT(others, 0);
    EXPECT_LT(few, others);
  }
}

TEST(ModelDrafter, StopsWhereItIsNotSure) {
  LanguageModel model(kModels / "llama", {.context = kRoom}), draft(kModels / "llama", {.context = kRoom});
  text::Sampler chances;
  Tokens text{5, 17, 9, 40, 3, 22};
  const double sure = chances.candidates(draft.logits(text)).front().probability;
  ModelDrafter above(std::move(draft), model, sure * 1.001);
  EXPECT_THAT(above.draft(text, 4), IsEmpty());
  ModelDrafter below(LanguageModel(kModels / "llama", {.context = kRoom}), model, sure * 0.999);
  const Tokens drafts = below.draft(text, 4);
  ASSERT_FALSE(drafts.empty());
  EXPECT_EQ(drafts.front(), chances.candidates(model.logits(text)).front().id);
}

TEST(ModelDrafter, SaysWhichModelsDoNotFit) {
  const test::TemporaryFolder folder;
  write_random_llama(folder.path() / "bytes.gguf", 1, 16, 2);
  const auto open = [](const std::filesystem::path& path, int64_t context) {
    return LanguageModel(path, {.context = context});
  };
  LanguageModel model = open(kModels / "llama", kRoom);
  const auto refused = [&](LanguageModel draft, double probability = 0.5) {
    return error_of<Error>([&] { ModelDrafter(std::move(draft), model, probability); });
  };
  EXPECT_EQ(refused(open(folder.path() / "bytes.gguf", kRoom)),
            "[draft] the draft model has 256 tokens and the model 64; choose a draft model with the same "
            "tokenizer");
  EXPECT_EQ(
      refused(open(kModels / "llama", 40)),
      "[draft] the context of the draft model is 40 and that of the model 96; open it with as large a one");
  EXPECT_EQ(refused(open(kModels / "llama", kRoom), 1.5),
            "[draft] the least probability is 1.5; give 0 to 1");
  const std::filesystem::path other = folder.path() / "other";
  copy(kModels / "llama", other);
  std::string tokens = test::content_of(other / "tokenizer.json");
  const size_t at = tokens.find("\"Z\"");
  ASSERT_NE(at, std::string::npos);
  std::ofstream(other / "tokenizer.json") << tokens.replace(at, 3, "\"_\"");
  EXPECT_EQ(
      refused(open(other, kRoom)),
      "[draft] token 55 is '_' in the draft model and 'Z' in the model; choose a draft model with the same "
      "tokenizer");
}

}  // namespace
}  // namespace luminal::models
