#include <gtest/gtest.h>

#include "hone/text/chat_template.h"

namespace hone::text {
namespace {

std::string render(std::string_view source, const Json& variables = Json::object()) {
  auto parsed = ChatTemplate::parse(source);
  if (!parsed) return "parse error: " + parsed.error();
  auto rendered = parsed->render(variables);
  return rendered ? rendered->text : "error: " + rendered.error();
}

TEST(JinjaLanguage, WhitespaceControlFollowsTrimAndLstrip) {
  EXPECT_EQ(render("  {% if true %}\nx\n  {% endif %}\ny\n"), "x\ny");
  EXPECT_EQ(render("a  {%- if true -%}  b  {%- endif %}"), "ab");
  EXPECT_EQ(render("  {%+ if true %}x{% endif %}"), "  x");
  EXPECT_EQ(render("{# c #}\nz"), "z");
  EXPECT_EQ(render("{% raw %}{{ x }}{% endraw %}"), "{{ x }}");
}

TEST(JinjaLanguage, SetInsideLoopStaysInside) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}"), "221");
  EXPECT_EQ(render("{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}"), "3");
}

TEST(JinjaLanguage, UndefinedPrintsNothingAndItsAttributesFail) {
  EXPECT_EQ(render("[{{ a }}{{ b is defined }}]"), "[False]");
  EXPECT_EQ(render("\n{{ a.b }}"), "error: line 2: 'a' is undefined");
  EXPECT_EQ(render("{{ {}.x is defined }}{{ ({}.x or 'y') }}"), "Falsey");
}

TEST(JinjaLanguage, PythonArithmeticAndPrinting) {
  EXPECT_EQ(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 1e16 }} {{ 0.1 + 0.2 }}"), "-4 2 3.5 1e+16 0.30000000000000004");
  EXPECT_EQ(render("{{ [1, 'a', none, true, 1.0, (2,)] }}"), "[1, 'a', None, True, 1.0, (2,)]");
  EXPECT_EQ(render("{{ 9223372036854775807 + 1 }}"), "error: line 1: integer result does not fit 64 bits");
}

TEST(JinjaLanguage, StringsCountCodePoints) {
  Json variables = Json::parse(R"({"s": "你好👍"})");
  EXPECT_EQ(render("{{ s|length }}{{ s[1] }}{{ s[::-1] }}", variables), "3好👍好你");
}

TEST(JinjaLanguage, MacrosBindArguments) {
  EXPECT_EQ(render("{% macro m(a, b=a) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}|{{ m(1, 2, 3, c=4) }}"),
            "11(){}|12(3,){'c': 4}");
  EXPECT_EQ(render("{% macro m() %}<{{ caller(2) }}>{% endmacro %}{% call(x) m() %}{{ x }}{% endcall %}"), "<2>");
}

TEST(JinjaLanguage, SandboxRefusesMutationAndInternals) {
  EXPECT_EQ(render("{{ [].append(1) }}"), "error: line 1: access to attribute 'append' of 'list' object is unsafe");
  EXPECT_EQ(render("{{ ''.__class__ }}|"), "|");
  EXPECT_EQ(render("{% include 'x' %}"), "error: line 1: 'include' is refused: a chat template cannot load other templates");
}

TEST(JinjaLanguage, ToJsonWritesAsPythonDoes) {
  Json variables = Json::parse(R"({"d": {"b": [1, 2.5, null], "a": "é\"\n<"}})");
  EXPECT_EQ(render("{{ d|tojson }}", variables), "{\"b\": [1, 2.5, null], \"a\": \"é\\\"\\n<\"}");
  EXPECT_EQ(render("{{ d|tojson(sort_keys=true, ensure_ascii=true, separators=(',', ':')) }}", variables),
            "{\"a\":\"\\u00e9\\\"\\n<\",\"b\":[1,2.5,null]}");
  EXPECT_EQ(render("{{ [1, {}]|tojson(indent=2) }}"), "[\n  1,\n  {}\n]");
}

TEST(JinjaLanguage, ParseErrorsNameTheLine) {
  EXPECT_EQ(render("\n{% if %}"), "parse error: line 2: Expected an expression, got 'end of statement block'");
  EXPECT_EQ(render("a\nb\n{% frob %}"), "parse error: line 3: Encountered unknown tag 'frob'.");
  EXPECT_EQ(render("{{ x|nosuch }}"), "parse error: line 1: No filter named 'nosuch'.");
  EXPECT_EQ(render("{% if false %}{{ x|nosuch }}{% endif %}ok"), "ok");
}

TEST(JinjaLanguage, GenerationBlocksGiveByteSpans) {
  auto parsed = ChatTemplate::parse("é{% for m in messages %}<{% generation %}{{ m }}{% endgeneration %}>{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  auto rendered = parsed->render(Json::parse(R"({"messages": ["ab", "你"]})"));
  ASSERT_TRUE(rendered.ok());
  ASSERT_EQ(rendered->generation_spans.size(), 2u);
  EXPECT_EQ(rendered->text.substr(rendered->generation_spans[0].begin,
                                  rendered->generation_spans[0].end - rendered->generation_spans[0].begin),
            "ab");
  EXPECT_EQ(rendered->text.substr(rendered->generation_spans[1].begin,
                                  rendered->generation_spans[1].end - rendered->generation_spans[1].begin),
            "你");
}

TEST(JinjaLanguage, ReasoningIsReadUnderEveryName) {
  Json variables = Json::parse(R"({"messages": [{"role": "assistant", "reasoning": "r"}]})");
  EXPECT_EQ(render("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}{{ messages[0]|list }}", variables),
            "rr['thinking', 'role', 'reasoning', 'reasoning_content']");
}

}  // namespace
}  // namespace hone::text
