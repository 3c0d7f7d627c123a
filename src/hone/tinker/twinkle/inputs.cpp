#include "hone/tinker/twinkle/inputs.h"

#include <algorithm>

#include "hone/serve/chat/conversation.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

constexpr int64_t kNothing = -100;

std::vector<int64_t> integers(const Json& row, const char* name) {
  if (!row.contains(name) || !row[name].is_array()) throw RequestError(fmt::format("{}: expected a list of whole numbers", name));
  const auto& list = row[name].size() == 1 && row[name][0].is_array() ? row[name][0] : row[name];  // a batch of one
  std::vector<int64_t> values;
  for (const auto& each : list) {
    if (!each.is_number_integer()) throw RequestError(fmt::format("{}: expected a list of whole numbers", name));
    values.push_back(each.get<int64_t>());
  }
  return values;
}

std::vector<Json> rows_in(const Json& inputs) {
  if (inputs.is_object()) return {inputs};
  if (!inputs.is_array() || inputs.empty() || !std::ranges::all_of(inputs, [](const Json& row) { return row.is_object(); }))
    throw RequestError("inputs: expected a row or a list of rows");
  return {inputs.begin(), inputs.end()};
}

data::Conversation conversation_in(const Json& row) {
  if (!row.contains("messages")) throw RequestError("inputs: a row has neither input_ids nor messages");
  Json messages = Json::array();
  for (const auto& message : row["messages"]) {  // fields of a trajectory that OpenAI's messages lack
    Json plain;
    for (const char* name : {"role", "content", "tool_calls", "tool_call_id", "name"})
      if (has_field(message, name)) plain[name] = message[name];
    messages.push_back(plain);
  }
  return serve::read_messages(messages);
}

TwinkleRow encoded(const Json& row, const serve::ServedModel& served) {
  const auto sample = served.encoder->encode(conversation_in(row));
  if (!sample) throw RequestError(sample.error());
  TwinkleRow out{{sample->ids.begin(), sample->ids.end()}, std::vector<int64_t>(sample->ids.size(), kNothing)};
  for (size_t i = 0; i + 1 < sample->labels.size(); ++i) out.targets[i] = sample->labels[i + 1];
  return out;
}

Json tensor(std::vector<double> values, const char* dtype) {
  Json data = Json::array();
  for (double value : values) data.push_back(dtype[0] == 'i' ? Json(static_cast<int64_t>(value)) : Json(value));
  return {{"data", data}, {"dtype", dtype}};
}

// One number per row, per label, or per token.
std::vector<double> spread(const Json& given, const TwinkleRow& row, size_t index, const char* name) {
  if (!given.is_array() || index >= given.size()) throw RequestError(fmt::format("{}: expected a value for each row", name));
  const auto& value = given[index].is_array() && given[index].size() == 1 && row.ids.size() > 1 ? given[index][0] : given[index];
  const auto labels = static_cast<size_t>(std::ranges::count_if(row.targets, [](int64_t each) { return each != kNothing; }));
  const bool of_row = value.is_number(), of_labels = value.is_array() && value.size() == labels;
  if (!of_row && !of_labels && !(value.is_array() && value.size() >= row.ids.size()))
    throw RequestError(fmt::format("{} of row {}: expected one number, {} or {}", name, index, labels, row.ids.size()));
  std::vector<double> values(row.ids.size());
  for (size_t i = 0, label = 0; i < row.ids.size(); ++i) {
    if (row.targets[i] == kNothing) continue;
    const auto& each = of_row ? value : of_labels ? value[label++] : value[i];
    if (!each.is_number()) throw RequestError(fmt::format("{} of row {}: expected numbers", name, index));
    values[i] = each.get<double>();
  }
  return values;
}

// forward_only's output with the LoRA disabled, or Twinkle's ref_logps.
std::vector<double> reference_of(const TwinkleRow& row, const Json& loss, const Json& body, size_t index) {
  if (loss["reference_free"] == true) return std::vector<double>(row.ids.size());
  if (has_field(body, "ref_logps")) return spread(body["ref_logps"], row, index, "ref_logps");
  if (!has_field(body, "ref_outputs") || !body["ref_outputs"].is_object())
    throw RequestError("DPOLoss needs ref_outputs: pass the result of forward_only(…, disable_lora=True)");
  return spread(body["ref_outputs"].value("logps", Json()), row, index, "logps of ref_outputs");
}

}  // namespace

std::vector<TwinkleRow> training_rows(const Json& inputs, const serve::ServedModel& served) {
  std::vector<TwinkleRow> rows;
  for (const auto& row : rows_in(inputs)) {
    if (!row.contains("input_ids")) {
      rows.push_back(encoded(row, served));
      continue;
    }
    rows.push_back({integers(row, "input_ids"), integers(row, "labels")});
    if (rows.back().ids.size() != rows.back().targets.size())
      throw RequestError(fmt::format("a row has {} input_ids and {} labels", rows.back().ids.size(), rows.back().targets.size()));
  }
  return rows;
}

std::vector<std::vector<text::TokenId>> prompts(const Json& inputs, const serve::ServedModel& served) {
  std::vector<std::vector<text::TokenId>> all;
  for (const auto& row : rows_in(inputs)) {
    if (row.contains("input_ids")) {
      const auto ids = integers(row, "input_ids");
      all.emplace_back(ids.begin(), ids.end());
    } else if (auto prompt = served.encoder->encode_prompt(conversation_in(row))) {
      all.push_back(std::move(*prompt));
    } else {
      throw RequestError(prompt.error());
    }
    if (all.back().empty()) throw RequestError("inputs: a prompt holds no token");
  }
  return all;
}

TwinkleLoss loss_input(const std::vector<TwinkleRow>& rows, const Json& loss, const Json& body) {
  const auto name = text_field(loss, "name", "");
  const bool is_grpo = name == "GRPOLoss", is_dpo = name == "DPOLoss";
  TwinkleLoss out;
  std::vector<double> labels;
  for (const auto& row : rows) {
    labels.push_back(static_cast<double>(std::ranges::count_if(row.targets, [](int64_t each) { return each != kNothing; })));
    out.labels += static_cast<int64_t>(labels.back());
  }
  const bool sums = !is_grpo && text_field(loss, "reduction", "mean") == "sum";
  out.units = is_dpo ? 0 : sums ? std::max(1.0, static_cast<double>(out.labels)) : 1;  // 0: gradients are not divided
  out.needs_old_logps = is_grpo && !has_field(body, "old_logps");
  Json data = Json::array();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    // A mean over all labels of the batch, or over rows of each row's mean.
    const double weight = sums      ? 1
                          : is_grpo ? 1 / (std::max(1.0, labels[i]) * static_cast<double>(rows.size()))
                                    : 1 / std::max(1.0, static_cast<double>(out.labels));
    std::vector<double> targets, weights;
    for (auto target : row.targets) {
      targets.push_back(target == kNothing ? 0 : static_cast<double>(target));
      weights.push_back(target == kNothing ? 0 : weight);
    }
    Json inputs = {{"target_tokens", tensor(targets, "int64")}};
    if (is_grpo) {
      auto advantages = spread(body.value("advantages", Json()), row, i, "advantages");
      for (size_t t = 0; t < advantages.size(); ++t) advantages[t] *= weights[t];
      inputs["advantages"] = tensor(advantages, "float32");
      if (!out.needs_old_logps) inputs["logprobs"] = tensor(spread(body["old_logps"], row, i, "old_logps"), "float32");
    } else {
      inputs["weights"] = tensor(weights, "float32");
    }
    if (is_dpo) inputs["ref_logps"] = tensor(reference_of(row, loss, body, i), "float32");
    Json chunk = {{"type", "encoded_text"}, {"tokens", row.ids}};
    data.push_back({{"model_input", {{"chunks", Json::array({chunk})}}}, {"loss_fn_inputs", inputs}});
  }
  out.input = {{"data", data}, {"loss_fn", is_grpo ? "ppo" : is_dpo ? "importance_sampling" : "cross_entropy"}};
  if (is_dpo) out.input["loss_fn_config"] = {{"dpo_beta", loss["dpo_beta"]}, {"dpo_sft_weight", loss["dpo_sft_weight"]}};
  if (is_grpo)
    out.input["loss_fn_config"] = {{"clip_low_threshold", 1 - loss["epsilon"].get<double>()},
                                   {"clip_high_threshold", 1 + loss["epsilon_high"].get<double>()}};
  return out;
}

TwinkleLoss contrastive_input(const Json& inputs, const Json& loss) {
  Json data = Json::array();
  for (const auto& row : rows_in(inputs)) {
    const auto labels = integers(row, "labels");
    if (labels.size() != 1)
      throw RequestError(fmt::format(
          "a row of InfonceLoss has {} labels; expected one: 1 for an anchor, 0 for the texts after it", labels.size()));
    Json chunk = {{"type", "encoded_text"}, {"tokens", integers(row, "input_ids")}};
    Json label = {{"data", labels}, {"dtype", "int64"}};
    data.push_back({{"model_input", {{"chunks", Json::array({chunk})}}}, {"loss_fn_inputs", {{"labels", label}}}});
  }
  TwinkleLoss out;
  out.input = {{"data", data}, {"loss_fn", "infonce"}, {"loss_fn_config", loss["settings"]}};
  return out;
}

}  // namespace hone::tinker
