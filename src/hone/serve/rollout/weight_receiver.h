// Receives weights from a trainer: the parts of a version arrive as safetensors and are copied into the model. The first part of
// an adapter contains its adapter_config.json, and the adapter is attached.
#pragma once
#include <atomic>
#include <optional>
#include <string_view>

#include "hone/engine/engine.h"
#include "hone/io/safetensors_bytes.h"
#include "hone/tuner/adapter.h"

namespace hone::serve {

// The part and version of a request's body.
struct WeightPart {
  int64_t version = 0, part = 0, parts = 1;
};
// "version=3&part=0&parts=2". Throws ApiError(400).
WeightPart read_weight_part(std::string_view query);

class WeightReceiver {
 public:
  // Every replica's model, each once. `scheduler` of turns: one that the trainer must run; empty: it need not run any.
  WeightReceiver(std::vector<model::CausalLM*> models, std::string scheduler)
      : models_(std::move(models)), scheduler_(std::move(scheduler)) {}

  const std::string& scheduler() const { return scheduler_; }
  int64_t version() const { return version_; }  // any thread; 0: those of the files
  // On the engine's thread. Running requests wait while a version is incomplete. Throws ApiError: 400 for tensors that are not
  // the model's, 409 for an out-of-order part.
  void receive(engine::Engine& engine, const WeightPart& part, const io::ReceivedTensors& received);

 private:
  void begin(engine::Engine& engine, const WeightPart& part, const io::ReceivedTensors& received);
  void attach(engine::Engine& engine, const std::string& config, at::ScalarType dtype);
  void copy(size_t model, const io::ReceivedTensors& received);
  void detach();
  void reshard(engine::Engine& engine);

  std::vector<model::CausalLM*> models_;
  std::string scheduler_;
  std::vector<std::optional<tuner::AttachedAdapter>> adapters_;  // of each model
  std::string adapter_config_;                                   // as it came
  int64_t receiving_ = -1, next_part_ = 0;
  bool sleeps_ = false;  // the engine, until a version is complete
  std::atomic<int64_t> version_{0};
};

}  // namespace hone::serve
