// Whole command lines of guides: what they mean here, and the native command for them.
#include <gmock/gmock.h>

#include "cli/given_system.h"
#include "hone/cli/commands/convert_config.h"
#include "hone/cli/compat/names.h"

namespace hone::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct Scene {
  std::map<std::string, std::string> files, variables;

  SystemAccess system() const { return given_system(files, variables); }
  CommandLine read(std::vector<std::string> words) const { return read_command_line(std::move(words), system()); }
  std::string native(std::vector<std::string> words) const {
    auto line = read(std::move(words));
    return native_command(line.invocation, parse_invocation(line.invocation, system()).options);
  }
};

TEST(CommandLine, VariablesStandInFront) {
  auto line = Scene{}.read({"NPROC_PER_NODE=2", "CUDA_VISIBLE_DEVICES=0,1", "swift", "sft", "--model", "m"});
  EXPECT_THAT(line.environment, ElementsAre(Pair("NPROC_PER_NODE", "2"), Pair("CUDA_VISIBLE_DEVICES", "0,1")));
  EXPECT_EQ(line.invocation.front_end, FrontEnd::swift);
  EXPECT_THAT(line.invocation.words, ElementsAre("--model", "m"));
  auto seen = with_environment(Scene{.variables = {{"NPROC_PER_NODE", "8"}, {"NNODES", "3"}}}.system(), line.environment);
  EXPECT_EQ(seen.environment("NPROC_PER_NODE"), "2");
}

TEST(CommandLine, AFileAloneSaysWhoseItIs) {
  Scene scene{.files = {{"a.yaml", "model_name_or_path: m\nstage: sft\n"},
                        {"b.yaml", "model: m\ndataset: d\n"},
                        {"c.yaml", "model_name_or_path: m\nexport_dir: o\n"}}};
  EXPECT_EQ(scene.read({"a.yaml"}).invocation.typed, "train");
  EXPECT_EQ(scene.read({"b.yaml"}).invocation.front_end, FrontEnd::swift);
  EXPECT_EQ(scene.read({"c.yaml"}).invocation.typed, "export");
}

TEST(CommandLine, OptionsAloneAreTrainings) {
  auto typed = [](std::vector<std::string> words) { return Scene{}.read(std::move(words)).invocation.typed; };
  EXPECT_EQ(typed({"--model", "m"}), "sft");
  EXPECT_EQ(typed({"--model", "m", "--rlhf-type=dpo"}), "rlhf");
  EXPECT_EQ(typed({"--model", "m", "--stage", "dpo"}), "train");
  EXPECT_EQ(Scene{}.read({"--stage", "dpo"}).invocation.front_end, FrontEnd::factory);
}

TEST(CommandLine, LaunchersAndScripts) {
  Scene scene{.files = {{"x.yaml", "model_name_or_path: m\n"}}};
  for (auto program : {"python", "/usr/bin/python3", "torchrun"})
    EXPECT_EQ(scene.read({program, "src/train.py", "x.yaml"}).invocation.front_end, FrontEnd::factory) << program;
  EXPECT_EQ(scene.read({"/opt/bin/llamafactory-cli", "train", "x.yaml"}).invocation.front_end, FrontEnd::factory);
  EXPECT_EQ(scene.read({"sft", "--model", "m"}).invocation.front_end, FrontEnd::hone);
  EXPECT_THROW(scene.read({}), UserError);
  EXPECT_THROW(scene.read({"A=1"}), UserError);
  EXPECT_THROW(scene.read({"swift"}), UserError);
}

TEST(ConvertConfig, OnlyWhatDiffersIsSaid) {
  EXPECT_EQ(Scene{}.native({"swift", "sft", "--model", "m", "--lora_rank", "8", "--train_type", "lora", "--lr", "1e-4"}),
            "hone sft --model m --learning_rate 0.0001");
}

TEST(ConvertConfig, FactoryDefaultsAreSpelledOut) {
  auto native = Scene{}.native({"llamafactory-cli", "train", "--model_name_or_path", "m", "--stage", "pt", "--output_dir", "o"});
  EXPECT_THAT(native, HasSubstr("hone pt --model m"));
  for (auto part : {"--dialect factory", "--learning_rate 5e-05", "--packing auto", "--lora_alpha auto", "--weight_decay 0",
                    "--max_length 2048"})
    EXPECT_THAT(native, HasSubstr(part));
}

TEST(ConvertConfig, WordsAreQuotedForAShell) {
  auto native = Scene{}.native({"swift", "sft", "--model", "m", "--system", "It's a test.", "--dataset", "a b.jsonl", "#c"});
  EXPECT_THAT(native, HasSubstr("--system 'It'\\''s a test.'"));
  EXPECT_THAT(native, HasSubstr("--dataset 'a b.jsonl' '#c'"));
}

TEST(Peers, NamesBelongToCommands) {
  EXPECT_TRUE(compat::takes(FrontEnd::factory, kInfer, "lora_rank"));
  EXPECT_FALSE(compat::takes(FrontEnd::swift, kInfer, "lora_rank"));
  EXPECT_TRUE(compat::takes(FrontEnd::swift, kSft, "train_type"));
  EXPECT_FALSE(compat::takes(FrontEnd::factory, kTrain, "no_such_key"));
}

}  // namespace
}  // namespace hone::cli
