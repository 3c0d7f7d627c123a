#include "hone/cli/line_editor.h"

#include <fmt/format.h>

namespace hone::cli {

struct LineEditor::State {
  LineEditorConfig config;
};

LineEditor::LineEditor(LineEditorConfig config) : state_(new State{std::move(config)}) {}
LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  fmt::print(state_->config.out, "{}", prompt);
  std::fflush(state_->config.out);
  char* text = nullptr;
  size_t capacity = 0;
  auto length = ::getline(&text, &capacity, state_->config.in);
  std::unique_ptr<char, decltype(&std::free)> owned(text, &std::free);
  if (length < 0) return std::nullopt;
  std::string line(text, static_cast<size_t>(length));
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

bool LineEditor::was_interrupted() const { return false; }

bool has_line_editor() { return false; }
bool can_edit_lines() { return false; }

}  // namespace hone::cli
