#include "hone/train/rl/servers/weights_payload.h"

#include "hone/io/safetensors_bytes.h"
#include "hone/io/value_head.h"
#include "hone/tuner/adapter_files.h"

namespace hone::train::rl {
namespace {

constexpr size_t kPartBytes = size_t{256} << 20;

std::vector<io::TensorSource> sources_of(model::CausalLM& model, const tuner::Tuned& tuned, const tuner::ReadWeight& read) {
  std::vector<io::TensorSource> sources;
  if (tuned.adapter) {
    for (const auto& tensor : tuner::adapter_tensors(model, *tuned.adapter))
      sources.push_back(io::TensorSource::of(tensor.name, tensor.value->detach()));
    return sources;
  }
  for (const auto& [name, tensor] : tuned.trainable) {
    if (io::is_of_value_head(name)) continue;
    sources.push_back(io::TensorSource::of(name, tensor.detach()));
    if (read) sources.back().load = [read, value = tensor] { return read(value); };
  }
  return sources;
}

}  // namespace

size_t WeightsPayload::bytes() const {
  size_t total = 0;
  for (const auto& part : parts) total += part.size();
  return total;
}

void require_followable(const tuner::Tuned& tuned) {
  if (tuned.adapter && !tuned.adapter->initial.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("init_weights {} changes the base weights, which a rollout server does not receive",
                                tuned.adapter->config.init),
                    "leave `init_weights` out, or generate in the training processes (`vllm_mode` colocate)");
}

WeightsPayload make_payload(model::CausalLM& model, const tuner::Tuned& tuned, int64_t version, const tuner::ReadWeight& read) {
  WeightsPayload payload{.version = version, .parts = {}};
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (tuned.adapter) metadata["adapter_config"] = io::to_json(tuned.adapter->config).dump();
  std::vector<io::TensorSource> part;
  size_t bytes = 0;
  const auto close = [&] {
    if (part.empty()) return;
    payload.parts.push_back(io::safetensors_bytes(part, metadata));
    part.clear();
    bytes = 0;
  };
  for (auto& source : sources_of(model, tuned, read)) {
    if (bytes + source.bytes() > kPartBytes) close();
    bytes += source.bytes();
    part.push_back(std::move(source));
  }
  close();
  return payload;
}

}  // namespace hone::train::rl
