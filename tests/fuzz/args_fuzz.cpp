// Any words as a command line of any front end: options, the native command for them, or a UserError; nothing else. The first
// line picks program and command, the others are words; what follows a NUL is what every config file contains.
#include <string>
#include <vector>

#include "hone/base/log.h"
#include "hone/cli/commands/convert_config.h"
#include "hone/cli/parsing/resolve_auto.h"

using namespace hone;
using namespace hone::cli;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  auto cut = text.find('\0');
  std::string file = cut == std::string::npos ? "" : text.substr(cut + 1);
  text.resize(std::min(cut, text.size()));
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    auto end = std::min(text.find('\n', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.size() < 2) return 0;
  log::configure({.level = log::Level::off});
  SystemAccess system{[&](const std::string&) { return file; }, [](const std::string&) { return std::optional<std::string>(); }};
  try {
    auto line = read_command_line(words, system);
    auto parsed = parse_invocation(line.invocation, with_environment(system, line.environment));
    (void)native_command(line.invocation, parsed.options);
    resolve_auto_values(parsed.options, 1);
    (void)parsed.options.to_json();
  } catch (const UserError&) {
  }
  return 0;
}
