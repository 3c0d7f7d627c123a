#include "hone/model/encoders/audio_tower.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "hone/base/error.h"
#include "hone/ops/attention/attention.h"
#include "hone/ops/linear/lora_linear.h"

namespace hone::model {
namespace {

// Inputs shared by all blocks of a pass.
struct AudioPass {
  ops::AttentionMetadata windows;
  ops::AttentionShape shape;
  LinearContext mode;
};

// im2col of a kernel of width three along `dim`, zero-padded; adds an axis at the end.
Tensor neighbors(const Tensor& x, int64_t dim, int64_t stride) {
  std::vector<int64_t> around(static_cast<size_t>(2 * (x.dim() - dim)), 0);
  around[around.size() - 2] = around[around.size() - 1] = 1;
  const auto padded = at::constant_pad_nd(x, around);
  const int64_t length = (x.size(dim) - 1) / stride * stride + 1;
  return at::stack(
      {padded.slice(dim, 0, length, stride), padded.slice(dim, 1, length + 1, stride), padded.slice(dim, 2, length + 2, stride)},
      -1);
}

// A convolution as a matrix product, [chunks, time, channels] to the same with the layer's output channels.
Tensor over_time(const Linear& layer, const Tensor& x_ntc, int64_t stride, const LinearContext& mode) {
  auto seen = neighbors(x_ntc, 1, stride);
  const int64_t chunks = seen.size(0), time = seen.size(1);
  auto y = ops::lora_linear(seen.reshape({chunks * time, -1}), layer.weight.flatten(1), layer.bias, {}, mode.training);
  return at::gelu(y).view({chunks, time, -1});
}

// The same over mel bins and time with stride 2: [chunks, bins, time, channels].
Tensor over_image(const Linear& layer, const Tensor& x_nbtc, const LinearContext& mode) {
  auto seen = neighbors(neighbors(x_nbtc, 1, 2), 2, 2);  // […, channels, kernel bins, kernel time]
  const int64_t chunks = seen.size(0), bins = seen.size(1), time = seen.size(2);
  auto y = ops::lora_linear(seen.reshape({chunks * bins * time, -1}), layer.weight.flatten(1), layer.bias, {}, mode.training);
  return at::gelu(y).view({chunks, bins, time, -1});
}

// Whisper's sinusoidal positions, [count, width]: the first half are sines.
Tensor sinusoids(int64_t count, int64_t width, const at::TensorOptions& options) {
  const double step = std::log(10000.0) / static_cast<double>(width / 2 - 1);
  auto times = at::arange(count, at::kFloat).unsqueeze(1) * at::exp(at::arange(width / 2, at::kFloat) * -step).unsqueeze(0);
  return at::cat({times.sin(), times.cos()}, 1).to(options);
}

Tensor block_of_frames(const AudioBlock& block, const Tensor& x_rh, const AudioPass& pass) {
  auto normed = block.attention_norm(x_rh);
  auto attended = ops::attention(block.q(normed, pass.mode), block.k(normed, pass.mode), block.v(normed, pass.mode), pass.windows,
                                 pass.shape);
  auto y_rh = x_rh + block.out(attended, pass.mode);
  return y_rh + block.fc2(at::gelu(block.fc1(block.mlp_norm(y_rh), pass.mode)), pass.mode);
}

// Zero-pads to whole chunks, [chunks, frames of a chunk, width]; a single chunk has the length of its recording.
Tensor in_chunks(const Tensor& x_fw, int64_t chunk) {
  const int64_t count = (x_fw.size(0) + chunk - 1) / chunk, missing = count * chunk - x_fw.size(0);
  return (missing > 0 ? at::constant_pad_nd(x_fw, {0, 0, 0, missing}) : x_fw).reshape({count, chunk, x_fw.size(1)});
}

// The rows of one recording that attend to each other.
void append_windows_of(int64_t frames, const AudioConfig& config, ops::CuSeqlens& windows) {
  const int64_t chunk = std::min(frames, config.chunk),
                rows = frames / chunk * config.rows_of(chunk) + config.rows_of(frames % chunk),
                window = config.rows_of(chunk) * config.chunks_in_window;
  for (int64_t at = 0; at < rows; at += window) windows.append(std::min(window, rows - at));
}

}  // namespace

// The input rows of the first block, for one recording.
Tensor AudioTower::embed_recording(const Tensor& frames_fm, const LinearContext& mode) const {
  const int64_t frames = frames_fm.size(0), chunk = std::min(frames, config.chunk), rest = frames % chunk;
  const int64_t rows = frames / chunk * config.rows_of(chunk) + config.rows_of(rest), width = config.hidden_size;
  Tensor x;
  if (config.pools_pairs()) {
    x = over_time(convolutions[0], in_chunks(frames_fm, chunk), 1, mode);
    if (rest > 0) x = in_chunks(x.view({-1, width}).narrow(0, 0, frames), chunk);  // zero past the end
    x = over_time(convolutions[1], x, 2, mode);
  } else {
    x = in_chunks(frames_fm, chunk).transpose(1, 2).unsqueeze(3);
    for (const auto& layer : convolutions) x = over_image(layer, x, mode);
    x = (*conv_out)(x.permute({0, 2, 3, 1}).reshape({x.size(0) * x.size(2), -1}), mode).view({x.size(0), x.size(2), width});
  }
  x = x + sinusoids(x.size(1), width, x.options());
  return x.reshape({-1, width}).narrow(0, 0, rows);
}

Tensor AudioTower::forward(const Tensor& frames_fm, const std::vector<int64_t>& lengths, const LinearContext& mode) {
  const bool trains = at::GradMode::is_enabled() && !Unit{UnitKind::encoder, module()}.trained_parameters().empty();
  at::AutoGradMode graph(trains);
  const auto& first = convolutions.front().weight;
  const auto all_fm = frames_fm.to(first.device(), first.scalar_type());
  TensorList rows;
  ops::CuSeqlens windows, recordings;
  int64_t begin = 0;
  for (int64_t frames : lengths) {
    rows.push_back(embed_recording(all_fm.narrow(0, begin, frames), mode));
    append_windows_of(frames, config, windows);
    recordings.append(rows.back().size(0));
    begin += frames;
  }
  HONE_CHECK(begin == frames_fm.size(0), "{} frames of spectrograms for {}", frames_fm.size(0), begin);
  auto pass = std::make_shared<AudioPass>(
      AudioPass{ops::attention_metadata(windows, first.device()),
                {config.heads, config.heads, config.head_dim(), 1.0 / std::sqrt(static_cast<double>(config.head_dim()))},
                mode});
  pass->shape.causal = false;
  auto x_rh = at::cat(rows);
  for (const auto& block : blocks) {
    if (!trains || recompute == Recompute::none)
      x_rh = block_of_frames(block, x_rh, *pass);
    else
      x_rh = checkpoint([&block, pass](const Tensor& kept) { return TensorList{block_of_frames(block, kept, *pass)}; }, x_rh,
                        Unit{UnitKind::encoder, const_cast<AudioBlock&>(block).module()}.trained_parameters())
                 .front();
  }
  if (config.pools_pairs()) {
    TensorList pairs;
    for (int64_t i = 0; i < recordings.count(); ++i)
      pairs.push_back(x_rh.narrow(0, recordings.offsets[static_cast<size_t>(i)], recordings.length(i) / 2 * 2)
                          .reshape({-1, 2, config.hidden_size})
                          .mean(1));
    x_rh = at::cat(pairs);
  }
  x_rh = projector[0](norm(x_rh), mode);
  return projector.size() > 1 ? projector[1](at::gelu(x_rh), mode) : x_rh;
}

}  // namespace hone::model
