// deploy, app and rollout: serve a model over OpenAI's and Anthropic's APIs, with a chat page.
#include "hone/base/log.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tinker.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/engine_quantization.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/inference/parallel_sizes.h"
#include "hone/cli/configs/inference/served_model.h"
#include "hone/cli/configs/inference/serving_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/training/task_config.h"
#include "hone/cli/hub_options.h"
#include "hone/hub/locate.h"
#include "hone/serve/rollout/weight_receiver.h"
#include "hone/train/evaluation/pooling_runner.h"
#include "hone/tuner/adapter.h"

namespace hone::cli {
namespace {

constexpr size_t kWeightBytes = size_t{8} << 30;  // one tensor may exceed the size of a weight chunk

// The model and its engine, with the adapters from the command line.
class Deployment {
 public:
  Deployment(const Options& options, bool follows)
      : options_(options),
        words_(adapter_words(options)),
        folder_(model_folder(options)),
        tokenizer_(text::load_tokenizer(folder_, new_tokens(options))),
        encoder_(data::Encoder::make(prompt_config(options), tokenizer_, data::read_model_identity(folder_))),
        replicas_(options, folder_, *tokenizer_),
        model_(&replicas_.first()),
        task_(task_config(options, folder_)) {
    for (const auto& model : replicas_.models()) change_base(*model);
    replicas_.apply_tensor_parallel();
    auto engine = engine_config(options);
    if (follows) engine.fuse_projections = false;  // received weights overwrite the loaded ones
    engine.float8_products = rounds_to_float8(options, folder_);
    if (follows && engine.float8_products)
      throw UserError(ExitCode::usage, "weights of 8-bit floats cannot follow a trainer", "leave --vllm_quantization out");
    engine_ = std::make_unique<engine::Engine>(replicas_.replicas(), tokenizer_, engine);
    load_adapters();
  }

  // Settings of a server whose weights follow a trainer.
  std::shared_ptr<serve::WeightReceiver> receiver(std::string scheduler) const {
    std::vector<model::CausalLM*> models;
    for (const auto& model : replicas_.models()) models.push_back(model.get());
    return std::make_shared<serve::WeightReceiver>(std::move(models), std::move(scheduler));
  }

  int serve(const serve::ServerConfig& config) {
    auto served = describe();
    return serve::run_server(*engine_, served, config, named_);
  }

 private:
  // Adapters given as plain folders stack: each was trained on top of those before it. All but the last are merged, and the last
  // too with --merge_lora; otherwise the last stays separate if it is LoRA, and other methods use whichever form is faster.
  void change_base(model::CausalLM& model) {
    bool merge = *GenerationArguments(options_).merge_lora;
    std::vector<std::string> plain;
    for (const auto& word : words_)
      if (word.name.empty()) plain.push_back(word.folder);
    if (merge && plain.size() != words_.size())
      throw UserError(ExitCode::usage,
                      "--merge_lora true with named adapters: a separate model cannot be merged into the served one",
                      "name no adapter, or leave --merge_lora out");
    for (size_t i = 0; i < plain.size(); ++i) {
      const auto path = hub::locate_adapter(plain[i]);
      const bool last = i + 1 == plain.size() && !merge;
      if (last && task_.is_generative() && io::read_adapter_config(path).is_lora()) {
        base_adapter_ = plain[i];
        continue;
      }
      tuner::AttachOptions attach;
      attach.name = fmt::format("adapter{}", i);
      auto adapter = tuner::load_adapter(model, path, attach);
      if (!last || tuner::should_merge_for_inference(model, adapter)) tuner::merge_adapter(model, adapter);
    }
  }

  void load_adapters() {
    if (!base_adapter_.empty()) {
      auto path = hub::locate_adapter(base_adapter_);
      check_adapter_rank(options_, path);
      remark_other_base(options_, path);
      engine_->load_adapter(kBaseAdapter, path);
    }
    for (const auto& [name, folder] : words_) {
      if (name.empty()) continue;
      auto path = hub::locate_adapter(folder);
      check_adapter_rank(options_, path);
      remark_other_base(options_, path);
      engine_->load_adapter(name, path);
      named_.emplace(name, path);
    }
  }

  serve::ServedModel describe() const {
    auto served = served_model(options_, folder_, tokenizer_, encoder_, *engine_, *model_);
    served.base_adapter = base_adapter_.empty() ? "" : kBaseAdapter;
    if (!task_.is_generative()) set_pooling(served);
    return served;
  }

  void set_pooling(serve::ServedModel& served) const {
    using train::Task;
    served.pooling_task = task_.task == Task::seq_cls     ? serve::PoolingTask::classification
                          : task_.task == Task::embedding ? serve::PoolingTask::embedding
                                                          : serve::PoolingTask::reranking;
    const auto activates = GenerationArguments(options_).reranker_use_activation;
    auto runner = std::make_shared<train::PoolingRunner>(*model_, task_, *tokenizer_, !activates.exists() || *activates);
    served.pool = [runner](const std::vector<std::vector<text::TokenId>>& texts, int64_t top_n) {
      std::vector<serve::PoolingOutput> all;
      for (auto& output : (*runner)(texts, top_n)) {
        auto scores = output.scores.reshape({-1}).contiguous();
        const float* first = scores.const_data_ptr<float>();
        all.push_back({std::move(output.content), std::move(output.logprobs), {first, first + scores.numel()}});
      }
      return all;
    };
  }

  static constexpr const char* kBaseAdapter = "(served)";  // no model name a request could use
  const Options& options_;
  std::vector<AdapterSpec> words_;
  std::filesystem::path folder_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const data::Encoder> encoder_;
  ModelReplicas replicas_;
  model::CausalLM* model_;  // the first one
  train::TaskConfig task_;
  std::unique_ptr<engine::Engine> engine_;
  std::string base_adapter_;
  std::map<std::string, std::filesystem::path> named_;
};

int serve_model(const Options& options, bool page) {
  if (*ModelArguments(options).task_type == "decision")
    throw UserError(ExitCode::usage, "decisions are not served in this version", "infer --val_dataset decides about records");
  auto config = server_config(options, page);  // reports errors in it before loading the model
  serve::require_port(config);
  if (ServerArguments(options).base_url.has_value()) return serve::run_proxy(proxy_config(options), config);
  return Deployment(options, false).serve(config);
}

// Reports unsupported settings of a rollout server before loading the model.
void check_rollout_server(const Options& options) {
  const ModelArguments model_args(options);
  const auto refuse = [](const AnyArg& option, const char* why) {
    throw UserError(ExitCode::usage, fmt::format("{}: {}", option.flag(), why), "leave it out");
  };
  if (model_args.quant_bits.has_value()) refuse(model_args.quant_bits, "rounded weights cannot follow a trainer");
  if (model_args.quant_method.has_value()) refuse(model_args.quant_method, "quantized weights cannot follow a trainer");
  if (model_args.adapters.has_value()) refuse(model_args.adapters, "the run that trains sends its adapter");
  if (*model_args.task_type != "causal_lm") refuse(model_args.task_type, "a rollout server generates");
}

}  // namespace

int deploy_command(const Options& options) {
  return *TinkerArguments(options).tinker ? serve_tinker_command(options) : serve_model(options, false);
}
int app_command(const Options& options) { return serve_model(options, true); }

int rollout_command(const Options& options) {
  check_rollout_server(options);
  auto config = server_config(options, false);
  config.http.large_body_path = "/update_weights/";
  config.http.large_body_bytes = std::max(config.http.body_bytes, kWeightBytes);
  config.http.all_bodies = config.http.each_bodies = 2 * config.http.large_body_bytes;
  serve::require_port(config);
  Deployment deployment(options, true);
  config.weights = deployment.receiver(TurnArguments(options).multi_turn_scheduler.value_or(""));
  return deployment.serve(config);
}

}  // namespace hone::cli
