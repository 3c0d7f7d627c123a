#include "hone/cli/compat/compatibility.h"

#include <map>

#include "hone/cli/commands.h"
#include "hone/cli/compat/names.h"
#include "hone/cli/doctor/check.h"
#include "hone/cli/generate_docs.h"

namespace hone::cli::peers {
namespace {

// One option of ms-swift or LLaMA-Factory and its entry in hone's table.
struct Answer {
  const Option* row = nullptr;
  bool renamed = false;
  std::vector<std::string_view> commands;  // commands of the peer that accept the option
};
using Answers = std::map<std::string_view, Answer>;

Answers answers_of(FrontEnd peer) {
  Answers answers;
  for (const auto& command : commands()) {
    if (command.dialect != peer) continue;
    NameIndex names(peer, command.verb);
    for (auto name : command.names()) {
      auto& answer = answers[name];
      answer.commands.push_back(command.name);
      auto found = names.find(name);
      if (!found || answer.row) continue;
      answer.row = found->option;
      answer.renamed = found->alias != nullptr;
    }
  }
  return answers;
}

std::string_view word_for(const Answer& answer) {
  if (!answer.row) return "unknown";
  return status_name(answer.row->status);
}

std::string note_for(const Answer& answer) {
  if (!answer.row) return "";
  auto note = answer.renamed ? fmt::format("`{}`. ", answer.row->name) : std::string();
  return note + markdown_cell(answer.row->status == Status::supported ? answer.row->help : answer.row->reason);
}

size_t count(const Answers& answers, std::string_view word) {
  return static_cast<size_t>(std::ranges::count_if(answers, [&](const auto& entry) { return word_for(entry.second) == word; }));
}

// Options read only by models and methods that this version lacks.
bool is_for_later(const Option& row) { return row.reason == kMultimodalUnsupported; }

// Options that some command, stage or model of this version reads.
Answers of_present_commands(FrontEnd peer, const Answers& answers) {
  Answers present;
  for (const auto& [name, answer] : answers) {
    bool runs = std::ranges::any_of(answer.commands, [&](std::string_view verb) {
      const auto* command = find_command(peer, verb);
      return command && command->run;
    });
    bool later = answer.row && is_for_later(*answer.row);
    if (runs && !later) present.emplace(name, answer);
  }
  return present;
}

std::string counts_line(std::string_view title, const Answers& answers) {
  double done = static_cast<double>(count(answers, "supported") + count(answers, "always so"));
  return fmt::format("| {} | {} | {} | {} | {} | {} | {:.0f} % |\n", title, answers.size(), count(answers, "supported"),
                     count(answers, "always so"), count(answers, "accepted"), count(answers, "refused"),
                     100 * done / static_cast<double>(answers.size()));
}

std::string table_of(std::string_view title, const Answers& answers) {
  auto out = fmt::format("\n## {}\n\n| name | commands | hone | what it does, or why not |\n|---|---|---|---|\n", title);
  for (const auto& [name, answer] : answers) {
    bool many = answer.commands.size() > 4;
    auto where = many ? fmt::format("{}, {} … {}", answer.commands[0], answer.commands[1], answer.commands.back())
                      : fmt::format("{}", fmt::join(answer.commands, ", "));
    out += fmt::format("| `{}` | {} | {} | {} |\n", name, where, word_for(answer), note_for(answer));
  }
  return out;
}

// The peer's commands and whether hone has them.
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
  auto swift = answers_of(FrontEnd::swift), factory = answers_of(FrontEnd::factory);
  std::string out =
      "# Compatibility\n\nWritten by `hone options --format compatibility`. Every flag of ms-swift 4.6 with the names of 3.x and "
      "2.x, every key of "
      "LLaMA-Factory 0.9.5 and earlier, and what hone does with it. *Supported*: it does what it says. *Always so*: hone does it "
      "whether asked or not. "
      "*Accepted*: it cannot matter here; a line says why when it is used. *Refused*: the message names what to use instead. An "
      "option that a peer's "
      "command takes although only other commands read it is taken here too, with a line.\n\n"
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

}  // namespace hone::cli::peers
