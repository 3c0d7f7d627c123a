#include "hone/model/rotary/rope_frequencies.h"

#include <cmath>
#include <numbers>

namespace hone::model {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

Tensor powers(double theta, int64_t head_dim) {
  auto exponents = at::arange(0, head_dim, 2, at::TensorOptions(at::kFloat)) / static_cast<double>(head_dim);
  return at::reciprocal(at::pow(at::Scalar(theta), exponents));
}

// Long wavelengths are scaled, short ones kept, those in between interpolated.
Tensor llama3(const Tensor& inverse, const RopeConfig& rope) {
  double context = static_cast<double>(rope.original_context);
  double longest_kept = context / rope.high_frequency, shortest_stretched = context / rope.low_frequency;
  auto wavelength = kTwoPi / inverse;
  auto smooth = (context / wavelength - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
  auto blended = (1 - smooth) * inverse / rope.factor + smooth * inverse;
  auto scaled = at::where(wavelength > shortest_stretched, inverse / rope.factor, inverse);
  auto between = (wavelength >= longest_kept).logical_and(wavelength <= shortest_stretched);
  return at::where(between, blended, scaled);
}

double yarn_magnitude(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  auto scale = [&](double mscale) { return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0; };
  if (rope.mscale && rope.mscale_all_dim && *rope.mscale != 0 && *rope.mscale_all_dim != 0)
    return scale(*rope.mscale) / scale(*rope.mscale_all_dim);
  return scale(1.0);
}

Tensor yarn(const Tensor& inverse, const RopeConfig& rope, int64_t head_dim) {
  double dim = static_cast<double>(head_dim);
  auto dimension_of = [&](double rotations) {
    return dim * std::log(static_cast<double>(rope.original_context) / (rotations * kTwoPi)) / (2 * std::log(rope.theta));
  };
  double low = dimension_of(rope.beta_fast), high = dimension_of(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  auto stretched = ((at::arange(head_dim / 2, at::TensorOptions(at::kFloat)) - low) / (high - low)).clamp_(0, 1);
  return inverse / rope.factor * stretched + inverse * (1 - stretched);
}

// transformers' apply_multimodal_rotary_pos_emb (consecutive sections) and apply_interleaved_mrope (t h w t h w … t t).
Tensor mrope_axes(const RopeConfig& rope, int64_t head_dim) {
  const auto& sections = rope.mrope_section;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const int64_t axis = i % 3;
    if (rope.mrope_interleaved)
      axes.push_back(i < 3 * sections[static_cast<size_t>(axis)] ? axis : 0);
    else
      axes.push_back(i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2);
  }
  return at::tensor(axes, at::kLong);
}

}  // namespace

static RopeFrequencies scaled_frequencies(const RopeConfig& rope, const DecoderConfig& config, int64_t length) {
  int64_t head_dim = config.attention.rotated();
  auto inverse = powers(rope.theta, head_dim);
  switch (rope.kind) {
    case RopeKind::plain:
      return {inverse, 1.0};
    case RopeKind::linear:
      return {inverse / rope.factor, 1.0};
    case RopeKind::llama3:
      return {llama3(inverse, rope), 1.0};
    case RopeKind::yarn:
      return {yarn(inverse, rope, head_dim), yarn_magnitude(rope)};
    case RopeKind::dynamic: {
      double context = static_cast<double>(config.max_position_embeddings), seen = std::max(context, static_cast<double>(length));
      double dim = static_cast<double>(head_dim);
      double theta = rope.theta * std::pow(rope.factor * seen / context - (rope.factor - 1), dim / (dim - 2));
      return {powers(theta, head_dim), 1.0};
    }
  }
  return {inverse, 1.0};
}

RopeFrequencies rope_frequencies(const RopeConfig& rope, const DecoderConfig& config, int64_t length) {
  auto frequencies = scaled_frequencies(rope, config, length);
  if (!rope.mrope_section.empty()) frequencies.axes = mrope_axes(rope, config.attention.rotated());
  return frequencies;
}

ops::RopeTable rope_table(const Tensor& positions_t, const RopeFrequencies& frequencies) {
  const auto device = positions_t.device();
  auto axes = frequencies.axes.defined() && positions_t.dim() == 2 ? frequencies.axes.to(device) : Tensor();
  return ops::rope_table(positions_t, frequencies.inverse.to(device), frequencies.magnitude, axes);
}

}  // namespace hone::model
