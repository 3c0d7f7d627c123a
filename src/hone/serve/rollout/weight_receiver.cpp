#include "hone/serve/rollout/weight_receiver.h"

#include <fmt/ranges.h>

#include <charconv>
#include <map>
#include <utility>

#include "hone/model/inference/tensor_parallel_decoder.h"
#include "hone/serve/http/api_error.h"
#include "hone/tuner/adapter_files.h"
#include "hone/tuner/multi_adapter.h"

namespace hone::serve {
namespace {

constexpr const char* kFollowed = "default";  // the adapter that mirrors the trainer's

int64_t number_in(std::string_view query, std::string_view name) {
  for (size_t begin = 0; begin < query.size();) {
    const auto end = std::min(query.find('&', begin), query.size());
    const auto word = query.substr(begin, end - begin);
    begin = end + 1;
    if (!word.starts_with(name) || word.substr(name.size(), 1) != "=") continue;
    const auto digits = word.substr(name.size() + 1);
    int64_t value = -1;
    const auto [last, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (problem == std::errc() && last == digits.data() + digits.size() && value >= 0) return value;
    break;
  }
  throw ApiError(400, fmt::format("expected {}=NUMBER in the address", name), std::string(name), "invalid_value");
}

// Runs `work` while no replica computes.
template <class Work>
void while_asleep(engine::Engine& engine, Work work) {
  const bool was_awake = !engine.stats().asleep;
  if (was_awake) engine.sleep();
  try {
    work();
  } catch (...) {
    if (was_awake) engine.wake();
    throw;
  }
  if (was_awake) engine.wake();
}

}  // namespace

WeightPart read_weight_part(std::string_view query) {
  WeightPart part{number_in(query, "version"), number_in(query, "part"), number_in(query, "parts")};
  if (part.part >= part.parts)
    throw ApiError(400, fmt::format("part {} of {}; parts count from 0", part.part, part.parts), "part", "invalid_value");
  return part;
}

void WeightReceiver::receive(engine::Engine& engine, const WeightPart& part, const io::ReceivedTensors& received) {
  if (part.part == 0)
    begin(engine, part, received);
  else if (part.version != receiving_ || part.part != next_part_)
    throw ApiError(409, fmt::format("expected part {} of version {}", next_part_, receiving_), "part", "wrong_part");
  for (size_t i = 0; i < models_.size(); ++i) copy(i, received);
  next_part_ = part.part + 1;
  if (next_part_ < part.parts) return;
  reshard(engine);
  if (std::exchange(sleeps_, false)) engine.wake();
  engine.update_weights(part.version);
  version_ = part.version;
  receiving_ = -1;
}

void WeightReceiver::begin(engine::Engine& engine, const WeightPart& part, const io::ReceivedTensors& received) {
  const auto config = received.metadata.find("adapter_config");
  if (config != received.metadata.end() && config->second != adapter_config_)
    attach(engine, config->second, received.tensors.empty() ? at::kFloat : received.tensors.front().second.scalar_type());
  if (config == received.metadata.end() && !adapter_config_.empty())
    throw ApiError(400, "this server follows an adapter; start another one for weights of the model itself", "", "wrong_weights");
  if (part.parts > 1) engine.sleep(), sleeps_ = true;
  receiving_ = part.version;
  next_part_ = 0;
}

// A captured step does not include the adapter: the engine captures again.
void WeightReceiver::attach(engine::Engine& engine, const std::string& config, at::ScalarType dtype) {
  auto parsed = io::parse_adapter_config(config);
  if (!parsed) throw ApiError(400, fmt::format("adapter_config: {}", parsed.error()), "adapter_config", "invalid_value");
  parsed->init = "true";  // its initial weights are sent
  while_asleep(engine, [&] {
    if (!adapter_config_.empty()) detach();
    adapters_.resize(models_.size());
    try {
      for (size_t i = 0; i < models_.size(); ++i) {
        adapters_[i] = tuner::attach_adapter(*models_[i], *parsed, {.name = kFollowed, .dtype = dtype});
        if (model::is_tensor_parallel(*models_[i])) model::TensorParallelDecoder::check_layers(models_[i]->decoder());
      }
      adapter_config_ = config;
    } catch (const UserError& problem) {
      detach();
      throw ApiError(400, fmt::format("adapter_config: {}", problem.what()), "adapter_config", "invalid_value");
    } catch (...) {
      detach();
      throw;
    }
  });
}

void WeightReceiver::detach() {
  for (auto* model : models_) tuner::delete_adapter(*model, kFollowed);
  adapters_.clear();
  adapter_config_.clear();
  version_ = 0;  // without the adapter these are not weights of the trainer
}

// Tensor parallel shards are copies of the weights.
void WeightReceiver::reshard(engine::Engine& engine) {
  if (!model::is_tensor_parallel(*models_.front())) return;
  while_asleep(engine, [&] {
    for (size_t i = 0; i < models_.size(); ++i) {
      const bool only_lora = i < adapters_.size() && adapters_[i] && adapters_[i]->modules_to_save.empty();
      only_lora ? model::reshard_adapters(*models_[i]) : model::reshard(*models_[i]);
    }
  });
}

// All of a part or nothing of it.
void WeightReceiver::copy(size_t index, const io::ReceivedTensors& received) {
  auto& model = *models_[index];
  std::map<std::string, Tensor> own;
  if (index < adapters_.size() && adapters_[index])
    for (const auto& tensor : tuner::adapter_tensors(model, *adapters_[index])) own.emplace(tensor.name, *tensor.value);
  else
    for (const auto& parameter : model.parameters()) own.emplace(parameter.name, *parameter.value);
  for (const auto& [name, values] : received.tensors) {
    const auto found = own.find(name);
    if (found == own.end())
      throw ApiError(400, fmt::format("the model has no weight called \"{}\"", name.substr(0, 200)), "", "unknown_weight");
    if (found->second.sizes() != values.sizes())
      throw ApiError(400,
                     fmt::format("{} has shape {}, expected {}", name, fmt::join(values.sizes(), "x"),
                                 fmt::join(found->second.sizes(), "x")),
                     "", "wrong_shape");
  }
  at::NoGradGuard no_grad;
  for (const auto& [name, values] : received.tensors) own.at(name).copy_(values);
}

}  // namespace hone::serve
