#include "hone/train/checkpoints/node_replication.h"

#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>

#include "hone/base/json.h"

namespace hone::train {
namespace {

constexpr int64_t kBroadcastChunk = 8 << 20;
constexpr std::string_view kArriving = ".arriving-";  // and its writing rank: nodes may share a file system after all

// {"adapter_model.safetensors": 1024, …}
Json files_to_share(const fs::path& folder, NodeReplicator::Depth depth) {
  Json files = Json::object();
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && depth == NodeReplicator::Depth::folder_alone) entry.disable_recursion_pending();
    auto name = entry->path().filename().string();
    if (!entry->is_regular_file() || name.starts_with(".") || name.find(kArriving) != std::string::npos) continue;
    files[entry->path().lexically_relative(folder).generic_string()] = entry->file_size();
  }
  return files;
}

// The first local error, kept until no other rank waits for this one.
class DeferredError {
 public:
  template <class Work>
  bool survives(Work work) {
    try {
      work();
      return true;
    } catch (const std::exception&) {
      if (!first_) first_ = std::current_exception();
      return false;
    }
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

[[noreturn]] void throw_errno(const fs::path& path) {
  throw std::system_error(errno ? errno : EIO, std::generic_category(), path.string());
}

// Transfers files between nodes. Only network errors are thrown.
class FileBroadcast {
 public:
  FileBroadcast(parallel::ProcessGroup& leaders, DeferredError& trouble) : leaders_(leaders), trouble_(trouble) {}

  void send(const fs::path& path, int64_t size) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    in_pieces(size, [&](Tensor& piece) {
      file.read(reinterpret_cast<char*>(piece.mutable_data_ptr<uint8_t>()), piece.numel());
      leaders_.broadcast(piece, leaders_.rank());
    });
    trouble_.survives([&] {
      if (!file) throw_errno(path);
    });
    all_told(file.good(), leaders_.rank());
  }

  void receive(const fs::path& path, int64_t size, int sender) {
    const fs::path arriving = fmt::format("{}{}{}", path.string(), kArriving, leaders_.rank());
    errno = 0;
    std::ofstream file;
    bool placed = trouble_.survives([&] { fs::create_directories(path.parent_path()); });
    if (placed) file.open(arriving, std::ios::binary | std::ios::trunc);
    in_pieces(size, [&](Tensor& piece) {
      leaders_.broadcast(piece, sender);
      file.write(reinterpret_cast<const char*>(piece.const_data_ptr<uint8_t>()), piece.numel());
    });
    bool whole = all_told(true, sender);
    if (!placed) return;
    bool arrived = trouble_.survives([&] {
      file.close();
      if (!file) throw_errno(arriving);
      if (!whole) throw std::runtime_error(fmt::format("{}: node {} could not read it", path.string(), sender));
      fs::rename(arriving, path);
    });
    std::error_code ignored;
    if (!arrived) fs::remove(arriving, ignored);
  }

 private:
  template <class Work>
  static void in_pieces(int64_t size, Work work) {
    for (int64_t left = size; left > 0; left -= kBroadcastChunk) {
      auto piece = at::zeros({std::min(left, kBroadcastChunk)}, at::kByte);
      work(piece);
    }
  }

  // Whether the transfer was complete.
  bool all_told(bool whole, int sender) {
    auto flag = at::full({1}, whole, at::kByte);
    leaders_.broadcast(flag, sender);
    return flag.item<uint8_t>() != 0;
  }

  parallel::ProcessGroup& leaders_;
  DeferredError& trouble_;
};

}  // namespace

void NodeReplicator::replicate(const fs::path& folder, Depth depth) const {
  if (!leaders_) return;
  DeferredError trouble;
  std::string own = "{}";
  trouble.survives([&] { own = files_to_share(folder, depth).dump(); });
  const auto lists = leaders_->gather_text(own);
  FileBroadcast broadcast(*leaders_, trouble);
  std::set<std::string> sent;
  for (int node = 0; node < leaders_->size(); ++node) {
    const auto files = Json::parse(lists[static_cast<size_t>(node)]);
    for (const auto& [name, size] : files.items()) {
      if (!sent.insert(name).second) continue;
      if (node == leaders_->rank())
        broadcast.send(folder / name, size.get<int64_t>());
      else
        broadcast.receive(folder / name, size.get<int64_t>(), node);
    }
  }
  trouble.rethrow();
}

}  // namespace hone::train
