#include "hone/model/memory/activation_checkpointing.h"

#include <algorithm>
#include <mutex>

#include "hone/base/log.h"
#include "hone/device/autograd.h"
#include "hone/device/generator.h"
#include "hone/model/causal_lm.h"
#include "hone/model/decoder.h"
#include "hone/model/memory/activation_budget.h"

namespace hone::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor random_state(at::Device device) {
  auto generator = device::default_generator(device);
  std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(at::Device device, const Tensor& state) {
  auto generator = device::default_generator(device);
  std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

// Replays the random numbers of the forward pass, then restores the generator.
class RandomReplay {
 public:
  RandomReplay(at::Device device, const Tensor& state) : device_(device), present_(random_state(device)) {
    set_random_state(device, state);
  }
  ~RandomReplay() { set_random_state(device_, present_); }
  RandomReplay(const RandomReplay&) = delete;

 private:
  at::Device device_;
  Tensor present_;
};

thread_local bool running_again = false;

class RunningAgain {
 public:
  RunningAgain() : before_(std::exchange(running_again, true)) {}
  ~RunningAgain() { running_again = before_; }
  RunningAgain(const RunningAgain&) = delete;

 private:
  bool before_;
};

// The recomputed function and its stored input. Kept in the context through a holder, since saved data must be a type that
// libtorch knows.
struct Rerun : torch::CustomClassHolder {
  Rerun(BlockFunction function, ActivationOffloader* store, bool draws)
      : function(std::move(function)), store(store), draws(draws) {}
  BlockFunction function;
  ActivationOffloader* store;  // null: the input stays on the device
  bool draws;
  std::shared_ptr<ActivationOffloader::OffloadedActivation> kept;
};

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const c10::intrusive_ptr<Rerun>& rerun) {
    variable_list saved(inputs.begin(), inputs.end());
    saved.push_back(rerun->draws ? random_state(inputs[0].device()) : Tensor());
    ctx->saved_data["wants_x"] = inputs[0].requires_grad();
    if (rerun->store) {
      rerun->kept = rerun->store->offload(inputs[0]);
      saved[0] = Tensor();
    }
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["rerun"] = c10::IValue::make_capsule(rerun);
    return rerun->function(inputs[0]);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto saved = ctx->get_saved_variables();
    auto state = saved.back();
    saved.pop_back();
    auto rerun = c10::static_intrusive_pointer_cast<Rerun>(ctx->saved_data["rerun"].toCapsule());

    bool wants_x = ctx->saved_data["wants_x"].toBool();
    auto x = (rerun->store ? rerun->store->fetch(*rerun->kept) : saved[0].detach()).requires_grad_(wants_x);
    TensorList ys;
    {
      std::optional<RandomReplay> replay;
      if (rerun->draws) replay.emplace(x.device(), state);
      at::AutoGradMode record(true);
      RunningAgain again;
      ys = rerun->function(x);
    }
    variable_list wanted(saved.begin() + 1, saved.end());
    if (wants_x) wanted.insert(wanted.begin(), x);
    variable_list used, gradients;  // some outputs of the block may be unused
    for (size_t i = 0; i < ys.size(); ++i)
      if (grads[i].defined() && ys[i].requires_grad()) used.push_back(ys[i]), gradients.push_back(grads[i]);
    auto found = torch::autograd::grad(used, wanted, gradients, std::nullopt, false, /*allow_unused=*/true);
    if (!wants_x) found.insert(found.begin(), Tensor());
    found.emplace_back();  // for the function
    return found;
  }
};

}  // namespace

bool runs_again() { return running_again; }

TensorList checkpoint(const BlockFunction& block, const Tensor& x, const TensorList& parameters, ActivationOffloader* store,
                      bool draws) {
  TensorList inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return Recomputed::apply(at::TensorList(inputs), c10::make_intrusive<Rerun>(block, store, draws));
}

void apply_activation_checkpointing(CausalLM& model, const ActivationCheckpointingConfig& config, at::Device device,
                                    int64_t row_length) {
  const auto offload_from = config.offload && !device.is_cpu() ? std::optional(device) : std::nullopt;
  if (config.memory_budget) {
    const auto chosen = recompute_within(model.config(), *config.memory_budget, row_length);
    apply_activation_checkpointing(model, chosen, offload_from);
    auto count = [&](Recompute what) { return std::ranges::count(chosen, what); };
    log::info("`activation_memory_budget` {}: of {} blocks {} are recomputed in full, {} in their MLP, {} in their attention",
              *config.memory_budget, chosen.size(), count(Recompute::block), count(Recompute::mlp), count(Recompute::attention));
  } else {
    apply_activation_checkpointing(model, config.enabled ? config.what : Recompute::none, config.blocks, offload_from);
  }
  if (!config.towers) return;
  const auto of_towers = *config.towers ? Recompute::block : Recompute::none;
  if (auto& vision = model.decoder().vision) vision->recompute = of_towers;
  if (auto& audio = model.decoder().audio) audio->recompute = of_towers;
}

void apply_activation_checkpointing(CausalLM& model, Recompute what, const std::vector<int64_t>& blocks,
                                    std::optional<at::Device> offload_from) {
  std::vector<Recompute> of_layers(static_cast<size_t>(model.config().layers), blocks.empty() ? what : Recompute::none);
  for (int64_t layer : blocks)
    if (layer >= 0 && layer < model.config().layers) of_layers[static_cast<size_t>(layer)] = what;
  apply_activation_checkpointing(model, of_layers, offload_from);
}

void apply_activation_checkpointing(CausalLM& model, const std::vector<Recompute>& of_layers,
                                    std::optional<at::Device> offload_from) {
  auto& decoder = model.decoder();
  for (auto& block : decoder.blocks) block.recompute = of_layers[static_cast<size_t>(block.layer)];
  const bool any = std::ranges::any_of(of_layers, [](Recompute what) { return what != Recompute::none; });
  const auto of_towers = any ? Recompute::block : Recompute::none;
  if (decoder.vision) decoder.vision->recompute = of_towers;
  if (decoder.audio) decoder.audio->recompute = of_towers;
  decoder.offloader = offload_from ? std::make_shared<ActivationOffloader>(*offload_from) : nullptr;
}

}  // namespace hone::model
