#include "hone/hub/locate.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "hone/base/error.h"
#include "hone/base/file.h"

namespace hone::hub {
namespace {

class Locate : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("hone-locate-{}", ::getpid());
    fs::create_directories(root_);
    ::setenv("HF_HOME", (root_ / "hf").c_str(), 1);
    ::setenv("MODELSCOPE_CACHE", (root_ / "ms").c_str(), 1);
    ::unsetenv("HF_HUB_CACHE");
    ::unsetenv("HUGGINGFACE_HUB_CACHE");
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path make(const fs::path& relative) {
    fs::create_directories(root_ / relative);
    return root_ / relative;
  }
  fs::path root_;
};

TEST_F(Locate, PrefersALocalFolder) { EXPECT_EQ(locate_model(make("here").string()), root_ / "here"); }

TEST_F(Locate, FollowsTheHuggingFaceRef) {
  auto model = fs::path("hf/hub/models--Qwen--Qwen2-7B");
  make(model / "snapshots/aaa");
  auto newest = make(model / "snapshots/bbb");
  make(model / "refs");
  write_file_atomically(root_ / model / "refs/main", "bbb\n");
  EXPECT_EQ(find_in_caches("Qwen/Qwen2-7B", Kind::model), newest);
  EXPECT_EQ(find_in_caches("Qwen/Qwen2-7B", Kind::model, "aaa"), root_ / model / "snapshots/aaa");
}

TEST_F(Locate, RefMayNotLeaveTheSnapshots) {
  auto model = fs::path("hf/hub/models--a--b");
  make(model / "snapshots/x");
  make(model / "snapshots/y");
  make(model / "refs");
  write_file_atomically(root_ / model / "refs/main", "../../..");
  EXPECT_EQ(find_in_caches("a/b", Kind::model), std::nullopt);
}

TEST_F(Locate, KnowsModelScopeLayouts) {
  auto escaped = make("ms/hub/models/Qwen/Qwen2___5-0___5B");
  EXPECT_EQ(find_in_caches("Qwen/Qwen2.5-0.5B", Kind::model), escaped);
  auto plain = make("ms/models/Qwen/Qwen3-8B");
  EXPECT_EQ(find_in_caches("Qwen/Qwen3-8B", Kind::model), plain);
}

TEST_F(Locate, NamesBothCachesWhenMissing) {
  try {
    locate_model("Qwen/Missing");
    FAIL() << "expected a UserError";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find((root_ / "ms").string()), std::string::npos);
    EXPECT_NE(std::string(error.what()).find((root_ / "hf").string()), std::string::npos);
    EXPECT_FALSE(error.hint().empty());
  }
}

}  // namespace
}  // namespace hone::hub
