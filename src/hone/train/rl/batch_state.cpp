#include "hone/train/rl/batch_state.h"

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

}  // namespace

Json batch_to_json(const data::Batch& batch) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < batch.segments.count(); ++i) lengths.push_back(batch.segments.length(i));
  Json notes = Json::object();
  for (const auto& [name, value] : batch.metrics) notes[name] = value;
  return {{"tokens", list_of<int64_t>(batch.tokens_t)},
          {"targets", list_of<int64_t>(batch.targets_t)},
          {"lengths", lengths},
          {"grades", batch.sequence_labels},
          {"rows", batch.rows},
          {"policy_logps", list_of<float>(batch.old_logps_t)},
          {"reference_logps", list_of<float>(batch.ref_logps_t)},
          {"experience", list_of<float>(batch.experience_ct)},
          {"notes", notes}};
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
  batch.sequence_labels = json.at("grades").get<std::vector<std::vector<float>>>();
  batch.rows = json.at("rows").get<std::vector<int64_t>>();
  batch.sample_count = static_cast<int64_t>(batch.rows.size());
  batch.target_count = (batch.targets_t != -100).sum().item<int64_t>();
  batch.old_logps_t = tensor_from<float>(json.at("policy_logps"), at::kFloat);
  batch.ref_logps_t = tensor_from<float>(json.at("reference_logps"), at::kFloat);
  batch.experience_ct = tensor_from<float>(json.value("experience", Json()), at::kFloat);
  if (batch.experience_ct.defined()) batch.experience_ct = batch.experience_ct.view({-1, batch.tokens_t.size(0)});
  for (const auto& [name, value] : json.at("notes").items()) batch.metrics.emplace_back(name, value.get<double>());
  return batch;
}

}  // namespace hone::train::rl
