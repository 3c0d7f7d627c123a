#include <gtest/gtest.h>

#include <set>

#include "hone/serve/http/access.h"
#include "hone/serve/http/api_error.h"
#include "hone/serve/schema/body.h"
#include "hone/serve/schema/fields.h"

namespace hone::serve {
namespace {

TEST(Body, RefusesWhatWouldBeExpensive) {
  EXPECT_TRUE(parse_body(R"({"a": [1, {"b": null}]})"));
  for (std::string bad : {"", "[]", "1", "{", R"({"a":1,"a":2})", R"({"a":NaN})", "{\"a\":\"\xff\"}", "{}x"})
    EXPECT_FALSE(parse_body(bad)) << bad;
  EXPECT_FALSE(parse_body(std::string(100'000, '[')));
  std::string wide = "{";
  for (int i = 0; i < 5000; ++i) wide += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  EXPECT_FALSE(parse_body(wide + "}"));
}

ApiError problem_of(Endpoint endpoint, const std::string& body) {
  auto parsed = parse_body(body);
  try {
    Fields fields(endpoint, *parsed);
  } catch (const ApiError& problem) {
    return problem;
  }
  return {200, ""};
}

TEST(Fields, SaysWhatIsWrongWithWhich) {
  auto problem = problem_of(kChat, R"({"messages": [{}], "temperature": -1})");
  EXPECT_EQ(problem.param, "temperature");
  EXPECT_EQ(problem.message, "temperature: found -1; expected a number from 0 to 100");
  EXPECT_EQ(problem_of(kChat, R"({"messages": [{}], "max_token": 1})").message,
            "unrecognized request argument supplied: max_token; did you mean max_tokens?");
  EXPECT_EQ(problem_of(kChat, "{}").code, "missing_required_parameter");
  EXPECT_EQ(problem_of(kChat, R"({"messages": null})").code, "missing_required_parameter");
  EXPECT_EQ(problem_of(kChat, R"({"messages": [{}], "n": 1.0, "seed": null})").status, 200);
  EXPECT_EQ(problem_of(kChat, R"({"messages": [{}], "n": 1.5})").param, "n");
}

TEST(Fields, EachNameStandsOncePerEndpoint) {
  for (Endpoint endpoint : {kChat, kCompletion, kEmbedding, kMessages, kTokenize, kDetokenize, kLoadAdapter, kUnloadAdapter,
                            kClassify, kRerank, kScorePairs, kScoreTexts, kResponse}) {
    std::set<std::string_view> names;
    for (const auto& field : field_table()) {
      if (!(field.endpoints & endpoint)) continue;
      EXPECT_TRUE(names.insert(field.name).second) << path_of(endpoint) << " " << field.name;
    }
  }
}

HttpRequest with(Headers headers) { return {.headers = std::move(headers)}; }

TEST(Access, KeysInEveryForm) {
  Access access("secret", "127.0.0.1", {});
  EXPECT_TRUE(access.has_valid_key(with({{"authorization", "Bearer secret"}})));
  EXPECT_TRUE(access.has_valid_key(with({{"x-api-key", "secret"}})));
  EXPECT_TRUE(access.has_valid_key(with({{"authorization", "Basic bWU6c2VjcmV0"}})));
  EXPECT_FALSE(access.has_valid_key(with({{"authorization", "Basic !!!"}})));
  EXPECT_FALSE(access.has_valid_key(with({{"authorization", "Bearer secret "}})));
  EXPECT_FALSE(access.has_valid_key(with({})));
}

TEST(Access, HostAndOrigin) {
  Access local("", "127.0.0.1", {"https://friend.example"});
  EXPECT_FALSE(local.wrong_origin(with({{"host", "localhost:8000"}})));
  EXPECT_FALSE(local.wrong_origin(with({{"host", "[::1]:8000"}})));
  EXPECT_TRUE(local.wrong_origin(with({{"host", "rebound.example:8000"}})));
  EXPECT_TRUE(local.wrong_origin(with({})));
  EXPECT_FALSE(local.wrong_origin(with({{"host", "localhost:8000"}, {"origin", "http://localhost:8000"}})));
  EXPECT_TRUE(local.wrong_origin(with({{"host", "localhost:8000"}, {"origin", "http://localhost:9000"}})));
  EXPECT_FALSE(local.wrong_origin(with({{"host", "localhost:8000"}, {"origin", "https://friend.example"}})));
  EXPECT_FALSE(Access("k", "0.0.0.0", {}).wrong_origin(with({{"host", "server.example"}})));
}

}  // namespace
}  // namespace hone::serve
