// Regular expressions of tokenizer files: written for Oniguruma (Ruby syntax), run by PCRE2 with JIT and bounded work.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hone/base/error.h"

namespace hone::text::tokenizer {

// A part of a text, and whether a pattern matched it.
struct Span {
  size_t begin, end;
  bool matched;
};

// Rewrites what the two dialects spell or interpret differently: \s \w \h, scripts, nested and intersected classes, X{n,m}+.
std::string pcre_from_oniguruma(std::string_view pattern);

class Regex {
 public:
  static Result<Regex> compile(const std::string& oniguruma_pattern);
  // Covers `text` with spans in order. Throws UserError if matching exceeds the work limit.
  std::vector<Span> split(std::string_view text) const;
  std::string replace(std::string_view text, std::string_view content) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace hone::text::tokenizer
