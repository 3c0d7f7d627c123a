// Lines as a person types them at a terminal.
#include "hone/cli/line_editor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

namespace hone::cli {
namespace {

// A pseudo-terminal: what the editor reads and writes on one side, keys and a screen on the other.
class LineTerminal {
 public:
  LineTerminal() {
    ::setenv("TERM", "xterm", 1);
    winsize size{24, 80, 0, 0};
    if (::openpty(&keyboard_, &screen_, nullptr, nullptr, &size) != 0) throw std::runtime_error("no pseudo-terminal");
    in_ = ::fdopen(screen_, "r");
    out_ = ::fdopen(::dup(screen_), "w");
  }
  ~LineTerminal() {
    std::fclose(in_), std::fclose(out_);
    ::close(keyboard_);
  }

  LineEditorConfig config(const fs::path& history = {}) const {
    return {.history_file = history, .words = {"/clear", "/help", "/hello"}, .in = in_, .out = out_};
  }

  // Types the keys once the editor takes them: until then the kernel would act on Ctrl-C and Ctrl-D itself.
  std::optional<std::string> read(LineEditor& editor, const std::string& keys) {
    shown.clear();
    std::atomic<bool> done = false;
    std::thread typist([&] {
      for (int tries = 0; tries < 200 && !is_raw(); ++tries) look(50);
      wait_for("ask> ");
      for (size_t sent = 0; sent < keys.size();)
        sent += static_cast<size_t>(std::max<ssize_t>(0, ::write(keyboard_, keys.data() + sent, keys.size() - sent)));
      while (!done) look(50);
    });
    auto line = editor.read("\x1b[1mask> \x1b[0m");
    done = true;
    typist.join();
    return line;
  }

  // The kernel hands over what was written after the writer has gone on: wait for it.
  bool shows(const std::string& text) {
    wait_for(text);
    return shown.find(text) != shown.npos;
  }

  std::string shown;

 private:
  bool is_raw() const {
    termios modes{};
    return ::tcgetattr(screen_, &modes) == 0 && !(modes.c_lflag & ICANON);
  }
  void look(int milliseconds) {
    pollfd ready{keyboard_, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds) <= 0) return;
    char bytes[4096];
    if (auto count = ::read(keyboard_, bytes, sizeof bytes); count > 0) shown.append(bytes, static_cast<size_t>(count));
  }
  void wait_for(const std::string& text) {
    for (int tries = 0; tries < 200 && shown.find(text) == shown.npos; ++tries) look(50);
  }

  int keyboard_ = -1, screen_ = -1;
  FILE *in_ = nullptr, *out_ = nullptr;
};

constexpr const char *kLeft = "\x1b[D", *kUp = "\x1b[A", *kHome = "\x1b[H", *kEnd = "\x1b[F", *kDelete = "\x1b[3~";

class LineEditorTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_line_editor()) GTEST_SKIP() << "built without libedit";
    folder_ = fs::temp_directory_path() / ("hone-history-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(LineEditorTest, CursorKeysMoveInsteadOfReachingTheModel) {
  LineTerminal terminal;
  LineEditor editor(terminal.config());
  EXPECT_EQ(terminal.read(editor, std::string("helo") + kLeft + "l\r"), "hello");
  EXPECT_EQ(terminal.read(editor, std::string("orld") + kHome + "w" + kEnd + "!\r"), "world!");
  EXPECT_EQ(terminal.read(editor, std::string("abXc") + kLeft + kLeft + kDelete + "\r"), "abc");
  EXPECT_EQ(terminal.read(editor, std::string("你好") + kLeft + "们\r"), "你们好");
  EXPECT_EQ(terminal.read(editor, "\x04"), std::nullopt);
}

TEST_F(LineEditorTest, EarlierLinesComeBackAlsoInTheNextProgram) {
  LineTerminal terminal;
  {
    LineEditor editor(terminal.config(folder_ / "history"));
    EXPECT_EQ(terminal.read(editor, "first\r"), "first");
    EXPECT_EQ(terminal.read(editor, "第二\r"), "第二");
    EXPECT_EQ(terminal.read(editor, std::string(kUp) + kUp + "\r"), "first");
  }
  EXPECT_EQ(fs::status(folder_ / "history").permissions() & fs::perms::mask, fs::perms::owner_read | fs::perms::owner_write);
  std::ifstream kept(folder_ / "history");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(kept), {}, '\n'), 4);  // a header, and each line once
  LineEditor next(terminal.config(folder_ / "history"));
  EXPECT_EQ(terminal.read(next, std::string(kUp) + kUp + "\r"), "第二");
}

TEST_F(LineEditorTest, ControlCDropsALineAndLeavesAnEmptyOne) {
  LineTerminal terminal;
  LineEditor editor(terminal.config());
  EXPECT_EQ(terminal.read(editor, std::string("half a sentence") + kLeft + kLeft + "\x03hello\r"), "hello");
  EXPECT_EQ(terminal.read(editor, "你好\x03hello\r"), "hello");
  EXPECT_TRUE(editor.was_interrupted());
  EXPECT_EQ(terminal.read(editor, "again\r"), "again");
  EXPECT_FALSE(editor.was_interrupted());
  EXPECT_EQ(terminal.read(editor, "\x03"), std::nullopt);
}

TEST_F(LineEditorTest, APasteOfSeveralLinesIsOneText) {
  LineTerminal terminal;
  LineEditor editor(terminal.config(folder_ / "history"));
  EXPECT_EQ(terminal.read(editor, "\x1b[200~one\r二\ttabs\x1b[201~ and more\r"), "one\n二 tabs and more");
  EXPECT_TRUE(terminal.shows("\x1b[?2004l")) << terminal.shown;
  EXPECT_EQ(terminal.read(editor, "a\x1b\rb\r"), "a\nb");  // Alt-Enter
  LineEditor next(terminal.config(folder_ / "history"));
  EXPECT_EQ(terminal.read(next, std::string(kUp) + kUp + "\r"), "one\n二 tabs and more");
}

TEST_F(LineEditorTest, TabCompletesCommandsAndShowsChoices) {
  LineTerminal terminal;
  LineEditor editor(terminal.config());
  EXPECT_EQ(terminal.read(editor, "/c\t\r"), "/clear");
  EXPECT_EQ(terminal.read(editor, "/h\tp\r"), "/help");  // "/hel" is common to two
  EXPECT_EQ(terminal.read(editor, "/hel\tp\r"), "/help");
  EXPECT_TRUE(terminal.shows("/help  /hello")) << terminal.shown;
}

}  // namespace
}  // namespace hone::cli
