#include "hone/base/child_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace hone {
namespace {

std::string output_of(ChildProgram program) {
  Pipe pipe;
  program.descriptors.emplace_back(pipe.write_end(), 1);
  const auto process = start_program(program).or_throw(ExitCode::failure, "a program");
  pipe.close_write();
  std::string text;
  std::array<char, 256> part{};
  for (ssize_t count; (count = ::read(pipe.read_end(), part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(count));
  EXPECT_EQ(wait_for_program(process), 0);
  return text;
}

TEST(ChildProcess, WordsReachTheProgramAsTheyAre) {
  EXPECT_EQ(output_of({.words = {"printf", "%s|", "two words", "$HOME; `id`", ""}}), "two words|$HOME; `id`||");
}

TEST(ChildProcess, VariablesReplaceThoseOfThisProcess) {
  ::setenv("HONE_TEST_VARIABLE", "outside", 1);
  const std::vector<std::string> words{"/usr/bin/printenv", "HONE_TEST_VARIABLE"};
  EXPECT_EQ(output_of({.words = words}), "outside\n");
  EXPECT_EQ(output_of({.words = words, .variables = {"HONE_TEST_VARIABLE=inside"}}), "inside\n");
  EXPECT_EQ(output_of({.words = {"/usr/bin/env"}, .variables = {"ONLY=this"}, .inherits_environment = false}), "ONLY=this\n");
}

TEST(ChildProcess, EndsOfPipesAreClosedInIt) {
  const Pipe unrelated;
  const auto script = fmt::format("[ -e /proc/self/fd/{} ] && echo open; cat", unrelated.write_end());
  EXPECT_EQ(output_of({.words = {"sh", "-c", script}, .null_descriptors = {0}}), "");
}

TEST(ChildProcess, AMissingProgramIsAnError) {
  const auto started = start_program({.words = {"no-such-program-of-hone"}});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error(), "No such file or directory");
}

}  // namespace
}  // namespace hone
