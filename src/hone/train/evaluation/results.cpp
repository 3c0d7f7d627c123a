#include "hone/train/evaluation/results.h"

#include <cstdio>
#include <map>

#include "hone/train/reports/run_log.h"

namespace hone::train {
namespace {

// transformers sorts the keys of these files.
std::string sorted_text(const Json& metrics) {
  std::map<std::string, Json> sorted;
  for (const auto& [key, value] : metrics.items()) sorted[key] = value;
  Json ordered = Json::object();
  for (auto& [key, value] : sorted) ordered[key] = std::move(value);
  return ordered.dump(4) + "\n";
}

}  // namespace

void write_results(const RunFolder& run, const std::string& split, const Json& metrics) {
  write_file_atomically(run.root / (split + "_results.json"), sorted_text(metrics));
  fs::path all_path = run.root / "all_results.json";
  Json all = fs::exists(all_path) ? read_config_file(all_path.string()) : Json::object();
  all.update(metrics);
  write_file_atomically(all_path, sorted_text(all));
  fmt::print("{}", metrics_table(split, metrics));
  std::fflush(stdout);
}

void write_train_results(const TrainerConfig& config, const RunFolder& run, const TrainState& state, const Json& results,
                         const Json& about) {
  if (config.layout == Layout::swift) {
    Json summary = about;
    summary["last_model_checkpoint"] = path_or_null(state.last_model_checkpoint);
    summary["best_model_checkpoint"] = path_or_null(state.best_model_checkpoint);
    summary["best_metric"] = state.best_metric ? Json(*state.best_metric) : Json(nullptr);
    summary["global_step"] = state.global_step;
    summary["log_history"] = state.log_history;
    append_line(run.log_file(config.layout), summary.dump());
    return;
  }
  Json metrics = results;
  metrics["epoch"] = state.epoch;
  write_results(run, "train", metrics);
  write_file_atomically(run.root / "trainer_state.json", state.to_transformers(config).dump(2) + "\n");
}

}  // namespace hone::train
