#include "hone/hub/listing.h"

#include <gtest/gtest.h>

namespace hone::hub {
namespace {

const std::string kSha1(40, 'a'), kSha256(64, 'b');

TEST(FileNames, StayInsideTheirFolder) {
  for (const char* good : {"config.json", "a/b/c.json", "..a", "a..b", "模型.json", ".gitattributes"})
    EXPECT_TRUE(file_name_from_server(good)) << good;
  for (const char* bad : {"", "/etc/passwd", "..", "../a", "a/../../b", "a//b", "a/", "./a", "a\\b", "a\nb",
                          ".git/hooks/pre-commit", "x/.git/config", ".hone/lock"})
    EXPECT_FALSE(file_name_from_server(bad)) << bad;
  EXPECT_FALSE(file_name_from_server(std::string(300, 'x')));
}

TEST(Ids, BecomePathsOnlyWhenPlain) {
  EXPECT_TRUE(is_repo_id("Qwen/Qwen2.5-7B-Instruct"));
  for (const char* bad : {"", "a", "a/b/c", "../b", "a/..", "/a", "a/", "a b/c", "a/b?x", ".a/b"})
    EXPECT_FALSE(is_repo_id(bad)) << bad;
  EXPECT_TRUE(is_revision("refs/pr/1"));
  EXPECT_FALSE(is_revision("../main"));
}

TEST(Listing, ReadsAHuggingFaceTree) {
  auto files =
      read_tree(R"([{"type":"directory","path":"d","oid":"x","size":0},{"type":"file","path":"d/a.json","size":3,"oid":")" +
                kSha1 + R"("},{"type":"file","path":"m.safetensors","size":134,"oid":")" + kSha1 + R"(","lfs":{"oid":")" +
                kSha256 + R"(","size":5000,"pointerSize":134}}])");
  ASSERT_TRUE(files) << files.error();
  ASSERT_EQ(files->size(), 2u);
  EXPECT_EQ((*files)[0].checksum(), kSha1);
  EXPECT_EQ((*files)[1].checksum(), kSha256);
  EXPECT_EQ((*files)[1].size, 5000u);
}

TEST(Listing, RefusesWhatWouldBecomeABadPath) {
  EXPECT_FALSE(read_tree(R"([{"type":"file","path":"../x","size":3,"oid":")" + kSha1 + "\"}]"));
  EXPECT_FALSE(read_tree(R"([{"type":"file","path":"x","size":3,"oid":"../../x"}])"));
  EXPECT_FALSE(read_tree(R"([{"type":"file","path":"x","size":-1,"oid":")" + kSha1 + "\"}]"));
  EXPECT_FALSE(read_tree(R"([{"type":"file","path":"x","size":1e30,"oid":")" + kSha1 + "\"}]"));
  EXPECT_FALSE(read_tree("{}"));
  EXPECT_FALSE(read_commit(R"({"sha":"main"})"));
  EXPECT_FALSE(read_files(R"({"Data":{"Files":[{"Path":"/x","Type":"blob","Size":1}]}})"));
  EXPECT_FALSE(read_files(R"({"Success":false,"Message":"no"})"));
}

TEST(Listing, ReadsModelScopeFiles) {
  auto page =
      read_files(R"({"Code":200,"Data":{"Files":[{"Path":"d","Type":"tree"},{"Path":"d/x","Type":"blob","Size":7,"Sha256":")" +
                 kSha256 + "\"}]}}");
  ASSERT_TRUE(page) << page.error();
  EXPECT_EQ(page->entries, 2u);
  ASSERT_EQ(page->files.size(), 1u);
  EXPECT_EQ(page->files[0].sha256, kSha256);
}

TEST(Listing, Addresses) {
  Access hf{.site = Site::hugging_face, .endpoint = "http://h", .token = {}, .cache = {}};
  Access ms{.site = Site::modelscope, .endpoint = "http://m", .token = {}, .cache = {}};
  EXPECT_EQ(revision_url(hf, {Site::hugging_face, Kind::model, "a/b", "refs/pr/1"}),
            "http://h/api/models/a/b/revision/refs%2Fpr%2F1");
  EXPECT_EQ(file_url(hf, {Site::hugging_face, Kind::dataset, "a/b", ""}, "c", "d/e #.json"),
            "http://h/datasets/a/b/resolve/c/d/e%20%23.json");
  EXPECT_EQ(file_url(ms, {Site::modelscope, Kind::model, "a/b", "main"}, "", "d/e&f"),
            "http://m/api/v1/models/a/b/repo?Revision=master&FilePath=d%2Fe%26f");
  EXPECT_EQ(next_page("<http://h/x?cursor=2>; rel=\"next\""), "http://h/x?cursor=2");
  EXPECT_EQ(next_page("<http://h/a>; rel=\"prev\", <http://h/b>; rel=\"next\""), "http://h/b");
  EXPECT_EQ(next_page("<http://h/a"), "");
}

std::vector<std::string> names(const std::vector<RemoteFile>& files) {
  std::vector<std::string> out;
  for (const auto& file : files) out.push_back(file.path);
  return out;
}

TEST(Patterns, LeaveOutWhatIsNotReadUnlessAsked) {
  std::vector<RemoteFile> files;
  for (const char* name : {"config.json", "model.safetensors", "pytorch_model.bin", "model.gguf", "onnx/model.onnx", "sub/a.txt"})
    files.push_back({.path = name, .size = 1, .sha256 = {}, .blob = {}});
  EXPECT_EQ(names(filter_files(files, {}, Kind::model)),
            (std::vector<std::string>{"config.json", "model.safetensors", "sub/a.txt"}));
  EXPECT_EQ(names(filter_files(files, {{"*.bin", "sub/"}, {}}, Kind::model)),
            (std::vector<std::string>{"pytorch_model.bin", "sub/a.txt"}));
  EXPECT_EQ(names(filter_files(files, {{}, {"*.[bgs]*", "onnx/*"}}, Kind::model)),
            (std::vector<std::string>{"config.json", "sub/a.txt"}));
  EXPECT_EQ(filter_files(files, {}, Kind::dataset).size(), files.size());
  EXPECT_FALSE(only_pickled_weights(files));
  std::erase_if(files, [](const RemoteFile& file) { return file.path == "model.safetensors"; });
  EXPECT_TRUE(only_pickled_weights(files));
}

}  // namespace
}  // namespace hone::hub
