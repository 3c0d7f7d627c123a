// A set of texts as a tree: the form of regular expressions and schemas before they become an automaton.
#pragma once
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hone::engine {

struct CodePointRange {
  uint32_t first, last;
  auto operator<=>(const CodePointRange&) const = default;
};

struct PatternNode;
using Pattern = std::shared_ptr<const PatternNode>;

struct PatternNode {
  // `nothing` matches no text at all; an empty sequence matches the empty text. `rest` is a sequence without its first parts:
  // shared, so that many suffixes of one long sequence cost no more than it does.
  enum class Kind { nothing, characters, sequence, rest, choice, repeat };
  Kind kind;
  std::vector<CodePointRange> ranges = {};  // characters
  std::vector<Pattern> parts = {};          // sequence, choice; the one repeated; the sequence a rest is of
  int min = 0, max = -1;                    // repeat; -1: no end
  size_t from = 0;                          // rest: its first part; sequence: from this part on all match the empty text
  bool matches_empty = false;
};

// Parts that cannot match are removed while building, so that every state of an automaton can reach an end.
Pattern pattern_nothing();
Pattern pattern_text(std::string_view utf8);
Pattern pattern_characters(std::vector<CodePointRange> ranges);
Pattern pattern_sequence(std::vector<Pattern> parts);
Pattern pattern_rest(const Pattern& sequence, size_t from);
Pattern pattern_choice(std::vector<Pattern> parts);
Pattern pattern_repeat(Pattern part, int min, int max = -1);
inline Pattern pattern_optional(Pattern part) { return pattern_repeat(std::move(part), 0, 1); }

struct Lengths {
  int64_t min, max;  // -1: no end
};
Lengths lengths_of(const Pattern& pattern);  // of the texts that match, in characters

size_t pattern_bytes(const Pattern& pattern);  // of memory; what is shared inside counts once

constexpr uint32_t kLastCodePoint = 0x10FFFF;
std::vector<CodePointRange> normalized(std::vector<CodePointRange> ranges);         // sorted, disjoint, without surrogates
std::vector<CodePointRange> complement(const std::vector<CodePointRange>& ranges);  // of normalized ones

}  // namespace hone::engine
