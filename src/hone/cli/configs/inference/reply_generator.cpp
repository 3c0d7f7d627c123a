#include "hone/cli/configs/inference/reply_generator.h"

#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/inference/engine_quantization.h"
#include "hone/cli/configs/inference/generation_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/hub_options.h"
#include "hone/data/batches/image_batch.h"
#include "hone/data/row_report.h"
#include "hone/engine/prompt_images.h"
#include "hone/tuner/adapter.h"

namespace hone::cli {
namespace {

void attach_adapters(const Options& options, model::CausalLM& model) {
  auto adapters = *ModelArguments(options).adapters;
  for (size_t i = 0; i < adapters.size(); ++i) {
    tuner::AttachOptions attach;
    attach.name = i == 0 ? "default" : fmt::format("adapter{}", i);
    check_adapter_rank(options, adapters[i]);
    remark_other_base(options, adapters[i]);
    auto adapter = tuner::load_adapter(model, adapters[i], attach);
    // Adapters stack: each was trained on top of those before it.
    bool beneath = i + 1 < adapters.size() || *GenerationArguments(options).merge_lora;
    if (beneath || tuner::should_merge_for_inference(model, adapter)) tuner::merge_adapter(model, adapter);
  }
}

}  // namespace

ReplyGenerator::ReplyGenerator(const Options& options)
    : folder_(model_folder(options)),
      tokenizer_(text::load_tokenizer(folder_, new_tokens(options))),
      copies_(options, folder_, *tokenizer_),
      encoder_(data::Encoder::make(encode_config(options, 0), tokenizer_, data::read_model_identity(folder_))),
      sampling_(sampling_params(options, folder_)) {
  choose_npu_kernels(options);
  for (const auto& model : copies_.models()) attach_adapters(options, *model);
  copies_.apply_tensor_parallel();
  sampling_.eos_token_ids = encoder_->stop_ids();
  for (auto token : end_tokens(folder_)) sampling_.eos_token_ids.push_back(token);
  sampling_.constraint = completion_regex(options, *tokenizer_, sampling_.eos_token_ids);
  auto config = engine_config(options);
  config.float8_products = rounds_to_float8(options, folder_);
  engine_ = std::make_unique<engine::Engine>(copies_.replicas(), tokenizer_, config);
}

Result<engine::Request> ReplyGenerator::request_for(const data::Conversation& conversation, uint64_t index) const {
  std::vector<data::Picture> pictures;
  std::vector<data::Sound> sounds;
  auto prompt = encoder_->encode_prompt(conversation, &pictures, &sounds);
  if (!prompt) return Error{prompt.error()};
  // A long row of a dataset is a bad row; the engine refuses other long prompts.
  const auto length = static_cast<int64_t>(prompt->size());
  if (length >= engine_->max_model_len() && !conversation.origin.file.empty())
    return data::row_error(data::RowProblem::too_long, conversation.origin.str(),
                           fmt::format("a prompt of {} tokens; the model's context holds {}", length, engine_->max_model_len()));
  engine::Request request{.prompt = std::move(*prompt), .sampling = sampling_};
  if (!pictures.empty() || !sounds.empty()) {
    auto batch = data::prompt_batch(request.prompt, std::move(pictures), std::move(sounds));
    if (!batch && conversation.origin.file.empty()) return Error{batch.error()};
    if (!batch) return data::row_error(data::RowProblem::media, conversation.origin.str(), batch.error());
    request.images = engine::PromptImages::of(std::move(*batch));
  }
  request.sampling.seed = engine::seed_of(sampling_.seed, index);
  return request;
}

}  // namespace hone::cli
