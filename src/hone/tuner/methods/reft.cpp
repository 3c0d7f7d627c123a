// ReFT: a block's output is changed within a low-dimensional subspace, with pyreft's methods as in ms-swift. Six kinds, by
// pyreft's names.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "hone/base/error.h"
#include "hone/tuner/lora_init.h"
#include "hone/tuner/methods/activation.h"
#include "hone/tuner/methods/method_config.h"
#include "hone/tuner/methods/methods.h"
#include "hone/tuner/targets.h"

namespace hone::tuner {
namespace {

// h + P^T (learned - Ph). The learned part is a network of h or a vector; P is orthonormal or free; Ph is subtracted or not.
struct InterventionKind {
  std::string_view name;
  bool network, orthonormal, replaces;
};
constexpr InterventionKind kInterventions[] = {
    {"LoreftIntervention", true, true, true},    {"NoreftIntervention", true, false, true},
    {"ConsreftIntervention", false, true, true}, {"LobireftIntervention", false, true, false},
    {"DireftIntervention", true, true, false},   {"NodireftIntervention", true, false, false},
};

// H1 H2 … Hk M, the Householder reflections of the columns of V: I - V S^-1 V^T with S = striu(V^T V) + diag(V^T V) / 2.
Tensor reflected(const Tensor& vectors_nk, const Tensor& matrix) {
  auto products = vectors_nk.t().mm(vectors_nk);
  auto inner = at::triu(products, 1) + at::diag(at::diag(products)) / 2;
  return matrix - vectors_nk.mm(at::linalg_solve_triangular(inner, vectors_nk.t().mm(matrix), /*upper=*/true));
}

// Reflections whose first columns are a uniformly distributed frame: Stewart's method.
Tensor drawn_reflections(int64_t width, int64_t rank, at::Generator& generator) {
  auto vectors = at::tril(at::empty({width, rank}, at::kFloat).normal_(0, 1, generator));
  auto diagonal = at::diag(vectors);
  auto lengths = at::linalg_vector_norm(vectors, 2, /*dim=*/0);
  return vectors + at::eye(width, rank) * (at::where(diagonal < 0, -lengths, lengths)).unsqueeze(0);
}

struct InterventionShape {
  InterventionKind kind;
  int64_t width, rank;
  bool bias;
  double dropout;
  Activation activation;
};

class Intervention final : public model::LinearTuner {
 public:
  Intervention(const InterventionShape& shape, at::Generator& generator) : shape_(shape) {
    const double bound = 1 / std::sqrt(static_cast<double>(shape.width));  // the initialization of torch.nn.Linear
    const auto uniform = [&](at::IntArrayRef size) { return at::empty(size, at::kFloat).uniform_(-bound, bound, generator); };
    if (shape.kind.orthonormal) {
      start_ = drawn_reflections(shape.width, shape.rank, generator);
      rotation_ = at::zeros({shape.width, shape.rank}, at::kFloat);
    } else {
      projection_ = uniform({shape.rank, shape.width});
      if (shape.bias) projection_bias_ = uniform({shape.rank});
    }
    if (!shape.kind.network) {
      learned_ = at::empty({shape.rank}, at::kFloat).uniform_(0, 1, generator);
      return;
    }
    learned_ = uniform({shape.rank, shape.width});
    learned_bias_ = uniform({shape.rank});
  }

  Tensor forward(const Call& call) const override {
    HONE_CHECK(call.residual, "an intervention acts where a block ends");
    auto y = call.product(call.x);
    auto h = (*call.residual + y).to(learned_.scalar_type());
    auto basis = shape_.kind.orthonormal && !rotation_.requires_grad() ? settled_subspace() : subspace();
    auto wanted = shape_.kind.network ? shape_.activation(at::linear(h, learned_, learned_bias_)) : learned_;
    if (shape_.kind.replaces) wanted = wanted - at::linear(h, basis, projection_bias_);
    auto change = shape_.kind.network || shape_.kind.replaces ? wanted.matmul(basis) : wanted.matmul(basis).expand_as(h);
    if (!call.training || shape_.dropout <= 0) return y + change.to(y.scalar_type());
    return at::dropout(h + change, shape_.dropout, /*train=*/true).to(y.scalar_type()) -
           *call.residual;  // on the full output, as in pyreft
  }
  bool needs_plain_residual() const override { return true; }
  Tensor merged(const Tensor&) const override { HONE_CHECK(false, "the registry says that this method does not merge"); }

  std::vector<model::NamedParameter> tensors() override {
    std::vector<model::NamedParameter> list;
    if (shape_.kind.network)
      list = {{"learned_source.weight", &learned_}, {"learned_source.bias", &learned_bias_}};
    else
      list = {{"learned_source", &learned_}};
    if (shape_.kind.orthonormal)
      list.push_back({"rotate_layer.turn", &rotation_});
    else
      list.push_back({"proj_layer.weight", &projection_});
    if (projection_bias_.defined()) list.push_back({"proj_layer.bias", &projection_bias_});
    return list;
  }
  std::vector<model::NamedParameter> fixed() override {
    if (!shape_.kind.orthonormal) return {};
    return {{"rotate_layer.start", &start_}};
  }

 private:
  // [rank, width]. The reflections of `rotation_` alone would change signs, so zero means the identity:
  // torch.nn.utils.parametrizations.orthogonal with its base. Only the part below the diagonal counts.
  Tensor subspace() const {
    if (!shape_.kind.orthonormal) return projection_;
    auto first = at::eye(shape_.width, shape_.rank, rotation_.options().requires_grad(false));
    return reflected(start_, -reflected(at::tril(rotation_, -1) + first, first)).t();
  }

  // Computed once if nothing trains it; several threads may call this.
  const Tensor& settled_subspace() const {
    std::call_once(settling_, [this] { settled_ = subspace(); });
    return settled_;
  }

  InterventionShape shape_;
  mutable std::once_flag settling_;
  mutable Tensor settled_;
  Tensor learned_, learned_bias_, rotation_, start_, projection_, projection_bias_;
};

InterventionShape intervention_shape(const io::AdapterConfig& config) {
  const MethodConfig fields(config);
  const auto name = fields.read<std::string>("intervention_type", "LoreftIntervention");
  const auto kind = std::ranges::find(kInterventions, name, &InterventionKind::name);
  if (kind == std::end(kInterventions)) {
    std::vector<std::string_view> known;
    for (const auto& each : kInterventions) known.push_back(each.name);
    throw UserError(ExitCode::usage, fmt::format("reft_intervention_type is \"{}\"", name),
                    fmt::format("one of {}", fmt::join(known, ", ")));
  }
  InterventionShape shape{*kind, 0, fields.count("r", 4), true, 0, activation_called("linear", "act_fn")};
  const Json* more = fields.find("args");
  if (!more) return shape;
  const auto wrong = [](const std::string& what, const char* expected) {
    return UserError(ExitCode::usage, fmt::format("reft_args: {}", what), expected);
  };
  if (!more->is_object()) throw wrong(more->dump(), "expected an object, as in {\"dropout\": 0.05, \"act_fn\": \"relu\"}");
  for (const auto& [key, value] : more->items()) {
    if (key == "add_bias" && value.is_boolean())
      shape.bias = value.get<bool>();
    else if (key == "dropout" && value.is_number() && value.get<double>() >= 0 && value.get<double>() < 1)
      shape.dropout = value.get<double>();
    else if (key == "act_fn" && value.is_null())
      continue;
    else if (key == "act_fn" && value.is_string())
      shape.activation = activation_called(value.get<std::string>(), "act_fn of reft_args");
    else
      throw wrong(fmt::format("\"{}\" is {}", key, value.dump()),
                  "add_bias is true or false, dropout a number from 0 to below 1, act_fn a function's name");
  }
  return shape;
}

constexpr std::string_view kBlockEnd = ".mlp.down_proj";

}  // namespace

std::string path_of_blocks(const std::vector<LayerShape>& layers) {
  for (const auto& layer : layers)
    if (const auto owner = owner_of_reft(layer.path); !owner.empty()) return owner.substr(0, owner.rfind('.'));
  return "";
}

std::string owner_of_reft(const std::string& path) {
  return path.ends_with(kBlockEnd) ? path.substr(0, path.size() - kBlockEnd.size()) : "";
}

LinearTuners make_reft(const std::vector<LayerShape>& layers, const io::AdapterConfig& config, uint64_t) {
  auto shape = intervention_shape(config);
  LinearTuners tuners;
  for (const auto& layer : layers) {
    shape.width = layer.out;
    if (shape.rank >= layer.out)
      throw UserError(ExitCode::usage, fmt::format("reft_rank is {}", shape.rank),
                      fmt::format("expected fewer dimensions than the model's {}", layer.out));
    auto generator = layer_generator(layer.path, static_cast<uint64_t>(MethodConfig(config).read<int64_t>("seed", 0)));
    tuners.push_back(std::make_shared<Intervention>(shape, generator));
  }
  return tuners;
}

void complete_reft(io::AdapterConfig& config, const std::vector<LayerShape>& layers, int64_t) {
  const MethodConfig fields(config);
  const auto parent = path_of_blocks(layers), key = fields.read<std::string>("layer_key", parent);
  if (key != parent)
    throw UserError(ExitCode::usage, fmt::format("reft_layer_key is \"{}\"", key),
                    fmt::format("the blocks of this model are \"{}\"", parent));
  const auto blocks =
      std::ranges::count_if(layers, [&](const LayerShape& layer) { return owner_of_reft(layer.path).starts_with(parent + "."); });
  std::vector<int64_t> chosen;
  if (const Json* listed = fields.find("layers"))
    for (const auto& one : *listed) {
      if (!one.is_number_integer() || one.get<int64_t>() < 0 || one.get<int64_t>() >= blocks)
        throw UserError(ExitCode::usage, fmt::format("reft_layers names {}", one.dump()),
                        fmt::format("expected numbers of layers from 0 to {}", blocks - 1));
      chosen.push_back(one.get<int64_t>());
    }
  config.is_swift_tuner = true;
  config.targets = {{}, escaped_path(parent) + (chosen.empty() ? R"(\.\d+)" : fmt::format(R"(\.({}))", fmt::join(chosen, "|")))};
  config.modules_to_save.clear();
}

}  // namespace hone::tuner
