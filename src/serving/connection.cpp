#include "serving/connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fail.h"
#include "base/log.h"
#include "base/thread.h"

namespace luminal::serving {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How often what waits looks whether the server ends.
constexpr milliseconds kGlance{100};

thread_local Connection* connection_of_thread = nullptr;
/// Whether this thread runs a job only to refuse its connection.
thread_local bool thread_refuses = false;
struct Refusing {
  Refusing() { thread_refuses = true; }
  Refusing(const Refusing&) = delete;
  Refusing& operator=(const Refusing&) = delete;
  ~Refusing() { thread_refuses = false; }
};

bool poll_socket(int socket, short events, milliseconds limit) {
  pollfd entry{socket, events, 0};
  return ::poll(&entry, 1, static_cast<int>(limit.count())) > 0;
}

void ip_and_port(const sockaddr_storage& address, std::string& ip, int& port) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    port = ntohs(v6.sin6_port);
  }
  ip = text.data();
}

/// A thread for each connection, up to a limit. What is beyond it one more thread runs, told to refuse, and what
/// that one is too slow for is dropped by the thread that accepts.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(size_t most) : most_(most) {
    refuser_ = start_thread<std::jthread>([this] { refuse(); });
  }
  void enqueue(std::function<void()> job) override {
    {
      const std::lock_guard lock(mutex_);
      if (idle_ > jobs_.size() || start()) {
        jobs_.push_back(std::move(job));
        wake_.notify_one();
        return;
      }
      if (refuser_ && refused_.size() < kMostRefused) {
        refused_.push_back(std::move(job));
        refuse_.notify_one();
        return;
      }
    }
    const Refusing refusing;
    job();
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    refuse_.notify_all();
    threads_.clear();  // joins
    refuser_.reset();
  }

 private:
  bool start() {
    if (threads_.size() >= most_) return false;
    auto thread = start_thread<std::jthread>([this] { work(); });
    if (thread) threads_.push_back(std::move(*thread));
    if (thread) ++idle_;
    return thread.has_value();
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      --idle_;
      lock.unlock();
      job();
      lock.lock();
      ++idle_;
    }
  }

  void refuse() {
    const Refusing refusing;
    std::unique_lock lock(mutex_);
    for (;;) {
      refuse_.wait(lock, [&] { return ending_ || !refused_.empty(); });
      if (refused_.empty()) return;
      const std::function<void()> job = std::move(refused_.front());
      refused_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  static constexpr size_t kMostRefused = 64;
  size_t most_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable refuse_;
  std::deque<std::function<void()>> jobs_, refused_;
  size_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::jthread> threads_;
  std::optional<std::jthread> refuser_;
};

}  // namespace

Connection::Connection(int socket, const Limits& limits, const std::atomic<bool>& ending)
    : socket_(socket), limits_(limits), ending_(ending) {
  connection_of_thread = this;
}
Connection::~Connection() {
  connection_of_thread = nullptr;
  ::close(socket_);
}

Connection& Connection::current() {
  LUMINAL_CHECK(connection_of_thread != nullptr, "no request is handled here");
  return *connection_of_thread;
}

bool Connection::wait_for(short events, Time deadline) const {
  while (!ending_) {
    const auto rest = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (rest.count() <= 0) return false;
    if (poll_socket(socket_, events, std::min(rest, kGlance))) return true;
  }
  return false;
}

bool Connection::wait_for_request() { return at_ < filled_ || wait_for(POLLIN, Clock::now() + limits_.idle); }
void Connection::begin_head() {
  budget_ = limits_.head_bytes;
  deadline_ = Clock::now() + limits_.head;
}
void Connection::begin_body() {
  // Compressed bodies are shorter, and chunks have heads.
  budget_ = 2 * limits_.body_bytes + limits_.head_bytes;
  deadline_ = Clock::now() + limits_.body;
}

bool Connection::client_left() const { return poll_socket(socket_, POLLRDHUP, milliseconds(0)); }

void Connection::close() {
  // A socket that is closed while data are unread resets the connection, and the answer may be lost.
  constexpr size_t kMostDiscarded = size_t{1} << 24;
  ::shutdown(socket_, SHUT_WR);
  const Time deadline = Clock::now() + std::chrono::seconds(2);
  for (size_t discarded = 0; discarded < kMostDiscarded && wait_for(POLLIN, deadline);) {
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count <= 0) return;
    discarded += static_cast<size_t>(count);
  }
}

void Connection::refuse(const std::string& answer) {
  // Most requests are there at once; data that come later reset the connection, perhaps before the answer is read.
  if (poll_socket(socket_, POLLIN, kGlance))
    (void)::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  (void)::send(socket_, answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(socket_, SHUT_WR);
}

bool Connection::is_readable() const { return at_ < filled_ || wait_for(POLLIN, deadline_); }
bool Connection::is_writable() const {
  return !client_left() && poll_socket(socket_, POLLOUT, milliseconds(0));
}

ssize_t Connection::read(char* to, size_t size) {
  if (budget_ == 0) return -1;
  if (at_ == filled_) {
    if (!wait_for(POLLIN, deadline_)) return -1;
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count <= 0) return count;
    at_ = 0;
    filled_ = static_cast<size_t>(count);
  }
  const size_t count = std::min({size, filled_ - at_, budget_});
  std::memcpy(to, buffer_.data() + at_, count);
  at_ += count;
  budget_ -= count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* from, size_t size) {
  const Time deadline = Clock::now() + limits_.write;
  for (;;) {
    const ssize_t count = ::send(socket_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return count;
    if (!wait_for(POLLOUT, deadline)) return -1;
  }
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    ip_and_port(address, ip, port);
}
void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    ip_and_port(address, ip, port);
}

HttpServer::HttpServer(const Connection::Limits& limits, size_t connections, std::string refusal)
    : limits_(limits), refusal_(std::move(refusal)) {
  new_task_queue = [connections] { return new ConnectionThreads(connections); };
  set_tcp_nodelay(true);
  set_keep_alive_timeout(limits.idle.count());
  set_keep_alive_max_count(std::numeric_limits<int>::max());  // a head says so; nothing counts
  set_post_routing_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.get_header_value("Connection") == "close") response.headers.erase("Keep-Alive");
  });
  set_payload_max_length(limits.body_bytes);
}

int HttpServer::bind(const std::string& host, int port) {
  // httplib lets several servers share a port, and each would get a part of the requests.
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
  if (bound < 0)
    fail("[serve] {}:{} cannot be listened on: {}; choose another --port or --host", host, port,
         std::strerror(errno));
  ::listen(svr_sock_, 1024);
  return bound;
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  Connection connection(socket, limits_, ending_);
  if (thread_refuses) {
    connection.refuse(refusal_);
    return true;
  }
  try {
    return process_requests(connection);
  } catch (const std::exception& error) {
    debug(1, "serve: a connection ends: {}", error.what());
    return false;
  }
}

bool HttpServer::process_requests(Connection& connection) {
  while (connection.wait_for_request()) {
    connection.begin_head();
    bool closed = false, head_read = false;
    const bool answered = process_request(connection, false, closed, [&](httplib::Request& request) {
      head_read = true;
      // Parts of answers and compressed ones: nobody needs them, and streams must not wait for a compressor.
      request.headers.erase("Range");
      request.ranges.clear();
      request.headers.erase("Accept-Encoding");
      connection.begin_body();
    });
    if (!answered || closed || !head_read || connection.closes()) break;
  }
  connection.close();
  return true;
}

}  // namespace luminal::serving
