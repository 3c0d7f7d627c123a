#include "hone/train/loop/base_gradients.h"

#include <algorithm>

#include "hone/base/log.h"
#include "hone/train/methods/make_loss.h"
#include "hone/train/methods/reference.h"

namespace hone::train {

tuner::BaseGradients base_gradients(model::CausalLM& model, const std::vector<model::Linear*>& layers, Loss& loss,
                                    data::Loader& loader, int64_t batches) {
  log::info("taking the gradient of {} layers over {} batches", layers.size(), batches);
  for (auto* layer : layers) layer->weight.requires_grad_(true);
  model.set_training(true);
  for (int64_t i = 0; i < batches; ++i) {
    auto batch = loader.next();
    const double count = std::max(loss.num_items(batch), 1.0);
    (forward_loss(model, loss, batch.to(model.device())).sum / (count * static_cast<double>(batches))).backward();
  }
  model.set_training(false);
  tuner::BaseGradients gradients;
  for (auto* layer : layers) {
    gradients[layer->name] = layer->weight.grad().detach();
    layer->weight.mutable_grad().reset();
    layer->weight.requires_grad_(false);
  }
  return gradients;
}

tuner::GradientSource gradients_of_first_rows(const TrainingJob& job, std::shared_ptr<const text::Tokenizer> tokenizer,
                                              std::shared_ptr<const data::ConversationSource> rows) {
  return [&job, tokenizer, rows](model::CausalLM& model, const std::vector<model::Linear*>& layers) {
    if (!rows)
      throw UserError(ExitCode::usage, "init_weights lora-ga needs rows before the first step",
                      "use it without `streaming` true");
    const auto& start = job.tuner.lora.gradient_start;
    auto encode = job.encode;
    encode.max_length = encode.max_length > 0 ? std::min(encode.max_length, start.max_length) : start.max_length;
    auto config = job.loader;
    config.batch_size = start.batch_size;
    config.packing = data::Packing::none;
    config.payload = payload_collator(job);
    auto loader = data::make_loader(rows, data::Encoder::make(encode, tokenizer, data::read_model_identity(job.model_folder)),
                                    config, std::make_shared<data::RowReport>());
    auto start_itself = policy_as_reference();
    auto loss = make_loss(job, *tokenizer, {.reference = start_itself.get()});
    return base_gradients(model, layers, *loss, *loader, start.batches);
  };
}

}  // namespace hone::train
