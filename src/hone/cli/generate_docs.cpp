#include "hone/cli/generate_docs.h"

#include "hone/base/json.h"
#include "hone/base/strings/replace_all.h"
#include "hone/base/terminal.h"
#include "hone/cli/commands.h"
#include "hone/cli/page.h"

namespace hone::cli {
namespace {

std::string code(std::string_view text) { return text.empty() ? "" : "`" + markdown_cell(text) + "`"; }

std::string verbs_of(const Option& option) {
  if (option.verbs == kEveryVerb) return "every command";
  std::string names;
  Verbs seen = 0;
  for (const auto& command : all_commands()) {
    if (command.hidden || !(option.verbs & command.verb) || (seen & command.verb)) continue;
    seen |= command.verb;
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  }
  return names;
}

std::string aliases_of(const Option& option) {
  std::string names;
  for (const auto& alias : option.other_names())
    names += (names.empty() ? "" : ", ") + code(alias.name) + (alias.negated ? " (negated)" : "");
  return names;
}

std::string meaning_of(const Option& option) {
  auto text = markdown_cell(option.help);
  if (option.type.kind == Kind::choice) {
    text += " One of " + replace_all(std::string(option.type.choices), "|", ", ") + ".";
  }
  if (!option.variable.empty()) text += fmt::format(" Environment: {}.", code(option.variable));
  for (const auto& other : option.verb_defaults)
    if (other.verbs)
      for (const auto& command : all_commands())
        if (command.verb & other.verbs && !command.hidden && command.verb & option.verbs && command.name != "app" &&
            command.name != "web-ui")
          text += fmt::format(" In {}: {}.", command.name, code(other.value));
  if (option.status != Status::supported)
    text += fmt::format(" **{}**: {}.", status_name(option.status), markdown_cell(option.reason));
  return text;
}

}  // namespace

std::string markdown_cell(std::string_view text) { return replace_all(std::string(text), "|", "\\|"); }

std::string options_markdown() {
  size_t counts[4] = {};
  for (const auto& option : options_table()) ++counts[static_cast<int>(option.status)];
  auto out = fmt::format(
      "# Options\n\nWritten by `hone options --format markdown`. {} options: {} supported, {} whose behavior is always on, set "
      "or not, {} accepted without effect (the reason is given, and printed when one is used), {} refused (with what to use "
      "instead).\n\nThe native front end `hone` has ms-swift's names "
      "and "
      "defaults; `llamafactory-cli` has its own names and, where the third column differs, its own defaults. Every front end "
      "understands all names; where two meanings clash, its own wins. An empty default is none; `auto` is worked out and "
      "logged.\n",
      options_table().size(), counts[0], counts[1], counts[2], counts[3]);
  std::string_view group;
  for (const auto& option : options_table()) {
    if (option.group != group) {
      group = option.group;
      out += fmt::format(
          "\n## {}\n\n| option | default | LLaMA-Factory | also called | commands | meaning |\n|---|---|---|---|---|---|\n",
          group);
    }
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", code(option.name), code(option.fallback),
                       option.swift_only        ? ""
                       : option.factory_differs ? (option.factory_fallback.empty() ? "none" : code(option.factory_fallback))
                                                : code(option.fallback),
                       aliases_of(option), verbs_of(option), meaning_of(option));
  }
  return out;
}

std::string options_text() {
  using terminal::Style, terminal::styled;
  std::string out;
  std::string_view group;
  auto width = static_cast<size_t>(std::clamp(terminal::columns(), 60, 120));
  for (const auto& option : options_table()) {
    if (option.group != group) {
      out += fmt::format("{}{}\n", group.empty() ? "" : "\n", styled(option.group, Style::bold));
      group = option.group;
    }
    auto text = std::string(option.help);
    if (!option.fallback.empty()) text += fmt::format(" [{}]", option.fallback);
    if (option.status != Status::supported) text += fmt::format(" ({}: {})", status_name(option.status), option.reason);
    auto name = fmt::format("--{}", option.name);
    auto style = option.status == Status::supported ? Style::cyan : option.status == Status::rejected ? Style::red : Style::dim;
    size_t column = width < 80 ? 26 : 36;
    auto gap = name.size() + 4 > column ? "\n" + std::string(column, ' ') : std::string(column - 2 - name.size(), ' ');
    out += "  " + styled(name, style) + gap + wrap(text, width - column, column) + "\n";
  }
  return out;
}

std::string options_json() {
  Json rows = Json::array();
  for (const auto& option : options_table()) {
    Json names = Json::array();
    for (const auto& alias : option.other_names()) names.push_back(alias.name);
    rows.push_back({{"name", option.name},
                    {"group", option.group},
                    {"type", describe(option.type)},
                    {"default", option.fallback},
                    {"factory_default", default_text(option, FrontEnd::factory, 0)},
                    {"factory_name", shown_name(option, FrontEnd::factory)},
                    {"also", names},
                    {"help", option.help},
                    {"status", status_name(option.status)},
                    {"reason", option.reason},
                    {"commands", verbs_of(option)}});
  }
  return rows.dump(1) + "\n";
}

}  // namespace hone::cli
