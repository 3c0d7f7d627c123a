#include "hone/text/tokenizer/normalizer.h"

#include <algorithm>

#include "hone/base/strings/base64.h"
#include "hone/base/strings/replace_all.h"
#include "hone/text/tokenizer/component.h"
#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"
#include "hone/text/tokenizer/pre_tokenizers/regex.h"
#include "hone/text/tokenizer/unicode/unicode.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

using NormalizerPtr = std::unique_ptr<Normalizer>;

// A normalizer that maps each character to some text.
template <class Map>
class PerCharacter : public Normalizer {
 public:
  explicit PerCharacter(Map map) : map_(std::move(map)) {}
  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    for_each_char(text, [&](uint32_t c, size_t at, size_t length) { map_(out, c, std::string_view(text).substr(at, length)); });
    text = std::move(out);
  }

 private:
  Map map_;
};

template <class Map>
NormalizerPtr per_character(Map map) {
  return std::make_unique<PerCharacter<Map>>(std::move(map));
}

// A normalizer that works on the whole text.
template <class Change>
class WholeText : public Normalizer {
 public:
  explicit WholeText(Change change) : change_(std::move(change)) {}
  void apply(std::string& text) const override { change_(text); }

 private:
  Change change_;
};

template <class Change>
NormalizerPtr whole_text(Change change) {
  return std::make_unique<WholeText<Change>>(std::move(change));
}

class UnicodeForm : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  void apply(std::string& text) const override { text = normalize(text, form_); }
  bool leaves(std::string_view text) const override { return form_ == NormalForm::nfc && is_surely_nfc(text); }

 private:
  NormalForm form_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> parts) : parts_(std::move(parts)) {}
  void apply(std::string& text) const override {
    for (auto& part : parts_) part->apply(text);
  }
  bool leaves(std::string_view text) const override {
    for (auto& part : parts_)
      if (!part->leaves(text)) return false;
    return true;
  }

 private:
  std::vector<NormalizerPtr> parts_;
};

class Bert : public Normalizer {
 public:
  Bert(bool clean, bool chinese, bool accents, bool lowercase)
      : clean_(clean), chinese_(chinese), accents_(accents), lowercase_(lowercase) {}

  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    for_each_char(text, [&](uint32_t c, size_t, size_t) {
      if (clean_) {
        if (c == 0 || c == 0xFFFD || is_control(c)) return;
        if (is_white_space(c)) c = ' ';
      }
      bool spaced = chinese_ && is_chinese(c);
      if (spaced) out.push_back(' ');
      append_utf8(out, c);
      if (spaced) out.push_back(' ');
    });
    if (accents_) out = without_accents(out);
    if (lowercase_) out = lowered(out);
    text = std::move(out);
  }

  static std::string lowered(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for_each_char(text, [&](uint32_t c, size_t, size_t) { append_lowercase(out, c); });
    return out;
  }

 private:
  static std::string without_accents(std::string_view text) {
    std::string out;
    for_each_char(normalize(text, NormalForm::nfd), [&](uint32_t c, size_t, size_t) {
      if (!is_nonspacing_mark(c)) append_utf8(out, c);
    });
    return out;
  }

  static bool is_chinese(uint32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
  }

  bool clean_, chinese_, accents_, lowercase_;
};

void strip(std::string& text, bool left, bool right) {
  size_t begin = text.size(), end = 0;
  for_each_char(text, [&](uint32_t c, size_t at, size_t length) {
    if (is_white_space(c)) return;
    begin = std::min(begin, at);
    end = at + length;
  });
  if (right) text.resize(end);
  if (left) text.erase(0, std::min(begin, text.size()));
}

void append_nmt(std::string& out, uint32_t c, std::string_view text) {
  bool removed = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  if (removed) return;
  bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 ||
               c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
  out.append(space ? " " : text);
}

Result<NormalizerPtr> make_replace_normalizer(Fields& fields) {
  auto pattern = fields.pattern("pattern");
  auto content = fields.text("content");
  if (!fields.error().empty()) return Error{fields.error()};
  if (!pattern.regex && !pattern.text.empty())
    return whole_text([pattern, content](std::string& text) { text = replace_all(std::move(text), pattern.text, content); });
  auto regex = Regex::compile(pattern.text);
  if (!regex) return error("Replace: {}", regex.error());
  return whole_text([regex = *regex, content](std::string& text) { text = regex.replace(text, content); });
}

Result<NormalizerPtr> make_normalizer_sequence(Fields& fields) {
  std::vector<NormalizerPtr> parts;
  for (auto& child : fields.list("normalizers")) {
    auto part = make_normalizer(child);
    if (!part) return part;
    if (*part) parts.push_back(std::move(*part));
  }
  if (!fields.error().empty()) return Error{fields.error()};
  return NormalizerPtr(std::make_unique<NormalizerSequence>(std::move(parts)));
}

NormalizerPtr make_simple_normalizer(const std::string& type, Fields& fields) {
  if (type == "NFC") return std::make_unique<UnicodeForm>(NormalForm::nfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(NormalForm::nfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalForm::nfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalForm::nfkd);
  if (type == "Lowercase") return whole_text([](std::string& text) { text = Bert::lowered(text); });
  if (type == "Nmt") return per_character(append_nmt);
  if (type == "ByteLevel")
    return per_character([](std::string& out, uint32_t, std::string_view text) { append_byte_level(out, text); });
  if (type == "StripAccents")
    return per_character([](std::string& out, uint32_t c, std::string_view text) {
      if (!is_combining_mark(c)) out.append(text);
    });
  if (type == "Strip") {
    bool left = fields.flag("strip_left", true), right = fields.flag("strip_right", true);
    return whole_text([left, right](std::string& text) { strip(text, left, right); });
  }
  if (type == "Prepend")
    return whole_text([prefix = fields.text("prepend")](std::string& text) {
      if (!text.empty()) text.insert(0, prefix);
    });
  if (type == "BertNormalizer") {
    bool lowercase = fields.flag("lowercase", true);
    return std::make_unique<Bert>(fields.flag("clean_text", true), fields.flag("handle_chinese_chars", true),
                                  fields.flag("strip_accents", lowercase), lowercase);
  }
  return nullptr;
}

}  // namespace

Result<NormalizerPtr> make_normalizer(const Json& json) {
  if (json.is_null()) return NormalizerPtr();
  if (!json.is_object()) return error("normalizer is {}; expected an object", json.type_name());
  Fields fields(json, "normalizer");
  auto type = fields.type();
  if (type == "Sequence") return make_normalizer_sequence(fields);
  if (type == "Replace") return make_replace_normalizer(fields);
  if (type == "Precompiled") {
    if (!fields.has("precompiled_charsmap")) return NormalizerPtr();  // SentencePiece's identity rule
    auto charsmap = decode_base64(fields.text("precompiled_charsmap"));
    if (!charsmap) return error("Precompiled: {}", charsmap.error());
    return make_precompiled(*charsmap, CharsmapMatching::grapheme);
  }
  auto simple = make_simple_normalizer(type, fields);
  if (!fields.error().empty()) return Error{fields.error()};
  if (!simple) return error("normalizer: unknown type '{}'", type);
  return simple;
}

}  // namespace hone::text::tokenizer
