#include "hone/train/evaluation/pooling_runner.h"

#include "hone/data/batches/collator.h"
#include "hone/model/pooling.h"
#include "hone/model/value_head.h"
#include "hone/train/losses/decision.h"
#include "hone/train/methods/forward_pass.h"
#include "hone/train/methods/make_loss.h"

namespace hone::train {
namespace {

Json numbers_of(const Tensor& values) {
  Json list = Json::array();
  auto row = values.contiguous();
  for (int64_t i = 0; i < row.numel(); ++i) list.push_back(row.const_data_ptr<float>()[i]);
  return list;
}

Json class_logprobs(const std::vector<int64_t>& chosen, bool one, const Tensor& logps, int64_t top_n) {
  auto value = [&](int64_t i) { return Json(logps[i].item<float>()); };
  Json top = Json::array(), several = Json::array();
  auto order = logps.argsort(/*dim=*/0, /*descending=*/true);
  for (int64_t i = 0; i < std::min(top_n, logps.size(0)); ++i) {
    auto index = order[i].item<int64_t>();
    top.push_back({{"index", index}, {"logprob", value(index)}});
  }
  for (auto index : chosen) several.push_back(value(index));
  return {{"content",
           {{{"index", one ? Json(chosen[0]) : Json(chosen)}, {"logprobs", one ? several[0] : several}, {"top_logprobs", top}}}}};
}

}  // namespace

PoolingRunner::PoolingRunner(model::CausalLM& model, const TaskConfig& task, const text::Tokenizer& tokenizer, bool squash)
    : model_(model), task_(task), squash_(squash) {
  resolve_label_tokens(task_, tokenizer);
}

PoolingOutput PoolingRunner::of_classes(const Tensor& scores, int64_t top_n) const {
  if (task_.problem == ProblemType::regression)
    return {scores.numel() == 1 ? Json(scores.item<float>()) : numbers_of(scores), nullptr, scores};
  bool one = task_.problem == ProblemType::single_label;
  std::vector<int64_t> chosen;
  if (one) chosen.push_back(scores.argmax().item<int64_t>());
  for (int64_t i = 0; !one && i < scores.numel(); ++i)
    if (scores[i].item<float>() >= 0) chosen.push_back(i);
  auto logps = one ? scores.log_softmax(0) : at::log_sigmoid(scores);
  return {one ? Json(chosen[0]) : Json(chosen), class_logprobs(chosen, one, logps, top_n), logps.exp()};
}

std::vector<PoolingOutput> PoolingRunner::decide(const std::vector<data::Sample>& questions) const {
  at::NoGradGuard no_grad;
  std::vector<PoolingOutput> outputs;
  if (questions.empty()) return outputs;
  std::vector<std::vector<text::TokenId>> texts;
  for (const auto& question : questions) texts.push_back(question.ids);
  auto logps_sv =
      model::token_logps(model_, model::pool_last_token(model_, model::packed_texts(texts, model_.device())), task_.option_tokens)
          .cpu();
  for (size_t i = 0; i < texts.size(); ++i) {
    auto shares =
        logps_sv[static_cast<int64_t>(i)]
            .narrow(0, first_option(questions[i].question.value()), static_cast<int64_t>(questions[i].sequence_labels.size()))
            .softmax(0);
    outputs.push_back(
        {Json::array({{{"index", shares.argmax().item<int64_t>()}, {"probs", numbers_of(shares)}}}), nullptr, shares});
  }
  return outputs;
}

std::vector<PoolingOutput> PoolingRunner::operator()(const std::vector<std::vector<text::TokenId>>& texts, int64_t top_n) const {
  if (texts.empty()) return {};
  return run(model::packed_texts(texts, model_.device()), top_n);
}

std::vector<PoolingOutput> PoolingRunner::operator()(const std::vector<data::Sample>& samples, int64_t top_n) const {
  if (samples.empty()) return {};
  return run(forward_input(data::collate(std::span(&samples, 1), data::PackMask::separate).to(model_.device())), top_n);
}

std::vector<PoolingOutput> PoolingRunner::run(const model::ForwardInput& input, int64_t top_n) const {
  at::NoGradGuard no_grad;
  auto states = model::pool_last_token(model_, input);
  std::vector<PoolingOutput> outputs;
  switch (task_.task) {
    case Task::seq_cls:
      for (const auto& scores :
           (task_.uses_value_head ? model::values(model_, states).unsqueeze(1) : model::classification_logits(model_, states))
               .cpu()
               .unbind(0))
        outputs.push_back(of_classes(scores, top_n));
      return outputs;
    case Task::embedding:
      for (const auto& vector : model::normalize_embeddings(states).cpu().unbind(0))
        outputs.push_back({numbers_of(vector), nullptr, vector});
      return outputs;
    default:
      break;
  }
  bool generative = task_.task == Task::generative_reranker;
  auto scores = generative ? model::yes_no_logits(model_, states, task_.yes, task_.no)
                           : model::classification_logits(model_, states).select(1, 0);
  if (squash_) scores = scores.sigmoid();
  for (const auto& score : scores.cpu().unbind(0)) outputs.push_back({Json::array({score.item<float>()}), nullptr, score});
  return outputs;
}

}  // namespace hone::train
