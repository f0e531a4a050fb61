#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <string>

#include "serving/httplib.h"

namespace luminal::serving {

/// A client's connection with limits: on the bytes of heads and bodies, and on the time that they take. One thread
/// serves it, and finds it by current().
class Connection : public httplib::Stream {
 public:
  struct Limits {
    size_t head_bytes = size_t{1} << 16, body_bytes = size_t{1} << 22;
    std::chrono::seconds head{15}, body{60}, write{30}, idle{15};
  };
  /// Takes over the socket. `ending` becomes true when the server ends: nothing waits longer then.
  Connection(int socket, const Limits& limits, const std::atomic<bool>& ending);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() override;

  /// That of this thread; there is one while a request is handled.
  [[nodiscard]] static Connection& current();

  /// Whether a request begins before the client has been idle too long or the server ends.
  [[nodiscard]] bool wait_for_request();
  void begin_head();
  void begin_body();
  /// Whether the client has closed its side.
  [[nodiscard]] bool client_left() const;
  /// No further request is read: what was sent has not been read to its end, or nobody knows where that is.
  void close_after_answer() { closes_ = true; }
  [[nodiscard]] bool closes() const { return closes_; }
  /// Sends an answer to a request that is not read.
  void refuse(const std::string& answer);
  /// Lets the client read what was sent although it still sends.
  void close();

  [[nodiscard]] bool is_readable() const override;
  [[nodiscard]] bool is_writable() const override;
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  [[nodiscard]] socket_t socket() const override { return socket_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// Whether one of the poll events comes before `deadline` and the server's end.
  [[nodiscard]] bool wait_for(short events, Time deadline) const;

  int socket_;
  const Limits& limits_;
  const std::atomic<bool>& ending_;
  std::array<char, 4096> buffer_{};
  size_t at_ = 0, filled_ = 0;
  size_t budget_ = 0;  ///< bytes that may still be read
  Time deadline_ = {};
  bool closes_ = false;
};

/// httplib's server, whose connections are of the kind above and each have a thread, up to a limit.
class HttpServer : public httplib::Server {
 public:
  /// `refusal`: what a connection beyond the limit is sent, a whole answer.
  HttpServer(const Connection::Limits& limits, size_t connections, std::string refusal);
  /// A longer queue of connections that nobody has accepted yet than httplib's 5. Returns the port.
  /// Errors: Error if the address cannot be listened on.
  int bind(const std::string& host, int port);
  /// Waits and writes end at once, so that connections close.
  void end_connections() { ending_ = true; }

 private:
  bool process_and_close_socket(socket_t socket) override;
  bool process_requests(Connection& connection);

  const Connection::Limits& limits_;
  std::string refusal_;
  std::atomic<bool> ending_{false};
};

}  // namespace luminal::serving
