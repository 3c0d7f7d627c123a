#include "hone/engine/constraints/compiler.h"

#include <gtest/gtest.h>

#include "engine/constraint_fixture.h"
#include "hone/base/rng.h"

namespace hone::engine {
namespace {

TEST(Constraints, RegularExpressions) {
  EXPECT_TRUE(allows(*regex("a+b?"), "aaab"));
  EXPECT_FALSE(allows(*regex("a+b?"), "aaabb"));
  EXPECT_TRUE(allows(*regex("^(cat|dog)s{0,2}$"), "dogss"));
  EXPECT_FALSE(allows(*regex("(cat|dog)s{0,2}"), "dogsss"));
  EXPECT_TRUE(allows(*regex(R"(\d{3}-[^x]\.)"), "123-y."));
  EXPECT_FALSE(allows(*regex(R"(\d{3}-[^x]\.)"), "123-x."));
  EXPECT_TRUE(allows(*regex("."), "中"));
  EXPECT_FALSE(allows(*regex("."), "\xE4\xB8")) << "half a character is not a character";
  EXPECT_TRUE(allows(*regex("[à-ü]+"), "éè"));
  EXPECT_FALSE(allows(*regex("[à-ü]+"), "e"));
  EXPECT_TRUE(allows(*regex("x{2,}"), "xxxx"));
  EXPECT_FALSE(allows(*regex("x{2,}"), "x"));
  EXPECT_TRUE(allows(*regex("(^a|b)c"), "ac"));
  EXPECT_TRUE(allows(*regex("(^a$)|(^b$)"), "b"));
  EXPECT_TRUE(allows(*regex("a{,}{}"), "aa{}")) << "as Python reads braces";
  EXPECT_TRUE(allows(*regex(R"(\012)"), "\n"));
  EXPECT_FALSE(allows(*regex(R"([^\s])"), "\x1c")) << "a space to Python";
  EXPECT_TRUE(allows(*regex("(a?b?){3}"), "ab"));
  EXPECT_FALSE(allows(*regex("(a?b?){3}"), "bababab"));
}

TEST(Constraints, RefusesWhatAnAutomatonCannotFollow) {
  for (const char* pattern : {"(?=a)b", R"((a)\1)", "(a", "a)", "*a", "[a", "a{3,2}", "(?i)a", "a$b", "a**", "a*+", "a{2}{3}",
                              "{2}", "x(^a)", "(^a)*", "(a$)b", "a\xC3("})
    EXPECT_FALSE(compiler().regex(pattern)) << pattern;
}

TEST(Constraints, TokensOfSeveralBytes) {
  auto constraint = regex("hello|abc");
  auto mask = constraint->mask(Constraint::kStart);
  EXPECT_TRUE(mask->allows('h'));
  EXPECT_TRUE(mask->allows(256)) << "he";
  EXPECT_TRUE(mask->allows(257)) << "ab";
  EXPECT_FALSE(mask->allows('e'));
  EXPECT_FALSE(mask->allows(kEnd));
  EXPECT_TRUE(constraint->mask(constraint->next(Constraint::kStart, 256))->allows('l'));
}

TEST(Constraints, Schemas) {
  auto person = schema(
      R"({"type":"object","properties":{"name":{"type":"string","minLength":1},"age":{"type":"integer","minimum":0,"maximum":130},
                           "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":2}},"required":["name","age"]})");
  EXPECT_TRUE(allows(*person, R"({"name":"é\n","age":7})"));
  EXPECT_TRUE(allows(*person, R"({"name": "x", "age": 130, "tags": ["a", "b"]})"));
  EXPECT_TRUE(allows(*person, "{\n  \"name\": \"x\",\n  \"age\": 0\n}"));
  EXPECT_TRUE(allows(*person, "{\n        \"name\": \"x\",\n\"age\": 0 }")) << "indented by eight, or not at all";
  for (const char* wide :
       {"{\n         \"name\": \"x\", \"age\": 0}", "{\"name\":\n\"x\", \"age\": 0}", "{\"name\":  \"x\", \"age\": 0}"})
    EXPECT_FALSE(allows(*person, wide)) << wide;
  for (const char* wrong : {R"({"name":"","age":7})", R"({"name":"x","age":131})", R"({"name":"x"})", R"({"age":7,"name":"x"})",
                            R"({"name":"x","age":07})", R"({"name":"x","age":7,"tags":["a","b","a"]})", R"({"name":"x","age":7)",
                            R"({"name":"x","age":7.5})"})
    EXPECT_FALSE(allows(*person, wrong)) << wrong;
  EXPECT_TRUE(allows(*schema(R"({"anyOf":[{"const":null},{"type":"boolean"}]})"), "true"));
  EXPECT_TRUE(allows(*schema(R"({"type":["number","null"]})"), "-1.5e3"));
}

TEST(Constraints, OneOfIsExactlyOne) {
  for (
      const char* right :
      {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", R"({"oneOf":[{"const":1},{"enum":[2,"a"]},{"type":"null"}]})",
       R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind"]},
                     {"type":"object","properties":{"kind":{"const":"b"}},"required":["kind","y"]}]})",
       R"({"oneOf":[{"properties":{"a":{"type":"null"}},"required":["a"]},{"properties":{"b":{"type":"null"}},"required":["b"]}]})",
       R"({"$defs":{"n":{"type":"number"}},"oneOf":[{"$ref":"#/$defs/n"},{"anyOf":[{"type":"string"},{"const":true}]}]})"})
    EXPECT_TRUE(compiler().json_schema(Json::parse(right))) << right;
  for (
      const char* wrong :
      {R"({"oneOf":[{"type":"number"},{"type":"integer"}]})", R"({"oneOf":[{"type":"string"},{"enum":["a",1]}]})",
       R"({"oneOf":[{"minLength":1},{"type":"string"}]})",
       R"({"oneOf":[{"properties":{"a":{"type":"null"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"null"}}}]})",
       R"({"oneOf":[{"type":"object","properties":{"k":{"type":"string"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"}},"required":["k"]}]})"})
    EXPECT_FALSE(compiler().json_schema(Json::parse(wrong))) << wrong;
  EXPECT_TRUE(allows(*schema(R"({"oneOf":[{"type":"boolean"},{"const":null}]})"), "true"));
}

TEST(Constraints, OptionalPropertiesInEveryCombination) {
  auto three =
      schema(R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]})");
  for (const char* right :
       {R"({"b":null})", R"({"a":null,"b":null})", R"({"b":null,"c":null})", R"({"a":null,"b":null,"c":null})"})
    EXPECT_TRUE(allows(*three, right)) << right;
  for (const char* wrong : {"{}", R"({"a":null})", R"({"a":null,"c":null})", R"({,"b":null})", R"({"b":null,})"})
    EXPECT_FALSE(allows(*three, wrong)) << wrong;
}

TEST(Constraints, ReferencesNestUpToTheLimit) {
  auto tree = schema(
      R"({"$defs":{"node":{"type":"object","properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/node"}]}},"required":["next"]}},
                        "$ref":"#/$defs/node"})");
  EXPECT_TRUE(allows(*tree, R"({"next":{"next":null}})"));
  EXPECT_FALSE(compiler().json_schema(Json::parse(R"({"$ref":"#/nowhere"})")));
  EXPECT_FALSE(compiler().json_schema(Json::parse(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})")))
      << "endless";
  EXPECT_FALSE(compiler().json_schema(Json::parse(R"({"not":{}})")));
}

TEST(Constraints, IntegerRanges) {
  Rng rng(3);
  auto tokenizer = byte_tokenizer();
  for (int round = 0; round < 40; ++round) {
    auto one = static_cast<int64_t>(rng.below(3000)) - 1500, other = static_cast<int64_t>(rng.below(3000)) - 1500;
    auto low = std::min(one, other), high = std::max(one, other);
    auto constraint = schema(fmt::format(R"({{"type":"integer","minimum":{},"maximum":{}}})", low, high).c_str());
    for (int64_t value : {low - 1, low, low + 1, (low + high) / 2, high - 1, high, high + 1, int64_t{0}})
      EXPECT_EQ(allows(*constraint, std::to_string(value)), low <= value && value <= high)
          << value << " in " << low << " to " << high;
  }
}

TEST(Constraints, AnyObject) {
  auto object = compiler().json_object().or_throw(ExitCode::failure, "object");
  EXPECT_TRUE(allows(*object, R"({"a": [1, {"b": null}], "c": "d"})"));
  EXPECT_FALSE(allows(*object, "[1]"));
  EXPECT_FALSE(allows(*object, R"({"a":})"));
}

TEST(Constraints, Choices) {
  auto choice = compiler().choice({"yes", "no", "no way"}).or_throw(ExitCode::failure, "choice");
  EXPECT_TRUE(allows(*choice, "no"));
  EXPECT_TRUE(allows(*choice, "no way"));
  EXPECT_FALSE(allows(*choice, "no w"));
}

}  // namespace
}  // namespace hone::engine
