// Shapes made to hurt: each is refused, or ends the request that asked for it, and costs nobody else more than a moment.
#include <gtest/gtest.h>

#include <thread>

#include "engine/constraint_fixture.h"
#include "hone/base/rng.h"
#include "hone/engine/constraints/automaton.h"
#include "hone/engine/constraints/json_schema.h"
#include "hone/engine/constraints/regex_parser.h"

namespace hone::engine {
namespace {

Automaton automaton(std::string_view expression, const AutomatonLimits& limits, size_t bytes) {
  return Automaton::make(parse_regex(expression).or_throw(ExitCode::failure, "regex"), limits,
                         std::make_shared<MemoryBudget>(bytes))
      .or_throw(ExitCode::failure, "automaton");
}

void follow(Automaton& followed, int letters) {
  Rng rng(1);
  auto state = Automaton::kStart;
  for (int i = 0; i < letters; ++i) {
    followed.renew_work();
    state = followed.step(state, rng.below(2) ? 'a' : 'b');
  }
}

TEST(ConstraintLimits, SchemasThatLeadBackToThemselves) {
  for (const char* endless : {R"({"$ref":"#","type":"object"})", R"({"$ref":"#"})", R"({"allOf":[{"$ref":"#"}]})",
                              R"({"allOf":[{"allOf":[{"$ref":"#"}]}],"type":"string"})",
                              R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a","minLength":1}},"$ref":"#/$defs/a"})",
                              R"({"anyOf":[{"$ref":"#"}]})", R"({"oneOf":[{"$ref":"#"},{"type":"null"}]})",
                              R"({"enum":[1],"oneOf":[{"$ref":"#"},{"$ref":"#"}]})",
                              R"({"properties":{"a":{"$ref":"#"}},"required":["a"],"type":"object"})",
                              R"({"const":1,"allOf":[{"anyOf":[{"$ref":"#"}]}]})"})
    EXPECT_NE(refusal(Json::parse(endless)), "") << endless;
}

TEST(ConstraintLimits, PartsThatMultiply) {
  Json defs = Json::object();
  for (int i = 0; i < 30; ++i) {
    Json next{{"$ref", fmt::format("#/$defs/{}", i + 1)}};
    defs[std::to_string(i)] = {{"allOf", {next, next}}};
  }
  defs["30"] = {{"type", "string"}};
  EXPECT_NE(refusal({{"$defs", defs}, {"$ref", "#/$defs/0"}}), "");
  Json nested{{"type", "null"}};
  for (int i = 0; i < 100; ++i) nested = {{"allOf", {nested}}};
  EXPECT_NE(refusal(nested), "");
}

TEST(ConstraintLimits, Expressions) {
  EXPECT_NE(refusal({{"type", "string"}, {"pattern", "a" + std::string(200'000, '*')}}), "");
  EXPECT_NE(refusal({{"type", "string"}, {"pattern", std::string(200'000, 'a')}}), "") << "longer than expressions are read";
  EXPECT_FALSE(compiler().regex(std::string(70'000, 'a')));
  EXPECT_FALSE(compiler().regex(std::string(5'000, '(') + std::string(5'000, ')')));
  EXPECT_TRUE(compiler().regex("((((a{1000}){1000}){1000}){1000}){1000}")) << "counted when it is written, not before";
}

TEST(ConstraintLimits, BoundsOfAnySize) {
  EXPECT_TRUE(allows(*schema(R"({"type":"integer","minimum":1e19})"), "10000000000000000000"));
  EXPECT_FALSE(allows(*schema(R"({"type":"integer","minimum":1e19})"), "9999999999999999999"));
  EXPECT_TRUE(allows(*schema(R"({"type":"number","maximum":-1e300})"), "-2" + std::string(300, '0')));
  EXPECT_FALSE(allows(*schema(R"({"type":"integer","minimum":9007199254740993})"), "9007199254740992"));
  EXPECT_TRUE(allows(*schema(R"({"type":"integer","exclusiveMaximum":-18446744073709551616})"), "-18446744073709551617"));
  EXPECT_TRUE(allows(*schema(R"({"type":"number","minimum":5000000000.2,"maximum":5000000000.3})"), "5000000000.25"));
  EXPECT_NE(refusal(Json::parse(R"({"type":"number","exclusiveMinimum":true})")), "");
  EXPECT_TRUE(allows(*schema(R"({"type":"string","maxLength":2147483647})"), R"("x")"));
  EXPECT_NE(refusal(Json::parse(R"({"type":"string","maxLength":2147483648})")).find("at most"), std::string::npos);
  EXPECT_NE(refusal(Json::parse(R"({"type":"array","minItems":2000001})")).find("at most"), std::string::npos);
}

// Each text of 19 letters is a state of its own; nobody may make the server keep them all.
TEST(ConstraintLimits, MemoryIsBounded) {
  auto many = automaton("(a|b)*a(a|b){19}", {}, 100'000);
  EXPECT_THROW(follow(many, 20'000), ConstraintError);
  EXPECT_NE(many.step(Automaton::kStart, 'a'), Automaton::kDead) << "what is known stays";
}

// What a schema's pattern takes; 0 where the schema is refused.
size_t bytes_kept(const Json& schema) {
  auto pattern = schema_pattern(schema, 12);
  return pattern ? pattern_bytes(*pattern) : 0;
}

// An object of so many properties that all refer to one definition.
Json referring(const Json& definition, int times) {
  Json properties = Json::object();
  for (int i = 0; i < times; ++i) properties[std::to_string(i)] = {{"$ref", "#/$defs/d"}};
  return {{"$defs", {{"d", definition}}}, {"type", "object"}, {"properties", properties}};
}

TEST(ConstraintLimits, ThePatternIsCounted) {
  auto memory = std::make_shared<MemoryBudget>(1 << 26);
  auto pattern = parse_regex(std::string(10'000, 'a') + "(b?c?){7}").or_throw(ExitCode::failure, "regex");
  auto made = Automaton::make(pattern, {}, memory);
  EXPECT_GE(pattern_bytes(pattern), 10'000 * sizeof(Pattern));
  EXPECT_GE(memory->used(), pattern_bytes(pattern));
  auto refused = Automaton::make(pattern, {}, std::make_shared<MemoryBudget>(pattern_bytes(pattern) - 1));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().find("too much memory"), std::string::npos);
}

TEST(ConstraintLimits, APatternCountsNoGrowth) {
  auto tokenizer = byte_tokenizer();
  ConstraintCompiler own(*tokenizer, {kEnd}, {.state_bytes = 100'000});
  std::string long_text(3'000, 'a');
  EXPECT_EQ(*own.regex(long_text), *own.regex(long_text)) << "more than half is the pattern's, and it is shared all the same";
}

TEST(ConstraintLimits, SetsOfCharactersAreKeptOnce) {
  std::string dots(8'000, '.');
  EXPECT_LT(bytes_kept({{"type", "string"}, {"pattern", dots}}), 400'000u);
  EXPECT_LT(pattern_bytes(*parse_regex(dots)), 400'000u);
}

TEST(ConstraintLimits, WhatReferencesRepeatIsKeptOnce) {
  auto grows_by = [](const Json& definition) {
    return bytes_kept(referring(definition, 200)) - bytes_kept(referring(true, 200));
  };
  Json members{{std::string(50'000, 'n'), {{"type", "null"}}}};
  for (const Json& definition :
       {Json{{"type", "string"}, {"pattern", std::string(500, '.')}}, Json{{"const", std::string(5'000, 'c')}},
        Json{{"type", "string"}, {"format", "uri"}}, Json{{"type", "number"}, {"minimum", 1.5e-300}, {"maximum", 1.7e300}}}) {
    EXPECT_GT(bytes_kept(referring(definition, 200)), 0u) << definition.dump().substr(0, 60);
    EXPECT_LT(bytes_kept(referring(definition, 200)), bytes_kept(referring(definition, 1)) + 300'000)
        << definition.dump().substr(0, 60);
  }
  EXPECT_LT(grows_by({{"type", "object"}, {"properties", members}}), 1'500'000u);
}

// Each is a little text that would be much memory.
TEST(ConstraintLimits, SmallSchemasOfMuchMemoryAreRefused) {
  Json sets{{"type", "object"}, {"properties", Json::object()}}, numbers = sets;
  for (int i = 0; i < 3'000; ++i) {
    sets["properties"][std::to_string(i)] = {{"type", "string"},
                                             {"pattern", fmt::format(".[^{}][^b{}][^c{}][^d{}]", i, i, i, i)}};
    numbers["properties"][std::to_string(i)] = {{"type", "number"}, {"minimum", 1e-300 * i}, {"maximum", 1e300}};
  }
  EXPECT_NE(refusal(sets).find("too large"), std::string::npos);
  EXPECT_NE(refusal(numbers).find("too large"), std::string::npos);
}

TEST(ConstraintLimits, ALongConstantBeforeManyAlternatives) {
  std::string text(100'000, 'x');
  auto beside = [&](const Json& alternative, size_t times) {
    return refusal(
        {{"$defs", {{"long", {{"enum", {1, text}}}}}}, {"const", text}, {"anyOf", std::vector<Json>(times, alternative)}});
  };
  EXPECT_NE(beside({{"const", 1}}, 10'000).find("accepts nothing"), std::string::npos)
      << "written out once, compared ten thousand times";
  EXPECT_NE(beside({{"minLength", 5}}, 10'000).find("too large"), std::string::npos) << "every look at the text is paid for";
  EXPECT_NE(beside({{"$ref", "#/$defs/long"}}, 10'000).find("too large"), std::string::npos);
}

TEST(ConstraintLimits, NfaStatesOfOneTextAreBounded) {
  auto ambiguous = automaton("([ab]{0,90}){0,1000}", {.nfa_states = 1000}, 1 << 26);
  EXPECT_THROW(follow(ambiguous, 500), ConstraintError);
}

TEST(ConstraintLimits, WorkForOneTokenIsBounded) {
  auto costly = automaton("(a?b?){0,90}([ab]{0,90}){0,100}", {.work = 5000}, 1 << 26);
  EXPECT_THROW(follow(costly, 500), ConstraintError);
}

TEST(ConstraintLimits, AFirstMaskThatCostsTooMuchIsRefused) {
  auto tokenizer = byte_tokenizer();
  ConstraintCompiler tight(*tokenizer, {kEnd}, {.following = {.work = 50}});
  auto made = tight.regex("(a?b?c?d?e?f?g?){9}");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().find("costs too much"), std::string::npos);
}

TEST(ConstraintLimits, RequestsShareWhatIsCompiled) {
  auto tokenizer = byte_tokenizer();
  ConstraintCompiler own(*tokenizer, {kEnd}, {.kept = 2});
  auto made = [&](const char* expression) { return own.regex(expression).or_throw(ExitCode::failure, "regex"); };
  auto first = made("a+");
  EXPECT_EQ(first, made("a+"));
  EXPECT_NE(first, made("b+"));
  EXPECT_EQ(first, made("a+")) << "both are kept";
  made("c+");
  EXPECT_EQ(first, made("a+")) << "b+ was asked for longest ago";
  made("d+"), made("e+");
  EXPECT_NE(first, made("a+"));
  EXPECT_FALSE(own.json_schema(Json::parse(R"({"not":{}})")));
}

TEST(ConstraintLimits, AConstraintThatHasGrownIsMadeAnew) {
  auto tokenizer = byte_tokenizer();
  ConstraintCompiler own(*tokenizer, {kEnd}, {.state_bytes = 60'000});
  auto first = own.regex("[ab]{0,2000}").or_throw(ExitCode::failure, "regex");
  EXPECT_EQ(first, *own.regex("[ab]{0,2000}"));
  auto state = Constraint::kStart;
  EXPECT_THROW(
      {
        for (int i = 0; i < 2000; ++i) state = first->next(state, 'a');
      },
      ConstraintError);
  EXPECT_NE(first, *own.regex("[ab]{0,2000}"));
}

TEST(ConstraintLimits, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { right += allows(*schema(R"({"type":"array","items":{"type":"integer"}})"), "[1, 22, 333]"); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 4);
}

TEST(ConstraintLimits, ManyAlternatives) {
  Json constants = Json::array(), tagged = Json::array(), open = Json::array();
  for (int i = 0; i < 2000; ++i) constants.push_back({{"const", i}});
  for (int i = 0; i < 500; ++i)
    tagged.push_back({{"type", "object"}, {"properties", {{"kind", {{"const", i}}}}}, {"required", {"kind"}}});
  for (int i = 0; i < 200; ++i)
    open.push_back({{"type", "object"}, {"properties", {{fmt::format("p{}", i), true}}}, {"required", {fmt::format("p{}", i)}}});
  EXPECT_EQ(refusal({{"oneOf", constants}}), "");
  EXPECT_EQ(refusal({{"oneOf", tagged}}), "");
  EXPECT_NE(refusal({{"oneOf", open}}).find("at most"), std::string::npos);
  constants.push_back({{"const", 7.0}});
  EXPECT_NE(refusal({{"oneOf", constants}}).find("alternatives 8 and 2001"), std::string::npos);
}

}  // namespace
}  // namespace hone::engine
