#include "hone/train/checkpoints/saved_state.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <tuple>

namespace hone::train {
namespace {

// The numbers after an @: "1024", or "1024:64:256" and so on; none for anything else.
std::vector<int64_t> numbers_in(std::string_view text) {
  std::vector<int64_t> numbers;
  while (!text.empty()) {
    auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), numbers.emplace_back());
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const bool ends = text.empty() || text.front() == ':';
    if (status != std::errc() || numbers.back() < 0 || numbers.back() > SavedState::Runs::kMostElements || !ends) return {};
    if (!text.empty()) text.remove_prefix(1);
  }
  return numbers;
}

struct NamedPiece {
  std::string name;
  SavedState::Runs runs;
};

// Whether these describe non-overlapping runs.
bool are_runs(const std::vector<int64_t>& numbers) {
  if ((numbers.size() != 3 && numbers.size() != 5) || numbers[1] < 1 || numbers[2] < numbers[1]) return false;
  return numbers.size() == 3 || (numbers[3] > 0 && numbers[3] <= numbers[4] / numbers[2]);
}

// "name@1024" -> name, from 1024 on; "name@1024:64:256" -> runs of 64, one every 256, and so on; "name@1024:64:256@100" -> of
// those, from the 100th element on. Any other name is the full tensor.
NamedPiece split_piece(const std::string& name) {
  auto at = name.rfind('@');
  if (at == std::string::npos) return {name, {}};
  auto numbers = numbers_in(std::string_view(name).substr(at + 1));
  if (numbers.size() == 1) {
    auto piece = split_piece(name.substr(0, at));
    (piece.runs.is_cut() ? piece.runs.skip : piece.runs.begin) = numbers[0];
    return piece;
  }
  if (!are_runs(numbers)) return {name, {}};
  numbers.resize(5);
  return {name.substr(0, at), {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]}};
}

}  // namespace

bool SavedState::Runs::fits(int64_t size) const {
  if (run == 0) return true;
  const int64_t runs = (skip + size - 1) / run;
  return count == 0 ? runs <= kMostElements / stride : runs / count <= kMostElements / jump;
}

int64_t SavedState::Runs::position(int64_t element) const {
  if (run == 0) return begin + element;
  const int64_t number = (skip + element) / run, inside = (skip + element) % run;
  if (count == 0) return begin + number * stride + inside;
  return begin + number / count * jump + number % count * stride + inside;
}

void SavedState::Runs::each_run(int64_t size, const std::function<void(int64_t, int64_t, int64_t)>& visit) const {
  for (int64_t done = 0, length = 0; done < size; done += length) {
    length = run == 0 ? size : std::min(run - (skip + done) % run, size - done);
    visit(position(done), done, length);
  }
}

std::string state_name(int rank, const char* extension) {
  return rank == 0 ? fmt::format("hone_state.{}", extension) : fmt::format("hone_state-rank-{}.{}", rank, extension);
}

SavedState::SavedState(const fs::path& checkpoint, int processes) {
  for (int rank = 0; rank < processes; ++rank)
    if (auto path = checkpoint / state_name(rank, "safetensors"); fs::exists(path)) files_.emplace_back(path);
  for (size_t file = 0; file < files_.size(); ++file)
    for (const auto& entry : files_[file].entries()) {
      auto [name, runs] = split_piece(entry.name);
      stored_[name].push_back({runs, file, &entry});
    }
  for (auto& [name, stored] : stored_)
    std::stable_sort(stored.begin(), stored.end(), [](const Stored& a, const Stored& b) {
      return std::tie(a.runs.begin, a.runs.skip) < std::tie(b.runs.begin, b.runs.skip);
    });
}

// Merges pieces of several layouts into the full flattened tensor. Nothing if a piece is missing or belongs to another parameter.
Tensor SavedState::assemble_runs(const std::vector<Stored>& stored, const Runs& wanted, const Tensor& like) const {
  std::vector<const Stored*> pieces;
  int64_t size = 0, known = 0;
  for (const auto& piece : stored) {
    const int64_t elements = c10::multiply_integers(piece.entry->shape);
    if (elements == 0 || !piece.runs.fits(elements) || piece.entry->dtype != stored.front().entry->dtype) return {};
    if (!pieces.empty() && pieces.back()->runs == piece.runs) continue;  // ranks with the same piece
    pieces.push_back(&piece);
    size = std::max(size, piece.runs.end(elements));
    known += elements;
  }
  if (known != size || !wanted.fits(like.numel()) || wanted.end(like.numel()) > size) return {};
  auto whole = at::empty({size}, at::TensorOptions().dtype(stored.front().entry->dtype)),
       values = at::empty(like.sizes(), whole.options());
  const auto width = static_cast<int64_t>(whole.element_size());
  auto copy = [&](Tensor& to, int64_t at, const Tensor& source, int64_t from, int64_t length) {
    std::memcpy(static_cast<char*>(to.mutable_data_ptr()) + at * width,
                static_cast<const char*>(source.const_data_ptr()) + from * width, static_cast<size_t>(length * width));
  };
  for (const auto* piece : pieces) {
    const auto source = files_[piece->file].tensor(*piece->entry).contiguous();
    piece->runs.each_run(source.numel(),
                         [&](int64_t at, int64_t from, int64_t length) { copy(whole, at, source, from, length); });
  }
  wanted.each_run(like.numel(), [&](int64_t at, int64_t from, int64_t length) { copy(values, from, whole, at, length); });
  return values;
}

Tensor SavedState::assemble(const std::vector<Stored>& stored, const Runs& wanted, const Tensor& like) const {
  if (wanted.is_cut() || std::ranges::any_of(stored, [](const Stored& piece) { return piece.runs.is_cut(); }))
    return assemble_runs(stored, wanted, like);
  const auto& first = stored.front();
  const int64_t begin = wanted.begin;
  if (stored.size() == 1 && first.runs.begin == 0 && begin == 0 && at::IntArrayRef(first.entry->shape) == like.sizes())
    return files_[first.file].tensor(*first.entry);
  auto values = at::empty({like.numel()}, at::TensorOptions().dtype(first.entry->dtype));
  int64_t done = 0;
  for (const auto& piece : stored) {
    auto source = files_[piece.file].tensor(*piece.entry).reshape({-1});
    int64_t from = begin + done - piece.runs.begin;  // where this piece continues what is filled
    if (from < 0) break;                             // a gap
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
    auto [name, runs] = split_piece(full_name);
    auto stored = stored_.find(prefix + name);
    if (stored == stored_.end()) continue;
    if (auto values = assemble(stored->second, runs, like); values.defined()) found.emplace_back(full_name, values);
  }
  return found;
}

}  // namespace hone::train
