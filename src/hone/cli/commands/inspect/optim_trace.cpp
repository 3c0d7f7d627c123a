// `hone optim-trace`: applies recorded gradients with an optimizer and a schedule, and prints {"rates": […], "norms": […]}, one
// entry per step. For comparing with other implementations; hidden from help.
#include "hone/base/json.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/arguments/tuners.h"
#include "hone/cli/commands.h"
#include "hone/io/safetensors.h"
#include "hone/optim/factory.h"
#include "hone/optim/lr_scheduler.h"
#include "hone/optim/param_groups.h"

namespace hone::cli {
namespace {

struct OptimTraceOptions {
  std::string optim = "adamw_torch";
  std::filesystem::path config;  // JSON: learning_rate, weight_decay, lr_scheduler_type, total_steps … as in training
  std::filesystem::path input;   // safetensors: "param/NAME" and "grad/STEP/NAME"; empty: the schedule alone
  std::filesystem::path output;  // safetensors: "param/NAME" after the last step, "state/…"
};

optim::NamedTensors read_parameters(const io::SafetensorsFile& file) {
  optim::NamedTensors parameters;
  for (const auto& entry : file.entries())
    if (entry.name.starts_with("param/"))
      parameters.emplace_back(entry.name.substr(6), file.tensor(entry).clone().requires_grad_(true));
  return parameters;
}

void set_gradients(const io::SafetensorsFile& file, int64_t step, optim::NamedTensors& parameters) {
  for (auto& [name, parameter] : parameters) {
    const std::string key = fmt::format("grad/{}/{}", step, name);
    if (file.contains(key)) parameter.mutable_grad() = file.tensor(key).clone();
  }
}

at::ScalarType state_dtype(const std::string& name) { return name == "bf16" ? at::kBFloat16 : at::kFloat; }

optim::OptimizerConfig optimizer_config(const std::string& name, const Json& config) {
  optim::OptimizerConfig made;
  made.name = name;
  made.adam.beta1 = config.value("adam_beta1", made.adam.beta1);
  made.adam.beta2 = config.value("adam_beta2", made.adam.beta2);
  made.adam.epsilon = config.value("adam_epsilon", made.adam.epsilon);
  made.adam.exp_avg_dtype = state_dtype(config.value("exp_avg_dtype", "fp32"));
  made.adam.exp_avg_sq_dtype = state_dtype(config.value("exp_avg_sq_dtype", "fp32"));
  made.arguments = config.value("optim_args", Json::object());
  made.target_modules = config.value("optim_target_modules", made.target_modules);
  return made;
}

optim::ParamGroupConfig group_config(const Json& config) {
  optim::ParamGroupConfig made;
  made.learning_rate = config.value("learning_rate", made.learning_rate);
  made.weight_decay = config.value("weight_decay", made.weight_decay);
  if (config.contains("loraplus_lr_ratio")) made.loraplus_ratio = config["loraplus_lr_ratio"].get<double>();
  return made;
}

optim::LrSchedulerConfig schedule_config(const Json& config) {
  optim::LrSchedulerConfig made;
  made.name = config.value("lr_scheduler_type", "constant");
  made.learning_rate = config.value("learning_rate", made.learning_rate);
  made.total_steps = config.value("total_steps", made.total_steps);
  const optim::WarmupConfig warmup{config.value("warmup_steps", 0.0), config.value("warmup_ratio", 0.0)};
  made.warmup_steps = warmup.step_count(made.total_steps);
  made.arguments = config.value("lr_scheduler_kwargs", Json::object());
  return made;
}

int run_optim_trace(const OptimTraceOptions& options) {
  const Json config = read_config_file(options.config.string());
  optim::LrScheduler schedule(schedule_config(config));
  const int64_t steps = config.value("total_steps", int64_t{0}), reload_at = config.value("reload_at", int64_t{-1});
  const Json metrics = config.value("metrics", Json::array());
  Json rates = Json::array(), norms = Json::array();

  std::optional<io::SafetensorsFile> file;
  optim::NamedTensors parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
  const auto fresh_optimizer = [&] {
    return optim::make_optimizer(optimizer_config(options.optim, config),
                                 optim::make_param_groups(parameters, group_config(config)));
  };
  if (!options.input.empty()) {
    file.emplace(options.input);
    parameters = read_parameters(*file);
    optimizer = fresh_optimizer();
  }
  for (int64_t step = 0; step < steps; ++step) {
    rates.push_back(schedule.learning_rate(step));
    if (optimizer) {
      if (step == reload_at) {
        auto reloaded = fresh_optimizer();
        reloaded->load_state(optimizer->state());
        optimizer = std::move(reloaded);
      }
      set_gradients(*file, step, parameters);
      norms.push_back(optimizer->clip_grad_norm(config.value("max_grad_norm", 0.0)).item<float>());
      optimizer->step(schedule.learning_rate(step));
      optimizer->zero_grad();
    }
    if (static_cast<size_t>(step) < metrics.size()) schedule.observe(metrics[static_cast<size_t>(step)].get<double>());
  }
  if (optimizer) {
    std::vector<io::TensorSource> tensors;
    for (const auto& [name, tensor] : parameters) tensors.push_back(io::TensorSource::of("param/" + name, tensor.detach()));
    for (const auto& [name, tensor] : optimizer->state()) tensors.push_back(io::TensorSource::of("state/" + name, tensor));
    io::write_safetensors(options.output, tensors);
  }
  fmt::print("{}\n", Json{{"rates", rates}, {"norms", norms}}.dump());
  return 0;
}

}  // namespace

int optim_trace_command(const Options& options) {
  const ToolArguments args(options);
  return run_optim_trace(OptimTraceOptions{
      .optim = *OptimizerArguments(options).optim, .config = *args.config, .input = *args.input, .output = *args.output});
}

}  // namespace hone::cli
