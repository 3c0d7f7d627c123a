#include "hone/model/encoders/audio_config.h"

#include "hone/model/families/family.h"

namespace hone::model {
namespace {

[[noreturn]] void refuse_audio(const std::string& what) { throw UserError(ExitCode::bad_checkpoint, "audio_config: " + what); }

int64_t halved_by_stride(int64_t count) { return count > 0 ? (count - 1) / 2 + 1 : 0; }

AudioConfig read_audio(const Json& hf) {
  AudioConfig config;
  config.layers = required_size(hf, "encoder_layers");
  config.hidden_size = required_size(hf, "d_model");
  config.intermediate_size = required_size(hf, "encoder_ffn_dim");
  config.heads = required_size(hf, "encoder_attention_heads");
  config.mel_bins = size_or(hf, "num_mel_bins", 128);
  config.out_hidden_size = required_size(hf, "output_dim");
  config.max_positions = size_or(hf, "max_source_positions", 1500);
  if (const auto act = hf.value("activation_function", Json("gelu")); act != "gelu")
    refuse_audio(fmt::format("\"activation_function\" is {}; expected \"gelu\"", act.dump()));
  constexpr int64_t kMostLayers = 1000, kMostWidth = 1 << 20;
  if (config.layers > kMostLayers)
    refuse_audio(fmt::format("encoder_layers is {}; at most {} are read", config.layers, kMostLayers));
  for (int64_t width :
       {config.hidden_size, config.intermediate_size, config.mel_bins, config.out_hidden_size, config.max_positions})
    if (width < 1 || width > kMostWidth) refuse_audio(fmt::format("a width of {} is beyond any model", width));
  if (config.hidden_size % config.heads != 0 || config.hidden_size % 2 != 0 || config.hidden_size < 4)
    refuse_audio(fmt::format("{} heads do not divide a width of {}", config.heads, config.hidden_size));
  return config;
}

// n_window is half a chunk.
void read_chunk(const Json& hf, int64_t half, AudioConfig& config) {
  config.chunk = 2 * size_or(hf, "n_window", half);
  if (config.chunk < 2 || config.rows_of(config.chunk) > config.max_positions)
    refuse_audio(fmt::format("\"n_window\" is {}, and there are {} positions", config.chunk / 2, config.max_positions));
}

}  // namespace

int64_t AudioConfig::rows_of(int64_t frames) const {
  const int64_t half = halved_by_stride(frames);
  return pools_pairs() ? half : halved_by_stride(halved_by_stride(half));
}

int64_t AudioConfig::tokens_of(int64_t frames) const {
  if (pools_pairs()) return halved_by_stride(frames) / 2;
  return frames / chunk * rows_of(chunk) + rows_of(frames % chunk);
}

AudioConfig qwen2_5_omni_audio(const Json& hf) {
  auto config = read_audio(hf);
  read_chunk(hf, 100, config);
  if (config.chunk % 2 != 0) refuse_audio("a chunk has an odd number of frames");
  return config;
}

AudioConfig qwen3_omni_audio(const Json& hf) {
  auto config = read_audio(hf);
  config.has_key_bias = true;
  config.image_channels = size_or(hf, "downsample_hidden_size", 480);
  if (config.image_channels < 1 || config.image_channels > 1 << 16)
    refuse_audio(fmt::format("\"downsample_hidden_size\" is {}; expected a width", config.image_channels));
  read_chunk(hf, 50, config);
  config.chunks_in_window = size_or(hf, "n_window_infer", 800) / config.chunk;
  if (config.chunk != 100)
    refuse_audio(fmt::format("\"n_window\" is {}; expected 50, for which tokens are counted", config.chunk / 2));
  if (config.chunks_in_window < 1)
    refuse_audio(fmt::format("\"n_window_infer\" is less than a chunk of {} frames", config.chunk));
  return config;
}

}  // namespace hone::model
