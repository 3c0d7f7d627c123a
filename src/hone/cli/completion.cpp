// Completion scripts for bash, zsh and fish: commands, then the options of the command, then an option's choices.
#include "hone/cli/commands.h"
#include "hone/cli/generate_docs.h"

namespace hone::cli {
namespace {

constexpr FrontEnd kFrontEnds[] = {FrontEnd::hone, FrontEnd::swift, FrontEnd::factory};

std::string verbs_for(FrontEnd front_end) {
  std::string words;
  for (const auto& command : shown_commands(front_end)) words += (words.empty() ? "" : " ") + std::string(command.name);
  return words;
}

std::string options_for(FrontEnd front_end, Verbs verb) {
  std::string words;
  for (const auto& option : options_table())
    if (option.verbs & verb && option.status != Status::rejected && belongs_to(option, front_end))
      words += fmt::format("{}--{}", words.empty() ? "" : " ", shown_name(option, front_end));
  return words;
}

std::string spaced(std::string_view choices) {
  std::string words(choices);
  std::replace(words.begin(), words.end(), '|', ' ');
  return words;
}

// "--a|--b) words='x y' ;;" for every option with a fixed set of values.
std::string choice_cases() {
  std::string cases;
  for (const auto& option : options_table()) {
    auto words = option.type.kind == Kind::choice ? spaced(option.type.choices)
                 : option.type.kind == Kind::flag ? "true false"
                                                  : "";
    if (words.empty() || cases.find(fmt::format("    --{})", option.name)) != std::string::npos) continue;
    cases += fmt::format("    --{}) words=\"{}\" ;;\n", option.name, words);
  }
  return cases;
}

std::string verb_cases(FrontEnd front_end) {
  std::string cases;
  for (const auto& command : shown_commands(front_end))
    cases += fmt::format("    {}) words=\"{}\" ;;\n", command.name, options_for(front_end, command.verb));
  return cases;
}

// bash and zsh share the functions that select candidates; only the code that offers them differs.
std::string shared_functions() {
  std::string out = "_hone_values() {\n  case \"$1\" in\n" + choice_cases() + "    *) words=\"\" ;;\n  esac\n}\n";
  for (auto front_end : kFrontEnds) {
    auto name = std::string(front_end == FrontEnd::factory ? "factory" : program_name(front_end));
    out += fmt::format("_hone_words_{}() {{\n  case \"$1\" in\n    '') words=\"{}\" ;;\n{}    *) words=\"\" ;;\n  esac\n}}\n",
                       name, verbs_for(front_end), verb_cases(front_end));
  }
  return out +
         "_hone_words() {\n  case \"${1##*/}\" in\n    swift) _hone_words_swift \"$2\" ;;\n    llamafactory-cli|lmf) "
         "_hone_words_factory \"$2\" ;;\n"
         "    *) _hone_words_hone \"$2\" ;;\n  esac\n}\n";
}

std::string bash_script() {
  return "# hone completion for bash: source <(hone completion bash)\n" + shared_functions() +
         "_hone() {\n"
         "  local words=\"\" current=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then _hone_words \"$1\" ''\n"
         "  elif [[ \"$current\" == -* ]]; then _hone_words \"$1\" \"${COMP_WORDS[1]//_/-}\"\n"
         "  else _hone_values \"$before\"; fi\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _hone hone swift llamafactory-cli lmf\n";
}

std::string zsh_script() {
  return "#compdef hone swift llamafactory-cli lmf\n# hone completion for zsh: source <(hone completion zsh)\n" +
         shared_functions() +
         "_hone() {\n"
         "  local -x words_before=\"${words[CURRENT-1]}\" program=\"${words[1]}\" verb=\"${words[2]//_/-}\"\n"
         "  local current=\"${words[CURRENT]}\" position=$CURRENT\n"
         "  local words=\"\"\n"
         "  if (( position == 2 )); then _hone_words \"$program\" ''\n"
         "  elif [[ \"$current\" == -* ]]; then _hone_words \"$program\" \"$verb\"\n"
         "  else _hone_values \"$words_before\"; fi\n"
         "  if [[ -n \"$words\" ]]; then compadd -- ${=words}; else _files; fi\n"
         "}\n"
         "compdef _hone hone swift llamafactory-cli lmf\n";
}

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish_script() {
  std::string out = "# hone completion for fish: hone completion fish | source\n";
  for (auto front_end : kFrontEnds) {
    auto program = program_name(front_end);
    for (const auto& command : shown_commands(front_end)) {
      out += fmt::format("complete -c {} -n __fish_use_subcommand -f -a {} -d {}\n", program, command.name,
                         fish_quoted(command.help));
      for (const auto& option : options_table()) {
        if (!(option.verbs & command.verb) || option.status == Status::rejected || !belongs_to(option, front_end)) continue;
        auto values =
            option.type.kind == Kind::choice ? fmt::format(" -x -a {}", fish_quoted(spaced(option.type.choices))) : std::string();
        out += fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n", program, command.name,
                           shown_name(option, front_end), values, fish_quoted(option.help));
      }
    }
  }
  return out;
}

}  // namespace

std::string completion_script(Shell shell) {
  return shell == Shell::bash ? bash_script() : shell == Shell::zsh ? zsh_script() : fish_script();
}

}  // namespace hone::cli
