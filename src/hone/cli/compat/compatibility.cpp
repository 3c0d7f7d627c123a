#include "hone/cli/compat/compatibility.h"

#include <map>

#include "hone/cli/commands.h"
#include "hone/cli/compat/names.h"
#include "hone/cli/doctor/check.h"
#include "hone/cli/generate_docs.h"

namespace hone::cli::compat {
namespace {

// One option of ms-swift or LLaMA-Factory and its entry in hone's table.
struct Entry {
  const Option* row = nullptr;
  bool renamed = false;
  std::vector<std::string_view> commands;  // commands of the dialect that accept the option
};
using Entries = std::map<std::string_view, Entry>;

Entries entries_of(FrontEnd dialect) {
  Entries entries;
  for (const auto& command : commands()) {
    if (command.dialect != dialect) continue;
    NameIndex names(dialect, command.verb);
    for (auto name : command.names()) {
      auto& entry = entries[name];
      entry.commands.push_back(command.name);
      auto found = names.find(name);
      if (!found || entry.row) continue;
      entry.row = found->option;
      entry.renamed = found->alias != nullptr;
    }
  }
  return entries;
}

std::string_view word_for(const Entry& entry) {
  if (!entry.row) return "unknown";
  return status_name(entry.row->status);
}

std::string note_for(const Entry& entry) {
  if (!entry.row) return "";
  auto note = entry.renamed ? fmt::format("`{}`. ", entry.row->name) : std::string();
  return note + markdown_cell(entry.row->status == Status::supported ? entry.row->help : entry.row->reason);
}

size_t count(const Entries& entries, std::string_view word) {
  return static_cast<size_t>(std::ranges::count_if(entries, [&](const auto& entry) { return word_for(entry.second) == word; }));
}

// Options read only by models and methods that this version lacks.
bool is_for_later(const Option& row) { return row.reason == kMultimodalUnsupported; }

// Options that some command, stage or model of this version reads.
Entries of_present_commands(FrontEnd dialect, const Entries& entries) {
  Entries present;
  for (const auto& [name, entry] : entries) {
    bool runs = std::ranges::any_of(entry.commands, [&](std::string_view verb) {
      const auto* command = find_command(dialect, verb);
      return command && command->run;
    });
    bool later = entry.row && is_for_later(*entry.row);
    if (runs && !later) present.emplace(name, entry);
  }
  return present;
}

std::string counts_line(std::string_view title, const Entries& entries) {
  double done = static_cast<double>(count(entries, "supported") + count(entries, "always so"));
  return fmt::format("| {} | {} | {} | {} | {} | {} | {:.0f} % |\n", title, entries.size(), count(entries, "supported"),
                     count(entries, "always so"), count(entries, "accepted"), count(entries, "refused"),
                     100 * done / static_cast<double>(entries.size()));
}

std::string table_of(std::string_view title, const Entries& entries) {
  auto out = fmt::format("\n## {}\n\n| name | commands | hone | what it does, or why not |\n|---|---|---|---|\n", title);
  for (const auto& [name, entry] : entries) {
    bool many = entry.commands.size() > 4;
    auto where = many ? fmt::format("{}, {} … {}", entry.commands[0], entry.commands[1], entry.commands.back())
                      : fmt::format("{}", fmt::join(entry.commands, ", "));
    out += fmt::format("| `{}` | {} | {} | {} |\n", name, where, word_for(entry), note_for(entry));
  }
  return out;
}

// The dialect's commands and whether hone has them.
std::string verbs_of(FrontEnd front_end, std::initializer_list<std::string_view> verbs) {
  std::string ready, later;
  for (auto verb : verbs) {
    const auto* command = find_command(front_end, verb);
    auto& list = command && command->run ? ready : later;
    list += (list.empty() ? "" : ", ") + fmt::format("`{}`", verb);
  }
  return later.empty() ? ready : fmt::format("{}; not in this version: {}", ready, later);
}

std::string variables_table() {
  std::string out =
      "\n## Environment variables\n\n`hone doctor --env true` lists those that are set.\n\n| variable | hone | note "
      "|\n|---|---|---|\n";
  for (const auto& variable : doctor::known_variables()) {
    auto effect = variable.effect == doctor::Effect::supported   ? "supported"
                  : variable.effect == doctor::Effect::passed_on ? "passed on"
                                                                 : "no effect";
    out += fmt::format("| `{}` | {} | {} |\n", variable.name, effect, markdown_cell(variable.note));
  }
  return out;
}

}  // namespace

std::string compatibility_markdown() {
  auto swift = entries_of(FrontEnd::swift), factory = entries_of(FrontEnd::factory);
  std::string out =
      "# Compatibility\n\nWritten by `hone options --format compatibility`. Every flag of ms-swift 4.6 with the names of 3.x and "
      "2.x, every key of "
      "LLaMA-Factory 0.9.5 and earlier, and what hone does with it. *Supported*: it does what it says. *Always so*: hone does it "
      "whether asked or not. "
      "*Accepted*: it cannot matter here; a line says why when it is used. *Refused*: the message names what to use instead. An "
      "option that one of their commands accepts although only other commands read it is accepted here too, with a line.\n\n"
      "| system | names | supported | always so | accepted | refused | supported or always so |\n|---|---|---|---|---|---|---|\n";
  out +=
      counts_line("ms-swift", swift) +
      counts_line("ms-swift, commands, methods and models of this version", of_present_commands(FrontEnd::swift, swift)) +
      counts_line("LLaMA-Factory", factory) +
      counts_line("LLaMA-Factory, commands, stages and models of this version", of_present_commands(FrontEnd::factory, factory));
  out += fmt::format(
      "\n`swift`: {}.\n\n`llamafactory-cli`: {}.\n",
      verbs_of(FrontEnd::swift,
               {"sft", "pt", "rlhf", "infer", "merge-lora", "export", "deploy", "rollout", "eval", "sample", "app", "web-ui"}),
      verbs_of(FrontEnd::factory, {"train", "chat", "api", "export", "eval", "webchat", "webui", "env", "version"}));
  out +=
      "\n`accelerate launch --config_file c.yaml src/train.py x.yaml` is `llamafactory-cli train x.yaml` on as many processes as "
      "c.yaml says. "
      "`hone convert-config` prints the native command for any of them.\n";
  return out + table_of("ms-swift", swift) + table_of("LLaMA-Factory", factory) + variables_table();
}

}  // namespace hone::cli::compat
