#include "hone/tuner/lora_init.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>

#include "hone/base/error.h"
#include "hone/base/stable_hash.h"
#include "hone/ops/quantization/quantized_tensor.h"
#include "hone/tuner/lora_ga.h"

namespace hone::tuner {
namespace {

constexpr std::string_view kFastPissa = "pissa_niter_";

// Drawn on the host, so that a seed gives the same adapter on every device.
Tensor uniform(at::IntArrayRef shape, double bound, at::Generator& generator) {
  return at::empty(shape, at::kFloat).uniform_(-bound, bound, generator);
}
Tensor normal(at::IntArrayRef shape, double deviation, at::Generator& generator) {
  return at::empty(shape, at::kFloat).normal_(0, deviation, generator);
}

LoraPair pissa(const Tensor& weight, int64_t rank, double scale, const std::string& kind, at::Generator& generator) {
  const Tensor full = weight.to(at::kFloat);
  Svd svd;
  if (kind == "pissa") {
    auto [u, s, vh] = at::linalg_svd(full, /*full_matrices=*/false);
    svd = {u, s, vh};
  } else {
    svd = low_rank_svd(full, rank, std::stoll(kind.substr(kFastPissa.size())), generator);
  }
  const Tensor root = (svd.s.slice(0, 0, rank) / scale).sqrt();
  return subtract_from_base(weight, (root.unsqueeze(1) * svd.vh.slice(0, 0, rank)).contiguous(),
                            (svd.u.slice(1, 0, rank) * root).contiguous(), scale);
}

LoraPair olora(const Tensor& weight, int64_t rank, double scale) {
  auto [q, r] = at::linalg_qr(weight.to(at::kFloat));
  return subtract_from_base(weight, r.slice(0, 0, rank).contiguous(), q.slice(1, 0, rank).contiguous(), scale);
}

}  // namespace

Svd low_rank_svd(const Tensor& matrix, int64_t width, int64_t iterations, at::Generator& generator) {
  width = std::min(width, std::min(matrix.size(0), matrix.size(1)));
  Tensor q = std::get<0>(at::linalg_qr(matrix.mm(normal({matrix.size(1), width}, 1.0, generator).to(matrix.device()))));
  for (int64_t i = 0; i < iterations; ++i) {
    q = std::get<0>(at::linalg_qr(matrix.t().mm(q)));
    q = std::get<0>(at::linalg_qr(matrix.mm(q)));
  }
  auto [u, s, vh] = at::linalg_svd(q.t().mm(matrix), /*full_matrices=*/false);
  return {q.mm(u), s, vh};
}

LoraPair subtract_from_base(const Tensor& weight, const Tensor& a, const Tensor& b, double scale) {
  return {a, b, (weight.to(at::kFloat) - scale * b.mm(a)).to(weight.scalar_type())};
}

bool inits_from_base(const std::string& kind) { return kind.starts_with("pissa") || kind == "olora"; }

bool changes_base(const std::string& kind) { return inits_from_base(kind) || kind == "loftq"; }

void check_init(const std::string& kind) {
  for (const char* known : {"true", "false", "gaussian", "pissa", "olora", "loftq", kLoraGa})
    if (kind == known) return;
  if (kind.starts_with(kFastPissa)) {
    const auto count = kind.substr(kFastPissa.size());
    if (!count.empty() && count.size() < 4 && std::ranges::all_of(count, [](unsigned char c) { return std::isdigit(c); })) return;
  }
  throw UserError(ExitCode::usage, fmt::format("init_weights is \"{}\"", kind),
                  "one of true, false, gaussian, pissa, pissa_niter_16, olora, loftq, lora-ga");
}

at::Generator layer_generator(const std::string& path, uint64_t seed) {
  return at::detail::createCPUGenerator(stable_hash(path, seed));
}

LoraPair init_lora(const Tensor& weight, int64_t rank, double scale, const io::AdapterConfig& config, at::Generator& generator) {
  at::NoGradGuard no_grad;
  const std::string& kind = config.init;
  const int64_t out = weight.size(0), in = weight.size(1);
  if (changes_base(kind)) {
    if (rank > std::min(out, in))
      throw UserError(ExitCode::usage, fmt::format("init_weights {} with rank {}: the weight is {} x {}", kind, rank, out, in));
    if (kind == "loftq") return loftq(weight, rank, scale, config.loftq_bits, config.loftq_iterations);
    return kind == "olora" ? olora(weight, rank, scale) : pissa(weight, rank, scale, kind, generator);
  }
  // Kaiming's uniform bound with negative slope sqrt(5), the initialization of torch.nn.Linear.
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  LoraPair pair;
  pair.a =
      kind == "gaussian" ? normal({rank, in}, 1.0 / static_cast<double>(rank), generator) : uniform({rank, in}, bound, generator);
  // "false" initializes both matrices randomly, so that a new adapter already changes the output: useful only in tests.
  pair.b = kind == "false" ? uniform({out, rank}, 1.0 / std::sqrt(static_cast<double>(rank)), generator)
                           : at::zeros({out, rank}, at::kFloat);
  pair.a = pair.a.to(weight.device());
  pair.b = pair.b.to(weight.device());
  return pair;
}

LoraPair initial_embedding_lora(const Tensor& weight, int64_t rank, const std::string& kind, at::Generator& generator) {
  const int64_t words = weight.size(0), width = weight.size(1);
  if (changes_base(kind)) throw UserError(ExitCode::usage, fmt::format("init_weights {} does not apply to embeddings", kind));
  LoraPair pair;
  pair.a = kind == "false" ? normal({rank, words}, 1.0, generator) : at::zeros({rank, words}, at::kFloat);
  pair.b = normal({width, rank}, 1.0, generator);
  pair.a = pair.a.to(weight.device());
  pair.b = pair.b.to(weight.device());
  return pair;
}

Tensor dora_magnitudes(const Tensor& weight, const Tensor& a, const Tensor& b, double scale) {
  at::NoGradGuard no_grad;
  return at::linalg_vector_norm(weight.to(at::kFloat) + scale * b.to(at::kFloat).mm(a.to(at::kFloat)), 2, /*dim=*/1);
}

Tensor rounded_to_nf4(const Tensor& weight) { return ops::QuantizedTensor(weight, {ops::QuantType::nf4}).dequantize(at::kFloat); }

Tensor rounded_to_int8(const Tensor& weight) {
  return ops::QuantizedTensor(weight, {ops::QuantType::int8}).dequantize(at::kFloat);
}

LoraPair loftq(const Tensor& weight, int64_t rank, double scale, int64_t bits, int64_t rounds) {
  const Tensor full = weight.to(at::kFloat);
  LoraPair pair;
  for (int64_t round = 0; round < rounds; ++round) {
    const Tensor target = round == 0 ? full : full - scale * pair.b.mm(pair.a);
    pair.residual = bits == 4 ? rounded_to_nf4(target) : rounded_to_int8(target);
    auto [u, s, vh] = at::linalg_svd(full - pair.residual, /*full_matrices=*/false);
    const Tensor root = (s.slice(0, 0, rank) / scale).sqrt();
    pair.a = (root.unsqueeze(1) * vh.slice(0, 0, rank)).contiguous();
    pair.b = (u.slice(1, 0, rank) * root).contiguous();
  }
  pair.residual = pair.residual.to(weight.scalar_type());
  return pair;
}

}  // namespace hone::tuner
