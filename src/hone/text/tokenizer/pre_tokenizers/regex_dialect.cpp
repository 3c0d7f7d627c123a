#include <utf8proc.h>

#include <algorithm>

#include "hone/base/strings/utf8.h"
#include "hone/text/tokenizer/pre_tokenizers/regex.h"
#include "hone/text/tokenizer/unicode/unicode_exceptions.h"

namespace hone::text::tokenizer {
namespace {

constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kHexDigits = "0-9a-fA-F";
constexpr std::string_view kYoungHan = R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";  // extensions H and I
constexpr int kMaxNesting = 50;

std::string range_text(uint32_t first, uint32_t last) {
  return first == last ? fmt::format("\\x{{{:x}}}", first) : fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", first, last);
}

// Characters newer than PCRE2's tables whose general category starts with `name` ("L", "Lu", "N" …).
std::string young_characters(std::string_view name) {
  std::string out;
  for (auto& range : kNewCategories) {
    std::string_view category;
    switch (range.category) {
      case UTF8PROC_CATEGORY_LU:
        category = "Lu";
        break;
      case UTF8PROC_CATEGORY_LL:
        category = "Ll";
        break;
      case UTF8PROC_CATEGORY_LM:
        category = "Lm";
        break;
      case UTF8PROC_CATEGORY_LO:
        category = "Lo";
        break;
      case UTF8PROC_CATEGORY_ND:
        category = "Nd";
        break;
      case UTF8PROC_CATEGORY_MN:
        category = "Mn";
        break;
      case UTF8PROC_CATEGORY_PO:
        category = "Po";
        break;
      default:
        category = "So";
        break;
    }
    if (category.starts_with(name)) out += range_text(range.first, range.last);
  }
  return out;
}

std::string word_class() {
  return R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})" + young_characters("L") + young_characters("M") +
         young_characters("N");
}

// A script's bare name means Script_Extensions in PCRE2 and Script in Oniguruma; categories have one or two letters.
std::string property_body(std::string_view name) {
  bool negated = name.starts_with('^');
  if (negated) name.remove_prefix(1);
  static constexpr std::string_view kNotScripts[] = {"Any",       "Alphabetic",  "Alpha", "Lowercase",
                                                     "Uppercase", "White_Space", "Emoji"};
  for (auto known : kNotScripts)
    if (name == known) return (negated ? "^" : "") + std::string(name);
  if (name == "Letter") name = "L";
  if (name == "Number") name = "N";
  if (name == "Punct" || name == "Punctuation") name = "P";
  if (name.size() <= 2 || name.find_first_of(":=") != name.npos) return (negated ? "^" : "") + std::string(name);
  return (negated ? "^sc:" : "sc:") + std::string(name);
}

class Translator {
 public:
  explicit Translator(std::string_view source) : source_(source) {}

  std::string run() {
    while (at_ < source_.size()) step();
    return std::move(out_);
  }

 private:
  void step() {
    char c = source_[at_];
    if (c == '\\') return atom([&] { out_ += escape_outside(); });
    if (c == '[') return atom([&] { out_ += char_class(0); });
    if (c == '(') return open_group();
    if (c == ')') {
      if (!groups_.empty()) {
        last_atom_ = groups_.back();
        groups_.pop_back();
      }
      out_ += source_[at_++];
      return;
    }
    if (c == '{' && interval()) return;
    bool quantifier = c == '*' || c == '+' || c == '?';
    if (quantifier)
      out_ += source_[at_++];
    else
      atom([&] { out_ += source_[at_++]; });
  }

  template <class Emit>
  void atom(Emit&& emit) {
    last_atom_ = out_.size();
    emit();
    // A multi-byte character is one atom.
    while (at_ < source_.size() && is_continuation_byte(source_[at_])) out_ += source_[at_++];
  }

  void open_group() {
    groups_.push_back(out_.size());
    out_ += source_[at_++];
    if (!rest().starts_with('?')) return;
    // Ruby's m makes the dot match newlines, which PCRE2 calls s.
    out_ += source_[at_++];
    while (at_ < source_.size() && std::string_view("imx-").find(source_[at_]) != std::string_view::npos) {
      out_ += source_[at_] == 'm' ? 's' : source_[at_];
      ++at_;
    }
  }

  // X{n,m}+ repeats the interval in Ruby syntax, while in PCRE2 it is possessive.
  bool interval() {
    size_t close = source_.find('}', at_);
    if (close == std::string_view::npos) return false;
    auto body = source_.substr(at_ + 1, close - at_ - 1);
    if (body.empty() || body.find_first_not_of("0123456789,") != body.npos) return false;
    std::string text(source_.substr(at_, close + 1 - at_));
    if (text.starts_with("{,")) text.insert(1, "0");
    out_ += text;
    at_ = close + 1;
    if (rest().starts_with('+')) {
      out_.insert(last_atom_, "(?:");
      out_ += ')';
    }
    return true;
  }

  std::string escape_outside() {
    std::string body;
    bool inverse = false;
    if (class_escape(body, inverse)) return (inverse ? "[^" : "[") + body + "]";
    char kind = at_ + 1 < source_.size() ? source_[at_ + 1] : '\\';
    if (kind == 'b' || kind == 'B') {
      at_ += 2;
      std::string word = "[" + word_class() + "]";
      auto edge = [&](const char* behind, const char* ahead) {
        return std::string("(?<") + behind + word + ")(?" + ahead + word + ")";
      };
      return kind == 'b' ? "(?:" + edge("=", "!") + "|" + edge("!", "=") + ")"
                         : "(?:" + edge("=", "=") + "|" + edge("!", "!") + ")";
    }
    return plain_escape();
  }

  // \s \S \w \W \h \H \p{…} \P{…}: the members as text for the inside of a class.
  bool class_escape(std::string& body, bool& inverse) {
    if (at_ + 1 >= source_.size()) return false;
    char kind = source_[at_ + 1];
    switch (kind) {
      case 's':
      case 'S':
        body = kSpaces;
        break;
      case 'w':
      case 'W':
        body = word_class();
        break;
      case 'h':
      case 'H':
        body = kHexDigits;
        break;
      case 'd':
      case 'D':
        body = "\\p{Nd}" + young_characters("Nd");
        break;
      case 'p':
      case 'P':
        return property(body, inverse);
      default:
        return false;
    }
    inverse = kind < 'a';
    at_ += 2;
    return true;
  }

  bool property(std::string& body, bool& inverse) {
    size_t close = source_.find('}', at_);
    if (at_ + 2 >= source_.size() || source_[at_ + 2] != '{' || close == std::string_view::npos) return false;
    auto name = source_.substr(at_ + 3, close - at_ - 3);
    inverse = source_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      inverse = !inverse;
      name.remove_prefix(1);
    }
    auto known = property_body(name);
    body = "\\p{" + known + "}" + (known.size() <= 2 ? young_characters(known) : "");
    if (known == "sc:Han") body += kYoungHan;
    at_ = close + 1;
    return true;
  }

  std::string plain_escape() {
    if (rest().starts_with("\\u") && at_ + 6 <= source_.size()) {
      auto digits = std::string(source_.substr(at_ + 2, 4));
      at_ += 6;
      return "\\x{" + digits + "}";
    }
    std::string text(source_.substr(at_, 2));
    at_ += text.size();
    return text;
  }

  // At '['. Returns an expression that matches one character.
  std::string char_class(int depth) {
    ++at_;
    bool negated = rest().starts_with('^');
    if (negated) ++at_;
    std::vector<std::string> operands;
    std::string members;
    std::vector<std::string> alternatives;
    bool first = true;
    auto finish_operand = [&] {
      if (!members.empty()) alternatives.insert(alternatives.begin(), "[" + members + "]");
      std::string joined;
      for (auto& alternative : alternatives) joined += (joined.empty() ? "" : "|") + alternative;
      operands.push_back(alternatives.size() == 1 ? joined : "(?:" + joined + ")");
    };
    while (at_ < source_.size() && (source_[at_] != ']' || first)) {
      first = false;
      if (rest().starts_with("&&")) {
        at_ += 2;
        finish_operand();
        members.clear(), alternatives.clear();
      } else if (rest().starts_with("[:")) {
        size_t close = source_.find(":]", at_);
        size_t end = close == std::string_view::npos ? source_.size() : close + 2;
        auto name = source_.substr(at_, end - at_);
        if (name == "[:punct:]")
          members += "\\p{P}\\p{S}" + young_characters("P") + young_characters("S");  // symbols count too
        else
          members += name;
        at_ = end;
      } else if (source_[at_] == '[' && depth < kMaxNesting) {
        alternatives.push_back(char_class(depth + 1));
      } else if (source_[at_] == '\\') {
        std::string body;
        bool inverse = false;
        if (!class_escape(body, inverse))
          members += plain_escape();
        else if (inverse)
          alternatives.push_back("[^" + body + "]");
        else
          members += body;
      } else {
        if (source_[at_] == '[' || (source_[at_] == ']')) members += '\\';
        members += source_[at_++];
      }
    }
    ++at_;
    bool plain = operands.empty() && alternatives.empty();
    if (plain) return (negated ? "[^" : "[") + members + "]";
    finish_operand();
    std::string all;
    for (size_t i = 0; i + 1 < operands.size(); ++i) all += "(?=" + operands[i] + ")";
    all += operands.back();
    return negated ? "(?:(?!" + all + ")(?s:.))" : "(?:" + all + ")";
  }

  std::string_view rest() const { return source_.substr(std::min(at_, source_.size())); }

  std::string_view source_;
  size_t at_ = 0, last_atom_ = 0;
  std::string out_;
  std::vector<size_t> groups_;
};

}  // namespace

std::string pcre_from_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace hone::text::tokenizer
