// Inputs of Twinkle's client: encoded rows, or conversations that this server encodes with the model's template.
#pragma once
#include <vector>

#include "hone/base/json.h"
#include "hone/serve/chat/served_model.h"

namespace hone::tinker {

struct TwinkleRow {
  std::vector<int64_t> ids;
  std::vector<int64_t> targets;  // after each token; -100 where no loss is computed
};

// `inputs` is a row or a list of rows. All throw RequestError or ApiError naming the problem.
std::vector<TwinkleRow> training_rows(const Json& inputs, const serve::ServedModel& served);
std::vector<std::vector<text::TokenId>> prompts(const Json& inputs, const serve::ServedModel& served);

// The data, loss_fn and loss_fn_config of a forward_backward in the JSON of older tinker SDKs, and the loss's number of items.
struct TwinkleLoss {
  Json input;
  double units = 0;  // Twinkle divides gradients by their sum before it clips them
  int64_t labels = 0;
  bool needs_old_logps = false;  // GRPO without them: those of the policy as it is
};
TwinkleLoss loss_input(const std::vector<TwinkleRow>& rows, const Json& loss, const Json& body);
// The same of InfonceLoss. A row's only label is 1 for an anchor and 0 for its positive and negatives.
TwinkleLoss contrastive_input(const Json& inputs, const Json& loss);

}  // namespace hone::tinker
