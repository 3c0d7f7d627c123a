#include "hone/train/loop/train_state.h"

#include <cmath>

namespace hone::train {
namespace {

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Json path_or_null(const std::string& path) { return path.empty() ? Json(nullptr) : Json(path); }

Json TrainState::to_transformers(const TrainerConfig& config) const {
  return {{"best_global_step", optional_json(best_global_step)},
          {"best_metric", optional_json(best_metric)},
          {"best_model_checkpoint", path_or_null(best_model_checkpoint)},
          {"epoch", epoch},
          {"eval_steps", config.eval_steps},
          {"global_step", global_step},
          {"is_hyper_param_search", false},
          {"is_local_process_zero", true},
          {"is_world_process_zero", true},
          {"log_history", log_history},
          {"logging_steps", config.logging_steps},
          {"max_steps", max_steps},
          {"num_input_tokens_seen", tokens_seen},
          {"num_train_epochs", static_cast<int64_t>(std::ceil(config.epochs))},
          {"save_steps", config.save_steps},
          {"stateful_callbacks", Json::object()},
          {"total_flos", total_flos},
          {"train_batch_size", config.micro_batch_size},
          {"trial_name", nullptr},
          {"trial_params", nullptr}};
}

Json TrainState::to_json() const {
  return {{"global_step", global_step},
          {"max_steps", max_steps},
          {"epoch", epoch},
          {"best_metric", optional_json(best_metric)},
          {"best_global_step", optional_json(best_global_step)},
          {"best_model_checkpoint", best_model_checkpoint},
          {"last_model_checkpoint", last_model_checkpoint},
          {"log_history", log_history},
          {"tokens_seen", tokens_seen},
          {"samples_seen", samples_seen},
          {"loss_sum", loss_sum},
          {"loss_steps", loss_steps},
          {"total_flos", total_flos},
          {"skipped_steps", skipped_steps},
          {"skips_in_a_row", skips_in_a_row},
          {"failed_saves", failed_saves},
          {"failed_saves_in_a_row", failed_saves_in_a_row},
          {"evaluations_without_gain", evaluations_without_gain},
          {"log_window", log_window},
          {"recent_losses", recent_losses},
          {"method", loss_state}};
}

TrainState TrainState::from_json(const Json& json) {
  TrainState state;
  auto read = [&](const char* key, auto& value) { json.at(key).get_to(value); };
  auto read_optional = [&](const char* key, auto& value) {
    if (!json.at(key).is_null()) value = json.at(key).get<typename std::decay_t<decltype(value)>::value_type>();
  };
  read("global_step", state.global_step);
  read("max_steps", state.max_steps);
  read("epoch", state.epoch);
  read_optional("best_metric", state.best_metric);
  read_optional("best_global_step", state.best_global_step);
  read("best_model_checkpoint", state.best_model_checkpoint);
  read("last_model_checkpoint", state.last_model_checkpoint);
  state.log_history = json.at("log_history");
  read("tokens_seen", state.tokens_seen);
  read("samples_seen", state.samples_seen);
  read("loss_sum", state.loss_sum);
  read("loss_steps", state.loss_steps);
  read("total_flos", state.total_flos);
  read("skipped_steps", state.skipped_steps);
  read("skips_in_a_row", state.skips_in_a_row);
  read("failed_saves", state.failed_saves);
  read("failed_saves_in_a_row", state.failed_saves_in_a_row);
  read("evaluations_without_gain", state.evaluations_without_gain);
  state.log_window = json.at("log_window");
  state.recent_losses = json.value("recent_losses", Json::array());  // absent in older checkpoints
  state.loss_state = json.value("method", Json());
  return state;
}

}  // namespace hone::train
