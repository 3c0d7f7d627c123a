#include "hone/data/encode/truncate.h"

#include <algorithm>

namespace hone::data {
namespace {

template <class T>
std::vector<T> slice(const std::vector<T>& values, size_t begin, size_t end) {
  return {values.begin() + static_cast<ptrdiff_t>(begin), values.begin() + static_cast<ptrdiff_t>(end)};
}

Sample part(const Sample& sample, size_t begin, size_t end) {
  Sample out{.channel = sample.channel, .origin = sample.origin, .row = sample.row};
  out.ids = slice(sample.ids, begin, end);
  out.labels = slice(sample.labels, begin, end);
  if (!sample.loss_scale.empty()) out.loss_scale = slice(sample.loss_scale, begin, end);
  if (!out.labels.empty()) out.labels[0] = kIgnore;
  if (!out.loss_scale.empty()) out.loss_scale[0] = 0;
  return out;
}

// As in ms-swift: media placeholders stay, and other tokens are removed until the rest fits.
void truncate_around_media(Sample& sample, size_t limit, Truncation side) {
  std::vector<bool> keeps(sample.ids.size(), false);
  size_t placeholders = 0;
  auto keep = [&](size_t at) {
    placeholders += !keeps[at];
    keeps[at] = true;
  };
  for (const auto& picture : sample.pictures) {
    for (int64_t i = 0; i < picture.geometry.tokens; ++i) keep(picture.position(i));
    if (picture.mixed.empty()) continue;
    size_t end = picture.first;
    for (const auto& run : picture.mixed) end += static_cast<size_t>(run.tokens);
    for (size_t mark : {picture.first - 2, picture.first - 1, end, end + 1}) keep(mark);  // of both, which positions count on
  }
  for (const auto& sound : sample.sounds)
    for (int64_t i = 0; i < sound.tokens; ++i) keep(sound.position(i));
  size_t room = limit > placeholders ? limit - placeholders : 0;
  for (size_t n = 0; n < keeps.size() && room > 0; ++n) {
    const size_t at = side == Truncation::left ? keeps.size() - 1 - n : n;
    if (!keeps[at]) keeps[at] = true, --room;
  }
  std::vector<size_t> new_position(keeps.size() + 1, 0);
  for (size_t i = 0; i < keeps.size(); ++i) new_position[i + 1] = new_position[i] + keeps[i];
  auto compact = [&](auto& values) {
    for (size_t i = 0; i < values.size(); ++i)
      if (keeps[i]) values[new_position[i]] = values[i];
    if (!values.empty()) values.resize(new_position.back());
  };
  compact(sample.ids), compact(sample.labels), compact(sample.loss_scale);
  auto move = [&](auto& medium) {
    medium.first = new_position[medium.first];
    for (auto& at : medium.scattered) at = new_position[at];
  };
  for (auto& picture : sample.pictures) move(picture);
  for (auto& sound : sample.sounds) move(sound);
  if (!sample.labels.empty()) sample.labels[0] = kIgnore;
  if (!sample.loss_scale.empty()) sample.loss_scale[0] = 0;
}

}  // namespace

void truncate(Sample& sample, int64_t limit, Truncation side) {
  auto length = sample.ids.size(), kept = static_cast<size_t>(limit);
  if (length <= kept) return;
  if (!sample.pictures.empty() || !sample.sounds.empty()) return truncate_around_media(sample, kept, side);
  sample = side == Truncation::left ? part(sample, length - kept, length) : part(sample, 0, kept);
}

std::vector<Sample> split(const Sample& sample, int64_t limit) {
  std::vector<Sample> parts;
  for (size_t begin = 0; begin < sample.ids.size(); begin += static_cast<size_t>(limit))
    parts.push_back(part(sample, begin, std::min(sample.ids.size(), begin + static_cast<size_t>(limit))));
  return parts;
}

std::pair<int64_t, int64_t> infer_seqlen(int64_t prompt, int64_t response, int64_t budget) {
  int64_t allowed;
  if (response * 2 < budget)
    allowed = budget;
  else if (prompt * 2 < budget)
    allowed = budget - prompt;
  else
    allowed = static_cast<int64_t>(static_cast<double>(budget) *
                                   (static_cast<double>(response) / static_cast<double>(prompt + response)));
  int64_t kept_response = std::min(allowed, response);
  return {std::min(std::max<int64_t>(budget - kept_response, 0), prompt), kept_response};
}

}  // namespace hone::data
