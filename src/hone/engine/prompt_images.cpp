#include "hone/engine/prompt_images.h"

#include <random>

#include "hone/engine/keyed_hash.h"

namespace hone::engine {
namespace {

HashKey digest_key() {
  std::random_device source;
  auto word = [&] { return static_cast<uint64_t>(source()) << 32 | source(); };
  return {word(), word()};
}

std::string digest_of(const Tensor& values) {
  const auto whole = values.contiguous();
  return keyed_digest({static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()});
}

std::string digest_of(const model::ImageInput& images) {
  auto digest = digest_of(images.patches_pr);
  for (const auto& grid : images.grids) digest += " " + grid.str();
  return digest;
}

}  // namespace

std::string keyed_digest(std::span<const std::byte> bytes) {
  static const HashKey keys[] = {digest_key(), digest_key()};
  std::string digest;
  for (const auto& key : keys) digest += fmt::format("{:016x}", keyed_hash(key, bytes));
  return digest;
}

std::shared_ptr<const PromptImages> PromptImages::make(model::ImageInput images, Tensor positions_p, model::AudioInput audio) {
  auto made = std::make_shared<PromptImages>();
  TensorList rows;
  if (!images.empty()) {
    made->digest = digest_of(images), made->blocks = model::row_blocks(images.rows_n, {});
    rows.push_back(images.rows_n);
  }
  if (!audio.empty()) {
    made->digest += fmt::format(" {} {}", digest_of(audio.frames_fm), fmt::join(audio.lengths, " "));
    rows.push_back(audio.rows_n);
  }
  made->rows_n = at::cat(rows);
  made->images = std::move(images);
  made->audio = std::move(audio);
  if (positions_p.dim() == 1) return made;
  made->position_offset = positions_p.max().item<int64_t>() + 1 - positions_p.size(1);
  made->positions_p = std::move(positions_p);
  return made;
}

Tensor PromptImages::positions(int64_t begin, int64_t count) const {
  if (!positions_p.defined()) return {};
  const int64_t prompt = positions_p.size(1), end = begin + count, inside = std::min(end, prompt);
  TensorList parts;
  if (begin < inside) parts.push_back(positions_p.narrow(1, begin, inside - begin));
  if (end > prompt) {
    const int64_t first = std::max(begin, prompt);
    parts.push_back((at::arange(first, end, at::kLong) + position_offset).expand({3, end - first}));
  }
  return at::cat(parts, 1);
}

}  // namespace hone::engine
