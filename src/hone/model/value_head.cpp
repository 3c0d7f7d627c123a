#include "hone/model/value_head.h"

#include <cmath>

#include "hone/base/error.h"
#include "hone/io/value_head.h"

namespace hone::model {
namespace {

constexpr double kStateDropout = 0.1;  // trl's summary_dropout_prob

io::ValueHead new_value_head(int64_t hidden, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  auto drawn = [&](at::IntArrayRef shape) {
    return at::empty(shape, at::TensorOptions(at::kFloat)).uniform_(-bound, bound, generator);
  };
  return {drawn({1, hidden}), drawn({1})};
}

}  // namespace

void add_value_head(Decoder& decoder, const std::filesystem::path& folder, uint64_t seed) {
  const int64_t hidden = decoder.config.hidden_size;
  auto head = io::holds_value_head(folder) ? io::read_value_head(folder, hidden) : new_value_head(hidden, seed);
  const auto device = decoder.norm.weight.device();
  decoder.value_head.emplace();
  decoder.value_head->name = io::kValueHead;
  decoder.value_head->weight = head.weight.to(device, at::kFloat);
  decoder.value_head->bias = head.bias.view({1}).to(device, at::kFloat);
}

Tensor values(CausalLM& model, const Tensor& states_nh) {
  const auto& head = model.decoder().value_head;
  HONE_CHECK(head, "{} has no value head", model.config().architecture);
  auto states = model.training() ? at::dropout(states_nh, kStateDropout, true) : states_nh;
  auto values_n = at::linear(states.to(at::kFloat), head->weight, head->bias).squeeze(1);
  auto* region = model.decoder().region;
  return region ? region->replicated(values_n) : values_n;
}

}  // namespace hone::model
