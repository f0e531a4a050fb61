#include "serving/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "base/stopwatch.h"
#include "base/thread.h"
#include "luminal/cancel.h"
#include "serving/api_error.h"

namespace luminal::serving {
namespace {

ApiError shutting_down() {
  return {503, "the server is shutting down; try again later", {}, "shutting_down"};
}

/// Of an error that no client can mend.
std::exception_ptr error_of_model(const std::exception_ptr& error) {
  const ApiError told = api_error_of(error);
  return std::make_exception_ptr(told.status() == 400 ? ApiError(500, told.what()) : told);
}

constexpr int64_t kClientsThatFillTheQueue = 4;

}  // namespace

void Mailbox::send(Event event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  arrived_.notify_one();
}

std::optional<Event> Mailbox::receive(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (!arrived_.wait_for(lock, limit, [&] { return !events_.empty(); })) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

Scheduler::Scheduler(TokenModel& model, Options options, Metrics& metrics)
    : model_(model), options_(options), metrics_(metrics), slots_(static_cast<size_t>(model.sequences())) {
  thread_ = start_thread<std::jthread>([this] { work(); });
  if (!thread_) fail("[serve] the system gives no thread to compute with");
}

Scheduler::~Scheduler() {
  cut();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
}

int64_t Scheduler::waiting_requests(const Client& client) const {
  std::set<const Mailbox*> boxes;
  for (const auto& job : client.jobs)
    if (job->index == 0) boxes.insert(job->box.get());
  return std::ssize(boxes);
}

int64_t Scheduler::waiting() const {
  const std::lock_guard lock(mutex_);
  int64_t count = 0;
  for (const auto& [name, client] : clients_) count += waiting_requests(client);
  return count;
}

Ticket Scheduler::submit(const std::string& name, std::vector<Answer> answers) {
  const auto box = std::make_shared<Mailbox>();
  {
    const std::lock_guard lock(mutex_);
    if (draining_) throw shutting_down();
    forget_left();
    int64_t all = 0;
    for (const auto& [other, client] : clients_) all += waiting_requests(client);
    const int64_t free = std::ranges::count(slots_, true, &Slot::free);
    Client& client = clients_[name];
    if (waiting_requests(client) >= options_.queue + free ||
        all >= kClientsThatFillTheQueue * options_.queue + free)
      throw ApiError(429, fmt::format("{} requests wait already; try again later", all), {}, "queue_full");
    for (size_t i = 0; i < answers.size(); ++i)
      client.jobs.push_back(std::make_unique<Job>(box, i, name, std::move(answers[i])));
  }
  wake_.notify_all();
  return Ticket(box);
}

/// Jobs whose requests were given up while they waited.
void Scheduler::forget_left() {
  for (auto& [name, client] : clients_)
    std::erase_if(client.jobs, [&](const std::unique_ptr<Job>& job) {
      if (job->box->left()) metrics_.count_answer("cancelled", 0, 0);
      return job->box->left();
    });
  std::erase_if(clients_,
                [](const auto& entry) { return entry.second.jobs.empty() && entry.second.running == 0; });
}

void Scheduler::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  for (auto& [name, client] : clients_)
    for (const auto& job : std::exchange(client.jobs, {})) {
      job->box->stop();
      end_with(*job, std::make_exception_ptr(shutting_down()), "shutdown");
    }
}

void Scheduler::cut() {
  drain();
  const std::lock_guard lock(mutex_);
  for (const auto& box : running_boxes_) box->stop();
}

void Scheduler::work() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      remove_ended();
      forget_left();
      admit();
      if (running_.empty()) {
        if (ending_) return;
        wake_.wait(lock, [&] { return ending_ || !clients_.empty(); });
        continue;
      }
    }
    try {
      round();
    } catch (...) {  // no memory for a step: nobody knows which answers got theirs
      for (const auto& job : running_)
        if (!job->over) end_with(*job, std::current_exception(), "error");
    }
  }
}

std::map<std::string, Scheduler::Client>::iterator Scheduler::next_client() {
  auto best = clients_.end();
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    const Client& client = it->second;
    if (client.jobs.empty()) continue;
    if (best == clients_.end() || std::pair(client.running, client.last_served) <
                                      std::pair(best->second.running, best->second.last_served))
      best = it;
  }
  return best;
}

void Scheduler::admit() {
  while (std::ranges::any_of(slots_, &Slot::free)) {
    const auto client = next_client();
    if (client == clients_.end()) return;
    std::unique_ptr<Job> job = std::move(client->second.jobs.front());
    client->second.jobs.pop_front();
    ++client->second.running;
    client->second.last_served = ++clock_;
    start(std::move(job));
  }
}

void Scheduler::start(std::unique_ptr<Job> job) {
  size_t best = slots_.size();
  int64_t most = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].free) continue;
    const int64_t known = model_.known_tokens(job->answer.tokens(), static_cast<int64_t>(i));
    if (best == slots_.size() || known > most ||
        (known == most && slots_[i].last_used < slots_[best].last_used)) {
      best = i;
      most = known;
    }
  }
  slots_[best] = {false, ++clock_};
  job->sequence = static_cast<int64_t>(best);
  const auto prompt = static_cast<int64_t>(job->answer.prompt_size());
  job->reused = std::min(most, prompt - 1);  // the last token's logits are wanted
  job->asked = static_cast<size_t>(job->reused);
  metrics_.count_prompt(prompt, job->reused);
  running_boxes_.push_back(job->box);
  running_.push_back(std::move(job));
  ++running_count_;
}

/// Those that write each get a token; of those whose prompts are not known yet one gets a part of it, the one that
/// waited longest, so that long prompts do not hold up the others' answers.
std::vector<Scheduler::Job*> Scheduler::jobs_of_round() {
  std::vector<Job*> chosen;
  Job* prompt = nullptr;
  for (const auto& job : running_) {
    if (end_if_stopped(*job)) continue;
    if (job->asked + 1 >= job->answer.tokens().size())
      chosen.push_back(job.get());
    else if (prompt == nullptr || job->last_round < prompt->last_round)
      prompt = job.get();
  }
  if (prompt != nullptr) {
    take_over_prompt(*prompt);
    chosen.push_back(prompt);
  }
  ++rounds_;
  for (Job* job : chosen) job->last_round = rounds_;
  return chosen;
}

/// Answers to one prompt get ahead together: each goes on where the furthest one is.
void Scheduler::take_over_prompt(Job& job) {
  constexpr int64_t kLeastGain = 8;  // fewer tokens are as soon computed with those that follow
  const auto prompt = static_cast<int64_t>(job.answer.prompt_size());
  int64_t most = static_cast<int64_t>(job.asked) + kLeastGain, best = job.sequence;
  for (int64_t sequence = 0; sequence < model_.sequences(); ++sequence) {
    if (sequence == job.sequence) continue;
    const int64_t known = std::min(model_.known_tokens(job.answer.tokens(), sequence), prompt - 1);
    if (known >= most) {
      most = known + 1;
      best = sequence;
    }
  }
  if (best == job.sequence) return;
  const int64_t known = most - 1, more = known - static_cast<int64_t>(job.asked);
  model_.copy_tokens(best, job.sequence, known);
  job.asked = static_cast<size_t>(known);
  job.reused += more;
  metrics_.count_prompt(0, more);
}

void Scheduler::round() {
  const auto most =
      static_cast<size_t>(running_.size() == 1 ? options_.alone_tokens : options_.shared_tokens);
  const std::vector<Job*> jobs = jobs_of_round();
  std::vector<SequenceStep> steps;
  for (Job* job : jobs) {
    const std::span<const text::TokenId> all(job->answer.tokens());
    job->asked = std::min(all.size(), job->asked + most);
    steps.push_back({job->sequence, all.first(job->asked), &job->box->stopped()});
  }
  model_.compute(steps, [&](size_t step, std::span<const float> logits, const std::exception_ptr& error) {
    step_done(*jobs[step], logits, error);
  });
}

bool Scheduler::end_if_stopped(Job& job) {
  if (!job.box->stopped()) return false;
  if (job.box->left())
    end(job, "cancelled");
  else
    end_with(job, std::make_exception_ptr(shutting_down()), "shutdown");
  return true;
}

void Scheduler::step_done(Job& job, std::span<const float> logits, const std::exception_ptr& error) {
  if (end_if_stopped(job)) return;
  if (error) return end_with(job, error_of_model(error), "error");
  if (job.asked < job.answer.tokens().size()) return;  // the prompt goes on
  Event event{.answer = job.index, .reused_tokens = job.reused};
  const int64_t before = job.answer.written();
  try {
    event.piece = job.answer.next(logits);
  } catch (...) {
    return end_with(job, std::current_exception(), "error");
  }
  if (const int64_t more = job.answer.written() - before; more > 0) metrics_.count_tokens(more);
  if (job.first_token == Time()) {
    job.first_token = std::chrono::steady_clock::now();
    metrics_.first_token_after(std::chrono::duration<double>(job.first_token - job.submitted).count());
  }
  const std::optional<Finish> finish = event.piece.finish;
  event.written = job.answer.written();
  job.box->send(std::move(event));
  if (finish) end(job, *finish == Finish::Stop ? "stop" : "length");
}

void Scheduler::end(Job& job, const std::string& how) {
  job.over = true;
  metrics_.count_answer(how, job.answer.written(),
                        job.first_token == Time() ? 0 : seconds_since(job.first_token));
}

void Scheduler::end_with(Job& job, const std::exception_ptr& error, const std::string& how) {
  end(job, how);
  job.box->send({.answer = job.index, .error = error});
}

void Scheduler::remove_ended() {
  for (const auto& job : running_) {
    if (!job->over) continue;
    slots_[static_cast<size_t>(job->sequence)] = {true, ++clock_};
    --clients_.at(job->client).running;
    running_boxes_.erase(std::ranges::find(running_boxes_, job->box));
    --running_count_;
  }
  std::erase_if(running_, [](const std::unique_ptr<Job>& job) { return job->over; });
}

}  // namespace luminal::serving
