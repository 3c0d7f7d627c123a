#include "hone/data/batches/batch.h"

#include "hone/data/batches/audio_batch.h"
#include "hone/data/batches/collator.h"
#include "hone/data/batches/image_batch.h"

namespace hone::data {
namespace {

struct TokenRow {
  std::vector<int64_t> tokens, targets;
  PositionAxes positions;
  std::vector<float> weights;
  bool weighted = false;
};

// Appends `samples` as one sequence: the target of a token is the label of the next token; the last token has none.
void append_sequence(std::span<const Sample> samples, bool positions_restart, TokenRow& row) {
  size_t begin = row.targets.size();
  for (const auto& sample : samples) {
    const int64_t first = positions_restart || row.tokens.size() == begin ? 0 : row.positions.next();
    row.positions.append(sample, first);
    for (size_t i = 0; i < sample.ids.size(); ++i) {
      row.tokens.push_back(sample.ids[i]);
      // Labels are shifted by one: the token before predicts them.
      if (row.tokens.size() - 1 > begin) {
        row.targets.push_back(sample.labels[i]);
        float weight = sample.loss_scale.empty() ? 1.0f : sample.loss_scale[i];
        row.weights.push_back(weight);
        row.weighted |= weight != 1.0f && sample.labels[i] != kIgnore;
      }
    }
  }
  if (row.tokens.size() > begin) {
    row.targets.push_back(kIgnore);
    row.weights.push_back(1.0f);
  }
}

template <class T>
Tensor tensor_of(const std::vector<T>& values, at::ScalarType type) {
  auto tensor = at::empty({static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(type));
  std::copy(values.begin(), values.end(), tensor.template data_ptr<T>());
  return tensor;
}

}  // namespace

Batch collate(std::span<const SamplePack> given, PackMask joint) {
  Batch batch;
  TokenRow row;
  std::vector<SamplePack> changed;  // if a medium cannot be decoded, its sample's labels are masked
  auto packs = given;
  if (has_pictures(given) || has_sounds(given)) {
    changed.assign(given.begin(), given.end());
    batch.images = load_images(changed);
    batch.audio = load_sounds(changed);
    packs = changed;
  }
  for (const auto& pack : packs) {
    if (joint == PackMask::separate) {
      for (const auto& sample : pack) {
        append_sequence({&sample, 1}, true, row);
        batch.segments.append(static_cast<int64_t>(sample.ids.size()));
        batch.channels.push_back(sample.channel);
      }
    } else {
      size_t before = row.tokens.size();
      append_sequence(pack, joint == PackMask::cross_sample, row);
      batch.segments.append(static_cast<int64_t>(row.tokens.size() - before));
      batch.channels.push_back(pack.empty() ? "" : pack.front().channel);
    }
    for (const auto& sample : pack) batch.rows.push_back(sample.row);
    batch.sample_count += static_cast<int64_t>(pack.size());
  }
  for (int64_t target : row.targets) batch.target_count += target != kIgnore;
  batch.tokens_t = tensor_of(row.tokens, at::kLong);
  batch.positions_t = row.positions.tensor();
  batch.targets_t = tensor_of(row.targets, at::kLong);
  if (row.weighted) batch.weights_t = tensor_of(row.weights, at::kFloat);
  return batch;
}

Batch Batch::to(at::Device device) const {
  Batch moved = *this;
  // A copy from pinned memory is asynchronous.
  auto send = [&](const Tensor& tensor) {
    if (!tensor.defined() || device.is_cpu()) return tensor;
    return pinned && tensor.device().is_cpu() ? tensor.pin_memory().to(device, /*non_blocking=*/true) : tensor.to(device);
  };
  moved.tokens_t = send(tokens_t);
  moved.positions_t = send(positions_t);
  moved.images.patches_pr = send(images.patches_pr);
  moved.images.rows_n = send(images.rows_n);
  moved.audio.frames_fm = send(audio.frames_fm);
  moved.audio.rows_n = send(audio.rows_n);
  moved.targets_t = send(targets_t);
  moved.weights_t = send(weights_t);
  moved.routed_experts_tlk = send(routed_experts_tlk);
  if (payload && !device.is_cpu()) {
    std::shared_ptr<Payload> copy = payload->clone();
    for (auto* tensor : copy->tensors()) *tensor = send(*tensor);
    moved.payload = std::move(copy);
  }
  return moved;
}

}  // namespace hone::data
