#include "hone/text/tokenizer/decoder.h"

#include <optional>

#include "hone/base/strings/hex.h"
#include "hone/base/strings/replace_all.h"
#include "hone/text/tokenizer/component.h"
#include "hone/text/tokenizer/pre_tokenizers/byte_level.h"
#include "hone/text/tokenizer/pre_tokenizers/regex.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text::tokenizer {
namespace {

using DecoderPtr = std::unique_ptr<Decoder>;

template <class Change>
class Chain : public Decoder {
 public:
  explicit Chain(Change change) : change_(std::move(change)) {}
  void apply(Tokens& tokens) const override { change_(tokens); }

 private:
  Change change_;
};

template <class Change>
DecoderPtr chain(Change change) {
  return std::make_unique<Chain<Change>>(std::move(change));
}

class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<DecoderPtr> parts) : parts_(std::move(parts)) {}
  void apply(Tokens& tokens) const override {
    for (auto& part : parts_) part->apply(tokens);
  }

 private:
  std::vector<DecoderPtr> parts_;
};

void byte_level(Tokens& tokens) {
  std::string bytes, text;
  for (auto& token : tokens)
    if (!append_from_byte_level(bytes, token)) bytes += token;
  append_lossy(text, bytes);
  tokens = {std::move(text)};
}

std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  const int high = hex_value(token[3]), low = hex_value(token[4]);
  if (token[3] == '+' && low >= 0) return static_cast<char>(low);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high << 4 | low);
}

// Runs of <0xNN> become the text they encode, or one U+FFFD per byte if they encode none.
void byte_fallback(Tokens& tokens) {
  Tokens out;
  std::string bytes;
  auto flush = [&] {
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes))
      out.push_back(bytes);
    else
      out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (auto byte = byte_of_token(token)) {
      bytes.push_back(*byte);
    } else {
      flush();
      out.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(out);
}

void fuse(Tokens& tokens) {
  std::string all;
  for (auto& token : tokens) all += token;
  tokens = {std::move(all)};
}

// Removes spaces that English spelling does not have.
void clean_up(std::string& text) {
  static constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (auto& [from, to] : kRules) text = replace_all(std::move(text), from, to);
}

void word_piece(Tokens& tokens, std::string_view prefix, bool cleanup) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) {
      if (tokens[i].starts_with(prefix))
        tokens[i].erase(0, prefix.size());
      else
        tokens[i].insert(0, " ");
    }
    if (cleanup) clean_up(tokens[i]);
  }
}

void ctc(Tokens& tokens, const std::string& pad, const std::string& delimiter, bool cleanup) {
  Tokens out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && tokens[i] == tokens[i - 1]) continue;
    std::string text = tokens[i];
    text = replace_all(std::move(text), pad, "");
    if (cleanup) {
      clean_up(text);
      text = replace_all(std::move(text), delimiter, " ");
    }
    if (!text.empty()) out.push_back(std::move(text));
  }
  tokens = std::move(out);
}

void metaspace(Tokens& tokens, const std::string& replacement, bool drop_leading) {
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = replace_all(std::move(tokens[i]), replacement, i == 0 && drop_leading ? "" : " ");
}

// Removes up to `start` characters `content` from the front and up to `stop` from the back of each token.
void strip(Tokens& tokens, const std::string& content, size_t start, size_t stop) {
  for (auto& token : tokens) {
    std::string_view left = token;
    for (size_t i = 0; i < start && left.starts_with(content); ++i) left.remove_prefix(content.size());
    for (size_t i = 0; i < stop && left.ends_with(content); ++i) left.remove_suffix(content.size());
    token = std::string(left);
  }
}

Result<DecoderPtr> make_replace_decoder(Fields& fields) {
  auto pattern = fields.pattern("pattern");
  auto content = fields.text("content");
  if (!fields.error().empty()) return Error{fields.error()};
  if (!pattern.regex)
    return chain([pattern, content](Tokens& tokens) {
      for (auto& token : tokens) token = replace_all(std::move(token), pattern.text, content);
    });
  auto regex = Regex::compile(pattern.text);
  if (!regex) return error("Replace: {}", regex.error());
  return chain([regex = *regex, content](Tokens& tokens) {
    for (auto& token : tokens) token = regex.replace(token, content);
  });
}

Result<DecoderPtr> make_decoder_sequence(Fields& fields) {
  std::vector<DecoderPtr> parts;
  for (auto& child : fields.list("decoders")) {
    auto part = make_decoder(child);
    if (!part) return part;
    if (*part) parts.push_back(std::move(*part));
  }
  if (!fields.error().empty()) return Error{fields.error()};
  return DecoderPtr(std::make_unique<DecoderSequence>(std::move(parts)));
}

std::string one_character(Fields& fields, const char* key, uint32_t fallback) {
  std::string text;
  append_utf8(text, fields.character(key, fallback));
  return text;
}

DecoderPtr make_simple_decoder(const std::string& type, Fields& fields) {
  if (type == "ByteLevel") return chain(byte_level);
  if (type == "ByteFallback") return chain(byte_fallback);
  if (type == "Fuse") return chain(fuse);
  if (type == "BPEDecoder")
    return chain([suffix = fields.text("suffix", "</w>")](Tokens& tokens) {
      for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = replace_all(std::move(tokens[i]), suffix, i + 1 == tokens.size() ? "" : " ");
    });
  if (type == "WordPiece")
    return chain([prefix = fields.text("prefix", "##"), cleanup = fields.flag("cleanup", true)](Tokens& tokens) {
      word_piece(tokens, prefix, cleanup);
    });
  if (type == "CTC")
    return chain([pad = fields.text("pad_token", "<pad>"), delimiter = fields.text("word_delimiter_token", "|"),
                  cleanup = fields.flag("cleanup", true)](Tokens& tokens) { ctc(tokens, pad, delimiter, cleanup); });
  if (type == "Strip")
    return chain([content = one_character(fields, "content", ' '),
                  start = static_cast<size_t>(fields.number("start", 0, 0, INT32_MAX)),
                  stop = static_cast<size_t>(fields.number("stop", 0, 0, INT32_MAX))](Tokens& tokens) {
      strip(tokens, content, start, stop);
    });
  if (type == "Metaspace") {
    bool never = fields.text("prepend_scheme", "always") == "never" || !fields.flag("add_prefix_space", true);
    return chain([replacement = one_character(fields, "replacement", 0x2581), never](Tokens& tokens) {
      metaspace(tokens, replacement, !never);
    });
  }
  return nullptr;
}

}  // namespace

Result<DecoderPtr> make_decoder(const Json& json) {
  if (json.is_null()) return DecoderPtr();
  if (!json.is_object()) return error("decoder is {}; expected an object", json.type_name());
  Fields fields(json, "decoder");
  auto type = fields.type();
  if (type == "Sequence") return make_decoder_sequence(fields);
  if (type == "Replace") return make_replace_decoder(fields);
  auto simple = make_simple_decoder(type, fields);
  if (!fields.error().empty()) return Error{fields.error()};
  if (!simple) return error("decoder: unknown type '{}'", type);
  return simple;
}

}  // namespace hone::text::tokenizer
