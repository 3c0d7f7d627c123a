// PCRE2 for tokenizers and Python's regular expressions:
// compiling untrusted patterns, and limits on matching.
#pragma once
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>

#include "hone/base/error.h"

namespace hone::text::pcre {

// Enough for any reasonable pattern on a line of prose; a catastrophic one stops within a second.
inline constexpr uint32_t kMatchLimit = 20'000'000, kDepthLimit = 100'000, kHeapLimitKiB = 64 * 1024;
inline constexpr size_t kMaxPattern = 64 * 1024;  // bytes

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, Free>;
using MatchData = std::unique_ptr<pcre2_match_data, Free>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free>;

// Text and classes are Unicode; lines end at \n. JIT-compiled where PCRE2 supports it.
Result<Code> compile(const std::string& pattern, uint32_t options);
MatchContext limited();
std::string message(int code);

}  // namespace hone::text::pcre
