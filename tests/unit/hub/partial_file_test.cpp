#include "hone/hub/partial_file.h"

#include <gtest/gtest.h>

#include "hone/base/file.h"

namespace hone::hub {
namespace {

class Part : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }
  fs::path root_ = fs::temp_directory_path() / fmt::format("hone-part-{}", ::getpid());
  fs::path file_ = root_ / "x.part";
};

TEST_F(Part, ArrivesInAnyOrder) {
  PartialFile part(file_, 10, "sum", 4);
  ASSERT_EQ(part.ranges().size(), 3u);
  part.write(part.ranges()[2], std::string("89"));
  part.write(part.ranges()[0], std::string("0123"));
  part.write(part.ranges()[1], std::string("4567"));
  EXPECT_EQ(part.done(), 10u);
  part.finish(root_ / "x");
  EXPECT_EQ(read_file(root_ / "x"), "0123456789");
  EXPECT_FALSE(fs::exists(file_) || fs::exists(file_.string() + ".json"));
}

TEST_F(Part, GoesOnWhereItStopped) {
  {
    PartialFile part(file_, 10, "sum", 4);
    part.write(part.ranges()[1], std::string("45"));
    part.set_validator("\"v\"");
  }
  PartialFile same(file_, 10, "sum", 1024);  // the cut of the first run holds
  ASSERT_EQ(same.ranges().size(), 3u);
  EXPECT_EQ(same.ranges()[1].done, 2u);
  EXPECT_EQ(same.validator(), "\"v\"");
}

TEST_F(Part, AnotherFileStartsAnew) {
  {
    PartialFile part(file_, 10, "sum", 4);
    part.write(part.ranges()[0], std::string("0123"));
  }
  EXPECT_EQ(PartialFile(file_, 10, "other", 4).done(), 0u);
}

TEST_F(Part, DoesNotTrustItsJournal) {
  for (const char* journal :
       {"", "[]", R"({"size":10})", R"({"size":10,"checksum":"sum","validator":"","pieces":[[0,4,4],[4,8,0],[8,10,0]]})",
        R"({"size":10,"checksum":"sum","validator":"","pieces":[[0,4,9]]})",
        R"({"size":10,"checksum":"sum","validator":"","pieces":[[0,4,0],[6,10,0]]})",
        R"({"size":10,"checksum":"sum","validator":"","pieces":[[0,"x",0]]})"}) {
    write_file_atomically(file_, "");
    write_file_atomically(file_.string() + ".json", journal);
    PartialFile part(file_, 10, "sum", 4);
    EXPECT_EQ(part.done(), 0u) << journal;
    EXPECT_EQ(part.ranges().size(), 3u) << journal;
  }
}

TEST_F(Part, AnEmptyFileIsWholeAtOnce) {
  PartialFile part(file_, 0, "sum", 4);
  ASSERT_EQ(part.ranges().size(), 1u);
  EXPECT_TRUE(part.ranges()[0].complete());
  part.finish(root_ / "x");
  EXPECT_EQ(read_file(root_ / "x"), "");
}

}  // namespace
}  // namespace hone::hub
