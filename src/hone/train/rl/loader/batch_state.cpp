#include "hone/train/rl/loader/batch_state.h"

#include "hone/train/losses/policy.h"
#include "hone/train/losses/ppo.h"

namespace hone::train::rl {
namespace {

template <class T>
Json list_of(const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const T* values = tensor.const_data_ptr<T>();
  return std::vector<T>(values, values + tensor.numel());
}

template <class T>
Tensor tensor_from(const Json& list, at::ScalarType type) {
  if (list.is_null()) return {};
  auto values = list.get<std::vector<T>>();
  auto tensor = at::empty({static_cast<int64_t>(values.size())}, at::TensorOptions().dtype(type));
  std::copy(values.begin(), values.end(), tensor.template mutable_data_ptr<T>());
  return tensor;
}

// One row of numbers per sequence, the checkpoint format since the first version.
Json grades_of(const PolicyPayload& payload) {
  Json grades = Json::array();
  const auto *advantage = payload.advantages_s.const_data_ptr<float>(), *truncated = payload.truncated_s.const_data_ptr<float>();
  for (int64_t i = 0; i < payload.advantages_s.size(0); ++i)
    grades.push_back({advantage[i], truncated[i], payload.token_share, static_cast<float>(payload.group_size)});
  return grades;
}

Json grades_of(const PpoPayload& payload, int64_t sequences) {
  return Json(static_cast<size_t>(sequences), Json{payload.value_share, payload.kl_weight});
}

std::shared_ptr<const data::Payload> policy_payload(const Json& json) {
  auto payload = std::make_shared<PolicyPayload>();
  std::vector<float> advantages, truncated;
  for (const auto& grades : json.at("grades")) {
    advantages.push_back(grades.at(0).get<float>());
    truncated.push_back(grades.at(1).get<float>());
    payload->token_share = grades.at(2).get<float>();
    payload->group_size = static_cast<int64_t>(grades.at(3).get<float>());
  }
  payload->advantages_s = at::tensor(advantages);
  payload->truncated_s = at::tensor(truncated);
  payload->old_logps_t = tensor_from<float>(json.at("policy_logps"), at::kFloat);
  payload->ref_logps_t = tensor_from<float>(json.at("reference_logps"), at::kFloat);
  payload->rollout_logps_t = tensor_from<float>(json.value("rollout_logps", Json()), at::kFloat);
  payload->teacher_logps_t = tensor_from<float>(json.value("teacher_logps", Json()), at::kFloat);
  payload->advantages_t = tensor_from<float>(json.value("token_advantages", Json()), at::kFloat);
  return payload;
}

std::shared_ptr<const data::Payload> ppo_payload(const Json& json) {
  auto payload = std::make_shared<PpoPayload>();
  const auto& grades = json.at("grades").at(0);
  payload->value_share = grades.at(0).get<float>();
  payload->kl_weight = grades.at(1).get<float>();
  payload->old_logps_t = tensor_from<float>(json.at("policy_logps"), at::kFloat);
  payload->ref_logps_t = tensor_from<float>(json.at("reference_logps"), at::kFloat);
  const auto experience = tensor_from<float>(json.at("experience"), at::kFloat).view({4, -1});
  Tensor* rows[] = {&payload->advantages_t, &payload->returns_t, &payload->values_t, &payload->is_state_t};
  for (int64_t i = 0; i < 4; ++i) *rows[i] = experience[i].clone();
  return payload;
}

}  // namespace

Json batch_to_json(const data::Batch& batch) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < batch.segments.count(); ++i) lengths.push_back(batch.segments.length(i));
  Json notes = Json::object();
  for (const auto& [name, value] : batch.metrics) notes[name] = value;
  Json json{{"tokens", list_of<int64_t>(batch.tokens_t)},
            {"targets", list_of<int64_t>(batch.targets_t)},
            {"lengths", lengths},
            {"rows", batch.rows},
            {"experience", nullptr},
            {"notes", notes}};
  if (const auto* ppo = dynamic_cast<const PpoPayload*>(batch.payload.get())) {
    json["grades"] = grades_of(*ppo, batch.segments.count());
    json["policy_logps"] = list_of<float>(ppo->old_logps_t);
    json["reference_logps"] = list_of<float>(ppo->ref_logps_t);
    json["experience"] = list_of<float>(at::cat({ppo->advantages_t, ppo->returns_t, ppo->values_t, ppo->is_state_t}));
  } else {
    const auto& policy = data::payload_of<PolicyPayload>(batch);
    json["grades"] = grades_of(policy);
    json["policy_logps"] = list_of<float>(policy.old_logps_t);
    json["reference_logps"] = list_of<float>(policy.ref_logps_t);
    if (policy.rollout_logps_t.defined()) json["rollout_logps"] = list_of<float>(policy.rollout_logps_t);
    if (policy.teacher_logps_t.defined()) json["teacher_logps"] = list_of<float>(policy.teacher_logps_t);
    if (policy.advantages_t.defined()) json["token_advantages"] = list_of<float>(policy.advantages_t);
  }
  return json;
}

data::Batch batch_from_json(const Json& json) {
  data::Batch batch;
  batch.tokens_t = tensor_from<int64_t>(json.at("tokens"), at::kLong);
  batch.targets_t = tensor_from<int64_t>(json.at("targets"), at::kLong);
  std::vector<int64_t> positions;
  for (int64_t length : json.at("lengths").get<std::vector<int64_t>>()) {
    for (int64_t i = 0; i < length; ++i) positions.push_back(i);
    batch.segments.append(length);
    batch.channels.emplace_back();
  }
  batch.positions_t = at::tensor(positions, at::kLong);
  batch.rows = json.at("rows").get<std::vector<int64_t>>();
  batch.sample_count = static_cast<int64_t>(batch.rows.size());
  batch.target_count = (batch.targets_t != -100).sum().item<int64_t>();
  const auto& grades = json.at("grades");
  if (!grades.empty() && !grades[0].empty())
    batch.payload = json.value("experience", Json()).is_null() ? policy_payload(json) : ppo_payload(json);
  for (const auto& [name, value] : json.at("notes").items()) batch.metrics.emplace_back(name, value.get<double>());
  return batch;
}

}  // namespace hone::train::rl
