// Parsing without a file system or an environment: both are given.
#include <gmock/gmock.h>

#include "cli/given_system.h"

namespace hone::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct ParseScene {
  std::map<std::string, std::string> files, variables;
  FrontEnd front_end = FrontEnd::hone;

  Parsed parse(std::vector<std::string> words) const {
    return parse_invocation(read_invocation(front_end, std::move(words)), given_system(files, variables));
  }
  Options options(std::vector<std::string> words) const { return parse(std::move(words)).options; }

  UserError refusal(std::vector<std::string> words) const {
    try {
      parse(std::move(words));
    } catch (const UserError& error) {
      return error;
    }
    return {ExitCode::ok, "accepted"};
  }
};

TEST(Parse, TypedValues) {
  auto options = ParseScene{}.options(
      {"sft", "--lora_rank", "16", "--learning_rate=1.0e-4", "--dataset", "a", "b", "--streaming", "--max_shard_size", "2GB"});
  EXPECT_EQ(options.integer("lora_rank"), 16);
  EXPECT_DOUBLE_EQ(options.real("learning_rate"), 1e-4);
  EXPECT_THAT(options.list("dataset"), ElementsAre("a", "b"));
  EXPECT_TRUE(options.flag("streaming"));
  EXPECT_EQ(options.integer("max_shard_size"), 2'000'000'000);
  EXPECT_TRUE(options.is_set("lora_rank"));
  EXPECT_FALSE(options.is_set("lora_alpha"));
}

TEST(Parse, NoneAndAutoAreAbsent) {
  auto options = ParseScene{}.options(
      {"sft", "--neftune_noise_alpha", "none", "--learning_rate", "auto", "--template", "auto", "--report_to", "none"});
  for (auto name : {"neftune_noise_alpha", "learning_rate", "template", "report_to"}) EXPECT_FALSE(options.has(name)) << name;
}

TEST(Parse, AskingForWhatIsNotThereIsOurMistake) {
  auto options = ParseScene{}.options({"sft"});
  EXPECT_THROW(options.text("no_such_option"), InternalError);
  EXPECT_THROW(options.real("neftune_noise_alpha"), InternalError);
  EXPECT_THROW(options.required("model"), UserError);
}

TEST(Parse, FlagBeforeAFileName) {
  auto options = ParseScene{}.options({"tokenize", "--model", "m", "--lines", "input.txt"});
  EXPECT_TRUE(options.flag("lines"));
  EXPECT_THAT(options.positional(), ElementsAre("input.txt"));
}

TEST(Parse, LastOccurrenceWins) { EXPECT_EQ(ParseScene{}.options({"sft", "--seed", "1", "--seed", "2"}).integer("seed"), 2); }

TEST(Parse, FileThenWordsThenWhere) {
  ParseScene scene{.files = {{"run.yaml", "seed: 5\n\nlora_rank: 4\ndataset: [x, y]\n"}}};
  auto options = scene.options({"sft", "run.yaml", "--seed", "6"});
  EXPECT_EQ(options.integer("seed"), 6);
  EXPECT_EQ(options.setting("lora_rank").where, "run.yaml:3");
  EXPECT_EQ(options.source("lora_rank"), Source::file);
  EXPECT_EQ(options.source("seed"), Source::command_line);
  EXPECT_EQ(options.source("lora_alpha"), Source::built_in);
}

TEST(Parse, OverridesReachIntoMappings) {
  ParseScene scene{.files = {{"run.yaml", "lr_scheduler_kwargs: {min_lr: 0.1}\n"}}, .front_end = FrontEnd::factory};
  auto options = scene.options({"train", "run.yaml", "lr_scheduler_kwargs.min_lr=1e-6", "lora_rank=4"});
  EXPECT_DOUBLE_EQ(options.json("lr_scheduler_kwargs")["min_lr"].get<double>(), 1e-6);
  EXPECT_EQ(options.integer("lora_rank"), 4);
}

TEST(Parse, EnvBlockOfAFile) {
  ParseScene scene{.files = {{"run.yaml", "ENV:\n  A: 1\n  B: x\n"}}, .variables = {{"B", "y"}}};
  auto parsed = scene.parse({"sft", "run.yaml"});
  EXPECT_THAT(parsed.environment, ElementsAre(std::pair<std::string, std::string>{"A", "1"}));
  EXPECT_THAT(parsed.notes, ElementsAre(HasSubstr("B is already set")));
}

TEST(Parse, SharedNameMeansWhatTheFrontEndMeans) {
  ParseScene factory{.front_end = FrontEnd::factory};
  auto theirs = factory.options({"chat", "--max_length", "99", "--cutoff_len", "77"});
  EXPECT_EQ(theirs.integer("max_length"), 77);
  EXPECT_EQ(theirs.integer("generation_total_length"), 99);
  EXPECT_EQ(ParseScene{}.options({"infer", "--max_length", "99"}).integer("max_length"), 99);
}

TEST(Parse, RefusalsNameTheWay) {
  EXPECT_THAT(ParseScene{}.refusal({"export", "--to_mcore", "true"}).hint(), HasSubstr("Hugging Face folders"));
  EXPECT_THAT(ParseScene{}.refusal({"sft", "--learning_rat", "1"}).hint(), HasSubstr("--learning_rate"));
  EXPECT_EQ(ParseScene{}.refusal({"sft", "--learning_rat", "1"}).code(), ExitCode::usage);
}

TEST(Parse, GivenButUnreadIsKnown) {
  auto options = ParseScene{}.options({"sft", "--seed", "1", "--lora_rank", "4"});
  options.integer("seed");
  ASSERT_EQ(options.given_but_unread().size(), 1u);
  EXPECT_EQ(options.given_but_unread()[0]->option->name, "lora_rank");
}

TEST(Values, Bytes) {
  constexpr Option size("size", Bytes, "", "");
  EXPECT_EQ(read_value(size, "512MiB")->get<int64_t>(), 512ll << 20);
  EXPECT_EQ(read_value(size, "1.5kb")->get<int64_t>(), 1500);
  for (auto bad : {"", "GB", "-1GB", "5XB", "1e30GB", "5GBB"}) EXPECT_FALSE(read_value(size, bad).ok()) << bad;
}

TEST(Values, NumbersAreStrict) {
  constexpr Option whole("n", Integer(1), "", ""), real("x", Real(), "", "");
  for (auto bad : {"", "1x", "0x10", "nan", "inf", "1e999", "1 2"}) EXPECT_FALSE(read_value(real, bad).ok()) << bad;
  EXPECT_EQ(read_value(whole, "1e3")->get<int64_t>(), 1000);
  EXPECT_FALSE(read_value(whole, "1.5").ok());
  EXPECT_FALSE(read_value(whole, "0").ok());
  EXPECT_FALSE(read_value(whole, "99999999999999999999").ok());
}

}  // namespace
}  // namespace hone::cli
