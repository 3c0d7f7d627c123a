// Lines typed at a terminal, with cursor keys, history and completion. One of two folders implements it: with_libedit/ edits,
// without_libedit/ reads lines as the terminal sends them.
#pragma once
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hone/base/file.h"

namespace hone::cli {

struct LineEditorConfig {
  fs::path history_file;           // empty: history lasts as long as the editor
  std::vector<std::string> words;  // what Tab completes at the start of a line, such as "/help"
  FILE* in = stdin;
  FILE* out = stdout;
};

class LineEditor {
 public:
  explicit LineEditor(LineEditorConfig config);
  ~LineEditor();

  // The line without its newline; lines pasted at once, or joined by Alt-Enter, come as one text with newlines. Nothing at the
  // end of input.
  std::optional<std::string> read(const std::string& prompt);
  bool was_interrupted() const;  // whether the last read() ended by Ctrl-C, or began again after it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

bool has_line_editor();  // whether this build edits lines
bool can_edit_lines();   // and the terminal can move its cursor

// $HONE_HISTORY, or hone/history in the user's state folder ($XDG_STATE_HOME, ~/.local/state). Empty when HONE_HISTORY is, or
// without a home.
fs::path history_file();

}  // namespace hone::cli
