#include "hone/base/json.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hone {
namespace {

TEST(ParseJson, KeepsKeyOrder) { EXPECT_EQ(parse_json(R"({"b":1,"a":[true,null]})")->dump(), R"({"b":1,"a":[true,null]})"); }

TEST(ParseJson, RefusesDeepNesting) {
  std::string deep(100'000, '[');
  auto result = parse_json(deep);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().find("128 levels"), std::string::npos);
}

TEST(ParseJson, RefusesBrokenTexts) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":}", "nul", "NaN", "\"\xff\"", "1 2", "{\"a\":1e999}"})
    EXPECT_FALSE(parse_json(text).ok()) << text;
}

TEST(ParseYaml, TypesScalarsAsLlamaFactoryUsersMeanThem) {
  auto value = parse_yaml("a: 1e-4\nb: 1.0e-4\nc: 3\nd: true\ne: null\nf: \"5\"\ng: [x, 2]\nh: yes\ni:\n").value();
  EXPECT_DOUBLE_EQ(value["a"].get<double>(), 1e-4);
  EXPECT_DOUBLE_EQ(value["b"].get<double>(), 1e-4);
  EXPECT_EQ(value["c"], 3);
  EXPECT_EQ(value["d"], true);
  EXPECT_TRUE(value["e"].is_null());
  EXPECT_EQ(value["f"], "5");
  EXPECT_EQ(value["g"], Json::array({"x", 2}));
  EXPECT_EQ(value["h"], "yes");
  EXPECT_TRUE(value["i"].is_null());
}

TEST(ParseYaml, RefusesAliasBombs) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  auto result = parse_yaml(bomb);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().find("too many values"), std::string::npos);
}

TEST(ParseYaml, NamesTheLine) {
  auto result = parse_yaml("a: 1\nb: [1, 2\nc: 3\n");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().find("line "), std::string::npos);
}

TEST(Json, SortsKeysAtAllLevels) {
  const auto value = parse_json(R"({"b": [{"z": 1, "a": null}, 2], "a": {"d": "x", "c": true}})").value();
  EXPECT_EQ(sorted_by_key(value).dump(), R"({"a":{"c":true,"d":"x"},"b":[{"a":null,"z":1},2]})");
}

}  // namespace
}  // namespace hone
