// From arguments, files and the environment to Options, by the rules of both dialects.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hone/cli/options.h"
#include "hone/cli/parsing/config_entries.h"

namespace hone::cli {

std::string underscored(std::string_view name);  // options may be typed with hyphens

using Assignments = std::vector<std::pair<std::string, std::string>>;  // variables and their values

struct Parsed {
  Options options;
  std::vector<std::string> notes;  // accepted options and why they do nothing; one line each
  Assignments environment;         // a config file's ENV, for variables that are not set yet
  bool help = false;
  std::string help_topic;  // a group of options, or "all"
};

struct Syntax {
  FrontEnd front_end = FrontEnd::hone;
  std::string command;  // as typed
  Verbs verb = 0;
  bool config_first = false;    // a .yaml, .yml or .json as first word is a config file
  int max_words = 0;            // words that are not options
  bool whole_line = false;      // from the first such word on, everything is another command's
  bool passes_options = false;  // everything is, but the command's own options
};

// Throws only UserError(usage), for any input.
Parsed parse_arguments(const Syntax& syntax, const std::vector<std::string>& words, const SystemAccess& system);

// Applies a checkpoint's args.json as ms-swift does: some values always, some only if not given, the data options on request.
// `folder` contains args.json.
void apply_checkpoint_args(Options& options, const std::string& folder, const Json& args);
// The first of --adapters, --model that holds an args.json; applies it if --load_args is set.
void load_checkpoint_args(Options& options);

// Resolves every "auto" that can be known before the model is loaded.
void resolve_auto_values(Options& options, int world_size);
// "learning_rate 0.0001, packing false": resolved values of "auto" that affect the run.
std::string describe_auto_values(const Options& options);
// Throws UserError for options that exclude or require each other.
void check_option_conflicts(const Options& options);
// The rule that every reader of sharding settings needs: DeepSpeed's and FSDP's exclude each other.
void check_one_sharding(const Options& options);

}  // namespace hone::cli
