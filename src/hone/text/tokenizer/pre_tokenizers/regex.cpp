#include "hone/text/tokenizer/pre_tokenizers/regex.h"

#include "hone/text/pcre.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {

struct Regex::Code {
  pcre::Code code;
  std::string pattern;
};

namespace {

// One pass over one text: owns the match data and the end of the last match.
class Finder {
 public:
  Finder(const pcre2_code* code, const std::string& pattern, std::string_view text)
      : code_(code), pattern_(pattern), text_(text), data_(pcre2_match_data_create(1, nullptr)), context_(pcre::limited()) {}
  Finder(const Finder&) = delete;

  // The next match; an empty match right after the previous one does not count.
  bool next(Span& match) {
    while (position_ <= text_.size()) {
      if (!search(0)) return false;
      auto* bounds = pcre2_get_ovector_pointer(data_.get());
      match = {bounds[0], bounds[1], true};
      if (match.begin != match.end || match.end != last_end_) {
        position_ = last_end_ = match.end;
        return true;
      }
      position_ += position_ < text_.size() ? static_cast<size_t>(utf8_length(static_cast<unsigned char>(text_[position_]))) : 1;
    }
    return false;
  }

 private:
  bool search(uint32_t options) {
    auto* subject = reinterpret_cast<PCRE2_SPTR>(text_.data());
    int found = pcre2_match(code_, subject, text_.size(), position_, PCRE2_NO_UTF_CHECK | options, data_.get(), context_.get());
    if (found >= 0) return true;
    if (found == PCRE2_ERROR_NOMATCH) return false;
    // The interpreter keeps its stack on the heap, so it can complete matches that exceed the JIT's small stack.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !options) return search(PCRE2_NO_JIT);
    throw UserError(ExitCode::bad_data,
                    fmt::format("regular expression '{}' of the tokenizer: {}", pattern_, pcre::message(found)),
                    "the pattern needs too much work on this text; simplify it in tokenizer.json or shorten the text");
  }

  const pcre2_code* code_;
  const std::string& pattern_;
  std::string_view text_;
  pcre::MatchData data_;
  pcre::MatchContext context_;
  size_t position_ = 0, last_end_ = static_cast<size_t>(-1);
};

}  // namespace

Result<Regex> Regex::compile(const std::string& oniguruma_pattern) {
  if (oniguruma_pattern.size() > pcre::kMaxPattern)
    return error("regular expression of {} bytes; at most {}", oniguruma_pattern.size(), pcre::kMaxPattern);
  auto code = pcre::compile(pcre_from_oniguruma(oniguruma_pattern), PCRE2_MULTILINE);
  if (!code) return error("regular expression '{}': {}", oniguruma_pattern, code.error());
  auto compiled = std::make_shared<Code>(Code{std::move(code).value(), oniguruma_pattern});
  return Regex(std::move(compiled));
}

std::vector<Span> Regex::split(std::string_view text) const {
  std::vector<Span> spans;
  Finder finder(code_->code.get(), code_->pattern, text);
  size_t done = 0;
  for (Span match; finder.next(match); done = match.end) {
    if (done != match.begin) spans.push_back({done, match.begin, false});
    spans.push_back(match);
  }
  if (done != text.size()) spans.push_back({done, text.size(), false});
  return spans;
}

std::string Regex::replace(std::string_view text, std::string_view content) const {
  std::string out;
  out.reserve(text.size());
  for (auto span : split(text)) out.append(span.matched ? content : text.substr(span.begin, span.end - span.begin));
  return out;
}

}  // namespace hone::text::tokenizer
