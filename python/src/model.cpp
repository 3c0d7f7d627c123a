// Model: a language model and its tokenizer.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "hone/device/device.h"
#include "hone/hub/locate.h"
#include "hone/ops/loss/linear_logps.h"
#include "hone/text/new_tokens.h"
#include "hone/train/evaluation/evaluation_mode.h"
#include "hone/train/losses/policy.h"
#include "hone/train/methods/forward_pass.h"
#include "objects.h"
#include "tensor_caster.h"

namespace hone::python {
namespace {

at::ScalarType dtype_called(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  throw UserError(ExitCode::usage, fmt::format("dtype is \"{}\"", name), "expected float32, bfloat16 or float16");
}

std::unique_ptr<Model> load_model(const std::string& name, const std::optional<std::string>& dtype, const std::string& device,
                                  const std::string& revision) {
  auto model = std::make_unique<Model>();
  model->name = name;
  model->folder = hub::locate_model(name, revision);
  model::LoadOptions options{.device = device::select_device(device, parallel::world_from_environment().local_rank)};
  if (dtype) options.dtype = dtype_called(*dtype);
  model->tokenizer = text::load_tokenizer(model->folder, {});
  model->lm = model::CausalLM::load(model->folder, options);
  return model;
}

int64_t count_parameters(Model& model) {
  int64_t count = 0;
  for (const auto& parameter : model.lm->parameters()) count += parameter.value->numel();
  return count;
}

Tensor logps_of(Model& model, const data::Batch& batch, double temperature) {
  check_tokens(model, batch);
  train::EvaluationMode mode(*model.lm);
  return train::policy_logps(*model.lm, batch.to(model.lm->device()), temperature);
}

void check_routed_experts(const model::DecoderConfig& config, const data::Batch& batch) {
  const auto& experts = config.experts;
  const auto& routed_tlk = batch.routed_experts_tlk;
  const std::vector<int64_t> shape{batch.tokens_t.size(0), std::ranges::count(experts.in_layer, true),
                                   experts.num_experts_per_tok};
  if (experts.count == 0 || routed_tlk.sizes() != at::IntArrayRef(shape))
    throw UserError(ExitCode::bad_data, fmt::format("routed_experts of the batch are {}", fmt::join(routed_tlk.sizes(), " x ")),
                    experts.count == 0 ? "leave them out: the model has no experts"
                                       : fmt::format("expected {}: tokens, layers with experts, and experts of a token",
                                                     fmt::join(shape, " x ")));
  const auto [low, high] = at::aminmax(routed_tlk);
  if (low.item<int64_t>() < -1 || high.item<int64_t>() >= experts.count)
    throw UserError(ExitCode::bad_data,
                    fmt::format("routed_experts are from {} to {}", low.item<int64_t>(), high.item<int64_t>()),
                    fmt::format("expected 0 to {}, or -1 where the router chooses", experts.count - 1));
  const auto own_tlk = routed_tlk < 0;
  if (!at::equal(own_tlk.any(-1), own_tlk.all(-1)))
    throw UserError(ExitCode::bad_data, "routed_experts have -1 for a part of a token's experts in a layer",
                    "expected -1 for all of them, where the router chooses, or for none");
}

}  // namespace

void check_tokens(const Model& model, const data::Batch& batch) {
  const int64_t size = model.lm->config().vocab_size;
  auto check = [&](const Tensor& ids, int64_t least, const char* what) {
    auto [low, high] = at::aminmax(ids);
    if (low.item<int64_t>() >= least && high.item<int64_t>() < size) return;
    throw UserError(ExitCode::bad_data,
                    fmt::format("{} are from {} to {}; the vocabulary has 0 to {}", what, low.item<int64_t>(),
                                high.item<int64_t>(), size - 1),
                    "make them with this model's tokenizer");
  };
  check(batch.tokens_t, 0, "input_ids");
  check(batch.targets_t, data::kIgnore, "labels");
  if (batch.routed_experts_tlk.defined()) check_routed_experts(model.lm->config(), batch);
}

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "Model")
      .def_static(
          "load",
          [](const std::string& name, const std::optional<std::string>& dtype, const std::string& device,
             const std::string& revision) {
            require_own_threads();
            return without_gil([&] { return load_model(name, dtype, device, revision).release(); });
          },
          nb::arg("name"), nb::arg("dtype") = nb::none(), nb::arg("device") = "auto", nb::arg("revision") = "",
          nb::rv_policy::take_ownership)
      .def_prop_ro("name", [](const Model& model) { return model.name; })
      .def_prop_ro("folder", [](const Model& model) { return model.folder.string(); })
      .def_prop_ro("device", [](const Model& model) { return model.lm->device().str(); })
      .def_prop_ro("dtype", [](const Model& model) { return std::string(c10::toString(model.lm->dtype())); })
      .def_prop_ro("num_parameters", count_parameters)
      .def_prop_ro("vocab_size", [](const Model& model) { return model.lm->config().vocab_size; })
      .def_prop_ro("max_length", [](const Model& model) { return model.lm->config().max_position_embeddings; })
      .def_prop_ro("eos_token_id",
                   [](const Model& model) -> std::optional<text::TokenId> { return model.tokenizer->special().eos; })
      .def("parameters",
           [](Model& model) {
             std::vector<std::pair<std::string, Tensor>> all;
             for (const auto& parameter : model.lm->parameters()) all.emplace_back(parameter.name, *parameter.value);
             return all;
           })
      .def(
          "encode", [](const Model& model, const std::string& text) { return model.tokenizer->encode(text); }, nb::arg("text"))
      .def(
          "decode",
          [](const Model& model, const std::vector<text::TokenId>& ids, bool skip) { return model.tokenizer->decode(ids, skip); },
          nb::arg("ids"), nb::arg("skip_special_tokens") = true)
      .def(
          "logits",
          [](Model& model, const data::Batch& batch) {
            return with_model(model, [&] {
              check_tokens(model, batch);
              train::EvaluationMode mode(*model.lm);
              auto here = batch.to(model.lm->device());
              return model.lm->logits(model.lm->hidden_states(train::forward_input(here)));
            });
          },
          nb::arg("batch"))
      .def(
          "logprobs",
          [](Model& model, const data::Batch& batch, double temperature) {
            return with_model(model, [&] { return logps_of(model, batch, temperature); });
          },
          nb::arg("batch"), nb::arg("temperature"));
}

}  // namespace hone::python
