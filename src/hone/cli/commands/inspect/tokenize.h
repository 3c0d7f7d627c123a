// hone tokenize: text to token ids, or ids back to text.
#pragma once
#include <string>

namespace hone::cli {

struct TokenizeOptions {
  std::string model;
  bool decode = false, lines = false;
  std::string format = "text";  // text: ids separated by spaces; jsonl: one list a line
  bool special_tokens = false;
  std::string file;  // empty: standard input
};

int tokenize_command(const TokenizeOptions& options);

}  // namespace hone::cli
