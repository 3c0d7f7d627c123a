#include <gtest/gtest.h>

#include <thread>

#include "hone/text/chat_template.h"

namespace hone::text {
namespace {

std::string error_of(std::string_view source, TemplateLimits limits) {
  auto parsed = ChatTemplate::parse(source, limits);
  if (!parsed) return parsed.error();
  auto rendered = parsed->render(Json::object());
  return rendered ? "" : rendered.error();
}

TEST(JinjaLimits, StepsBoundLoops) {
  TemplateLimits limits{.steps = 1000};
  EXPECT_EQ(error_of("{% for i in range(10) %}{{ i }}{% endfor %}", limits), "");
  EXPECT_EQ(error_of("{% for i in range(900) %}{% for j in range(900) %}{% endfor %}{% endfor %}", limits),
            "line 1: the template needs more than 1000 steps");
}

TEST(JinjaLimits, DepthBoundsRecursion) {
  TemplateLimits limits{.depth = 10};
  EXPECT_EQ(error_of("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(8) }}", limits), "");
  EXPECT_EQ(error_of("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(20) }}", limits),
            "line 1: calls nest deeper than 10");
}

TEST(JinjaLimits, OutputIsBounded) {
  TemplateLimits limits{.output_bytes = 100};
  EXPECT_EQ(error_of("{{ 'a' * 100 }}", limits), "");
  EXPECT_EQ(error_of("{{ 'a' * 101 }}", limits), "line 1: a text of 101 bytes is over the limit of 100");
  EXPECT_EQ(error_of("{% for i in range(11) %}0123456789{% endfor %}", limits),
            "line 1: the output is over the limit of 100 bytes");
}

TEST(JinjaLimits, OneTemplateRendersOnManyThreads) {
  auto parsed = ChatTemplate::parse("{% for m in messages %}{{ '<' ~ m ~ '>' }}{{ {'k': 'v'}['k'] }}{% endfor %}");
  ASSERT_TRUE(parsed.ok());
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        auto rendered = parsed->render(Json::parse(R"({"messages": ["a", "b"]})"));
        good[t] += rendered.ok() && rendered->text == "<a>v<b>v" ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (int count : good) EXPECT_EQ(count, 500);
}

}  // namespace
}  // namespace hone::text
