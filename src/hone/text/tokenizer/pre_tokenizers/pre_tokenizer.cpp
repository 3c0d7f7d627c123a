#include "hone/text/tokenizer/pre_tokenizers/pre_tokenizer.h"

#include "hone/base/strings/replace_all.h"
#include "hone/text/tokenizer/component.h"
#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"
#include "hone/text/tokenizer/pre_tokenizers/regex.h"
#include "hone/text/tokenizer/pre_tokenizers/spans.h"
#include "hone/text/tokenizer/unicode/unicode.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

// A pre-tokenizer made of a function from a text to spans.
template <class Find>
class SplitBy : public PreTokenizer {
 public:
  SplitBy(Find find, Behavior behavior) : find_(std::move(find)), behavior_(behavior) {}
  void apply(std::vector<PreToken>& pieces) const override {
    std::vector<PreToken> out;
    out.reserve(pieces.size() * 2);
    for (auto& piece : pieces)
      for (auto& span : arrange(find_(piece.text), behavior_))
        if (!span.matched && span.begin < span.end)
          out.push_back({piece.text.substr(span.begin, span.end - span.begin), piece.first && span.begin == 0});
    pieces = std::move(out);
  }

 private:
  Find find_;
  Behavior behavior_;
};

template <class Find>
PreTokenizerPtr split_by(Find find, Behavior behavior) {
  return std::make_unique<SplitBy<Find>>(std::move(find), behavior);
}

template <class Accept>
PreTokenizerPtr split_by_character(Accept accept, Behavior behavior) {
  return split_by([accept](std::string_view text) { return spans_by_character(text, accept); }, behavior);
}

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space), use_regex_(use_regex) {}
  void apply(std::vector<PreToken>& pieces) const override {
    std::vector<PreToken> out;
    for (auto& piece : pieces) {
      if (add_prefix_space_ && !piece.text.starts_with(' ')) piece.text.insert(0, " ");
      Spans whole{{0, piece.text.size(), true}};
      for (auto& span : use_regex_ ? spans_of(known_splitter(kGpt2Pattern), piece.text) : whole) {
        PreToken part{{}, piece.first && span.begin == 0};
        append_byte_level(part.text, std::string_view(piece.text).substr(span.begin, span.end - span.begin));
        out.push_back(std::move(part));
      }
    }
    pieces = std::move(out);
  }

 private:
  bool add_prefix_space_, use_regex_;
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { first, never, always };
  Metaspace(uint32_t replacement, Prepend prepend, bool split) : code_point_(replacement), prepend_(prepend), split_(split) {
    append_utf8(replacement_, replacement);
  }
  void apply(std::vector<PreToken>& pieces) const override {
    for (auto& piece : pieces) {
      piece.text = replace_all(std::move(piece.text), " ", replacement_);
      bool wanted = prepend_ == Prepend::always || (prepend_ == Prepend::first && piece.first);
      if (wanted && !piece.text.starts_with(replacement_)) piece.text.insert(0, replacement_);
    }
    if (!split_) return;
    auto is_replacement = [this](uint32_t c) { return c == code_point_; };
    auto find = [&](std::string_view text) { return spans_by_character(text, is_replacement); };
    SplitBy<decltype(find)>(find, Behavior::merged_with_next).apply(pieces);
  }

 private:
  uint32_t code_point_;
  Prepend prepend_;
  bool split_;
  std::string replacement_;
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<PreTokenizerPtr> parts) : parts_(std::move(parts)) {}
  void apply(std::vector<PreToken>& pieces) const override {
    for (auto& part : parts_) part->apply(pieces);
  }

 private:
  std::vector<PreTokenizerPtr> parts_;
};

Behavior behavior_of(Fields& fields, Behavior fallback) {
  if (!fields.has("behavior")) return fallback;
  auto name = fields.text("behavior");
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  fields.fail("unknown behavior '" + name + "'");
  return fallback;
}

Result<PreTokenizerPtr> make_split(Fields& fields) {
  auto pattern = fields.pattern("pattern");
  auto behavior = behavior_of(fields, Behavior::isolated);
  if (!fields.has("behavior")) fields.fail("'behavior' is missing");
  bool invert = fields.flag("invert", false);
  if (!fields.error().empty()) return Error{fields.error()};
  auto inverted = [invert](Spans spans) {
    for (auto& span : spans) span.matched ^= invert;
    return spans;
  };
  auto* splitter = pattern.regex ? known_splitter(pattern.text) : nullptr;
  if (splitter)
    return split_by([splitter, inverted](std::string_view text) { return inverted(spans_of(splitter, text)); }, behavior);
  if (!pattern.regex) {
    std::string quoted;
    for (char c : pattern.text) {
      bool plain = static_cast<unsigned char>(c) >= 0x80 || std::isalnum(static_cast<unsigned char>(c)) || c == ' ';
      if (!plain)
        quoted += fmt::format("\\x{{{:x}}}", static_cast<unsigned char>(c));
      else
        quoted += c;
    }
    pattern.text = quoted;
  }
  auto regex = Regex::compile(pattern.text);
  if (!regex) return error("Split: {}", regex.error());
  return split_by([regex = *regex, inverted](std::string_view text) { return inverted(regex.split(text)); }, behavior);
}

PreTokenizerPtr make_metaspace(Fields& fields) {
  auto scheme = fields.text("prepend_scheme", "always");
  if (fields.has("add_prefix_space") && !fields.flag("add_prefix_space", true)) scheme = "never";
  auto prepend = scheme == "first"   ? Metaspace::Prepend::first
                 : scheme == "never" ? Metaspace::Prepend::never
                                     : Metaspace::Prepend::always;
  if (scheme != "first" && scheme != "never" && scheme != "always") fields.fail("unknown prepend_scheme '" + scheme + "'");
  return std::make_unique<Metaspace>(fields.character("replacement", 0x2581), prepend, fields.flag("split", true));
}

Result<PreTokenizerPtr> make_pre_tokenizer_sequence(Fields& fields) {
  std::vector<PreTokenizerPtr> parts;
  for (auto& child : fields.list("pretokenizers")) {
    auto part = make_pre_tokenizer(child);
    if (!part) return part;
    if (*part) parts.push_back(std::move(*part));
  }
  if (!fields.error().empty()) return Error{fields.error()};
  return PreTokenizerPtr(std::make_unique<PreTokenizerSequence>(std::move(parts)));
}

PreTokenizerPtr make_bert() {
  std::vector<PreTokenizerPtr> parts;
  parts.push_back(split_by_character(is_white_space, Behavior::removed));
  parts.push_back(split_by_character(is_punctuation, Behavior::isolated));
  return std::make_unique<PreTokenizerSequence>(std::move(parts));
}

PreTokenizerPtr make_simple_pre_tokenizer(const std::string& type, Fields& fields) {
  if (type == "BertPreTokenizer") return make_bert();
  if (type == "ByteLevel")
    return std::make_unique<ByteLevel>(fields.flag("add_prefix_space", true), fields.flag("use_regex", true));
  if (type == "Metaspace") return make_metaspace(fields);
  if (type == "Whitespace") return split_by(word_and_symbol_runs, Behavior::removed);
  if (type == "WhitespaceSplit") return split_by_character(is_white_space, Behavior::removed);
  if (type == "Punctuation") return split_by_character(is_punctuation, behavior_of(fields, Behavior::isolated));
  if (type == "Digits")
    return split_by_character(is_numeric, fields.flag("individual_digits", false) ? Behavior::isolated : Behavior::contiguous);
  if (type == "UnicodeScripts") return split_by(script_runs, Behavior::removed);
  if (type == "CharDelimiterSplit" || type == "Delimiter") {
    uint32_t delimiter = fields.character("delimiter", 0);
    return split_by_character([delimiter](uint32_t c) { return c == delimiter; }, Behavior::removed);
  }
  if (type == "FixedLength") {
    auto chars = static_cast<size_t>(fields.number("length", 5, 1, INT32_MAX));
    return split_by([chars](std::string_view text) { return fixed_runs(text, chars); }, Behavior::removed);
  }
  return nullptr;
}

}  // namespace

Result<PreTokenizerPtr> make_pre_tokenizer(const Json& json) {
  if (json.is_null()) return PreTokenizerPtr();
  if (!json.is_object()) return error("pre_tokenizer is {}; expected an object", json.type_name());
  Fields fields(json, "pre_tokenizer");
  auto type = fields.type();
  if (type == "Sequence") return make_pre_tokenizer_sequence(fields);
  if (type == "Split") return make_split(fields);
  auto simple = make_simple_pre_tokenizer(type, fields);
  if (!fields.error().empty()) return Error{fields.error()};
  if (!simple) return error("pre_tokenizer: unknown type '{}'", type);
  return simple;
}

Splitter byte_level_splitter(const Json& json) {
  auto is = [](const Json& part, const char* type) { return part.is_object() && part.contains("type") && part["type"] == type; };
  auto spells_bytes = [&](const Json& part, bool with_regex) {
    if (!is(part, "ByteLevel")) return false;
    Fields fields(part, "");
    return !fields.flag("add_prefix_space", true) && fields.flag("use_regex", true) == with_regex;
  };
  if (spells_bytes(json, true)) return known_splitter(kGpt2Pattern);
  if (!is(json, "Sequence") || !json.contains("pretokenizers")) return nullptr;
  auto& parts = json["pretokenizers"];
  if (!parts.is_array() || parts.size() != 2 || !is(parts[0], "Split") || !spells_bytes(parts[1], false)) return nullptr;
  Fields split(parts[0], "");
  auto pattern = split.pattern("pattern");
  auto behavior = split.text("behavior");
  // The known patterns match everything, so text between matches does not occur.
  bool same = behavior == "Isolated" || (behavior == "Removed" && split.flag("invert", false));
  return pattern.regex && same && split.error().empty() ? known_splitter(pattern.text) : nullptr;
}

}  // namespace hone::text::tokenizer
