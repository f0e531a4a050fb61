#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "support/files.h"

// The prompt of `luminal egg` at a terminal.
namespace luminal::cli {
namespace {

/// The program at a terminal of its own. Killed with the object.
class AtTerminal {
 public:
  explicit AtTerminal(const std::filesystem::path& json) {
    process_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (process_ == 0) {
      ::execl(LUMINAL_PROGRAM, "luminal", "egg", "-i", "--to-json", json.c_str(), nullptr);
      ::_exit(127);
    }
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;
  ~AtTerminal() {
    ::close(terminal_);
    if (process_ > 0) (void)wait();
  }

  [[nodiscard]] bool is_there() const { return process_ > 0; }
  void type(const std::string& keys) const {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), std::ssize(keys));
  }
  /// What the terminal shows, up to `last` and including it; all there is if that does not come.
  std::string shown_until(const std::string& last) const {
    constexpr int kPatienceMs = 20'000;
    std::string text;
    while (!text.ends_with(last)) {
      pollfd ready{.fd = terminal_, .events = POLLIN, .revents = 0};
      char piece[256];
      if (::poll(&ready, 1, kPatienceMs) <= 0) break;
      const ssize_t length = ::read(terminal_, piece, sizeof piece);
      if (length <= 0) break;
      text.append(piece, static_cast<size_t>(length));
    }
    return text;
  }
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_ = -1;
  int terminal_ = -1;
};

TEST(Prompt, CtrlCEndsWhatIsTypedAndNotTheSession) {
  const test::TemporaryFolder folder;
  const auto json = folder.path() / "graph.json";
  AtTerminal prompt(json);
  if (!prompt.is_there()) GTEST_SKIP() << "this system gives no terminal";
  const std::string interrupt = "\x03", end_of_input = "\x04", ready = "> ";
  ASSERT_EQ(prompt.shown_until(ready), ready);
  prompt.type("(relation r (i64))\n");
  EXPECT_THAT(prompt.shown_until(ready), testing::EndsWith("\n> "));
  prompt.type("(r\n");  // half a command
  EXPECT_THAT(prompt.shown_until("\n  "), testing::EndsWith("\n  "));
  prompt.type(interrupt);
  EXPECT_THAT(prompt.shown_until(ready), testing::EndsWith("\n> "));
  prompt.type(interrupt);  // nothing is typed
  EXPECT_THAT(prompt.shown_until(ready), testing::EndsWith("\n> "));
  prompt.type("(include \"" + std::string(300, 'x') + "\")\n");  // no error of ours
  EXPECT_THAT(prompt.shown_until(ready), testing::HasSubstr("name too long"));
  prompt.type("(r 7)\n");
  (void)prompt.shown_until(ready);
  prompt.type("(print-size r)\n");
  EXPECT_THAT(prompt.shown_until(ready), testing::HasSubstr("\n1\r\n"));
  prompt.type(end_of_input);
  EXPECT_EQ(prompt.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(json));
}

}  // namespace
}  // namespace luminal::cli
