// Covers of a text by spans, and what becomes of those that a pattern matched.
#pragma once
#include <string_view>
#include <vector>

#include "hone/text/tokenizer/pre_tokenizers/regex.h"
#include "hone/text/tokenizer/pre_tokenizers/splitters.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {

using Spans = std::vector<Span>;

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Applies a behavior to spans that cover a text; `matched` in the result means "drop it".
Spans arrange(const Spans& spans, Behavior behavior);

// Each accepted character is a match.
template <class Accept>
Spans spans_by_character(std::string_view text, Accept&& accept) {
  Spans spans;
  size_t done = 0;
  for_each_char(text, [&](uint32_t c, size_t at, size_t length) {
    if (!accept(c)) return;
    if (done < at) spans.push_back({done, at, false});
    spans.push_back({at, at + length, true});
    done = at + length;
  });
  if (done < text.size()) spans.push_back({done, text.size(), false});
  return spans;
}

// All pieces of a splitter are matches.
Spans spans_of(Splitter splitter, std::string_view text);

// \w+|[^\w\s]+ with the rest removed.
Spans word_and_symbol_runs(std::string_view text);

// A new piece starts where the script changes; characters without a script belong to the preceding piece.
Spans script_runs(std::string_view text);

Spans fixed_runs(std::string_view text, size_t chars);

}  // namespace hone::text::tokenizer
