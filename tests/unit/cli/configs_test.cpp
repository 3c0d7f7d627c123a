// What options become in the configurations of the components.
#include <gtest/gtest.h>

#include "hone/cli/configs/data_config.h"
#include "hone/cli/run.h"

namespace hone::cli {
namespace {

int64_t longest_row(const std::string& yaml) {
  SystemAccess system{
      [&](const std::string&) { return "model_name_or_path: m\ndo_train: true\noutput_dir: o\ncutoff_len: 512\n" + yaml; },
      [](const std::string&) { return std::optional<std::string>(); }};
  auto parsed = parse_invocation(read_invocation(FrontEnd::factory, {"train", "run.yaml"}), system);
  return encode_config(parsed.options, 4096).max_length;
}

TEST(DataJob, FactoryPackingKeepsOneTokenFree) {
  EXPECT_EQ(longest_row("stage: sft\n"), 512);
  EXPECT_EQ(longest_row("stage: sft\npacking: true\n"), 511);
  EXPECT_EQ(longest_row("stage: sft\nneat_packing: true\n"), 511);
  EXPECT_EQ(longest_row("stage: pt\n"), 512);  // packs by itself
  EXPECT_EQ(longest_row("stage: pt\npacking: true\n"), 511);
  EXPECT_EQ(longest_row("stage: pt\npacking: false\n"), 512);
}

}  // namespace
}  // namespace hone::cli
