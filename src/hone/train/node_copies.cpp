#include "hone/train/node_copies.h"

#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>

#include "hone/base/json.h"

namespace hone::train {
namespace {

constexpr int64_t kTravellingPiece = 8 << 20;

// {"adapter_model.safetensors": 1024, …}
Json files_to_share(const fs::path& folder, NodeCopies::Depth depth) {
  Json files = Json::object();
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && depth == NodeCopies::Depth::folder_alone) entry.disable_recursion_pending();
    if (entry->is_regular_file()) files[entry->path().lexically_relative(folder).generic_string()] = entry->file_size();
  }
  return files;
}

// One file on its way: read here, or written here, or only passing by.
class TravellingFile {
 public:
  enum class Part { reads, writes, has_it };
  TravellingFile(const fs::path& path, Part part) : path_(path), part_(part) {
    if (part == Part::writes) fs::create_directories(path.parent_path()), file_.open(path, std::ios::binary | std::ios::out | std::ios::trunc);
    if (part == Part::reads) file_.open(path, std::ios::binary | std::ios::in);
  }
  void before(Tensor& piece) {
    if (part_ == Part::reads) file_.read(reinterpret_cast<char*>(piece.mutable_data_ptr<uint8_t>()), piece.numel());
  }
  void after(const Tensor& piece) {
    if (part_ == Part::writes) file_.write(reinterpret_cast<const char*>(piece.const_data_ptr<uint8_t>()), piece.numel());
  }
  void close() {
    if (part_ == Part::has_it) return;
    file_.close();
    if (!file_) throw std::system_error(errno ? errno : EIO, std::generic_category(), path_.string());
  }

 private:
  fs::path path_;
  Part part_;
  std::fstream file_;
};

}  // namespace

void NodeCopies::share(const fs::path& folder, Depth depth) const {
  if (!leaders_) return;
  const auto own = files_to_share(folder, depth);
  const auto lists = leaders_->gather_text(own.dump());
  std::exception_ptr trouble;
  std::set<std::string> travelled;
  for (int node = 0; node < leaders_->size(); ++node) {
    const auto files = Json::parse(lists[static_cast<size_t>(node)]);
    for (const auto& [name, size] : files.items()) {
      if (!travelled.insert(name).second) continue;
      using Part = TravellingFile::Part;
      TravellingFile file(folder / name, node == leaders_->rank() ? Part::reads : own.contains(name) ? Part::has_it : Part::writes);
      for (int64_t left = size.get<int64_t>(); left > 0; left -= kTravellingPiece) {
        auto piece = at::zeros({std::min(left, kTravellingPiece)}, at::kByte);
        file.before(piece);
        leaders_->broadcast(piece, node);
        file.after(piece);
      }
      try {
        file.close();
      } catch (const std::exception&) {
        trouble = std::current_exception();
      }
    }
  }
  if (trouble) std::rethrow_exception(trouble);
}

}  // namespace hone::train
