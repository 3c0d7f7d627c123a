// Promises about the options table as one.
#include <gmock/gmock.h>

#include <set>

#include "hone/cli/commands.h"
#include "hone/cli/help.h"
#include "hone/cli/page.h"

namespace hone::cli {
namespace {

TEST(Table, DefaultsFitTheirTypesInEveryFrontEndAndVerb) {
  // The constructor checks each default and that no two rows of a command share a name.
  for (const auto& command : all_commands())
    for (auto front_end : {FrontEnd::hone, FrontEnd::swift, FrontEnd::factory, FrontEnd::accelerate})
      EXPECT_NO_THROW(Options(front_end, std::string(command.name), command.verb)) << command.name;
}

TEST(Table, NamesOfOneFrontEndAreUnambiguous) {
  for (const auto& command : all_commands()) {
    for (auto front_end : {FrontEnd::swift, FrontEnd::factory}) {
      std::set<std::string_view> seen;
      for (const auto& option : options_table()) {
        if (!(option.verbs & command.verb) || !belongs_to(option, front_end)) continue;
        EXPECT_TRUE(seen.insert(shown_name(option, front_end)).second) << option.name << " in " << command.name;
      }
    }
  }
}

TEST(Table, AcceptedAndRefusedRowsGiveAReason) {
  for (const auto& option : options_table()) {
    EXPECT_EQ(option.status == Status::supported, option.reason.empty()) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
  }
}

TEST(Table, EveryNameFindsItsRow) {
  NameIndex names(FrontEnd::hone, kSft);
  for (const auto* row : names.rows()) {
    auto found = names.find(row->name);
    ASSERT_TRUE(found) << row->name;
    EXPECT_EQ(found->option, row);
  }
}

TEST(Table, ProgramNames) {
  EXPECT_EQ(front_end_of("/usr/bin/swift"), FrontEnd::swift);
  EXPECT_EQ(front_end_of("lmf"), FrontEnd::factory);
  EXPECT_EQ(front_end_of("./build/bin/hone"), FrontEnd::hone);
  EXPECT_STREQ(find_command(FrontEnd::swift, "merge_lora")->name.data(), "merge-lora");
  EXPECT_EQ(find_command(FrontEnd::factory, "chat"), find_command(FrontEnd::hone, "infer"));
}

TEST(Help, WrapKeepsWidth) {
  EXPECT_EQ(wrap("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrap("", 10, 2), "");
  EXPECT_EQ(wrap("a-very-long-word b", 5, 0), "a-very-long-word\nb");
}

}  // namespace
}  // namespace hone::cli
