// Sampling from the base model and saved adapters, many requests at a time, on one engine. For the model's thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "hone/engine/engine.h"
#include "hone/tinker/wire/sample.h"

namespace hone::tinker {

struct SampleJob {
  std::string id;  // of the future
  SampleRequest request;
  std::string folder;  // of the adapter; "" is the base model
};

inline constexpr const char* kProtobuf = "application/x-protobuf";

// The content of a finished future.
struct Outcome {
  bool failed = false;
  std::string body, content_type = "application/json";
};
Outcome failure(const std::string& message, bool users_fault);

class Sampler {
 public:
  using OnDone = std::function<void(const std::string& id, Outcome outcome)>;
  // Keeps `max_adapters` loaded; the least recently used are evicted first.
  Sampler(model::CausalLM& model, engine::Engine& engine, std::vector<text::TokenId> end_tokens, size_t max_adapters,
          OnDone on_done);
  ~Sampler();

  void add(SampleJob job);
  void cancel(const std::string& id);       // of the future; an unknown one is ignored
  void take(engine::RequestOutput output);  // of the engine's last step
  void fail_all(const std::string& why);
  // An adapter that stays loaded until released, for callers that use the engine directly. Throws UserError.
  void hold_adapter(const std::string& folder);
  void release_adapter(const std::string& folder);

 private:
  struct Live;
  std::string loaded_adapter(const std::string& folder);
  void make_room();
  bool in_use(const std::string& folder) const;
  void finish(Live& job);
  void rescale(Live& job);

  model::CausalLM& model_;
  engine::Engine& engine_;
  std::vector<text::TokenId> end_tokens_;
  size_t max_adapters_;
  OnDone on_done_;
  struct Loaded {
    uint64_t used = 0;  // when it was last used
    int64_t holders = 0;
  };
  std::map<std::string, Loaded> adapters_;  // by folder
  uint64_t clock_ = 0;
  std::map<std::string, std::shared_ptr<Live>> live_;  // by future
  std::unordered_map<engine::RequestId, std::pair<std::shared_ptr<Live>, size_t>> requests_;
};

}  // namespace hone::tinker
