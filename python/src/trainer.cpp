// Trainer: the pieces of a training step.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "hone/train/losses/sft.h"
#include "hone/train/stepwise_trainer.h"
#include "objects.h"
#include "tensor_caster.h"

namespace hone::python {
namespace {

struct Trainer {
  Trainer(Model& trained, const train::StepwiseConfig& config, std::shared_ptr<const train::DistributedContext> processes)
      : model(trained), steps(trained.lm, config, std::move(processes)) {
    model.trained = true;
    ++model.version;
  }
  Model& model;
  train::StepwiseTrainer steps;
  train::SftLoss loss;
  train::CheckpointAssets assets;
};

// Settings as Python gives them: a dictionary as JSON text, whose keys hone/trainer.py made.
train::StepwiseConfig config_of(const Json& given, const Model& model) {
  train::StepwiseConfig config;
  const auto kind = given.at("tuner").get<std::string>();
  config.tuner.kind = kind == "full" ? tuner::TunerType::full : tuner::TunerType::adapter;
  config.tuner.base_model = model.name;
  config.tuner.seed = config.seed = given.at("seed").get<uint64_t>();
  if (kind == "lora") {
    const auto& lora = given.at("lora");
    config.tuner.lora.rank = lora.at("rank").get<int64_t>();
    config.tuner.lora.alpha = lora.at("alpha").get<double>();
    config.tuner.lora.dropout = lora.at("dropout").get<double>();
    config.tuner.lora.targets = lora.at("target_modules").get<std::vector<std::string>>();
    config.tuner.lora.target_parameters = lora.at("target_parameters").get<std::vector<std::string>>();
    config.tuner.lora.modules_to_save = lora.at("modules_to_save").get<std::vector<std::string>>();
    config.tuner.lora.rslora = lora.at("use_rslora").get<bool>();
    config.tuner.lora.dora = lora.at("use_dora").get<bool>();
    config.tuner.lora.init = lora.at("init_weights").get<std::string>();
  }
  config.tuner.frozen_parts = {.llm = given.at("freeze_llm").get<bool>(),
                               .vit = given.at("freeze_vit").get<bool>(),
                               .aligner = given.at("freeze_aligner").get<bool>()};
  for (const auto& adapter : given.at("adapters")) config.tuner.adapters.emplace_back(adapter.get<std::string>());
  tuner::validate(config.tuner);
  config.optimizer.name = given.at("optimizer").get<std::string>();
  config.optimizer.adam.beta1 = given.at("adam_beta1").get<double>();
  config.optimizer.adam.beta2 = given.at("adam_beta2").get<double>();
  config.optimizer.adam.epsilon = given.at("adam_epsilon").get<double>();
  config.schedule.name = given.at("lr_scheduler").get<std::string>();
  config.schedule.learning_rate = config.groups.learning_rate = given.at("learning_rate").get<double>();
  config.schedule.total_steps = given.at("total_steps").get<int64_t>();
  const optim::WarmupConfig warmup{.steps = given.at("warmup_steps").get<double>(),
                                   .ratio = given.at("warmup_ratio").get<double>()};
  optim::validate(warmup);
  config.schedule.warmup_steps = warmup.step_count(config.schedule.total_steps);
  config.groups.weight_decay = given.at("weight_decay").get<double>();
  config.gradient_checkpointing = given.at("gradient_checkpointing").get<bool>();
  config.master_weights = given.at("master_weights").get<bool>();
  return config;
}

std::string dtype_name(at::ScalarType type) {
  return type == at::kBFloat16 ? "bfloat16" : type == at::kHalf ? "float16" : "float32";
}

std::unique_ptr<Trainer> make_trainer(Model& model, const std::string& settings, const Processes* processes) {
  if (model.trained)
    throw UserError(ExitCode::usage, "the model has a trainer already, which changed it", "load the model once more");
  const auto given = Json::parse(settings);
  auto config = config_of(given, model);
  if (processes) config.parallel = processes->config;
  auto trainer = std::make_unique<Trainer>(model, config, processes ? processes->context : nullptr);
  const bool adapter = trainer->steps.tuned().adapter.has_value();
  trainer->assets.model_folder = model.folder;
  trainer->assets.model_name = model.name;
  trainer->assets.tuner = adapter ? "lora" : "full";
  trainer->assets.adapter = adapter;
  trainer->assets.weights_type = dtype_name(model.lm->dtype());
  trainer->assets.tokenizer = model.tokenizer;
  trainer->assets.args = given.at("args");
  return trainer;
}

using Figures = std::map<std::string, double>;

Figures figures(const train::StepResult& result) {
  Figures all{{"loss", result.loss}};
  for (const auto& [name, total] : result.metrics)
    if (total.second > 0) all[name] = total.first / total.second;
  return all;
}

Figures forward_backward(Trainer& self, const std::vector<data::Batch>& batches, bool learn) {
  return with_model(self.model, [&] {
    for (const auto& batch : batches) check_tokens(self.model, batch);
    return figures(learn ? self.steps.forward_backward(batches, self.loss) : self.steps.evaluate(batches, self.loss));
  });
}

bool step(Trainer& self, std::optional<double> learning_rate) {
  return with_model(self.model, [&] {
    ++self.model.version;
    return self.steps.step(learning_rate);
  });
}

std::string save(Trainer& self, const std::string& folder, DataLoader* loader) {
  return with_model(self.model,
                    [&] { return self.steps.save(folder, self.assets, loader ? loader->loader.get() : nullptr).string(); });
}

void load(Trainer& self, const std::string& checkpoint, DataLoader* loader) {
  with_model(self.model, [&] {
    ++self.model.version;
    self.steps.load(checkpoint, loader ? loader->loader.get() : nullptr);
  });
}

// A method of the steps that reads one batch.
template <class Result>
auto of_batch(Result (train::StepwiseTrainer::*method)(const data::Batch&, double)) {
  return [method](Trainer& self, const data::Batch& batch, double temperature) {
    check_tokens(self.model, batch);
    return with_model(self.model, [&] { return (self.steps.*method)(batch, temperature); });
  };
}

}  // namespace

void bind_trainer(nb::module_& m) {
  nb::class_<Trainer>(m, "Trainer")
      .def_static(
          "make",
          [](Model& model, const std::string& settings, const Processes* processes) {
            return with_model(model, [&] { return make_trainer(model, settings, processes).release(); });
          },
          nb::arg("model"), nb::arg("settings"), nb::arg("processes").none() = nb::none(), nb::rv_policy::take_ownership,
          nb::keep_alive<0, 1>())
      .def("forward_backward", forward_backward, nb::arg("batches"), nb::arg("learn"))
      .def("logprobs", of_batch(&train::StepwiseTrainer::logps), nb::arg("batch"), nb::arg("temperature"))
      .def("evaluated_logprobs", of_batch(&train::StepwiseTrainer::evaluated_logps), nb::arg("batch"), nb::arg("temperature"))
      .def("routed_logprobs", of_batch(&train::StepwiseTrainer::routed_logps), nb::arg("batch"), nb::arg("temperature"))
      .def(
          "logits",
          [](Trainer& self, const data::Batch& batch) {
            check_tokens(self.model, batch);
            return with_model(self.model, [&] { return self.steps.logits(batch); });
          },
          nb::arg("batch"))
      .def(
          "token_logits",
          [](Trainer& self, const data::Batch& batch, const Tensor& token_ids) {
            check_tokens(self.model, batch);
            return with_model(self.model, [&] { return self.steps.logits(batch, token_ids); });
          },
          nb::arg("batch"), nb::arg("token_ids"))
      .def("base_logprobs", of_batch(&train::StepwiseTrainer::base_logps), nb::arg("batch"), nb::arg("temperature"))
      .def(
          "backward",
          [](Trainer& self, const Tensor& loss, double num_items) {
            with_model(self.model, [&] { self.steps.backward(loss, num_items); });
          },
          nb::arg("loss"), nb::arg("num_items"))
      .def(
          "clip_grad_norm",
          [](Trainer& self, double max_norm) {
            return with_model(self.model, [&] { return self.steps.clip_grad_norm(max_norm); });
          },
          nb::arg("max_norm"))
      .def("step", step, nb::arg("learning_rate") = nb::none())
      .def("zero_grad", [](Trainer& self) { with_model(self.model, [&] { self.steps.zero_grad(); }); })
      .def("lr_step", [](Trainer& self) { self.steps.lr_step(); })
      .def_prop_ro("learning_rate", [](const Trainer& self) { return self.steps.learning_rate(); })
      .def_prop_ro("global_step", [](const Trainer& self) { return self.steps.global_step(); })
      .def_prop_ro("summary", [](const Trainer& self) { return self.steps.tuned().summary(); })
      .def("trainable", [](const Trainer& self) { return self.steps.tuned().trainable; })
      .def("optimizer_state", [](Trainer& self) { return self.steps.optimizer_state(); })
      .def("save", save, nb::arg("folder"), nb::arg("loader").none())
      .def(
          "save_weights",
          [](Trainer& self, const std::string& folder) {
            with_model(self.model, [&] { self.steps.save_weights(folder, self.assets); });
          },
          nb::arg("folder"))
      .def("load", load, nb::arg("checkpoint"), nb::arg("loader").none());
}

}  // namespace hone::python
