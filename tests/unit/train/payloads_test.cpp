// What collators make of rows, and rollouts that wait in a checkpoint.
#include <gtest/gtest.h>

#include "hone/train/losses/classification.h"
#include "hone/train/losses/decision.h"
#include "hone/train/losses/embedding.h"
#include "hone/train/losses/kto.h"
#include "hone/train/losses/policy.h"
#include "hone/train/losses/ppo.h"
#include "hone/train/losses/reranking.h"
#include "hone/train/losses/reward.h"
#include "hone/train/rl/loader/batch_state.h"

namespace hone::train {
namespace {

template <class Own>
Own collated(const data::PayloadCollator& collator, const std::vector<std::vector<float>>& labels,
             std::optional<data::QuestionKind> question = {}) {
  std::vector<data::Sample> samples(labels.size());
  std::vector<const data::Sample*> sequences;
  for (size_t i = 0; i < labels.size(); ++i) {
    samples[i].sequence_labels = labels[i];
    samples[i].question = question;
    sequences.push_back(&samples[i]);
  }
  return data::payload_as<Own>(*collator(sequences));
}

template <class T>
std::vector<T> list_of_tensor(const Tensor& tensor) {
  return std::vector<T>(tensor.const_data_ptr<T>(), tensor.const_data_ptr<T>() + tensor.numel());
}

TEST(Payloads, ClassesAreNumbersMarksOrValues) {
  TaskConfig task{.task = Task::seq_cls, .problem = ProblemType::single_label, .labels = 3};
  const auto targets = [&](ProblemType problem, const std::vector<std::vector<float>>& labels) {
    task.problem = problem;
    return collated<ClassificationPayload>(ClassificationPayload::collator(task), labels).targets;
  };
  EXPECT_EQ(list_of_tensor<int64_t>(targets(ProblemType::single_label, {{2}, {0}})), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(list_of_tensor<float>(targets(ProblemType::multi_label, {{0, 2}, {}})), (std::vector<float>{1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(list_of_tensor<float>(targets(ProblemType::regression, {{0.5, 1, 2}})), (std::vector<float>{0.5, 1, 2}));
}

TEST(Payloads, KlPairsHaveNoLabelOfTheirOwn) {
  auto payload = collated<KtoPayload>(KtoPayload::collator(), {{1}, {0}, {1}, {}, {}});
  EXPECT_EQ(list_of_tensor<bool>(payload.desirable), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(payload.num_desirable, 2);
  EXPECT_EQ(payload.kl_pairs, 2);
}

TEST(Payloads, MarginsCountWhereARowHasOne) {
  EXPECT_FALSE(collated<RewardPayload>(RewardPayload::collator(), {{}, {}, {}, {}}).margins_p.defined());
  auto payload = collated<RewardPayload>(RewardPayload::collator(), {{0.5}, {}, {}, {}});
  EXPECT_EQ(list_of_tensor<float>(payload.margins_p), (std::vector<float>{0.5, 0}));
}

TEST(Payloads, GroupsBeginWithAnAnchorOrARelevantCandidate) {
  auto embedding = collated<EmbeddingPayload>(EmbeddingPayload::collator(), {{}, {1}, {0}, {}, {1}});
  EXPECT_EQ(embedding.groups.starts, (std::vector<int64_t>{0, 3, 5}));
  EXPECT_EQ(embedding.groups.grades, (std::vector<float>{1, 0, 1}));
  auto reranking = collated<RerankingPayload>(RerankingPayload::collator(), {{1}, {0}, {0}, {1}});
  EXPECT_EQ(reranking.questions, (std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {3, 4}}));
  auto decision = collated<DecisionPayload>(DecisionPayload::collator(), {{0.25, 0.75}}, data::QuestionKind::choice);
  EXPECT_EQ(decision.questions[0].kind, data::QuestionKind::choice);
  EXPECT_EQ(list_of_tensor<float>(decision.questions[0].shares_o), (std::vector<float>{0.25, 0.75}));
}

TEST(Payloads, OneOfAnotherMethodIsRefused) {
  EXPECT_THROW(data::payload_as<KtoPayload>(RewardPayload()), InternalError);
  EXPECT_THROW(data::payload_of<KtoPayload>(data::Batch()), InternalError);
}

// As the first version wrote them.
Json stored_rollout() {
  return {{"tokens", {5, 6, 7, 8, 9}},
          {"targets", {-100, 7, -100, 9, -100}},
          {"lengths", {3, 2}},
          {"rows", {4, 4}},
          {"experience", nullptr},
          {"notes", {{"reward", 0.5}}},
          {"grades", {{0.25, 1.0, 1.5, 2.0}, {-0.25, 0.0, 1.5, 2.0}}},
          {"policy_logps", {0.0, -1.5, 0.0, -0.5, 0.0}},
          {"reference_logps", nullptr}};
}

TEST(RolloutState, APolicyRolloutOfACheckpointIsUnderstood) {
  const auto stored = stored_rollout();
  const auto batch = rl::batch_from_json(stored);
  const auto& payload = data::payload_of<PolicyPayload>(batch);
  EXPECT_EQ(list_of_tensor<float>(payload.advantages_s), (std::vector<float>{0.25, -0.25}));
  EXPECT_EQ(list_of_tensor<float>(payload.truncated_s), (std::vector<float>{1, 0}));
  EXPECT_EQ(payload.token_share, 1.5F);
  EXPECT_EQ(payload.group_size, 2);
  EXPECT_FALSE(payload.ref_logps_t.defined());
  EXPECT_EQ(rl::batch_to_json(batch), stored);
  PolicyConfig dapo;
  dapo.objective = PolicyObjective::dapo;
  EXPECT_EQ(PolicyLoss(dapo).num_items(batch), 3);
}

TEST(RolloutState, SoIsOneOfPpo) {
  auto stored = stored_rollout();
  stored["grades"] = {{0.75, 0.5}, {0.75, 0.5}};
  stored["experience"] = Json::array();
  for (int i = 0; i < 20; ++i) stored["experience"].push_back(i * 0.5);
  const auto batch = rl::batch_from_json(stored);
  const auto& payload = data::payload_of<PpoPayload>(batch);
  EXPECT_EQ(payload.value_share, 0.75F);
  EXPECT_EQ(payload.kl_weight, 0.5F);
  EXPECT_EQ(payload.advantages_t[0].item<float>(), 0);
  EXPECT_EQ(payload.returns_t[0].item<float>(), 2.5);
  EXPECT_EQ(payload.values_t[0].item<float>(), 5);
  EXPECT_EQ(payload.is_state_t[4].item<float>(), 9.5);
  EXPECT_EQ(rl::batch_to_json(batch), stored);
}

}  // namespace
}  // namespace hone::train
