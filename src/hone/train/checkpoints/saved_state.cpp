#include "hone/train/checkpoints/saved_state.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace hone::train {
namespace {

// "name@1024" -> name, 1024; a name without a number after @ is whole.
std::pair<std::string, std::optional<int64_t>> split_piece(const std::string& name) {
  auto at = name.rfind('@');
  if (at == std::string::npos) return {name, {}};
  int64_t begin = 0;
  auto [end, status] = std::from_chars(name.data() + at + 1, name.data() + name.size(), begin);
  if (status != std::errc() || end != name.data() + name.size()) return {name, {}};
  return {name.substr(0, at), begin};
}

}  // namespace

std::string state_name(int rank, const char* extension) {
  return rank == 0 ? fmt::format("hone_state.{}", extension) : fmt::format("hone_state-rank-{}.{}", rank, extension);
}

SavedState::SavedState(const fs::path& checkpoint, int processes) {
  for (int rank = 0; rank < processes; ++rank)
    if (auto path = checkpoint / state_name(rank, "safetensors"); fs::exists(path)) files_.emplace_back(path);
  for (size_t file = 0; file < files_.size(); ++file)
    for (const auto& entry : files_[file].entries()) {
      auto [name, begin] = split_piece(entry.name);
      stored_[name].push_back({begin.value_or(0), file, &entry});
    }
  for (auto& [name, stored] : stored_)
    std::stable_sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) { return a.begin < b.begin; });
}

Tensor SavedState::assemble(const std::vector<Stored>& stored, int64_t begin, const Tensor& like) const {
  const auto& first = stored.front();
  if (stored.size() == 1 && first.begin == 0 && begin == 0 && at::IntArrayRef(first.entry->shape) == like.sizes())
    return files_[first.file].tensor(*first.entry);
  auto values = at::empty({like.numel()}, at::TensorOptions().dtype(first.entry->dtype));
  int64_t done = 0;
  for (const auto& piece : stored) {
    auto source = files_[piece.file].tensor(*piece.entry).reshape({-1});
    int64_t from = begin + done - piece.begin;  // where this piece resumes from what there is
    if (from < 0) break;                        // a hole
    int64_t count = std::min(source.numel() - from, like.numel() - done);
    if (count <= 0) continue;
    values.narrow(0, done, count).copy_(source.narrow(0, from, count));
    done += count;
  }
  return done == like.numel() ? values.view(like.sizes()) : Tensor();
}

optim::NamedTensors SavedState::read(const std::string& prefix, const optim::NamedTensors& wanted) const {
  optim::NamedTensors found;
  for (const auto& [full_name, like] : wanted) {
    auto [name, begin] = split_piece(full_name);
    auto stored = stored_.find(prefix + name);
    if (stored == stored_.end()) continue;
    if (auto values = assemble(stored->second, begin.value_or(0), like); values.defined()) found.emplace_back(full_name, values);
  }
  return found;
}

}  // namespace hone::train
