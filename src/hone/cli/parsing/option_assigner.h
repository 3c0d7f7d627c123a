// From a value as given to a setting: translated from another name of the option, checked, reported where it has no effect.
#pragma once
#include <string>

#include "hone/cli/parsing/parse.h"

namespace hone::cli {

class OptionAssigner {
 public:
  explicit OptionAssigner(Parsed& parsed) : parsed_(parsed), defaults_(parsed.options) {}

  // `where` is the option or variable as typed, or the file and line. Throws UserError(usage).
  void assign(const NamedOption& target, Json given, Source source, std::string where, bool commas);
  static bool may_be_automatic(const Option& option);  // whether "auto" is a value of it

 private:
  bool return_to_default(const NamedOption& target);
  void check_value(const Option& option, const Json& value, const std::string& where);

  Parsed& parsed_;
  const Options defaults_;
};

}  // namespace hone::cli
