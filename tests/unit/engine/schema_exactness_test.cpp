// What schemas ask for, to the letter: all they accept can be written (in the order and spacing of json_schema.h), and nothing
// else.
#include <gtest/gtest.h>

#include <chrono>

#include "engine/constraint_fixture.h"

namespace hone::engine {
namespace {

std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", text); }

TEST(SchemaExactness, DatesAreThoseOfTheCalendar) {
  auto date = schema(R"({"type":"string","format":"date"})");
  for (int year : {1, 99, 400, 1900, 1999, 2000, 2023, 2024, 2100, 9999})
    for (unsigned month = 0; month <= 13; ++month)
      for (unsigned day = 0; day <= 32; ++day) {
        std::chrono::year_month_day exact{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
        auto text = fmt::format("{:04}-{:02}-{:02}", year, month, day);
        ASSERT_EQ(allows(*date, in_quotes(text)), exact.ok()) << text;
      }
  EXPECT_FALSE(allows(*date, in_quotes("0000-01-01")));
}

TEST(SchemaExactness, Formats) {
  struct Case {
    const char* format;
    std::vector<const char*> right, wrong;
  };
  for (const auto& [format, right, wrong] : std::vector<Case>{
           {"time",
            {"23:59:59Z", "00:00:00+05:30", "12:30:01.123456-23:59"},
            {"24:00:00Z", "12:30:01", "12:30Z", "12:30:01+24:00", "12:30:01.Z"}},
           {"date-time",
            {"2024-02-29T12:00:00Z", "2023-12-31T23:59:59.5+01:00"},
            {"2023-02-29T12:00:00Z", "2023-12-31 23:59:59Z", "2023-12-31"}},
           {"duration", {"P1Y2M3DT4H5M6S", "PT36H", "P2W"}, {"P", "PT", "P1W2D", "1D"}},
           {"email", {"Ada.Lovelace+x@Example.COM", "a@b.co"}, {"a@b", ".a@b.co", "a..b@c.de", "a@-b.co", "a b@c.de", "a@b.c"}},
           {"hostname", {"localhost", "A-1.example.org"}, {"-a", "a-", "a..b", ""}},
           {"ipv4", {"0.0.0.0", "255.255.255.255"}, {"256.0.0.1", "1.2.3", "01.2.3.4"}},
           {"ipv6",
            {"::", "::1", "1::", "fe80::1:2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8"},
            {"1:2:3:4:5:6:7", ":::", "1::2::3", "1:2:3:4:5:6:7::8:9"}},
           {"uuid",
            {"123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000"},
            {"123e4567e89b12d3a456426614174000"}},
           {"uri",
            {"https://example.org", "http://a:80/b/c%20d?e=f", "ftp://h/"},
            {"example.org", "http://", "http://a b", "http://a/%2"}}}) {
    auto held = compiler().json_schema({{"type", "string"}, {"format", format}}).or_throw(ExitCode::failure, format);
    for (const char* text : right) EXPECT_TRUE(allows(*held, in_quotes(text))) << format << " " << text;
    for (const char* text : wrong) EXPECT_FALSE(allows(*held, in_quotes(text))) << format << " " << text;
  }
  EXPECT_EQ(refusal(Json::parse(R"({"type":"string","format":"uri","minLength":1,"maxLength":2083})")), "");
  EXPECT_EQ(refusal(Json::parse(R"({"type":"integer","format":"int32"})")), "") << "a remark of others";
  EXPECT_NE(refusal(Json::parse(R"({"type":"string","format":"iri"})")).find("iri"), std::string::npos);
  EXPECT_NE(refusal(Json::parse(R"({"type":"string","format":"date","pattern":"^2"})")).find("format"), std::string::npos);
}

// Of listed values, those that the keywords beside them accept.
TEST(SchemaExactness, ListedValuesAreFiltered) {
  struct Case {
    const char *schema, *value;
    bool accepted;
  };
  for (auto [text, value, accepted] : std::vector<Case>{
           {R"({"enum":[1,5],"minimum":4})", "1", false},
           {R"({"enum":[1,5],"minimum":4})", "5", true},
           {R"({"enum":[1,5],"exclusiveMaximum":5})", "5", false},
           {R"({"enum":["a","abc"],"minLength":2})", R"("a")", false},
           {R"({"enum":["é中","abc"],"maxLength":2})", R"("é中")", true},
           {R"({"enum":["xby","abc"],"pattern":"b.$"})", R"("xby")", true},
           {R"({"enum":["byx","xby"],"pattern":"b.$"})", R"("byx")", false},
           {R"({"enum":["2024-01-01","x"],"format":"date"})", R"("x")", false},
           {R"({"enum":[{"a":1},{"a":"b"}],"properties":{"a":{"type":"integer"}}})", R"({"a":"b"})", false},
           {R"({"enum":[{"a":1},{}],"required":["a"]})", "{}", false},
           {R"({"enum":[[1],[1,2]],"maxItems":1})", "[1,2]", false},
           {R"({"enum":[[1],["x"]],"items":{"type":"integer"}})", R"(["x"])", false},
           {R"({"enum":[1,2,3],"anyOf":[{"maximum":1},{"minimum":3}]})", "2", false},
           {R"({"enum":[1,2,3],"anyOf":[{"maximum":1},{"minimum":3}]})", "3", true},
           {R"({"enum":[1,2],"allOf":[{"enum":[2.0,3]}]})", "2", true},
           {R"({"enum":[1,"a",null],"oneOf":[{"type":"integer"},{"minimum":0,"type":["number","null"]}]})", "1", false},
           {R"({"enum":[1,"a",null],"oneOf":[{"type":"integer"},{"minimum":0,"type":["number","null"]}]})", "null", true},
           {R"({"type":"string","anyOf":[{"type":"integer"},{"maxLength":1}]})", R"("a")", true},
           {R"({"type":["string","null"],"enum":["a",null,1]})", "null", true}}) {
    auto other = refusal(Json::parse(text));
    ASSERT_EQ(other, "") << text;
    EXPECT_EQ(allows(*schema(text), value), accepted) << text << " " << value;
  }
  EXPECT_NE(refusal(Json::parse(R"({"const":"x","enum":["y"]})")).find("nothing"), std::string::npos);
}

TEST(SchemaExactness, WhatIsNotFollowedIsNamed) {
  for (const char* keyword :
       {"not", "if", "patternProperties", "propertyNames", "dependencies", "dependentRequired", "dependentSchemas", "contains",
        "minProperties", "maxProperties", "multipleOf", "unevaluatedItems", "additionalItems", "$dynamicRef", "futureKeyword"}) {
    auto why = refusal({{"type", "object"}, {keyword, 2}});
    EXPECT_NE(why.find(fmt::format("\"{}\"", keyword)), std::string::npos) << keyword << ": " << why;
  }
  EXPECT_NE(refusal(Json::parse(R"({"type":"array","uniqueItems":true})")).find("uniqueItems"), std::string::npos);
  EXPECT_EQ(refusal(Json::parse(
                R"({"title":"t","description":"d","default":1,"examples":[1],"$comment":"c","readOnly":true,"deprecated":true,
                                    "x-own":1,"uniqueItems":false,"type":"array","items":{"type":"null"}})")),
            "");
}

TEST(SchemaExactness, PartsAreJoined) {
  auto both = schema(R"({"type":"number","minimum":0,"allOf":[{"type":"integer"},{"minimum":3,"maximum":9},{"maximum":5}]})");
  for (int value : {2, 6}) EXPECT_FALSE(allows(*both, std::to_string(value)));
  for (int value : {3, 5}) EXPECT_TRUE(allows(*both, std::to_string(value)));
  EXPECT_FALSE(allows(*both, "3.5"));
  auto closed = schema(R"({"allOf":[{"properties":{"a":{"type":"null"}}}],"type":"object","unevaluatedProperties":false})");
  EXPECT_TRUE(allows(*closed, R"({"a":null})"));
  EXPECT_TRUE(allows(*schema(R"({"type":"object","unevaluatedProperties":false})"), "{}"));
  EXPECT_FALSE(allows(*schema(R"({"type":"object","unevaluatedProperties":false})"), R"({"a":1})"));
}

TEST(SchemaExactness, ListsWithPlaces) {
  auto pair = schema(R"({"type":"array","prefixItems":[{"const":1},{"const":2}]})");
  for (const char* right : {"[]", "[1]", "[1,2]"}) EXPECT_TRUE(allows(*pair, right)) << right;
  for (const char* wrong : {"[2]", "[1,2,3]", "[,1]"}) EXPECT_FALSE(allows(*pair, wrong)) << wrong;
  auto more = schema(R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":2,"maxItems":4})");
  for (const char* right : {"[1,2]", "[1, 2, 3]", "[1,2,3,3]"}) EXPECT_TRUE(allows(*more, right)) << right;
  for (const char* wrong : {"[1]", "[1,2,2]", "[1,2,3,3,3]"}) EXPECT_FALSE(allows(*more, wrong)) << wrong;
  EXPECT_FALSE(allows(*schema(R"({"prefixItems":[{"const":1}],"items":false})"), "[1,1]"));
}

TEST(SchemaExactness, ManyOptionalProperties) {
  Json properties = Json::object();
  for (int i = 0; i < 300; ++i) properties[fmt::format("p{:03}", i)] = {{"type", "string"}};
  auto many = compiler()
                  .json_schema({{"type", "object"}, {"properties", properties}, {"required", {"p150"}}})
                  .or_throw(ExitCode::failure, "many");
  EXPECT_TRUE(allows(*many, R"({"p150":""})"));
  EXPECT_TRUE(allows(*many, R"({"p000":"a","p149":"","p150":"","p299":"z"})"));
  EXPECT_FALSE(allows(*many, R"({"p000":"a","p299":"z"})"));
  EXPECT_FALSE(allows(*many, R"({"p150":"","p149":""})"));
  EXPECT_FALSE(allows(*many, R"({"p150":"","p150":""})"));
}

// Every number of up to three decimals around the bounds.
TEST(SchemaExactness, DecimalBounds) {
  auto held = schema(R"({"type":"number","exclusiveMinimum":-1.25,"maximum":10.05})");
  for (int thousandths = -1300; thousandths <= 10'100; ++thousandths) {
    double value = thousandths / 1000.0;
    auto text = fmt::format("{:.3f}", value);
    ASSERT_EQ(allows(*held, text == "-0.000" ? "0.000" : text), value > -1.25 && value <= 10.05) << text;
  }
  EXPECT_FALSE(allows(*schema(R"({"type":"number","exclusiveMinimum":999999999.5})"), "999999999.50000001"))
      << "read as the bound itself";
}

}  // namespace
}  // namespace hone::engine
