#include "hone/hub/locate.h"

#include <gtest/gtest.h>

#include <map>

#include "hone/base/file.h"
#include "hone/hub/cache.h"
#include "hone/hub/scan.h"

namespace hone::hub {
namespace {

class Locate : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / fmt::format("hone-locate-{}", ::getpid());
    fs::create_directories(root_);
    variables_ = {{"HF_HOME", root_ / "hf"}, {"MODELSCOPE_CACHE", root_ / "ms"}, {"HF_HUB_OFFLINE", "1"}};
    configure({.user = user()});
  }
  UserSettings user() const {
    return user_settings([this](const std::string& name) {
      auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    });
  }
  void TearDown() override { fs::remove_all(root_); }
  void put(const fs::path& relative, const std::string& content = "{}") {
    fs::create_directories((root_ / relative).parent_path());
    write_file_atomically(root_ / relative, content);
  }
  fs::path put_model(const fs::path& relative) {
    put(relative / "config.json");
    put(relative / "model.safetensors");
    return root_ / relative;
  }
  std::string refusal(const std::string& name) {
    try {
      locate_model(name);
    } catch (const UserError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "";
  }
  std::map<std::string, std::string> variables_;
  fs::path root_;
};

TEST_F(Locate, PrefersALocalFolder) { EXPECT_EQ(locate_model(put_model("here").string()), root_ / "here"); }

TEST_F(Locate, FollowsTheHuggingFaceRef) {
  auto model = fs::path("hf/hub/models--Qwen--Qwen2-7B");
  auto older = put_model(model / "snapshots/aaa"), newest = put_model(model / "snapshots/bbb");
  put(model / "refs/main", "bbb\n");
  EXPECT_EQ(find_in_caches("Qwen/Qwen2-7B", Kind::model), newest);
  EXPECT_EQ(find_in_caches("Qwen/Qwen2-7B", Kind::model, "aaa"), older);
  EXPECT_EQ(find_in_caches("Qwen/Qwen2-7B", Kind::model, "ccc"), std::nullopt);
}

TEST_F(Locate, RefMayNotLeaveTheSnapshots) {
  auto model = fs::path("hf/hub/models--a--b");
  put_model(model / "snapshots/x");
  put_model(model / "snapshots/y");
  put(model / "refs/main", "../../..");
  EXPECT_EQ(find_in_caches("a/b", Kind::model), std::nullopt);
}

TEST_F(Locate, KnowsModelScopeLayouts) {
  for (const char* layout :
       {"ms/models/Qwen--Qwen2.5-0.5B/snapshots/master", "ms/hub/models/Qwen/Qwen2___5-0___5B", "ms/models/Qwen/Qwen2___5-0___5B",
        "ms/models/Qwen/Qwen2.5-0.5B", "ms/Qwen/Qwen2.5-0.5B", "ms/hub/Qwen/Qwen2___5-0___5B"}) {
    auto folder = put_model(layout);
    EXPECT_EQ(find_in_caches("Qwen/Qwen2.5-0.5B", Kind::model), folder) << layout;
    fs::remove_all(root_ / "ms");
  }
  put("ms/datasets/a--rows/snapshots/master/train.jsonl");
  EXPECT_EQ(find_in_caches("a/rows", Kind::dataset), root_ / "ms/datasets/a--rows/snapshots/master");
  put("ms/hub/datasets/a/prepared/0.0.0/x.arrow");
  EXPECT_EQ(find_in_caches("a/prepared", Kind::dataset), std::nullopt);
}

TEST_F(Locate, TheChosenSiteComesFirst) {
  auto modelscope = put_model("ms/models/a--b/snapshots/master"), hugging_face = put_model("hf/hub/models--a--b/snapshots/c");
  EXPECT_EQ(find_in_caches("a/b", Kind::model), modelscope);
  configure({.site = Site::hugging_face, .user = user()});
  EXPECT_EQ(find_in_caches("a/b", Kind::model), hugging_face);
}

TEST_F(Locate, AnUnfinishedFolderIsNotTaken) {
  put("hf/hub/models--a--b/snapshots/c/config.json");
  EXPECT_EQ(find_in_caches("a/b", Kind::model), std::nullopt);
  put("hf/hub/models--a--b/snapshots/c/model.safetensors.index.json",
      R"({"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}})");
  put("hf/hub/models--a--b/snapshots/c/model-1.safetensors");
  EXPECT_EQ(find_in_caches("a/b", Kind::model), std::nullopt);
  EXPECT_NE(refusal("a/b").find("lacks model-2.safetensors"), std::string::npos) << refusal("a/b");
  put("hf/hub/models--a--b/snapshots/c/model-2.safetensors");
  EXPECT_NE(find_in_caches("a/b", Kind::model), std::nullopt);
  auto modelscope = put_model("ms/models/d--e/snapshots/master");
  put("ms/models/d--e/.hone/master.unfinished", "");
  EXPECT_EQ(find_in_caches("d/e", Kind::model), std::nullopt);
}

// Hugging Face's tools note a commit's files before they fetch them.
TEST_F(Locate, ADatasetLacksWhatItsTreeLists) {
  put("hf/hub/datasets--a--rows/snapshots/c/train.jsonl");
  EXPECT_NE(find_in_caches("a/rows", Kind::dataset), std::nullopt);
  put("hf/hub/datasets--a--rows/trees/c.json",
      R"({"format_version": 1, "files": {"train.jsonl": {"size": 2}, "more.jsonl": {"size": 2}}})");
  EXPECT_EQ(find_in_caches("a/rows", Kind::dataset), std::nullopt);
}

TEST_F(Locate, AFolderOfARepository) {
  put_model("ms/models/a--b/snapshots/master/sub");
  put("ms/models/a--b/snapshots/master/config.json");
  EXPECT_EQ(locate_model("a/b:sub"), root_ / "ms/models/a--b/snapshots/master/sub");
  EXPECT_NE(refusal("a/b:../.."), "");
}

TEST_F(Locate, NamesBothCachesWhenMissing) {
  auto words = refusal("Qwen/Missing");
  for (auto part : {(root_ / "ms").string(), (root_ / "hf").string(), std::string("put it there or pass a folder")})
    EXPECT_NE(words.find(part), std::string::npos) << words;
  EXPECT_NE(refusal("/no/such/folder").find("no such folder"), std::string::npos);
}

TEST_F(Locate, ATokenGoesToItsOwnHubOnly) {
  variables_["HF_TOKEN"] = " theirs \n";
  configure({.site = Site::modelscope, .token = "ours", .user = user()});
  EXPECT_EQ(access_to(Site::modelscope).token, "ours");
  EXPECT_EQ(access_to(Site::hugging_face).token, "theirs");
}

TEST_F(Locate, Endpoints) {
  variables_["MODELSCOPE_DOMAIN"] = "www.example.cn/";
  configure({.user = user()});
  EXPECT_EQ(access_to(Site::modelscope).endpoint, "https://www.example.cn");
  variables_.erase("MODELSCOPE_DOMAIN");
  configure({.user = user()});
  EXPECT_EQ(access_to(Site::modelscope).endpoint, "https://modelscope.cn");
}

TEST_F(Locate, ScansBothCaches) {
  put_model("ms/models/a--b/snapshots/master");
  put_model("ms/hub/models/c/d___5");
  put("ms/hub/datasets/json/default-1/0.0.0/x.arrow");
  put("ms/datasets/e--rows/snapshots/master/train.jsonl", "0123456789");
  put_model("hf/hub/models--a--b/snapshots/c");
  auto found = scan_caches();
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].id, "a/b");
  EXPECT_EQ(found[2].id, "c/d.5");
  EXPECT_EQ(found[3].id, "e/rows");
  EXPECT_EQ(found[3].bytes, 10u);
  EXPECT_EQ(found[3].kind, Kind::dataset);
}

}  // namespace
}  // namespace hone::hub
