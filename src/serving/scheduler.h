#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serving/answer.h"
#include "serving/metrics.h"
#include "serving/token_model.h"

namespace luminal::serving {

/// What happened to one of a request's answers.
struct Event {
  size_t answer = 0;
  Piece piece = {};
  std::exception_ptr error = {};  ///< nothing follows of this answer
  int64_t reused_tokens = 0;      ///< of its prompt: those that a cache held
  int64_t written = 0;            ///< tokens of the answer so far
};

/// Where the events of a request arrive.
class Mailbox {
 public:
  void send(Event event);
  /// Nothing if none came in time.
  [[nodiscard]] std::optional<Event> receive(std::chrono::milliseconds limit);
  /// Nobody reads any more: what the request computes stops.
  void leave() { left_ = stopped_ = true; }
  /// What it computes stops, and its reader is told so.
  void stop() { stopped_ = true; }
  [[nodiscard]] bool left() const { return left_; }
  [[nodiscard]] const std::atomic<bool>& stopped() const { return stopped_; }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;
  std::atomic<bool> left_{false}, stopped_{false};
};

/// A request's place: it is given up when this goes away.
class Ticket {
 public:
  explicit Ticket(std::shared_ptr<Mailbox> box) : box_(std::move(box)) {}
  Ticket(Ticket&&) noexcept = default;
  ~Ticket() {
    if (box_) box_->leave();
  }
  [[nodiscard]] Mailbox& box() const { return *box_; }

 private:
  std::shared_ptr<Mailbox> box_;
};

/// Which answer is computed when. A thread of its own computes in rounds: a token of each answer that is being written,
/// and a part of one prompt. Answers run on the model's sequences; the others wait. When one ends, the client with
/// the fewest running answers is next, of several the one that was served longest ago. An answer gets the free
/// sequence that holds most of its prompt, and takes over what another sequence holds of it beyond that.
/// Thread safety: any number of threads.
class Scheduler {
 public:
  struct Options {
    /// Requests of one client that may wait; of all clients four times as many, so that one alone locks out nobody.
    int64_t queue = 64;
    int64_t alone_tokens = 512, shared_tokens = 128;  ///< of a prompt, at most, in a round
  };
  Scheduler(TokenModel& model, Options options, Metrics& metrics);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();

  /// Errors: ApiError 429 if the queue is full, 503 after drain().
  [[nodiscard]] Ticket submit(const std::string& client, std::vector<Answer> answers);
  /// Refuses what comes from now on and what waits; what runs goes on.
  void drain();
  /// Ends what runs, too.
  void cut();
  [[nodiscard]] int64_t waiting() const;
  [[nodiscard]] int64_t running() const { return running_count_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Job {
    Job(std::shared_ptr<Mailbox> mailbox, size_t which, std::string from, Answer work)
        : box(std::move(mailbox)), index(which), client(std::move(from)), answer(std::move(work)) {}
    std::shared_ptr<Mailbox> box;
    size_t index;
    std::string client;
    Answer answer;
    Time submitted = std::chrono::steady_clock::now(), first_token = {};
    int64_t sequence = -1, reused = 0;
    size_t asked = 0;  ///< tokens that the last step was given
    uint64_t last_round = 0;
    bool over = false;
  };
  struct Slot {
    bool free = true;
    uint64_t last_used = 0;
  };
  struct Client {
    std::deque<std::unique_ptr<Job>> jobs;
    int64_t running = 0;
    uint64_t last_served = 0;
  };

  void work();
  void forget_left();
  void admit();
  [[nodiscard]] std::map<std::string, Client>::iterator next_client();
  void start(std::unique_ptr<Job> job);
  [[nodiscard]] std::vector<Job*> jobs_of_round();
  void take_over_prompt(Job& job);
  void round();
  void step_done(Job& job, std::span<const float> logits, const std::exception_ptr& error);
  /// Whether it was, because its client left or the server stops.
  bool end_if_stopped(Job& job);
  void end(Job& job, const std::string& how);
  void end_with(Job& job, const std::exception_ptr& error, const std::string& how);
  void remove_ended();
  [[nodiscard]] int64_t waiting_requests(const Client& client) const;

  TokenModel& model_;
  Options options_;
  Metrics& metrics_;
  mutable std::mutex mutex_;  ///< of what follows, up to the thread
  std::condition_variable wake_;
  std::map<std::string, Client> clients_;
  bool draining_ = false, ending_ = false;
  std::vector<Slot> slots_;
  std::vector<std::shared_ptr<Mailbox>> running_boxes_;
  uint64_t clock_ = 0;
  // Of the thread alone:
  std::vector<std::unique_ptr<Job>> running_;
  uint64_t rounds_ = 0;
  std::atomic<int64_t> running_count_{0};
  std::optional<std::jthread> thread_;
};

}  // namespace luminal::serving
