#include "hone/cli/help.h"

#include <algorithm>
#include <cctype>

#include "hone/base/terminal.h"
#include "hone/cli/common_options.h"
#include "hone/cli/option_help.h"
#include "hone/cli/page.h"

namespace hone::cli {
namespace {

using terminal::Style;
using terminal::styled;

bool in_help(const Option& option, FrontEnd front_end, Verbs verb) {
  return (option.verbs & verb) && option.status == Status::supported && belongs_to(option, front_end);
}

std::string search_form(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(c == '-' ? '_' : std::tolower(c)); });
  return out;
}

std::string usage_of(FrontEnd front_end, const Command& command, std::string_view typed) {
  bool config = command.verb & (kDataUsers) && !command.operands.passes_options;
  return fmt::format("{} {} {}{} [options]{}{}\n\n{}\n", styled("Usage:", Style::bold), program_name(front_end), typed,
                     config ? " [config.yaml]" : "",
                     command.operands.usage.empty() ? "" : fmt::format(" {}", command.operands.usage),
                     config && front_end != FrontEnd::swift ? " [key=value …]" : "", wrap(command.help, page_width(), 0));
}

// The command's own options if it passes the others on: those are in the other command's help.
bool listed(const Option& option, FrontEnd front_end, const Command& command) {
  return in_help(option, front_end, command.verb) && (!command.operands.passes_options || option.verbs == command.verb);
}

std::string all_groups(FrontEnd front_end, const Command& command) {
  auto width = page_width();
  std::string out;
  std::string_view group;
  size_t left_out = 0;
  for (const auto& option : options_table()) {
    if (!(option.verbs & command.verb)) continue;
    if (!listed(option, front_end, command)) {
      left_out += option.status != Status::supported && belongs_to(option, front_end) && !command.operands.passes_options;
      continue;
    }
    if (option.group != group) out += "\n" + styled(option.group, Style::bold) + "\n", group = option.group;
    out += option_help(option, front_end, command.verb, width);
  }
  if (command.operands.passes_options)
    out += "\n" +
           wrap(fmt::format(
                    "All other options are those of the planned or previewed command: {0} sft --model … --dataset …, {0} rlhf "
                    "--rlhf_type dpo …, {0} run.yaml. The default command is sft.",
                    command.name),
                width, 0) +
           "\n";
  if (left_out)
    out += "\n" +
           wrap(fmt::format(
                    "{} more options are accepted for compatibility, or rejected with an alternative; hone options lists them "
                    "with the reason.",
                    left_out),
                width, 0) +
           "\n";
  return out;
}

struct GroupSize {
  std::string_view title;
  size_t options = 0;
};

std::vector<GroupSize> groups_of(FrontEnd front_end, const Command& command) {
  std::vector<GroupSize> groups;
  for (const auto& option : options_table()) {
    if (!listed(option, front_end, command)) continue;
    auto known = std::ranges::find(groups, option.group, &GroupSize::title);
    if (known == groups.end())
      groups.push_back({option.group, 1});
    else
      ++known->options;
  }
  return groups;
}

// The most common options; the others are listed by group.
std::string short_help(FrontEnd front_end, const Command& command, std::string_view typed, const CommonOptions& common) {
  auto width = page_width();
  auto out = fmt::format("\n{}\n  {}\n\n{}\n", styled("Example", Style::bold), wrap(common.example, width - 6, 6),
                         styled("Common options", Style::bold));
  for (auto name : common.names)
    for (const auto& option : options_table())
      if (option.name == name && listed(option, front_end, command)) out += option_help(option, front_end, command.verb, width);
  std::string titles;
  size_t count = 0;
  for (const auto& group : groups_of(front_end, command))
    titles += fmt::format("{}{} ({})", titles.empty() ? "" : ", ", group.title, group.options), count += group.options;
  out += fmt::format("\n{}\n  {}\n", styled("Option groups", Style::bold), wrap(titles, width - 2, 2));
  auto call = fmt::format("{} {} --help", program_name(front_end), typed);
  out += "\n" +
         wrap(fmt::format(
                  "{0} GROUP shows a group, {0} all shows all {1} options. hone options WORD searches names and explanations.",
                  call, count),
              width, 0) +
         "\n";
  return out;
}

std::string group_help(FrontEnd front_end, const Command& command, std::string_view typed, std::string_view topic) {
  auto wanted = search_form(topic);
  std::string out, titles;
  for (const auto& group : groups_of(front_end, command)) {
    titles += (titles.empty() ? "" : ", ") + std::string(group.title);
    if (search_form(group.title).find(wanted) == std::string::npos) continue;
    out += "\n" + styled(group.title, Style::bold) + "\n";
    for (const auto& option : options_table())
      if (option.group == group.title && listed(option, front_end, command))
        out += option_help(option, front_end, command.verb, page_width());
  }
  if (out.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} {} has no group of options called \"{}\"", program_name(front_end), typed, topic),
                    "expected all, or one of " + titles);
  return out;
}

// One search result: the option, its command, and its status.
std::string found_option(const Option& option) {
  auto text = option_help(option, FrontEnd::hone, 0, page_width());
  std::string commands;
  Verbs seen = 0;
  for (const auto& command : all_commands())
    if (!command.hidden && command.run && option.verbs & command.verb && !(seen & command.verb))
      commands += (commands.empty() ? "" : ", ") + std::string(command.name), seen |= command.verb;
  auto note = fmt::format("{}: {}", option.group, option.verbs == kEveryVerb ? "every command" : commands);
  std::string names;
  for (const auto& alias : option.other_names()) names += (names.empty() ? "; also " : ", ") + std::string(alias.name);
  if (option.status != Status::supported) note += fmt::format("; {}", option.reason);
  const auto indent = name_column(page_width());
  return text + std::string(indent, ' ') + styled(wrap(note + names, page_width() - indent, indent), Style::dim) + "\n";
}

}  // namespace

std::string program_help(FrontEnd front_end) {
  auto program = program_name(front_end);
  auto width = page_width();
  auto out = fmt::format("{} {} <command> [options]\n\n", styled("Usage:", Style::bold), program);
  out += wrap(
             "hone fine-tunes and serves language models on NPUs, GPUs and CPUs. It runs the commands of ms-swift and "
             "LLaMA-Factory unchanged.",
             width, 0) +
         "\n";
  std::string now, later;
  for (const auto& command : shown_commands(front_end)) {
    if (command.run)
      now += "  " + styled(padded(command.name, 16), Style::cyan) + wrap(command.help, width - 18, 18) + "\n";
    else
      later += (later.empty() ? "" : ", ") + std::string(command.name);
  }
  out += "\n" + styled("Commands", Style::bold) + "\n" + now;
  if (!later.empty()) out += "\n" + styled("In a later version", Style::bold) + "\n  " + wrap(later, width - 2, 2) + "\n";
  out += "\n" + styled("Examples", Style::bold) + "\n";
  if (front_end == FrontEnd::factory)
    out += "  llamafactory-cli train train.yaml learning_rate=1e-4\n  llamafactory-cli chat infer.yaml\n";
  else if (front_end == FrontEnd::accelerate)
    out += "  accelerate launch --config_file fsdp_config.yaml src/train.py train.yaml\n";
  else
    out += fmt::format("  {0} sft --model models/nano --dataset train.jsonl\n  {0} infer --adapters output/v0-…/checkpoint-100\n",
                       program);
  out += "\n" +
         wrap(fmt::format("{} <command> --help shows the common options of a command, --help all shows all of them. hone options "
                          "WORD searches names and explanations. --show_config prints the resolved options and exits.",
                          program),
              width, 0) +
         "\n";
  return out;
}

std::string command_help(FrontEnd front_end, const Command& command, std::string_view typed, std::string_view topic) {
  const auto common = common_options(front_end, command.verb);
  auto out = usage_of(front_end, command, typed);
  if (search_form(topic) == "all" || (topic.empty() && common.names.empty())) return out + all_groups(front_end, command);
  return out + (topic.empty() ? short_help(front_end, command, typed, common) : group_help(front_end, command, typed, topic));
}

std::string matching_options(std::string_view word) {
  const auto wanted = search_form(word);
  auto holds = [&](std::string_view text) { return search_form(text).find(wanted) != std::string::npos; };
  std::string by_name, by_text;
  for (const auto& option : options_table()) {
    const bool named =
        holds(option.name) || std::ranges::any_of(option.other_names(), [&](const Alias& alias) { return holds(alias.name); });
    if (!named && !holds(option.help) && !holds(option.group)) continue;
    (named ? by_name : by_text) += found_option(option);
  }
  if (by_name.empty() && by_text.empty()) {
    const auto near = NameIndex(FrontEnd::hone, kEveryVerb).nearest(std::string(word));
    throw UserError(ExitCode::usage, fmt::format("no option has \"{}\" in its name or explanation", word),
                    near.empty() ? "hone options lists them all" : "did you mean " + near);
  }
  return by_name + by_text;
}

std::string config_table(const Options& options, bool as_json) {
  constexpr const char* kHidden = "(hidden)";
  auto hidden = [](const Setting& s) { return is_secret(s.option->name) && !s.value.is_null(); };
  auto origin = [](const Setting& s) {
    if (s.source == Source::built_in) return std::string(s.is_auto ? "decided later" : "default");
    return s.source == Source::environment ? "$" + s.where : s.where;
  };
  if (as_json) {
    Json object = Json::object();
    for (const auto* s : options.in_order())
      object[std::string(s->option->name)] = Json{{"value", hidden(*s) ? Json(kHidden) : without_passwords(s->value)},
                                                  {"source", source_name(s->source)},
                                                  {"where", s->where}};
    return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  std::string out;
  std::string_view group;
  auto [name_width, value_width] = page_width() < 80    ? std::pair<size_t, size_t>{26, 12}
                                   : page_width() < 100 ? std::pair<size_t, size_t>{30, 20}
                                                        : std::pair<size_t, size_t>{36, 30};
  for (const auto* s : options.in_order()) {
    if (s->option->status != Status::supported || !belongs_to(*s->option, options.front_end())) continue;
    if (s->option->group != group) {
      out += fmt::format("{}{}\n", group.empty() ? "" : "\n", styled(s->option->group, Style::bold));
      group = s->option->group;
    }
    auto value = hidden(*s) ? std::string(kHidden) : s->is_auto ? std::string("auto") : show_value(without_passwords(s->value));
    // The value is in the row's own terms, so a negated name would mislead.
    bool opposite = shown_negated(*s->option, options.front_end());
    auto name = padded(opposite ? s->option->name : shown_name(*s->option, options.front_end()), name_width);
    bool plain = s->source == Source::built_in;
    out += fmt::format("  {} {} {}\n", styled(name, plain ? Style::plain : Style::cyan), padded(value, value_width),
                       styled(origin(*s), plain ? Style::dim : Style::green));
  }
  return out;
}

}  // namespace hone::cli
