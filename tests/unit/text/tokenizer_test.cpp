// Parts of the tokenizer that need no other program to be judged.
#include "hone/text/tokenizer.h"

#include <gtest/gtest.h>

#include "hone/text/tokenizer/models/bpe.h"
#include "hone/text/tokenizer/pre_tokenizers/regex.h"
#include "hone/text/tokenizer/pre_tokenizers/splitters.h"
#include "hone/text/tokenizer/unicode/utf8.h"

namespace hone::text {
namespace {

using tokenizer::Span;

std::shared_ptr<const Tokenizer> byte_level_tokenizer() {
  // Every byte, and "你" (E4 BD A0) only in part: E4 BD.
  std::string vocab, letter;
  auto alphabet = [](unsigned byte) {
    bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    if (printable) return byte;
    unsigned hidden = 0;
    for (unsigned b = 0; b < byte; ++b) hidden += !((b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE);
    return 256 + hidden;
  };
  for (unsigned byte = 0; byte < 256; ++byte) vocab += fmt::format("{}\"\\u{:04x}\": {}", byte ? ", " : "", alphabet(byte), byte);
  vocab += ", \"\\u00e4\\u00bd\": 256";
  return tokenizer_from_json(R"({"added_tokens": [{"id": 257, "content": "<end>", "special": true, "normalized": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {)" +
                             vocab + R"(}, "merges": [["\u00e4", "\u00bd"]]}})")
      .or_throw(ExitCode::bad_data, "test");
}

TEST(Utf8, ReplacesEachMaximalInvalidPart) {
  auto repair = [](std::string_view bytes) {
    std::string out;
    tokenizer::append_lossy(out, bytes);
    return out;
  };
  EXPECT_EQ(repair("a\xE4\xBDz"), "a\uFFFDz");
  EXPECT_EQ(repair("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(repair("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(repair("\xC0\xAF"), "\uFFFD\uFFFD");
}

TEST(StreamDecoder, NeverEmitsHalfACharacter) {
  auto tokenizer = byte_level_tokenizer();
  auto ids = tokenizer->encode("x你<end>好😀");
  for (bool skip : {false, true}) {
    StreamDecoder stream(*tokenizer, skip);
    std::string joined;
    for (TokenId id : ids) {
      auto part = stream.push(id);
      EXPECT_TRUE(tokenizer::is_valid_utf8(part));
      EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
      joined += part;
    }
    joined += stream.finish();
    EXPECT_EQ(joined, tokenizer->decode(ids, skip));
    EXPECT_EQ(joined, skip ? "x你好😀" : "x你<end>好😀");
  }
}

TEST(StreamDecoder, HandsOutWhatIsLeftAtTheEnd) {
  auto tokenizer = byte_level_tokenizer();
  StreamDecoder stream(*tokenizer, false);
  EXPECT_EQ(stream.push(256), "");  // two of three bytes
  EXPECT_EQ(stream.finish(), "\uFFFD");
}

TEST(Tokenizer, GuardKeepsSpecialTokensAsText) {
  auto tokenizer = byte_level_tokenizer();
  EXPECT_EQ(tokenizer->encode("<end>"), std::vector<TokenId>{257});
  auto guarded = tokenizer->encode("<end>", {.guard_special_tokens = true});
  EXPECT_EQ(guarded.size(), 5u);
  EXPECT_EQ(tokenizer->decode(guarded), "<end>");
  EXPECT_TRUE(tokenizer->is_special(257));
}

TEST(Bpe, LongAndShortPiecesMergeAlike) {
  tokenizer::MergeTable table;
  table.add(1, 1, {0, 2});  // aa
  table.add(2, 2, {1, 3});  // aaaa
  table.add(2, 1, {2, 4});  // aaa
  for (size_t length : {1u, 2u, 3u, 7u, 95u, 96u, 97u, 203u, 1001u}) {
    std::vector<TokenId> symbols(length, 1);
    tokenizer::merge_symbols(table, symbols);
    EXPECT_EQ(symbols.size(), length / 4 + (length % 4 != 0)) << length;
  }
}

TEST(Regex, ReadsOnigurumasDialect) {
  auto matches = [](const std::string& pattern, std::string_view text) {
    std::vector<std::string> out;
    for (auto& span : tokenizer::Regex::compile(pattern).or_throw(ExitCode::bad_data, "test").split(text))
      if (span.matched) out.emplace_back(text.substr(span.begin, span.end - span.begin));
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(matches("[a-z&&[^b]]+", "abc"), (Texts{"a", "c"}));
  EXPECT_EQ(matches("[[ab]c]+", "xabcx"), (Texts{"abc"}));
  EXPECT_EQ(matches("\\h+", "xyz1f"), (Texts{"1f"}));
  EXPECT_EQ(matches("\\d{1,2}+", "12345"), (Texts{"12345"}));
  EXPECT_EQ(matches("\\p{Han}+", "a你好、b"), (Texts{"你好"}));
}

TEST(Regex, StopsCatastrophicPatterns) {
  auto regex = tokenizer::Regex::compile("(a+)+$").or_throw(ExitCode::bad_data, "test");
  EXPECT_THROW(regex.split(std::string(40, 'a') + "b"), UserError);
}

TEST(Splitters, AgreeWithTheirPatterns) {
  std::string_view text = "It's  12 a\r\n\n  你好 Don'T HELLOworld\u0301 x/\n!? \t";
  for (
      std::string pattern :
      {std::string(tokenizer::kGpt2Pattern),
       std::string(
           R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")}) {
    auto* splitter = tokenizer::known_splitter(pattern);
    ASSERT_NE(splitter, nullptr);
    const char* at = text.data();
    for (auto& span : tokenizer::Regex::compile(pattern).or_throw(ExitCode::bad_data, "test").split(text)) {
      EXPECT_EQ(at, text.data() + span.begin);
      at = splitter(at, text.data() + text.size());
      EXPECT_EQ(at, text.data() + span.end);
    }
  }
}

}  // namespace
}  // namespace hone::text
