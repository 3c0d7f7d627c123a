// The options of one run: typed and checked values with their sources.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hone/base/error.h"
#include "hone/cli/table.h"

namespace hone::cli {

enum class Source { built_in, automatic, environment, checkpoint, file, command_line };
std::string_view source_name(Source source);

// The names that the user wrote instead of the front end's own, by option.
using TypedNames = std::map<std::string, std::string, std::less<>>;

struct Setting {
  const Option* option = nullptr;
  Json value;
  Source source = Source::built_in;
  std::string where;       // "train.yaml:7", "--learning_rate", "LOG_LEVEL", "checkpoint-5/args.json"
  std::string_view alias;  // the other name that the user wrote, if its values mean the same; "" otherwise
  bool is_auto = false;    // the default is "auto" and not resolved yet
  mutable bool read = false;
};

class Options {
 public:
  Options(FrontEnd front_end, std::string command, Verbs verb);

  FrontEnd front_end() const { return front_end_; }
  const std::string& command() const { return command_; }  // "sft", "train" …
  Verbs verb() const { return verb_; }

  // Reading a name that the command does not have, or a value that is none, is a bug (HONE_CHECK). Names are the table's own,
  // whatever the front end calls them.
  bool has(std::string_view name) const;          // not none, not an undecided "auto", not an empty list
  bool is_set(std::string_view name) const;       // by anything but a default
  std::string text(std::string_view name) const;  // "" when none, "auto" when undecided
  double real(std::string_view name) const;
  int64_t integer(std::string_view name) const;  // also bytes
  bool flag(std::string_view name) const;        // none is false
  std::vector<std::string> list(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;  // a list of numbers; throws UserError naming the bad one
  // Parsed JSON; a path is opened and read. Null when none.
  Json json(std::string_view name) const;
  // text() that must exist: otherwise a UserError with the front end's name of the option.
  std::string required(std::string_view name) const;

  Source source(std::string_view name) const;
  const Setting& setting(std::string_view name) const;
  bool has_option(std::string_view name) const { return settings_.contains(name); }
  const std::vector<std::string>& positional() const { return words_; }  // words that are not options: a file, a topic
  // "--model_name_or_path", for messages: the name that the user wrote, otherwise the front end's.
  std::string display_name(std::string_view name) const;

  void set(std::string_view name, Json value, Source source, std::string where);
  void remember_alias(std::string_view name, std::string_view alias);
  void leave_undecided(std::string_view name);  // the user wrote "auto"
  // Fills an undecided value as coming from "auto".
  void resolve(std::string_view name, Json value);
  void add_word(std::string word) { words_.push_back(std::move(word)); }

  TypedNames aliases() const;
  // In the table's order, for --show_config and args.json.
  std::vector<const Setting*> in_order() const;
  Json to_json() const;
  // Options that were given but never read: the last guard against an option that silently does nothing.
  std::vector<const Setting*> given_but_unread() const;
  // For a command that ends with nothing done: that most options were not read says nothing about them.
  void accept_unread() const;

 private:
  const Json& value(std::string_view name, std::string_view wanted) const;
  FrontEnd front_end_;
  std::string command_;
  Verbs verb_;
  std::map<std::string, Setting, std::less<>> settings_;
  std::vector<std::string> words_;
};

}  // namespace hone::cli
