// Hints to words of other tools name things that exist.
#include "hone/cli/compat/foreign_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "hone/cli/run.h"
#include "hone/cli/table.h"

namespace hone::cli {
namespace {

bool is_an_option(std::string_view name) {
  return std::ranges::any_of(options_table(), [&](const Option& option) {
    return option.name == name ||
           std::ranges::any_of(option.other_names(), [&](const Alias& alias) { return alias.name == name; });
  });
}

TEST(ForeignWords, OptionsMeanOptionsThatExist) {
  for (const auto& [word, meant] : compat::foreign_options()) {
    EXPECT_FALSE(is_an_option(word)) << word << " is an option, so that its hint is never shown";
    std::istringstream words{std::string(meant)};
    for (std::string each; words >> each;) {
      const bool named = !each.starts_with("--") || is_an_option(each.substr(2));
      EXPECT_TRUE(named) << word << ": " << meant;
    }
  }
}

TEST(ForeignWords, CommandsMeanCommandsThatExist) {
  for (auto front_end : {FrontEnd::hone, FrontEnd::swift, FrontEnd::factory})
    for (const char* word : {"run", "serve", "pull", "finetune", "merge", "quantize", "dpo", "list"}) {
      EXPECT_EQ(find_command(front_end, word), nullptr) << word;
      auto meant = compat::command_meant_by(front_end, word);
      ASSERT_FALSE(meant.empty()) << word;
      std::istringstream words(meant);
      std::string program, command;
      words >> program >> command;
      const auto* found = find_command(front_end_of(program), command);
      ASSERT_NE(found, nullptr) << meant;
      EXPECT_NE(found->run, nullptr) << meant;
    }
  EXPECT_EQ(compat::command_meant_by(FrontEnd::hone, "nonsense"), "");
}

TEST(ForeignWords, EveryTunerThatIsListedIsTaken) {
  auto row = std::ranges::find(options_table(), "tuner_type", &Option::name);
  for (const char* absent : {"bone", "ia3"}) EXPECT_EQ(row->type.choices.find(absent), std::string_view::npos) << absent;
  EXPECT_EQ(compat::value_meant_by("tuner_type", "qlora"), "--tuner_type lora --quant_method bnb --quant_bits 4");
}

}  // namespace
}  // namespace hone::cli
