#include "hone/train/methods/make_loss.h"

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/train/losses/classification.h"
#include "hone/train/losses/decision.h"
#include "hone/train/losses/distillation.h"
#include "hone/train/losses/embedding.h"
#include "hone/train/losses/kto.h"
#include "hone/train/losses/policy.h"
#include "hone/train/losses/ppo.h"
#include "hone/train/losses/preference.h"
#include "hone/train/losses/reranking.h"
#include "hone/train/losses/reward.h"
#include "hone/train/losses/sft.h"

namespace hone::train {
namespace {

text::TokenId label_token(const std::string& word, const char* variable, const text::Tokenizer& tokenizer) {
  if (auto id = tokenizer.id_of(word)) return *id;
  throw UserError(ExitCode::usage, fmt::format("a generative reranker's \"{}\" is not one token of this model", word),
                  fmt::format("name another word in {}", variable));
}

// false and true, 0 to 5, A to P: the model's tokens for the options of each question type.
std::vector<text::TokenId> option_tokens(const text::Tokenizer& tokenizer) {
  std::vector<std::string> words{"false", "true", "0", "1", "2", "3", "4", "5"};
  for (char letter = 'A'; letter <= 'P'; ++letter) words.emplace_back(1, letter);
  std::vector<text::TokenId> tokens;
  for (const auto& word : words) {
    auto ids = tokenizer.encode(word);
    if (ids.size() != 1 && !tokenizer.special().unk)
      throw UserError(ExitCode::usage, fmt::format("\"{}\", an option of decisions, is not one token of this model", word),
                      "train another model");
    if (ids.size() != 1)
      log::warning("\"{}\", an option of decisions, is not one token of this model: its unknown token stands for it", word);
    tokens.push_back(ids.size() == 1 ? ids[0] : *tokenizer.special().unk);
  }
  return tokens;
}

// Mapped from the same file as the policy.
std::unique_ptr<model::CausalLM> starting_model(const TrainingJob& job, const text::Tokenizer& tokenizer) {
  auto options = job.load;
  if (job.resize_embeddings) options.changes.vocabulary = job.resize_embeddings(tokenizer);
  return model::CausalLM::load(job.model_folder, options);
}

}  // namespace

void resolve_label_tokens(TaskConfig& task, const text::Tokenizer& tokenizer) {
  if (task.task == Task::decision) task.option_tokens = option_tokens(tokenizer);
  if (task.task != Task::generative_reranker) return;
  task.yes = label_token(task.positive_word, "GENERATIVE_RERANKER_POSITIVE_TOKEN", tokenizer);
  task.no = label_token(task.negative_word, "GENERATIVE_RERANKER_NEGATIVE_TOKEN", tokenizer);
}

data::PayloadCollator payload_collator(const TrainingJob& job) {
  if (job.preference.method == Preference::kto) return KtoPayload::collator();
  if (job.preference.method == Preference::rm) return RewardPayload::collator();
  if (job.distillation) return DistillationPayload::collator(job.distillation->teacher);
  if (job.preference.method != Preference::none || job.reinforcement) return {};
  switch (job.task.task) {
    case Task::causal_lm:
      return {};
    case Task::seq_cls:
      return ClassificationPayload::collator(job.task);
    case Task::embedding:
      return EmbeddingPayload::collator();
    case Task::decision:
      return DecisionPayload::collator();
    case Task::reranker:
    case Task::generative_reranker:
      return RerankingPayload::collator();
  }
  HONE_CHECK(false, "a task without a collator");
}

std::unique_ptr<Loss> make_loss(const TrainingJob& job, const text::Tokenizer& tokenizer, const OtherModels& others) {
  auto* reference = others.reference;
  const auto& router = job.sft.router;
  if (job.preference.compares_pairs())
    return std::make_unique<PreferenceLoss>(job.preference, reference, router, job.trainer.layout);
  if (job.reinforcement && job.reinforcement->ppo)
    return std::make_unique<PpoLoss>(job.reinforcement->ppo->loss, others.value_model);
  if (job.reinforcement) return std::make_unique<PolicyLoss>(job.reinforcement->policy, router);
  if (job.distillation) return std::make_unique<DistillationLoss>(*job.distillation, *others.teacher, router);
  if (job.preference.method == Preference::kto) return std::make_unique<KtoLoss>(job.preference, *reference, router);
  if (job.preference.method == Preference::rm)
    return std::make_unique<RewardLoss>(job.preference.center_rewards_coefficient, router);
  auto task = job.task;
  resolve_label_tokens(task, tokenizer);
  switch (task.task) {
    case Task::causal_lm:
      return std::make_unique<SftLoss>(job.sft, job.sft.asft ? starting_model(job, tokenizer) : nullptr);
    case Task::seq_cls:
      return std::make_unique<ClassificationLoss>(task, router);
    case Task::embedding:
      return std::make_unique<EmbeddingLoss>(task);
    case Task::decision:
      return std::make_unique<DecisionLoss>(task);
    case Task::reranker:
    case Task::generative_reranker:
      return std::make_unique<RerankingLoss>(task);
  }
  HONE_CHECK(false, "a task without a method");
}

}  // namespace hone::train
