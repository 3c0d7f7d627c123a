#include "hone/cli/run.h"

#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "hone/base/error.h"
#include "hone/base/fault_injection.h"
#include "hone/base/log.h"
#include "hone/base/out_of_space.h"
#include "hone/base/terminal.h"
#include "hone/cli/accelerate.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/compat/foreign_words.h"
#include "hone/cli/configs/training/accelerate_config.h"
#include "hone/cli/dialect_flags.h"
#include "hone/cli/factory_v1/v1_command.h"
#include "hone/cli/help.h"
#include "hone/cli/hub_options.h"
#include "hone/cli/megatron/megatron.h"
#include "hone/cli/parsing/environment.h"
#include "hone/cli/parsing/option_conflicts.h"
#include "hone/cli/parsing/resolve_auto.h"
#include "hone/device/cuda_library.h"
#include "hone/device/npu.h"
#include "hone/device/npu/errors.h"
#include "hone/device/npu/fallback.h"
#include "hone/device/num_threads.h"
#include "hone/device/tensor.h"
#include "hone/parallel/launch/rank_files.h"
#include "hone/parallel/launch/supervisor.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::cli {
namespace {

constexpr const char* kFull = "free some space, or choose another folder";

// Shows the cursor, resets colors and starts a new line, so that the shell's prompt appears clean.
void exit_on_interrupt(int) {
  constexpr char kReset[] = "\x1b[?25h\x1b[0m\n";
  if (::isatty(2)) [[maybe_unused]]
    auto ignored = ::write(2, kReset, sizeof kReset - 1);
  ::_exit(static_cast<int>(ExitCode::interrupted));
}

// The context of a message: the front end, the command and the typed names determine the names of options in it.
struct Audience {
  FrontEnd front_end;
  Verbs verb;
  TypedNames typed;
};

int report(const Audience& audience, const UserError& error) {
  using terminal::Style, terminal::styled;
  const auto translated = in_dialect(error, audience.front_end, audience.verb, audience.typed);
  fmt::print(stderr, "{} {}\n", styled("error:", Style::red, 2), translated.what());
  parallel::write_error_file(translated.what());
  if (!translated.hint().empty()) fmt::print(stderr, "  {} {}\n", styled("hint:", Style::cyan, 2), translated.hint());
  return static_cast<int>(translated.code());
}

int report(const Audience& audience, ExitCode code, std::string found, std::string fix) {
  return report(audience, UserError(code, std::move(found), std::move(fix)));
}

// An error of libtorch, torch_npu or the system, which does not define an exit code.
int report_failure(const Audience& audience, const std::string& what) {
  auto text = device::npu::with_card_error(what);
  if (auto known = device::npu::explain(text); known && device::npu::loaded())
    return report(audience, known->code, fmt::format("{}\n{}", known->cause, text), known->advice);
  bool memory = text.find("out of memory") != text.npos || text.find("can't allocate memory") != text.npos;
  return report(audience, memory ? ExitCode::out_of_memory : ExitCode::failure, text,
                memory ? "smaller --per_device_train_batch_size or --max_length" : "");
}

void require_utf8(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    std::string repaired;
    auto shown = text::tokenizer::valid_utf8(word, repaired);
    if (shown != word)
      throw UserError(ExitCode::usage, fmt::format("\"{}\" is not UTF-8", shown),
                      "options and paths are kept in JSON files; rename the file, or use a UTF-8 locale");
  }
}

int world_size() {
  const char* size = std::getenv("WORLD_SIZE");
  return size ? std::max(1, std::atoi(size)) : processes_of_environment(system_access());
}

// Rank 0 of a node logs; --log_level_replica sets the level of the others.
std::string log_level(const CommonArguments& args) {
  auto number = [](const char* name) {
    const char* text = std::getenv(name);
    return text ? std::atoi(text) : 0;
  };
  if (!args.log_level_replica.exists()) return *args.log_level;
  const bool logs = number("LOCAL_RANK") == 0 && (number("NODE_RANK") == 0 || *args.log_on_each_node);
  auto replica = *args.log_level_replica;
  return logs || replica == "passive" ? *args.log_level : replica;
}

void configure_log(const CommonArguments& args) {
  log::configure(
      {.level = log::parse_level(log_level(args)), .format = *args.log_format == "json" ? log::Format::json : log::Format::text});
}

int run_parsed(const Invocation& invocation, Parsed parsed) {
  if (parsed.help) {
    fmt::print("{}", command_help(invocation.front_end, *invocation.command, invocation.typed, parsed.help_topic));
    return 0;
  }
  auto resolved = resolve(std::move(parsed));
  if (!resolved) return 0;
  const auto& options = *resolved;
  if (options.verb() & kModelUsers && !parallel::is_supervised())
    if (auto absent = absent_family(system_access()); !absent.empty()) log::warning("{}", absent);
  int code = invocation.command->run(options);
  if (auto summary = device::npu::fallback_summary(); !summary.empty()) log::warning("{}", summary);
  if (code == 0)
    for (const auto* setting : options.given_but_unread()) {
      const bool typed = setting->source == Source::command_line;
      log::warning("{}{} had no effect on this run", setting->where,
                   typed ? "" : fmt::format(": {}", options.display_name(setting->option->name)));
    }
  return code;
}

// Log lines, like errors, name options as their reader does.
void name_options(const Audience& audience) {
  log::set_naming([audience](std::string_view line) {
    return line.find('`') == line.npos ? std::string(line) : in_dialect(line, audience.front_end, audience.verb, audience.typed);
  });
}

int run_invocation(const Invocation& invocation, Audience& audience) {
  audience.front_end = invocation.front_end;
  audience.verb = invocation.command->verb;
  name_options(audience);
  auto parsed = parse_invocation(invocation, system_access());
  audience.typed = parsed.options.aliases();
  name_options(audience);
  return run_parsed(invocation, std::move(parsed));
}

int dispatch(Audience& audience, const std::vector<std::string>& words) {
  const auto front_end = audience.front_end;
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    fmt::print("{}", program_help(front_end));
    return words.empty() ? static_cast<int>(front_end == FrontEnd::factory ? ExitCode::ok : ExitCode::usage) : 0;
  }
  const bool asks_version = words[0] == "--version" || words[0] == "-v";
  return run_invocation(read_invocation(front_end, asks_version ? std::vector<std::string>{"version"} : words), audience);
}

}  // namespace

Invocation read_invocation(FrontEnd front_end, std::vector<std::string> words) {
  HONE_CHECK(!words.empty());
  require_utf8(words);
  Invocation invocation{front_end, find_command(front_end, words[0]), words[0], {words.begin() + 1, words.end()}, {}};
  if (!invocation.command) {
    if (auto meant = compat::command_meant_by(front_end, words[0]); !meant.empty())
      throw UserError(ExitCode::usage, fmt::format("unknown command \"{}\"", words[0]), "did you mean " + meant);
    auto near = nearest_command(front_end, words[0]);
    throw UserError(ExitCode::usage, fmt::format("unknown command \"{}\"", words[0]),
                    near.empty() ? fmt::format("{} --help lists the commands", program_name(front_end)) : "did you mean " + near);
  }
  if (!invocation.command->run)
    throw UserError(ExitCode::usage, fmt::format("{} {} is not in this version of hone", program_name(front_end), words[0]),
                    invocation.command->name == "web-ui" ? "hone app opens a chat page; hone sft --help shows how to train" : "");
  if (front_end != FrontEnd::accelerate || words[0] != "launch") return invocation;
  auto launched = unwrap_launcher(invocation.words);
  if (launched.front_end == FrontEnd::accelerate) {
    invocation.words = std::move(launched.words);
  } else {
    launched.words.insert(launched.words.begin(), launched.command);
    invocation = read_invocation(launched.front_end, std::move(launched.words));
  }
  invocation.notes = std::move(launched.notes);
  return invocation;
}

Parsed parse_invocation(const Invocation& invocation, const SystemAccess& system) {
  Syntax syntax{.front_end = invocation.front_end,
                .command = invocation.typed,
                .verb = invocation.command->verb,
                .config_first = (invocation.command->verb & kDataUsers) != 0 && !invocation.command->operands.passes_options,
                .max_words = invocation.command->operands.max,
                .whole_line = invocation.command->operands.is_command_line,
                .passes_options = invocation.command->operands.passes_options};
  auto parsed = parse_arguments(syntax, invocation.words, system);
  parsed.notes.insert(parsed.notes.begin(), invocation.notes.begin(), invocation.notes.end());
  return parsed;
}

std::optional<Options> resolve(Parsed parsed) {
  auto& options = parsed.options;
  configure_log(CommonArguments(options));
  for (const auto& list : {parsed.environment, variables_of(options)})
    for (const auto& [name, value] : list) ::setenv(name.c_str(), value.c_str(), 0);
  if (is_reporting_process())
    for (const auto& note : parsed.notes) log::warning("{}", note);
  if (options.verb() & (kModelUsers | kDownload)) check_environment_numbers(system_access());
  bool shows_config = *CommonArguments(options).show_config;
  resolve_folders(options, !shows_config);
  resolve_auto_values(options, std::max(world_size(), launched_processes(options)));
  if (shows_config) {
    fmt::print("{}", config_table(options, *CommonArguments(options).log_format == "json"));
    return std::nullopt;
  }
  check_option_conflicts(Options(options));  // a copy, so that reading does not mark options as used
  return std::move(options);
}

int run_program(const std::string& program, std::vector<std::string> words) {
  std::signal(SIGINT, exit_on_interrupt);
  const auto front_end = front_end_of(program);
  const auto* command = words.empty() ? nullptr : find_command(front_end, words[0]);
  Audience audience{front_end, command ? command->verb : kEveryVerb, {}};
  try {
    if (const char* spec = std::getenv("HONE_FAULT")) set_fault(spec);
    device::settle_threads(/*chosen=*/std::getenv("OMP_NUM_THREADS") != nullptr);
    device::load_cuda_library();
    if (is_megatron(program)) {
      auto given = with_megatron_file(std::move(words), system_access());
      for (const auto& [name, value] : given.environment) ::setenv(name.c_str(), value.c_str(), 0);
      words = unwrap_megatron(given.words, world_size());
    }
    if (front_end == FrontEnd::factory && asks_for_v1(system_access())) words = unwrap_v1(words, system_access(), world_size());
    const int code = dispatch(audience, words);
    if (std::fflush(stdout) != 0 && errno != EPIPE) throw std::system_error(errno, std::generic_category(), "standard output");
    return code;
  } catch (const UserError& error) {
    return report(audience, error);
  } catch (const InternalError& error) {
    return report(audience, ExitCode::failure, error.what(), "this is a mistake in hone; please report it with the command line");
  } catch (const c10::OutOfMemoryError& error) {
    return report(audience, ExitCode::out_of_memory, error.what_without_backtrace(),
                  "smaller --per_device_train_batch_size or --max_length, or --gradient_checkpointing true");
  } catch (const c10::Error& error) {
    bool full = std::string_view(error.what_without_backtrace()).find("not enough memory") != std::string_view::npos;
    if (full)
      return report(audience, ExitCode::out_of_memory, "this machine's memory is used up",
                    "hone plan shows what a run needs; smaller --per_device_train_batch_size or --max_length need less");
    return report_failure(audience, error.what_without_backtrace());
  } catch (const std::filesystem::filesystem_error& error) {
    const auto found = fmt::format("{}: {}", error.path1().string(), error.code().message());
    if (is_out_of_space(error)) return report(audience, ExitCode::out_of_space, found, kFull);
    const bool refused = error.code() == std::errc::permission_denied || error.code() == std::errc::read_only_file_system;
    return report(audience, refused ? ExitCode::usage : ExitCode::failure, found, "check the path and its rights");
  } catch (const std::system_error& error) {
    return is_out_of_space(error) ? report(audience, ExitCode::out_of_space, error.what(), kFull)
                                  : report_failure(audience, error.what());
  } catch (const std::bad_alloc&) {
    return report(audience, ExitCode::out_of_memory, "this machine's memory is used up",
                  "hone plan shows what a run needs; smaller --per_device_train_batch_size or --max_length need less");
  } catch (const std::exception& error) {
    return report_failure(audience, error.what());
  }
}

}  // namespace hone::cli
