#include "hone/cli/line_editor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <histedit.h>
#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "hone/base/terminal.h"

namespace hone::cli {
namespace {

constexpr int kHistoryLines = 1000;
constexpr char kEscape = '\1';  // encloses the zero-width parts of a prompt

struct HistoryCloser {
  void operator()(History* history) const { history_end(history); }
};
struct EditLineCloser {
  void operator()(EditLine* editor) const { el_end(editor); }
};

// libedit counts characters according to the locale; without UTF-8 it would split multi-byte characters.
void require_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") != 0) std::setlocale(LC_CTYPE, "C.UTF-8");
}

std::string with_marked_escapes(const std::string& prompt) {
  std::string marked;
  for (size_t i = 0; i < prompt.size();) {
    if (prompt[i] != '\x1b') {
      marked += prompt[i++];
      continue;
    }
    auto end = std::min(prompt.find('m', i), prompt.size() - 1);
    marked += kEscape + prompt.substr(i, end + 1 - i) + kEscape;
    i = end + 1;
  }
  return marked;
}

}  // namespace

struct LineEditor::State {
  LineEditorConfig config;
  std::string prompt = {};
  bool interrupted = false;
  std::unique_ptr<History, HistoryCloser> history = {};
  std::unique_ptr<EditLine, EditLineCloser> editor = {};

  static State& of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<State*>(data);
  }

  static char* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }

  // Inside a bracketed paste, a newline is text and does not end the line.
  static unsigned char paste(EditLine* editor, int) {
    constexpr std::wstring_view kEnd = L"\x1b[201~";
    std::wstring text;
    for (wchar_t c; !text.ends_with(kEnd);) {
      if (el_wgetc(editor, &c) != 1) return CC_EOF;
      if (c == L'\x03') return interrupt(editor, 0);  // the end of the paste was lost
      text += c == L'\r' ? L'\n' : c == L'\t' ? L' ' : c;
    }
    text.resize(text.size() - kEnd.size());
    while (text.ends_with(L'\n')) text.pop_back();
    std::erase_if(text, [](wchar_t c) { return c < L' ' && c != L'\n'; });
    return !text.empty() && el_winsertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_NORM;
  }

  static unsigned char newline(EditLine* editor, int) { return el_insertstr(editor, "\n") == 0 ? CC_REFRESH : CC_ERROR; }

  // As in a shell: Ctrl-C discards a partial line and exits on an empty one.
  static unsigned char interrupt(EditLine* editor, int) {
    const auto* line = el_wline(editor);  // in characters, like the functions below
    of(editor).interrupted = true;
    if (line->lastchar == line->buffer) return CC_EOF;
    el_cursor(editor, static_cast<int>(line->lastchar - line->cursor));
    fmt::print(of(editor).config.out, "^C\n"), std::fflush(of(editor).config.out);
    el_deletestr(editor, static_cast<int>(line->lastchar - line->buffer));
    return CC_REDISPLAY;
  }

  static unsigned char suspend(EditLine*, int) {
    ::raise(SIGTSTP);
    return CC_REDISPLAY;
  }

  static unsigned char complete(EditLine* editor, int) {
    const auto& state = of(editor);
    const auto* line = el_line(editor);
    const std::string typed(line->buffer, line->cursor);
    if (typed.empty() || line->cursor != line->lastchar) return CC_NORM;
    std::vector<std::string> meant;
    std::ranges::copy_if(state.config.words, std::back_inserter(meant),
                         [&](const std::string& word) { return word.starts_with(typed); });
    if (meant.empty()) return CC_ERROR;
    auto common = meant.front();
    for (const auto& word : meant) common.resize(static_cast<size_t>(std::ranges::mismatch(common, word).in1 - common.begin()));
    if (common.size() > typed.size())
      return el_insertstr(editor, common.substr(typed.size()).c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    if (meant.size() > 1) fmt::print(state.config.out, "\n{}\n", fmt::join(meant, "  ")), std::fflush(state.config.out);
    return meant.size() > 1 ? CC_REDISPLAY : CC_NORM;
  }

  void bind_keys() {
    auto* el = editor.get();
    el_set(el, EL_EDITOR, "emacs");
    el_set(el, EL_ADDFN, "hone-paste", "text between the marks of a paste", &State::paste);
    el_set(el, EL_ADDFN, "hone-newline", "a newline inside the text", &State::newline);
    el_set(el, EL_ADDFN, "hone-complete", "complete a command", &State::complete);
    el_set(el, EL_ADDFN, "hone-interrupt", "drop the line, or leave", &State::interrupt);
    el_set(el, EL_ADDFN, "hone-suspend", "back to the shell", &State::suspend);
    el_set(el, EL_SETTY, "-d", "-isig", nullptr);  // while a line is edited, Ctrl-C and Ctrl-Z are plain keys
    static constexpr const char* kKeys[][2] = {
        {"\\e[200~", "hone-paste"},   {"\\e\\r", "hone-newline"},   {"\\e\\n", "hone-newline"},
        {"^I", "hone-complete"},      {"^R", "em-inc-search-prev"}, {"^W", "ed-delete-prev-word"},
        {"\\e[1;5C", "em-next-word"}, {"\\e[1;5D", "ed-prev-word"}, {"\\e[3~", "ed-delete-next-char"},
        {"\\e[H", "ed-move-to-beg"},  {"\\e[F", "ed-move-to-end"},  {"\\e[1~", "ed-move-to-beg"},
        {"\\e[4~", "ed-move-to-end"}, {"\\e[A", "ed-prev-history"}, {"\\e[B", "ed-next-history"},
        {"\\e[C", "ed-next-char"},    {"\\e[D", "ed-prev-char"},    {"^C", "hone-interrupt"},
        {"^Z", "hone-suspend"}};
    for (const auto& [key, command] : kKeys) el_set(el, EL_BIND, key, command, nullptr);
  }

  void load_history() {
    HistEvent event;
    history.reset(history_init());
    ::history(history.get(), &event, H_SETSIZE, kHistoryLines);
    ::history(history.get(), &event, H_SETUNIQUE, 1);
    if (config.history_file.empty()) return;
    std::error_code ignored;
    fs::create_directories(config.history_file.parent_path(), ignored);
    int loaded = ::history(history.get(), &event, H_LOAD, config.history_file.c_str());
    if (loaded > 2 * kHistoryLines) ::history(history.get(), &event, H_SAVE, config.history_file.c_str());
  }

  // Appends each line at once, so that concurrent and killed chats lose nothing.
  void remember(const std::string& line) {
    HistEvent event;
    if (::history(history.get(), &event, H_ENTER, line.c_str()) < 0 || config.history_file.empty()) return;
    int file = ::open(config.history_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    FILE* stream = file < 0 ? nullptr : ::fdopen(file, "a");
    if (!stream) return;
    std::fseek(stream, 0, SEEK_END);                                  // an empty file gets a header
    ::history(history.get(), &event, H_NSAVE_FP, size_t{0}, stream);  // counts the lines before the newest
    std::fclose(stream);
  }
};

LineEditor::LineEditor(LineEditorConfig config) : state_(new State{.config = std::move(config)}) {
  require_utf8();
  auto& state = *state_;
  state.load_history();
  state.editor.reset(el_init("hone", state.config.in, state.config.out, stderr));
  if (!state.editor)
    throw UserError(ExitCode::usage, "the terminal cannot be set up for editing", "set TERM, or pipe the questions in");
  auto* el = state.editor.get();
  el_set(el, EL_CLIENTDATA, &state);
  el_set(el, EL_SIGNAL, 1);  // restores the terminal on a signal
  el_set(el, EL_PROMPT_ESC, &State::prompt_of, kEscape);
  el_set(el, EL_HIST, &::history, state.history.get());
  state.bind_keys();
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  auto& state = *state_;
  auto begin = std::min(prompt.find_first_not_of('\n'), prompt.size());  // libedit does not count a prompt's first line
  state.prompt = with_marked_escapes(prompt.substr(begin));
  fmt::print(state.config.out, "{}\x1b[?2004h", prompt.substr(0, begin));  // bracketed paste is on while a line is read
  std::fflush(state.config.out);
  el_set(state.editor.get(), EL_PREP_TERM,
         1);  // before the prompt, so that input typed while it appears is handled here and not by the kernel
  int length = 0;
  state.interrupted = false;
  const char* text = el_gets(state.editor.get(), &length);
  fmt::print(state.config.out, "\x1b[?2004l");
  std::fflush(state.config.out);
  if (!text || length <= 0) return std::nullopt;
  std::string line(text, static_cast<size_t>(length));
  if (line.ends_with('\n')) line.pop_back();
  if (line.find_first_not_of(" \t\n") != line.npos) state.remember(line);
  return line;
}

bool LineEditor::was_interrupted() const { return state_->interrupted; }

bool has_line_editor() { return true; }

bool can_edit_lines() {
  const char* kind = std::getenv("TERM");
  return terminal::is_terminal(0) && terminal::is_terminal(1) && kind && *kind && std::strcmp(kind, "dumb") != 0;
}

}  // namespace hone::cli
