#include "hone/tuner/methods/activation.h"

#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "hone/base/error.h"

namespace hone::tuner {

Activation activation_called(const std::string& name, const char* option) {
  static const std::map<std::string, Activation> all{
      {"gelu", [](const Tensor& x) { return at::gelu(x); }},
      {"gelu_new", [](const Tensor& x) { return at::gelu(x, "tanh"); }},
      {"gelu_pytorch_tanh", [](const Tensor& x) { return at::gelu(x, "tanh"); }},
      {"quick_gelu", [](const Tensor& x) { return x * at::sigmoid(1.702 * x); }},
      {"relu", [](const Tensor& x) { return at::relu(x); }},
      {"silu", [](const Tensor& x) { return at::silu(x); }},
      {"swish", [](const Tensor& x) { return at::silu(x); }},
      {"tanh", [](const Tensor& x) { return at::tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return at::sigmoid(x); }},
      {"mish", [](const Tensor& x) { return at::mish(x); }},
      {"linear", [](const Tensor& x) { return x; }},
  };
  if (auto found = all.find(name); found != all.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [each, function] : all) known.push_back(each);
  throw UserError(ExitCode::usage, fmt::format("{} is \"{}\"", option, name), fmt::format("one of {}", fmt::join(known, ", ")));
}

}  // namespace hone::tuner
