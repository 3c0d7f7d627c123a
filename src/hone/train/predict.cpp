#include "hone/train/predict.h"

#include "hone/base/log.h"
#include "hone/base/progress.h"

namespace hone::train {
namespace {

bool is_answer(const data::Message& message) { return message.role == "assistant" || message.role == "tool_call"; }

}  // namespace

std::vector<Prediction> predict_answers(model::CausalLM& model, std::shared_ptr<const text::Tokenizer> tokenizer,
                                        const data::Encoder& encoder, const data::ConversationSource& rows,
                                        const GenerationConfig& config) {
  std::vector<Prediction> predictions;
  std::vector<engine::Request> requests;
  for (int64_t i = 0; i < rows.size(); ++i) {
    auto conversation = rows.at(i);
    std::string label;
    if (conversation)
      while (!conversation->messages.empty() && is_answer(conversation->messages.back())) {
        label = conversation->messages.back().content + label;
        conversation->messages.pop_back();
      }
    auto prompt =
        conversation ? encoder.encode_prompt(*conversation) : Result<std::vector<text::TokenId>>(Error{conversation.error()});
    if (!prompt) {
      log::warning("left out of the predictions: {}", prompt.error());
      continue;
    }
    predictions.push_back({tokenizer->decode(*prompt), "", label});
    requests.push_back({*prompt, config.sampling, config.max_new_tokens, encoder.stop_ids(), encoder.stop_words()});
  }
  bool was_training = model.training();
  model.set_training(false);
  ProgressBar bar("Predict", static_cast<int64_t>(requests.size()));
  engine::Generator generator(model, tokenizer);
  for (size_t first = 0; first < requests.size(); first += config.batch_size) {
    auto last = std::min(requests.size(), first + config.batch_size);
    auto completions = generator.run({requests.begin() + static_cast<long>(first), requests.begin() + static_cast<long>(last)},
                                     config.batch_size);
    for (size_t i = first; i < last; ++i) predictions[i].predict = completions[i - first].text;
    bar.update(static_cast<int64_t>(last));
  }
  model.set_training(was_training);
  return predictions;
}

}  // namespace hone::train
