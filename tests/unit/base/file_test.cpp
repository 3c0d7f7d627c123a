#include "hone/base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace hone {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }
  fs::path root_ = fs::temp_directory_path() / fmt::format("hone-files-{}", ::getpid());
};

TEST_F(Files, AtomicWriteReplacesAndLeavesNothingBeside) {
  write_file_atomically(root_ / "a", "one");
  write_file_atomically(root_ / "a", "two");
  EXPECT_EQ(read_file(root_ / "a"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(Files, MappedFileShowsItsBytes) {
  write_file_atomically(root_ / "a", "hello");
  EXPECT_EQ(MappedFile(root_ / "a").text(), "hello");
  write_file_atomically(root_ / "empty", "");
  EXPECT_EQ(MappedFile(root_ / "empty").text(), "");
  EXPECT_THROW(MappedFile{root_}, UserError);
}

TEST_F(Files, MissingFileNamesThePath) {
  try {
    read_file(root_ / "missing");
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos);
    EXPECT_EQ(error.code(), ExitCode::bad_data);
  }
}

TEST_F(Files, PathsThatLeaveTheRootAreSeen) {
  EXPECT_TRUE(is_inside(root_, root_ / "x" / "y"));
  EXPECT_FALSE(is_inside(root_, root_ / ".." / "x"));
  fs::create_directory_symlink("/", root_ / "link");
  EXPECT_FALSE(is_inside(root_, root_ / "link" / "etc"));
}

TEST_F(Files, AppendedLinesFollowEachOther) {
  append_line(root_ / "log", "a");
  append_line(root_ / "log", "b");
  EXPECT_EQ(read_file(root_ / "log"), "a\nb\n");
}

}  // namespace
}  // namespace hone
