// `hone tokenize`: text to token ids, or ids back to text.
#include <charconv>
#include <cstdio>
#include <functional>
#include <iostream>
#include <iterator>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/log.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands.h"
#include "hone/cli/hub_options.h"
#include "hone/text/tokenizer.h"

namespace hone::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  bool decode = false, lines = false;
  std::string format = "text";  // text: ids separated by spaces; jsonl: one list a line
  bool special_tokens = false;
  std::string file;  // empty: standard input
};

using text::TokenId;
using text::Tokenizer;

std::string read_input(const std::string& file) {
  if (!file.empty() && !fs::exists(file))
    throw UserError(ExitCode::usage, fmt::format("{}: there is no such file", file),
                    fmt::format("for a text: echo '{}' | hone tokenize --model …", file));
  if (!file.empty()) return read_file(file);
  if (terminal::is_terminal(0)) log::info("reading a text from the terminal; Ctrl-D ends it");
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// Calls handle(line, number) for the full input (number 0) or for each line without its line break.
void for_each_part(std::string_view input, bool lines, const std::function<void(std::string_view, size_t)>& handle) {
  if (!lines) return handle(input, 0);
  for (size_t number = 1; !input.empty(); ++number) {
    size_t end = std::min(input.find('\n'), input.size());
    handle(input.substr(0, end), number);
    input.remove_prefix(std::min(end + 1, input.size()));
  }
}

std::string ids_as_text(const std::vector<TokenId>& ids, bool json) {
  std::string out = json ? "[" : "";
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i) out += json ? ", " : " ";
    fmt::format_to(std::back_inserter(out), "{}", ids[i]);
  }
  return out + (json ? "]\n" : "\n");
}

// Ids separated by anything that is not a digit: spaces, commas, the brackets of a JSON list.
std::vector<TokenId> parse_ids(std::string_view line, size_t number) {
  auto fail = [&](std::string_view word) {
    auto where = number ? fmt::format("line {}: ", number) : std::string();
    throw UserError(ExitCode::bad_data, fmt::format("{}'{}' is not a token id", where, word.substr(0, 40)),
                    "give ids as 1 2 3 or [1, 2, 3]");
  };
  std::vector<TokenId> ids;
  constexpr std::string_view kSeparators = " \t\r\n,[]";
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(kSeparators), line.size()));
    if (line.empty()) return ids;
    auto word = line.substr(0, line.find_first_of(kSeparators));
    TokenId id = 0;
    auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (problem != std::errc() || end != word.data() + word.size() || id < 0) fail(word);
    ids.push_back(id);
    line.remove_prefix(word.size());
  }
}

void write(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int run_tokenize(const TokenizeOptions& options) {
  if (options.model.empty()) throw UserError(ExitCode::usage, "hone tokenize needs --model DIR");
  bool json = options.format == "jsonl";
  if (!json && options.format != "text")
    throw UserError(ExitCode::usage, fmt::format("--format {}: expected text or jsonl", options.format));
  auto tokenizer = Tokenizer::load(options.model);
  auto input = read_input(options.file);
  if (options.decode) {
    for_each_part(input, options.lines || json, [&](std::string_view line, size_t number) {
      auto ids = parse_ids(line, number);
      for (auto id : ids)
        if (id < 0 || static_cast<size_t>(id) >= tokenizer->size())
          throw UserError(ExitCode::bad_data,
                          fmt::format("{}token id {}; this vocabulary ends at {}", number ? fmt::format("line {}: ", number) : "",
                                      id, tokenizer->size() - 1));
      auto text = tokenizer->decode(ids, !options.special_tokens);
      if (json)
        write(Json(text).dump() + "\n");
      else
        write(options.lines ? text + "\n" : text);
    });
  } else {
    for_each_part(input, options.lines, [&](std::string_view line, size_t) {
      write(ids_as_text(tokenizer->encode(line, {.add_special_tokens = options.special_tokens}), json));
    });
  }
  std::fflush(stdout);
  return static_cast<int>(ExitCode::ok);
}

}  // namespace

int tokenize_command(const Options& options) {
  const ToolArguments args(options);
  return run_tokenize(TokenizeOptions{.model = model_folder(options).string(),
                                      .decode = *args.decode,
                                      .lines = *args.lines,
                                      .format = *args.format,
                                      .special_tokens = *args.special_tokens,
                                      .file = options.positional().empty() ? "" : options.positional()[0]});
}

}  // namespace hone::cli
