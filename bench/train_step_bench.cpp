// Training steps of LoRA on a model folder: tokens per second and peak memory, as one line of JSON. bench/train_step.py runs it
// and transformers + peft, and prints the ratios.
#include <chrono>
#include <cstdio>
#include <string>

#include "hone/base/json.h"
#include "hone/device/device.h"
#include "hone/device/generator.h"
#include "hone/device/memory.h"
#include "hone/model/causal_lm.h"
#include "hone/ops/loss/linear_cross_entropy.h"

namespace hone {
namespace {

struct Settings {
  std::string model, dtype, device = "cpu";
  int64_t sequences = 4, length = 512, steps = 3, rank = 8;
  double labelled = 1.0;
};

Settings parse(int argc, char** argv) {
  Settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string key = argv[i], value = argv[i + 1];
    if (key == "--model") s.model = value;
    if (key == "--dtype") s.dtype = value;
    if (key == "--device") s.device = value;
    if (key == "--sequences") s.sequences = std::stoll(value);
    if (key == "--length") s.length = std::stoll(value);
    if (key == "--steps") s.steps = std::stoll(value);
    if (key == "--labelled") s.labelled = std::stod(value);
  }
  return s;
}

TensorList attach_lora(model::CausalLM& model, int64_t rank) {
  TensorList trained;
  auto options = at::TensorOptions(at::kFloat).device(model.device());
  for (auto* linear : model.tree().linears()) {
    if (linear->name == "lm_head") continue;
    ops::LoraWeights adapter{.a = at::randn({rank, linear->weight.size(1)}, options).mul_(0.02).requires_grad_(),
                             .b = at::zeros({linear->weight.size(0), rank}, options).requires_grad_(),
                             .scale = 4.0};
    trained.insert(trained.end(), {adapter.a, adapter.b});
    linear->adapters.push_back(adapter);
  }
  return trained;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int run(const Settings& s) {
  if (s.device == "cpu") device::enable_cpu_caching_allocator();
  device::seed(0);
  double began = seconds();
  model::LoadOptions load{.device = device::select_device(s.device)};
  if (s.dtype == "bfloat16") load.dtype = at::kBFloat16;
  if (s.dtype == "float32") load.dtype = at::kFloat;
  auto model = model::CausalLM::load(s.model, load);
  double loaded = seconds() - began;
  auto trained = attach_lora(*model, s.rank);
  model->set_training(true);

  model::ForwardInput input;
  for (int64_t i = 0; i < s.sequences; ++i) input.segments.append(s.length);
  int64_t tokens = input.segments.total();
  input.tokens_t = at::randint(model->config().vocab_size, {tokens}, at::kLong).to(model->device());
  input.positions_t = at::arange(s.length).repeat({s.sequences}).to(model->device());
  auto labelled = (at::arange(tokens) % 100 < 100 * s.labelled).to(model->device());
  auto targets = at::where(labelled, input.tokens_t.roll({-1}), at::full_like(input.tokens_t, ops::kIgnoredTarget));

  double loss = 0, fastest = 1e30;
  for (int64_t step = 0; step <= s.steps; ++step) {  // the first warms up, unless it is the only one
    double start = seconds();
    auto entropy = ops::linear_cross_entropy(model->hidden_states(input), model->head().weight, model->head().bias, targets);
    (entropy.sum / static_cast<double>(tokens * s.labelled)).backward();
    for (auto& parameter : trained) parameter.mutable_grad().reset();
    device::synchronize(model->device());
    if (step > 0 || s.steps == 0) fastest = std::min(fastest, seconds() - start);
    loss = entropy.sum.item<double>() / (static_cast<double>(tokens) * s.labelled);
  }
  Json line{{"tokens_per_second", static_cast<double>(tokens) / fastest},
            {"step_seconds", fastest},
            {"load_seconds", loaded},
            {"loss", loss},
            {"peak_bytes", device::memory_use(model->device()).peak}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) { return hone::run(hone::parse(argc, argv)); }
