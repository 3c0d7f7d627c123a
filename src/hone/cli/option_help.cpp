#include "hone/cli/option_help.h"

#include "hone/base/strings/replace_all.h"
#include "hone/base/terminal.h"
#include "hone/cli/page.h"

namespace hone::cli {
namespace {

using terminal::Style;
using terminal::styled;

std::string placeholder(const Option& option) {
  switch (option.type.kind) {
    case Kind::flag:
      return "";
    case Kind::integer:
      return " INT";
    case Kind::real:
      return " REAL";
    case Kind::text:
      return " TEXT";
    case Kind::path:
      return " PATH";
    case Kind::choice:
      return " WORD";
    case Kind::list:
      return " WORD…";
    case Kind::json:
      return " JSON";
    case Kind::bytes:
      return " SIZE";
  }
  return "";
}

std::string choices_note(const Option& option) {
  if (option.type.kind != Kind::choice) return "";
  return " One of " + replace_all(std::string(option.type.choices), "|", ", ") + ".";
}

}  // namespace

size_t name_column(size_t width) { return width < 80 ? 26 : 34; }

bool shown_negated(const Option& option, FrontEnd front_end) {
  auto name = shown_name(option, front_end);
  for (const auto& alias : option.other_names())
    if (alias.negated && alias.name == name) return true;
  return false;
}

std::string option_help(const Option& option, FrontEnd front_end, Verbs verb, size_t width) {
  auto flag = option.letter ? fmt::format("-{}, --{}", option.letter, shown_name(option, front_end))
                            : fmt::format("--{}", shown_name(option, front_end));
  auto column = name_column(width);
  auto left = "  " + flag + placeholder(option);
  std::string fallback(default_text(option, front_end, verb));
  auto text = std::string(option.help) + choices_note(option);
  if (shown_negated(option, front_end)) {
    text = "The opposite of: " + text;
    fallback = fallback == "true" ? "false" : "true";
  }
  auto note = fallback.empty() ? std::string() : fmt::format(" [{}]", fallback);
  auto right = wrap(text + note, width - column, column);
  if (!note.empty() && right.ends_with(note.substr(1))) {
    right.resize(right.size() - (note.size() - 1));
    right += styled(note.substr(1), Style::dim);
  }
  auto head = "  " + styled(flag, Style::cyan) + styled(placeholder(option), Style::dim);
  if (terminal::display_width(left) + 2 > column) return head + "\n" + std::string(column, ' ') + right + "\n";
  return head + std::string(column - terminal::display_width(left), ' ') + right + "\n";
}

}  // namespace hone::cli
