#include "hone/ops/linear/joint_linear.h"

#include "hone/device/autograd.h"
#include "hone/ops/column_sums.h"
#include "hone/ops/linear/low_rank_node.h"
#include "hone/ops/linear/matmul.h"
#include "hone/ops/linear/rounded_low_rank.h"

namespace hone::ops {
namespace {

// Columns of a tensor that autograd need not track as a view: the node's outputs, and gradients.
Tensor slice_of(const Tensor& whole, int64_t begin, int64_t width) {
  at::AutoDispatchBelowADInplaceOrView plain;
  return whole.narrow(1, begin, width);
}

// The parts of a node of several layers.
struct Joint {
  Tensor weight, bias;
  Tensor cos, sin;  // undefined: no rotary embedding; else of all layers but the last
  std::vector<int64_t> widths;
  std::vector<std::vector<LowRankTerm>> terms;  // per layer
  std::vector<bool> trains_weight, trains_bias;
  cuda::GateUpdates* left_out = nullptr;  // receives the updates of both layers instead of their outputs
  Float8Weight float8;                    // of the weight, if products with it are in float8

  int64_t width() const { return weight.size(0); }
  template <class Body>
  void for_layers(Body body) const {  // body(layer, first column, columns)
    int64_t begin = 0;
    for (size_t i = 0; i < widths.size(); ++i) {
      body(i, begin, widths[i]);
      begin += widths[i];
    }
  }
  std::vector<PlacedTerm> placed() const {
    std::vector<PlacedTerm> all;
    for_layers([&](size_t i, int64_t begin, int64_t width) {
      auto own = place_terms(terms[i], width, begin);
      all.insert(all.end(), own.begin(), own.end());
    });
    return all;
  }
  bool can_leave_out(const Tensor& y) const {
    if (!left_out || terms.size() != 2 || terms[0].size() != 1 || terms[1].size() != 1) return false;
    const int64_t rank = terms[0][0].a.size(0);
    return terms[1][0].a.size(0) == rank &&
           cuda::supports_gate_updates(slice_of(y, 0, widths[0]), slice_of(y, widths[0], widths[1]), rank);
  }
  static bool any(const std::vector<bool>& flags) { return std::ranges::count(flags, true) > 0; }
  bool needs_input_values() const {
    return any(trains_weight) || std::ranges::any_of(terms, [](const auto& own) {
             return std::ranges::any_of(own, [](const auto& term) { return term.a.requires_grad(); });
           });
  }
};

// Gradients of the layers' outputs, concatenated; adjacent ones are not copied.
Tensor side_by_side(const variable_list& grads, const Joint& joint) {
  const auto& first = grads.front();
  bool adjacent = !joint.cos.defined();
  joint.for_layers([&](size_t i, int64_t begin, int64_t) {
    const auto* place = static_cast<const std::byte*>(first.const_data_ptr()) + begin * first.element_size();
    adjacent = adjacent && grads[i].stride(1) == 1 && grads[i].stride(0) == joint.width() && grads[i].const_data_ptr() == place;
  });
  if (adjacent) return first.as_strided({first.size(0), joint.width()}, {joint.width(), 1});
  auto all = at::empty({first.size(0), joint.width()}, first.options());
  if (joint.cos.defined()) {
    TensorList parts;
    for (const auto& grad : grads) parts.push_back(cuda::supports_rows(grad) ? grad : grad.contiguous());
    cuda::rope_parts(parts, joint.cos, joint.sin, -1, all);
  } else {
    joint.for_layers([&](size_t i, int64_t begin, int64_t width) { all.narrow(1, begin, width).copy_(grads[i]); });
  }
  return all;
}

// Inputs: x, then weight, bias if any, a and b of each term of every layer.
class JointLinear : public torch::autograd::Function<JointLinear> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs, const Joint& given) {
    Joint joint = given;
    const auto& x = inputs[0];
    auto y = base_product(x, joint.weight, joint.float8, joint.bias);
    if (joint.can_leave_out(y)) {
      project_rounded(x, joint.placed());
      const auto &gate = joint.terms[0][0], &up = joint.terms[1][0];
      *joint.left_out = {gate.projected, gate.rounded_b, up.projected, up.rounded_b};
    } else {
      add_rounded_updates(y, x, joint.placed());
    }
    if (joint.cos.defined()) {  // all layers but the last: queries and keys, whose heads are adjacent
      const auto rotated = slice_of(y, 0, joint.width() - joint.widths.back());
      cuda::rope_rows(rotated, joint.cos, joint.sin, 1, rotated);
    }
    variable_list outputs;
    joint.for_layers([&](size_t i, int64_t begin, int64_t width) { outputs.push_back(slice_of(y, begin, width)); });
    save(ctx, joint, joint.needs_input_values() ? x : Tensor(), x.requires_grad());
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    Tensor x;
    const Joint joint = restore(ctx, x);
    auto dy = side_by_side(grads, joint);
    RoundedGradients rounded(dy, joint.placed());
    Tensor dx, dweight, dbias;
    if (ctx->saved_data["x_requires_grad"].toBool()) {
      dx = base_gradient(dy, joint.weight, joint.float8);
      rounded.add_to_input(dx);
    }
    if (Joint::any(joint.trains_weight)) dweight = matmul_tn(dy, x);
    if (Joint::any(joint.trains_bias)) dbias = column_sums(dy);
    variable_list result{dx};
    auto of_terms = rounded.of_factors(x);
    size_t term = 0;
    joint.for_layers([&](size_t i, int64_t begin, int64_t width) {
      result.push_back(joint.trains_weight[i] ? dweight.narrow(0, begin, width) : Tensor());
      if (joint.bias.defined()) result.push_back(joint.trains_bias[i] ? dbias.narrow(0, begin, width) : Tensor());
      for (size_t t = 0; t < joint.terms[i].size(); ++t, ++term)
        result.insert(result.end(), {of_terms[term].first, of_terms[term].second});
    });
    result.emplace_back();  // for the struct argument
    return result;
  }

 private:
  static void save(AutogradContext* ctx, const Joint& joint, const Tensor& x, bool x_requires_grad) {
    variable_list saved{x, joint.weight, joint.bias, joint.cos, joint.sin};
    for (const auto& tensor : joint.float8.tensors()) saved.push_back(tensor);
    for (const auto& terms : joint.terms) append_terms(saved, terms);
    ctx->save_for_backward(std::move(saved));
    save_numbers(ctx, joint.terms);
    ctx->saved_data["x_requires_grad"] = x_requires_grad;
    ctx->saved_data["widths"] = joint.widths;
    std::vector<int64_t> trains;
    for (size_t i = 0; i < joint.widths.size(); ++i)
      trains.push_back((joint.trains_weight[i] ? 1 : 0) + (joint.trains_bias[i] ? 2 : 0));
    ctx->saved_data["trains"] = trains;
  }
  static Joint restore(AutogradContext* ctx, Tensor& x) {
    auto saved = ctx->get_saved_variables();
    x = saved[0];
    Joint joint{saved[1], saved[2], saved[3], saved[4], ctx->saved_data["widths"].toIntVector(), restored_terms(ctx, saved, 9),
                {},       {}};
    joint.float8 = {saved[5], saved[6], saved[7], saved[8]};
    for (int64_t flags : ctx->saved_data["trains"].toIntVector())
      joint.trains_weight.push_back(flags & 1), joint.trains_bias.push_back(flags & 2);
    return joint;
  }
};

}  // namespace

bool supports_joint(const Tensor& x, const JointLayers& joint) {
  if (!cuda::supports_rows(x) || x.scalar_type() != joint.weight.scalar_type()) return false;
  return std::ranges::all_of(joint.layers, [&](const auto& layer) {
    return layer.weight.size(0) % 8 == 0 && std::ranges::all_of(layer.adapters, [&](const auto& adapter) {
             return !adapter.active || (!adapter.magnitude.defined() && supports_rounded(x, adapter));
           });
  });
}

TensorList joint_linear_plain(const Tensor& x, const JointLayers& joint, bool training, const RopeTable* rope_table) {
  TensorList outputs;
  for (size_t i = 0; i < joint.layers.size(); ++i) {
    const auto& layer = joint.layers[i];
    auto y = lora_linear_plain(x, layer.weight, layer.bias, layer.adapters, training);
    outputs.push_back(rope_table && i + 1 < joint.layers.size() ? rope_plain(y, *rope_table) : y);
  }
  return outputs;
}

namespace {

TensorList as_joint_node(const Tensor& x, const JointLayers& layers, bool training, Joint joint) {
  TensorList inputs{x};
  for (const auto& layer : layers.layers) {
    LowRankNode node{layer.weight, layer.bias, low_rank_terms(x, layer.adapters, training)};
    node.append_inputs(inputs);
    joint.widths.push_back(layer.weight.size(0));
    joint.trains_weight.push_back(layer.weight.requires_grad());
    joint.trains_bias.push_back(layer.bias.defined() && layer.bias.requires_grad());
    joint.terms.push_back(std::move(node.terms));
  }
  return JointLinear::apply(at::TensorList(inputs), joint);
}

}  // namespace

TensorList joint_linear(const Tensor& x, const JointLayers& layers, bool training, const RopeTable* rope_table) {
  Joint joint{.weight = layers.weight, .bias = layers.bias, .float8 = layers.float8};
  if (rope_table) joint.cos = rope_table->cos, joint.sin = rope_table->sin;
  return as_joint_node(x, layers, training, std::move(joint));
}

TensorList joint_gate_up(const Tensor& x, const JointLayers& layers, bool training, cuda::GateUpdates& updates) {
  Joint joint{.weight = layers.weight, .bias = layers.bias, .float8 = layers.float8};
  joint.left_out = &updates;
  return as_joint_node(x, layers, training, std::move(joint));
}

}  // namespace hone::ops
