// A terminal is asked for its attributes, and is afterwards as it was: its modes and what was typed.
#include "hone/base/terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <future>

namespace hone::terminal {
namespace {

volatile sig_atomic_t g_interrupted = 0;

class AskedTerminal : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::openpty(&keyboard_, &screen_, nullptr, nullptr, nullptr), 0); }
  void TearDown() override {
    termios modes{};
    EXPECT_EQ(::tcgetattr(screen_, &modes), 0);
    for (tcflag_t mode : {ICANON, ECHO, ISIG}) EXPECT_TRUE(modes.c_lflag & mode);
    ::close(screen_), ::close(keyboard_);
  }

  void type(std::string_view keys) { ASSERT_EQ(::write(keyboard_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size())); }

  // What the terminal shows up to `end`; all that comes in half a second if it does not come.
  std::string shown(std::string_view end) {
    std::string text;
    for (pollfd ready{keyboard_, POLLIN, 0}; text.find(end) == text.npos && ::poll(&ready, 1, 500) > 0;) {
      char piece[64];
      text.append(piece, static_cast<size_t>(std::max<ssize_t>(0, ::read(keyboard_, piece, sizeof piece))));
    }
    return text;
  }

  // The line that the next reader gets.
  std::string next_line() {
    std::string line;
    for (char key; line.find('\n') == line.npos && ::read(screen_, &key, 1) == 1;) line += key;
    return line;
  }

  std::vector<int> asked(std::string_view answer) {
    auto attributes = std::async(std::launch::async, [&] { return device_attributes(screen_); });
    EXPECT_EQ(shown("\x1b[c"), "\x1b[c");
    type(answer);
    return attributes.get();
  }

  int keyboard_ = -1, screen_ = -1;
};

TEST_F(AskedTerminal, KeysAfterTheAnswerStay) {
  EXPECT_EQ(asked("\x1b[?62;4;22cls\n"), (std::vector<int>{62, 4, 22}));
  EXPECT_EQ(next_line(), "ls\n");
}

TEST_F(AskedTerminal, IsNotAskedWhenSomethingWasTyped) {
  type("ls");
  EXPECT_EQ(shown("ls"), "ls") << "the echo";
  EXPECT_TRUE(device_attributes(screen_).empty());
  EXPECT_EQ(shown("\x1b[c"), "");
  type("\n");
  EXPECT_EQ(next_line(), "ls\n");
}

TEST_F(AskedTerminal, HalfAnAnswerIsDropped) {
  EXPECT_TRUE(asked("\x1b[?62").empty());
  type("ls\n");
  EXPECT_EQ(next_line(), "ls\n");
}

TEST_F(AskedTerminal, AnInterruptComesAfterItIsRestored) {
  g_interrupted = 0;
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { g_interrupted = 1; };
  ::sigaction(SIGINT, &action, &before);
  EXPECT_TRUE(asked("\x03").empty());
  ::sigaction(SIGINT, &before, nullptr);
  EXPECT_TRUE(g_interrupted);
}

}  // namespace
}  // namespace hone::terminal
