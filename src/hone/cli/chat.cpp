#include "hone/cli/chat.h"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <optional>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/strings/lower_case.h"
#include "hone/base/strings/trimmed.h"
#include "hone/base/terminal.h"
#include "hone/cli/line_editor.h"

namespace hone::cli {
namespace {

// "/claer": a slash and one word.
bool looks_like_command(const std::string& word) {
  return word.size() > 1 && word[0] == '/' &&
         std::all_of(word.begin() + 1, word.end(), [](unsigned char c) { return std::isalpha(c) || c == '-' || c > 0x7f; });
}

constexpr const char* kChatCommands[] = {"/clear", "/exit", "/help", "/multi-line", "/quit", "/reset-system", "/single-line"};
bool is_command(const std::string& line) {
  return std::ranges::find(kChatCommands, lower_case(trimmed(line))) != std::end(kChatCommands);
}

constexpr const char* kEditingHelp =
    "\nkeys           up and Ctrl-R recall earlier lines, Tab completes commands,"
    "\n               Alt-Enter and pastes add lines, Ctrl-C drops a line, or leaves"
    "\n               on an empty one; while an answer comes, it ends the answer";

// While it exists, Ctrl-C ends an answer. The next one ends the program, as without it.
class StopKey {
 public:
  StopKey() { pressed_ = 0, before_ = std::signal(SIGINT, note); }
  ~StopKey() { std::signal(SIGINT, before_); }
  StopKey(const StopKey&) = delete;
  static bool pressed() { return pressed_ != 0; }

 private:
  static void note(int) {
    pressed_ = 1;
    std::signal(SIGINT, before_);
  }
  static inline volatile std::sig_atomic_t pressed_ = 0;
  static inline void (*before_)(int) = SIG_DFL;
};

class Chat {
 public:
  Chat(const ChatStyle& manner, data::Conversation start, const ChatReply& answer)
      : manner_(manner), start_(std::move(start)), answer_(answer), now_(start_) {
    if (can_edit_lines())
      editor_.emplace(
          LineEditorConfig{.history_file = history_file(), .words = {std::begin(kChatCommands), std::end(kChatCommands)}});
  }

  int run() {
    if (terminal::is_terminal(0) && terminal::is_terminal(1)) fmt::print("{}\n", terminal::styled(help(), terminal::Style::dim));
    while (auto input = read_turn()) {
      auto word = lower_case(trimmed(*input));
      if (word == "/help") {  // without the slash it is a prompt
        fmt::print("{}\n", help());
        continue;
      }
      bool command = looks_like_command(word);
      if (word.starts_with('/')) word.erase(0, 1);
      if (word == "exit" || word == "quit") break;
      if (word.empty() || obey(word)) continue;
      if (command && !awaiting_system_) {
        fmt::print("unknown command /{}; /help lists the commands\n", word);
        continue;
      }
      if (awaiting_system_) {
        set_system(*input);
        continue;
      }
      take_turn(std::move(*input));
    }
    return 0;
  }

 private:
  std::string help() const { return manner_.words + (editor_ ? kEditingHelp : ""); }

  std::optional<std::string> read_line(const std::string& prompt) {
    if (editor_) return editor_->read(prompt);
    fmt::print("{}", prompt);
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    if (!terminal::is_terminal(0)) fmt::print("{}\n", line);  // echoes piped prompts, so that the transcript shows them
    return line;
  }

  std::optional<std::string> read_turn() {
    std::string prompt = terminal::styled(awaiting_system_ ? manner_.system_prompt
                                          : multi_line_    ? manner_.multi_line_prompt
                                                           : manner_.prompt,
                                          terminal::Style::bold),
                text;
    while (auto line = read_line(prompt)) {
      if (!multi_line_ || (text.empty() && is_command(*line))) return line;
      bool last = trimmed(*line).ends_with('#');
      if (last) line->erase(line->rfind('#'));
      text += *line;
      if (last) return text;
      text += '\n';
      prompt.clear();
    }
    fmt::print("\n");
    if (editor_ && editor_->was_interrupted() && !text.empty()) return std::string();  // discards unsent input
    return text.empty() ? std::nullopt : std::optional(text);
  }

  bool obey(const std::string& word) {
    if (word == "clear") {
      now_ = start_;
      fmt::print("the conversation was cleared\n");
    } else if (word == "multi-line") {
      multi_line_ = true;
    } else if (word == "single-line") {
      multi_line_ = false;
    } else if (word == "reset-system") {
      awaiting_system_ = true;
    } else {
      return false;
    }
    return true;
  }

  void set_system(const std::string& text) {
    awaiting_system_ = false;
    std::erase_if(start_.messages, [](const data::Message& message) { return message.role == "system"; });
    if (lower_case(trimmed(text)) != "default-system")
      start_.messages.insert(start_.messages.begin(), {.role = "system", .content = text});
    now_ = start_;
  }

  // A path or an address. A terminal quotes the path of a file that is dropped into it, and asks again for one that is missing;
  // an empty line drops the turn.
  std::optional<std::string> read_source(const std::string& kind) {
    while (auto line = read_line(fmt::format("Input {} {} path or URL <<< ", kind == "video" ? "a" : "an", kind))) {
      auto source = trimmed(*line);
      if (source.size() > 1 && source.front() == source.back() && (source.front() == '\'' || source.front() == '"'))
        source = source.substr(1, source.size() - 2);
      const char* home = std::getenv("HOME");
      if (source.starts_with("~/") && home) source = home + source.substr(1);
      std::error_code unreadable;
      const bool is_file = source.find(':') == source.npos && source.find(',') == source.npos && source.size() < 256;
      if (!terminal::is_terminal(0) || !is_file || fs::exists(source, unreadable)) return source;
      if (source.empty()) return std::nullopt;
      fmt::print("{}\n", terminal::styled(source + ": no such file; another path, or an empty line to drop the question",
                                          terminal::Style::red));
    }
    return std::nullopt;
  }

  // One for every tag of a medium, in the order of the text, as ms-swift asks for them. False if there is none.
  bool read_media(const std::string& text) {
    for (size_t at = text.find('<'); at != text.npos; at = text.find('<', at + 1))
      for (const auto& kind : manner_.media) {
        if (text.compare(at, kind.size() + 2, "<" + kind + ">") != 0) continue;
        auto source = read_source(kind);
        if (!source) return false;
        (kind == "image" ? now_.images : kind == "video" ? now_.videos : now_.audios).push_back(std::move(*source));
      }
    return true;
  }

  void take_turn(std::string input) {
    const auto before = now_;
    bool tool = input.starts_with("tool:");
    if (!read_media(input)) return void(now_ = before);
    now_.messages.push_back({.role = tool ? "tool" : "user", .content = tool ? input.substr(5) : std::move(input)});
    fmt::print("{}", terminal::styled(manner_.answer_prefix, terminal::Style::bold));
    auto show = [](std::string_view piece) {
      fmt::print("{}", piece);
      std::fflush(stdout);
    };
    std::optional<StopKey> stop_key;
    if (terminal::is_terminal(0)) stop_key.emplace();
    try {
      auto text = answer_(now_, show, StopKey::pressed);
      if (text.empty() && stop_key && StopKey::pressed())
        now_ = before;
      else
        now_.messages.push_back({.role = "assistant", .content = std::move(text)});
    } catch (const UserError& problem) {
      fmt::print("\n{}", terminal::styled(problem.what(), terminal::Style::red));
      now_ = before;
    }
    fmt::print("\n{}", manner_.separator);
  }

  const ChatStyle& manner_;
  data::Conversation start_;
  const ChatReply& answer_;
  data::Conversation now_;
  std::optional<LineEditor> editor_;
  bool multi_line_ = false, awaiting_system_ = false;
};

}  // namespace

constexpr const char* kWords =
    "/clear         forget the conversation\n"
    "/reset-system  enter a new system prompt\n"
    "/multi-line    read up to a line that ends in #; /single-line undoes it\n"
    "/help, /exit   show this again; leave, as Ctrl-D does";

ChatStyle swift_manner() { return {"<<< ", "<<<[M] ", "<<<[S] ", "", std::string(50, '-') + "\n", kWords}; }
ChatStyle factory_manner() { return {"\nUser: ", "\nUser: ", "\nSystem: ", "Assistant: ", "", kWords}; }

int chat(const ChatStyle& manner, data::Conversation start, const ChatReply& answer) {
  return Chat(manner, std::move(start), answer).run();
}

}  // namespace hone::cli
