#include "hone/train/checkpoints/node_replication.h"

#include <gtest/gtest.h>

#include <barrier>
#include <fstream>
#include <thread>

#include "train/scratch_folder.h"

namespace hone::train {
namespace {

// What the threads of a group put down for each other.
struct Table {
  explicit Table(int size) : tensors(static_cast<size_t>(size)), meeting(size) {}
  std::vector<Tensor> tensors;
  std::barrier<> meeting;
};

// Leaders that are threads of this process.
class ThreadGroup : public parallel::ProcessGroup {
 public:
  ThreadGroup(int rank, int size, Table& table) : ProcessGroup(rank, size), table_(table) {}

  std::unique_ptr<parallel::Work> all_gather(Tensor& all, const Tensor& own) override {
    meet(own, [&] { all.copy_(at::cat(table_.tensors)); });
    return std::make_unique<Done>();
  }
  void broadcast(Tensor& values, int root) override {
    meet(values, [&] {
      if (rank() != root) values.copy_(table_.tensors[static_cast<size_t>(root)]);
    });
  }

  std::unique_ptr<parallel::Work> all_reduce(Tensor&, parallel::ReduceOp) override { return nullptr; }
  std::unique_ptr<parallel::Work> reduce_scatter(Tensor&, const Tensor&) override { return nullptr; }
  std::unique_ptr<parallel::Work> all_to_all(Tensor&, const Tensor&, const RowCounts&, const RowCounts&) override {
    return nullptr;
  }
  std::unique_ptr<parallel::Work> send(const Tensor&, int, int) override { return nullptr; }
  std::unique_ptr<parallel::Work> receive(Tensor&, int, int) override { return nullptr; }
  std::unique_ptr<parallel::Work> exchange(const Tensor&, int, Tensor&, int, int) override { return nullptr; }
  void barrier() override {}
  std::unique_ptr<ProcessGroup> subgroup(const std::string&, const std::vector<int>&) override { return nullptr; }

 private:
  struct Done : parallel::Work {
    void wait() override {}
  };
  template <class Work>
  void meet(const Tensor& own, Work work) {
    table_.tensors[static_cast<size_t>(rank())] = own;
    table_.meeting.arrive_and_wait();
    work();
    table_.meeting.arrive_and_wait();
  }

  Table& table_;
};

class NodeCopiesTest : public testing::Test {
 protected:
  // Shares folders/<names[i]> as node i; what each of them threw, "" for nothing.
  std::vector<std::string> share(const std::vector<std::string>& names) {
    const int size = static_cast<int>(names.size());
    Table table(size);
    std::vector<std::string> messages(names.size());
    std::vector<std::thread> nodes;
    for (int node = 0; node < size; ++node)
      nodes.emplace_back([&, node] {
        ThreadGroup group(node, size, table);
        auto& message = messages[static_cast<size_t>(node)];
        try {
          NodeReplicator(&group).replicate(scratch_.path() / names[static_cast<size_t>(node)], NodeReplicator::Depth::all_below);
        } catch (const std::exception& thrown) {
          message = thrown.what();
        }
      });
    for (auto& node : nodes) node.join();
    return messages;
  }

  void put(const std::string& name, const std::string& content) {
    fs::create_directories((scratch_.path() / name).parent_path());
    std::ofstream(scratch_.path() / name) << content;
  }
  std::string content(const std::string& name) { return read_file(scratch_.path() / name); }

  ScratchFolder scratch_;
};

TEST_F(NodeCopiesTest, TheFirstNodesFileReplacesWhatAnEarlierRunLeft) {
  put("a/weights", "new");
  put("a/deep/state-0", "0");
  put("a/half.arriving-7", "left by a killed run");
  put("b/weights", "old and longer");
  put("b/state-1", "1");
  put("b/empty", "");
  EXPECT_EQ(share({"a", "b", "a"}), (std::vector<std::string>{"", "", ""})) << "the third node sees the first one's folder";
  for (std::string node : {"a", "b"}) {
    EXPECT_EQ(content(node + "/weights"), "new");
    EXPECT_EQ(content(node + "/deep/state-0") + content(node + "/state-1") + content(node + "/empty"), "01");
  }
  EXPECT_FALSE(fs::exists(scratch_.path() / "b/half.arriving-7"));
  for (const auto& entry : fs::recursive_directory_iterator(scratch_.path() / "b"))
    EXPECT_EQ(entry.path().string().find("arriving"), std::string::npos) << entry.path();
}

TEST_F(NodeCopiesTest, WhoCannotListOrWriteTakesPartAndSaysSoAtTheEnd) {
  put("a/deep/one", "1");
  put("a/two", "2");
  put("b/deep", "a file where a folder should be");
  put("c/two/inside", "a folder where a file should be");
  auto messages = share({"a", "nowhere", "c", "b"});
  EXPECT_NE(messages[1].find("nowhere"), std::string::npos) << "the listing failed";
  EXPECT_NE(messages[2].find("two"), std::string::npos) << messages[2];
  EXPECT_NE(messages[3].find("deep"), std::string::npos) << messages[3];
  EXPECT_EQ(content("nowhere/deep/one") + content("c/deep/one") + content("b/two"), "112") << "all else has travelled";
  EXPECT_FALSE(fs::exists(scratch_.path() / "c/two.arriving-2"));
}

}  // namespace
}  // namespace hone::train
