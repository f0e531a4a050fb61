#include "serving/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "luminal/error.h"
#include "support/files.h"
#include "unit/serving/scripted_model.h"

namespace luminal::serving {
namespace {

using testing::HasSubstr;
using text::TokenId;

std::vector<float> logits_of(TokenId id) {
  std::vector<float> logits(64, 0);
  logits[static_cast<size_t>(id)] = 5;
  return logits;
}

struct Whole {
  std::string text;
  std::vector<TokenShare> tokens;
  std::optional<Finish> finish;
};
/// The answer that a model gives which says these tokens.
Whole said(AnswerOptions options, const std::vector<TokenId>& ids, int64_t context = 100) {
  options.sampler.temperature = 0;
  Answer answer(tiny_vocabulary(), options, tiny_tokens("Hi"), context);
  Whole whole;
  for (const TokenId id : ids) {
    EXPECT_FALSE(whole.finish);
    Piece piece = answer.next(logits_of(id));
    whole.text += piece.text;
    whole.tokens.insert(whole.tokens.end(), piece.tokens.begin(), piece.tokens.end());
    whole.finish = piece.finish;
  }
  return whole;
}
const TokenId kEnd = *tiny_tokenizer().find("</s>");

std::vector<TokenId> followed_by_end(const std::string& text) {
  std::vector<TokenId> ids = tiny_tokens(text);
  ids.push_back(kEnd);
  return ids;
}

TEST(Answer, EndsWhereItIsComplete) {
  const Whole whole = said({}, followed_by_end("yes"));
  EXPECT_EQ(whole.text, "yes");
  EXPECT_EQ(whole.finish, Finish::Stop);
  EXPECT_TRUE(whole.tokens.empty());
}

TEST(Answer, EndsAtItsLengthAndAtTheContext) {
  EXPECT_EQ(said({.most_tokens = 3}, tiny_tokens("abc")).finish, Finish::Length);
  EXPECT_EQ(said({.most_tokens = 3}, tiny_tokens("abc")).text, "abc");
  // The last token needs no place in the cache: nothing is computed behind it.
  const auto prompt = std::ssize(tiny_tokens("Hi"));
  EXPECT_EQ(said({}, tiny_tokens("abc"), prompt + 2).finish, Finish::Length);
  EXPECT_EQ(said({}, tiny_tokens("ab"), prompt + 2).finish, std::nullopt);
}

TEST(Answer, EndsBeforeAStopStringThatSeveralTokensMake) {
  const Whole whole = said({.stops = {"end"}, .logprobs = true}, tiny_tokens("to the end"));
  EXPECT_EQ(whole.text, "to the ");
  EXPECT_EQ(whole.finish, Finish::Stop);
  std::string shown;
  for (const TokenShare& token : whole.tokens) {
    EXPECT_EQ(token.begin, shown.size());
    shown += tiny_vocabulary().shown(token.id);
  }
  EXPECT_EQ(shown, "to the ");  // the tokens of the stop string are none of the answer's
  EXPECT_EQ(said({.stops = {"end", "zzz"}}, followed_by_end("en")).text, "en");
}

TEST(Answer, TellsTheModelsShares) {
  const Whole whole = said({.sampler = {.logit_bias = {{7, 100}}}, .logprobs = true, .top_logprobs = 2}, {9});
  ASSERT_EQ(whole.tokens.size(), 1);
  const double total = std::log(std::exp(5) + 63);  // of the logits, one 5 and 63 zeros
  EXPECT_EQ(whole.tokens[0].id, 7);                 // the bias chose it
  EXPECT_NEAR(whole.tokens[0].logprob, -total, 1e-9);
  ASSERT_EQ(whole.tokens[0].top.size(), 2);
  EXPECT_EQ(whole.tokens[0].top[0].first, 9);
  EXPECT_NEAR(whole.tokens[0].top[0].second, 5 - total, 1e-9);
  EXPECT_EQ(whole.tokens[0].top[1].first, 0);
}

TEST(Answer, FollowsItsGrammar) {
  AnswerOptions options;
  options.grammar.emplace("root ::= \"no\" | \"not\"");
  const TokenId n = tiny_tokens("n").back(), o = tiny_tokens("no").back(), t = tiny_tokens("t").back();
  EXPECT_EQ(said(options, {t, t, kEnd}).text, "no");  // what is said is not allowed, but for the end
  EXPECT_EQ(said(options, {n, o, t, t}).text, "not");
  EXPECT_EQ(said(options, {n, o, t, t}).finish, Finish::Stop);
}

TEST(Answer, RefusesTokensThatThereAreNot) {
  EXPECT_EQ(test::error_of<Error>([] { (void)said({.sampler = {.logit_bias = {{64, 1}}}}, {}); }),
            "'logit_bias' names token 64, and there are 64 tokens");
}

}  // namespace
}  // namespace luminal::serving
