#include "hone/text/token_bytes.h"

#include <gtest/gtest.h>

namespace hone::text {
namespace {

std::shared_ptr<const Tokenizer> with_vocabulary(const std::string& vocabulary) {
  auto tokenizer = tokenizer_from_json(
      R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}], "model": {"type": "BPE", "merges": [], "vocab": )" +
      vocabulary + "}}");
  EXPECT_TRUE(tokenizer) << (tokenizer ? "" : tokenizer.error());
  return *tokenizer;
}

TEST(TokenBytes, OfSentencePiece) {
  auto tokenizer = with_vocabulary("{\"<s>\": 0, \"<0x0A>\": 1, \"\u2581the\": 2, \"<0xF0>\": 3, \"\u00e9\": 4, \"\u2581\": 5}");
  TokenBytes bytes(*tokenizer);
  EXPECT_EQ(bytes.of(0), "<s>");
  EXPECT_EQ(bytes.of(1), "\n");
  EXPECT_EQ(bytes.of(2), " the");
  EXPECT_EQ(bytes.of(3), "\xF0");
  EXPECT_EQ(bytes.of(4), "\u00e9");
}

TEST(TokenBytes, OfTheByteLevelAlphabet) {
  auto tokenizer = with_vocabulary("{\"<s>\": 0, \"\u0120a\": 1, \"\u00f0\u0141\": 2}");
  TokenBytes bytes(*tokenizer);
  EXPECT_EQ(bytes.of(0), "<s>");
  EXPECT_EQ(bytes.of(1), " a");
  EXPECT_EQ(bytes.of(2), "\xF0\x9F") << "the first half of a smile";
}

}  // namespace
}  // namespace hone::text
