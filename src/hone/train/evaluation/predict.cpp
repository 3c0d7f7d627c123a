#include "hone/train/evaluation/predict.h"

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/data/batches/image_batch.h"
#include "hone/engine/prompt_images.h"
#include "hone/train/evaluation/evaluation_mode.h"

namespace hone::train {
namespace {

bool is_response(const data::Message& message) { return message.role == "assistant" || message.role == "tool_call"; }

}  // namespace

std::vector<Prediction> predict_completions(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer,
                                            const data::Encoder& encoder, const data::ConversationSource& rows,
                                            const GenerationConfig& config) {
  std::vector<Prediction> predictions;
  std::vector<engine::Request> requests;
  for (int64_t i = 0; i < rows.size(); ++i) {
    auto conversation = rows.at(i);
    std::string label;
    if (conversation)
      while (!conversation->messages.empty() && is_response(conversation->messages.back())) {
        label = conversation->messages.back().content + label;
        conversation->messages.pop_back();
      }
    std::vector<data::Picture> pictures;
    std::vector<data::Sound> sounds;
    auto prompt = conversation ? encoder.encode_prompt(*conversation, &pictures, &sounds)
                               : Result<std::vector<text::TokenId>>(Error{conversation.error()});
    auto images =
        prompt ? data::prompt_batch(*prompt, std::move(pictures), std::move(sounds)) : Result<data::Batch>(Error{prompt.error()});
    if (!images) prompt = Error{images.error()};
    if (!prompt) {
      log::warning("left out of the predictions: {}", prompt.error());
      continue;
    }
    predictions.push_back({tokenizer->decode(*prompt), "", label});
    engine::Request request{.prompt = std::move(*prompt), .sampling = config.sampling};
    if (images->images.rows_n.defined() || images->audio.rows_n.defined())
      request.images = engine::PromptImages::of(std::move(*images));
    request.sampling.seed = engine::seed_of(config.sampling.seed, requests.size());
    request.sampling.eos_token_ids = encoder.stop_ids();
    request.sampling.stop = encoder.stop_words();
    request.sampling.include_stop_str_in_output = true;
    requests.push_back(std::move(request));
  }
  EvaluationMode mode(model);
  ProgressBar bar("Predict", static_cast<int64_t>(requests.size()));
  auto sequences = static_cast<int64_t>(config.batch_size) * config.sampling.num_beams;
  engine::Engine engine(model, tokenizer,
                        {.max_model_len = config.max_context, .max_num_seqs = sequences, .fuse_projections = false});
  int64_t done = 0;
  auto completions = engine::generate(engine, std::move(requests), {}, [&](size_t) { bar.update(++done); });
  for (size_t i = 0; i < completions.size(); ++i) predictions[i].predict = std::move(completions[i].text);
  return predictions;
}

}  // namespace hone::train
