#include "hone/base/child_process.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

std::string text_of(const ChildProgram& program) { return program_output(program).or_throw(ExitCode::failure, "a program"); }

TEST(ChildProcess, WordsReachTheProgramAsTheyAre) {
  EXPECT_EQ(text_of({.words = {"printf", "%s|", "two words", "$HOME; `id`", ""}}), "two words|$HOME; `id`||");
}

TEST(ChildProcess, VariablesReplaceThoseOfThisProcess) {
  ::setenv("HONE_TEST_VARIABLE", "outside", 1);
  const std::vector<std::string> words{"/usr/bin/printenv", "HONE_TEST_VARIABLE"};
  EXPECT_EQ(text_of({.words = words}), "outside\n");
  EXPECT_EQ(text_of({.words = words, .variables = {"HONE_TEST_VARIABLE=inside"}}), "inside\n");
  EXPECT_EQ(text_of({.words = {"/usr/bin/env"}, .variables = {"ONLY=this"}, .inherits_environment = false}), "ONLY=this\n");
}

TEST(ChildProcess, EndsOfPipesAreClosedInIt) {
  const Pipe unrelated;
  const auto script = fmt::format("[ -e /proc/self/fd/{} ] || echo closed; cat", unrelated.write_end());
  EXPECT_EQ(text_of({.words = {"sh", "-c", script}, .null_descriptors = {0}}), "closed\n");
}

TEST(ChildProcess, AMissingProgramIsAnError) {
  const auto started = start_program({.words = {"no-such-program-of-hone"}});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error(), "No such file or directory");
}

}  // namespace
}  // namespace hone
