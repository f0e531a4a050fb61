#include "serving/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "serving/api_error.h"
#include "unit/serving/scripted_model.h"

namespace luminal::serving {
namespace {

using namespace std::chrono_literals;
using text::TokenId;

/// A model that says "a" for ever.
TokenId endless(std::span<const TokenId>) {
  static const TokenId a = tiny_tokens("xa").back();
  return a;
}

std::vector<Answer> one_answer(const TokenModel& model, const std::string& prompt, int64_t tokens) {
  std::vector<Answer> answers;
  answers.emplace_back(tiny_vocabulary(), AnswerOptions{.sampler = {.temperature = 0}, .most_tokens = tokens},
                       tiny_tokens(prompt), model.context());
  return answers;
}

struct Ended {
  std::string text;
  int status = 0;  ///< of its error
  int64_t reused = 0;
};
Ended wait_for_end(const Ticket& ticket) {
  Ended ended;
  for (;;) {
    const std::optional<Event> event = ticket.box().receive(10s);
    if (!event) {
      ADD_FAILURE() << "nothing more came";
      return ended;
    }
    if (event->error) {
      ended.status = api_error_of(event->error).status();
      return ended;
    }
    ended.text += event->piece.text;
    ended.reused = event->reused_tokens;
    if (event->piece.finish) return ended;
  }
}
int refused_status(Scheduler& scheduler, const std::string& client, std::vector<Answer> answers) {
  try {
    const Ticket ticket = scheduler.submit(client, std::move(answers));
    return 0;
  } catch (const ApiError& error) {
    return error.status();
  }
}
template <class Condition>
[[nodiscard]] bool comes_true(Condition&& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

TEST(Scheduler, AnswersTakeTurns) {
  ScriptedModel model(2, endless);
  model.delay = 1ms;
  Metrics metrics;
  {
    Scheduler scheduler(model, {.alone_tokens = 4, .shared_tokens = 2}, metrics);
    const Ticket first = scheduler.submit("a", one_answer(model, "first", 30)),
                 second = scheduler.submit("b", one_answer(model, "other", 30));
    EXPECT_EQ(wait_for_end(first).text, std::string(30, 'a'));
    EXPECT_EQ(wait_for_end(second).text, std::string(30, 'a'));
    EXPECT_EQ(scheduler.waiting(), 0);
  }
  int changes = 0;
  size_t most = 0;
  for (size_t i = 1; i < model.log.size(); ++i) {
    const auto& [sequence, text] = model.log[i];
    if (sequence != model.log[i - 1].first) ++changes;
    for (size_t j = i; j-- > 0;)
      if (model.log[j].first == sequence) {
        most = std::max(most, text.size() - model.log[j].second.size());
        break;
      }
  }
  EXPECT_GT(changes, 40);
  EXPECT_LE(most, 4);  // of a prompt, in one step
  EXPECT_THAT(metrics.to_text({}), testing::HasSubstr("luminal_generated_tokens_total 60\n"));
}

// While an answer is written, prompts of others take turns: between two of its tokens lies a part of one of them.
TEST(Scheduler, LongPromptsDoNotHoldUpAnswers) {
  ScriptedModel model(3, endless);
  model.delay = 1ms;
  Metrics metrics;
  {
    Scheduler scheduler(model, {.alone_tokens = 4, .shared_tokens = 4}, metrics);
    const Ticket writing = scheduler.submit("a", one_answer(model, "w", 150));
    ASSERT_TRUE(writing.box().receive(10s));
    const std::string filler(90, 'q');
    const Ticket first = scheduler.submit("b", one_answer(model, "x" + filler, 1)),
                 second = scheduler.submit("c", one_answer(model, "y" + filler, 1));
    for (const Ticket* ticket : {&first, &second}) EXPECT_EQ(wait_for_end(*ticket).text, "a");
    EXPECT_EQ(wait_for_end(writing).text.size(), 149);
  }
  const int64_t writer = model.log.front().first;
  std::map<int64_t, int> others;
  int between = 0, most = 0;
  for (const auto& [sequence, text] : model.log) {
    between = sequence == writer ? 0 : between + 1;
    most = std::max(most, between);
    if (sequence != writer) ++others[sequence];
  }
  EXPECT_EQ(most, 1);
  ASSERT_EQ(others.size(), 2);
  EXPECT_GE(others.begin()->second, 20);
  EXPECT_GE(others.rbegin()->second, 20);
}

// One client sends many requests at once, another few: with one sequence they alternate.
TEST(Scheduler, NoClientWaitsForAllOfAnothers) {
  ScriptedModel model(1, endless);
  model.delay = 2ms;
  Metrics metrics;
  Scheduler scheduler(model, {}, metrics);
  std::vector<Ticket> greedy, modest;
  for (int i = 0; i < 6; ++i) greedy.push_back(scheduler.submit("greedy", one_answer(model, "x", 5)));
  for (int i = 0; i < 2; ++i) modest.push_back(scheduler.submit("modest", one_answer(model, "y", 5)));
  for (const Ticket& ticket : modest) (void)wait_for_end(ticket);
  EXPECT_GE(scheduler.waiting(), 2);  // of the greedy one's: two of six went before
  for (const Ticket& ticket : greedy) EXPECT_EQ(wait_for_end(ticket).text, "aaaaa");
}

TEST(Scheduler, WhatIsLeftStops) {
  ScriptedModel model(1, endless);
  model.delay = 1ms;
  Metrics metrics;
  Scheduler scheduler(model, {}, metrics);
  auto running = std::make_unique<Ticket>(scheduler.submit("a", one_answer(model, "x", 100000)));
  auto waiting = std::make_unique<Ticket>(scheduler.submit("a", one_answer(model, "y", 100000)));
  const Ticket last = scheduler.submit("a", one_answer(model, "z", 3));
  ASSERT_TRUE(running->box().receive(10s));
  waiting.reset();
  running.reset();
  EXPECT_EQ(wait_for_end(last).text, "aaa");
  EXPECT_TRUE(comes_true([&] { return scheduler.running() == 0; }));
  EXPECT_THAT(metrics.to_text({}), testing::HasSubstr("luminal_answers_total{finish=\"cancelled\"} 2\n"));
}

TEST(Scheduler, TheQueueHasLimitsByClientAndInAll) {
  ScriptedModel model(1, endless);
  model.delay = 5ms;
  Metrics metrics;
  Scheduler scheduler(model, {.queue = 2}, metrics);
  std::vector<Ticket> tickets;
  tickets.push_back(scheduler.submit("a", one_answer(model, "x", 1000)));
  ASSERT_TRUE(comes_true([&] { return scheduler.running() == 1; }));
  for (int i = 0; i < 2; ++i) tickets.push_back(scheduler.submit("a", one_answer(model, "x", 1000)));
  EXPECT_EQ(refused_status(scheduler, "a", one_answer(model, "x", 1)), 429);
  for (const char* client : {"b", "b", "c", "c", "d", "d"})
    tickets.push_back(scheduler.submit(client, one_answer(model, "x", 1)));
  EXPECT_EQ(refused_status(scheduler, "e", one_answer(model, "x", 1)), 429);
  tickets.pop_back();  // gives its place back at once
  EXPECT_EQ(refused_status(scheduler, "e", one_answer(model, "x", 1)), 0);
}

TEST(Scheduler, AConversationGoesOnInItsCache) {
  ScriptedModel model(2, endless);
  Metrics metrics;
  Scheduler scheduler(model, {}, metrics);
  const auto told = [&](const std::string& prompt) {
    return wait_for_end(scheduler.submit("a", one_answer(model, prompt, 2))).reused;
  };
  const auto size = [](const std::string& prompt) { return std::ssize(tiny_tokens(prompt)); };
  EXPECT_EQ(told("hello"), 0);
  EXPECT_EQ(told("other"), 0) << "the free sequence that knows nothing was used longest ago";
  EXPECT_GE(told("hello again"), size("hello"));
  EXPECT_GE(told("other thing"), size("other"));
  EXPECT_EQ(told("other thing"), size("other thing") - 1);
}

// Four answers to a prompt compute it once, and the last token of it each.
TEST(Scheduler, AnswersToOnePromptComputeItOnce) {
  ScriptedModel model(4, endless);
  Metrics metrics;
  const std::string prompt(150, 'q');
  {
    Scheduler scheduler(model, {.alone_tokens = 16, .shared_tokens = 16}, metrics);
    std::vector<Answer> answers;
    for (int i = 0; i < 4; ++i) answers.push_back(std::move(one_answer(model, prompt, 1).front()));
    const Ticket ticket = scheduler.submit("a", std::move(answers));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(wait_for_end(ticket).text, "a");
  }
  const auto tokens = std::ssize(tiny_tokens(prompt));
  EXPECT_GE(model.computed, tokens);
  EXPECT_LE(model.computed, tokens + 4 * 16);
}

TEST(Scheduler, AnErrorEndsItsAnswerAlone) {
  const TokenId z = tiny_tokens("z").back();
  ScriptedModel model(2, [&](std::span<const TokenId> text) {
    if (std::ranges::find(text, z) != text.end()) throw Error("[test] it broke");
    return endless(text);
  });
  Metrics metrics;
  Scheduler scheduler(model, {}, metrics);
  const Ticket broken = scheduler.submit("a", one_answer(model, "z", 50)),
               whole = scheduler.submit("a", one_answer(model, "q", 50));
  EXPECT_EQ(wait_for_end(broken).status, 500);
  EXPECT_EQ(wait_for_end(whole).text, std::string(50, 'a'));
}

TEST(Scheduler, DrainsAndCuts) {
  ScriptedModel model(1, endless);
  model.delay = 2ms;
  Metrics metrics;
  Scheduler scheduler(model, {}, metrics);
  const Ticket running = scheduler.submit("a", one_answer(model, "x", 20)),
               waiting = scheduler.submit("a", one_answer(model, "y", 20));
  ASSERT_TRUE(comes_true([&] { return scheduler.running() == 1; }));
  scheduler.drain();
  EXPECT_EQ(wait_for_end(waiting).status, 503);
  EXPECT_EQ(refused_status(scheduler, "b", one_answer(model, "z", 1)), 503);
  EXPECT_EQ(wait_for_end(running).text, std::string(20, 'a'));
}

TEST(Scheduler, CutsWhatRunsOn) {
  ScriptedModel model(1, endless);
  model.delay = 2ms;
  Metrics metrics;
  Scheduler scheduler(model, {}, metrics);
  const Ticket running = scheduler.submit("a", one_answer(model, "x", 100000));
  ASSERT_TRUE(running.box().receive(10s));
  scheduler.cut();
  EXPECT_EQ(wait_for_end(running).status, 503);
}

}  // namespace
}  // namespace luminal::serving
