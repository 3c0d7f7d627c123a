#include "hone/ops/linear/grouped_lora.h"

#include <numeric>
#include <set>
#include <utility>

#include "hone/base/error.h"
#include "hone/device/autograd.h"
#include "hone/device/tensor_identity.h"
#include "hone/ops/cpu/grouped_lora.h"
#include "hone/ops/linear/rounded_low_rank.h"
#include "hone/ops/moe/moe_permute.h"

namespace hone::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The rows of one adapter.
struct LoraGroup {
  int64_t begin, count;
  Tensor a, b;
  double scale;
};

// What the backward pass needs besides tensors tracked by autograd.
struct LoraGroups : torch::CustomClassHolder {
  std::vector<LoraGroup> groups;
  int64_t rows = 0, outputs = 0;
  at::TensorOptions options;  // of the adapters
  bool accumulates = false;   // the backward pass adds to the factors' gradients itself
};

c10::intrusive_ptr<LoraGroups> groups_of(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows,
                                         int64_t outputs) {
  auto found = c10::make_intrusive<LoraGroups>();
  found->rows = x.size(0);
  found->outputs = outputs;
  found->options = x.options().dtype(at::kFloat);
  for (const auto& range : rows) {
    auto adapter = std::ranges::find(adapters, range.adapter, &LoraWeights::adapter);
    if (adapter == adapters.end() || range.begin == range.end) continue;
    HONE_CHECK(!adapter->magnitude.defined());
    found->options = adapter->a.options();
    found->groups.push_back({range.begin, range.end - range.begin, adapter->a, adapter->b, adapter->scale});
  }
  return found;
}

int64_t padded_rank(const LoraGroups& all) {
  int64_t widest = 0;
  for (const auto& group : all.groups) widest = std::max(widest, group.a.size(0));
  return (widest + cpu::kRowsAtOnce - 1) / cpu::kRowsAtOnce * cpu::kRowsAtOnce;
}

bool covers_all_rows(const LoraGroups& all) {
  return std::accumulate(all.groups.begin(), all.groups.end(), int64_t{0},
                         [](int64_t sum, const LoraGroup& group) { return sum + group.count; }) == all.rows;
}

Tensor rows_for(const LoraGroups& all, int64_t width) {
  return covers_all_rows(all) ? at::empty({all.rows, width}, all.options) : at::zeros({all.rows, width}, all.options);
}

// By the kernels of cpu/grouped_lora.h.
bool supports_cpu_groups(const LoraGroups& all) {
  return all.options.device().is_cpu() && all.options.dtype() == at::kFloat &&
         std::ranges::all_of(all.groups, [](const LoraGroup& group) {
           return group.a.scalar_type() == at::kFloat && group.b.scalar_type() == at::kFloat && group.a.is_contiguous() &&
                  group.b.is_contiguous();
         });
}

std::vector<cpu::LoraGroupView> views_of(const LoraGroups& all) {
  std::vector<cpu::LoraGroupView> views;
  for (const auto& group : all.groups)
    views.push_back({group.begin, group.count, group.a.size(0), group.a.const_data_ptr<float>(), group.b.const_data_ptr<float>(),
                     static_cast<float>(group.scale)});
  return views;
}

cpu::GroupedLoraShape shape_of(const LoraGroups& all, const Tensor& x) { return {x.size(1), all.outputs, padded_rank(all)}; }

void add_groups(const LoraGroups& all, const Tensor& x, const Tensor& projected, const Tensor& y, bool adds) {
  cpu::grouped_lora_forward(views_of(all), shape_of(all, x), x.const_data_ptr<float>(), projected.mutable_data_ptr<float>(),
                            y.mutable_data_ptr<float>(), adds);
}

// y, and scale * x A^T of the groups: of all [T, rank] from the kernels, else of each.
Tensor grouped_forward(const LoraGroups& all, const Tensor& x, TensorList& projected) {
  auto y = rows_for(all, all.outputs);
  if (supports_cpu_groups(all)) {
    projected.push_back(at::empty({all.rows, padded_rank(all)}, all.options));
    add_groups(all, x, projected[0], y, /*adds=*/false);
    return y;
  }
  for (const auto& group : all.groups) {
    projected.push_back(at::mm(x.narrow(0, group.begin, group.count), group.a.t()).mul_(group.scale));
    auto part = y.narrow(0, group.begin, group.count);
    at::mm_out(part, projected.back(), group.b.t());
  }
  return y;
}

struct GroupedGradients {
  Tensor x;                                        // undefined where it is not needed
  std::vector<std::pair<Tensor, Tensor>> factors;  // none where they were accumulated
};

GroupedGradients grouped_backward(const LoraGroups& all, const Tensor& dy, const Tensor& x, const TensorList& projected,
                                  bool wants_x) {
  GroupedGradients grads{.x = wants_x ? rows_for(all, x.size(1)) : Tensor(), .factors = {}};
  if (supports_cpu_groups(all)) {
    auto views = views_of(all);
    for (size_t i = 0; i < views.size(); ++i) {
      const auto& [begin, count, a, b, scale] = all.groups[i];
      const auto da = all.accumulates ? a.grad() : at::empty_like(a), db = all.accumulates ? b.grad() : at::empty_like(b);
      views[i].da = da.mutable_data_ptr<float>();
      views[i].db = db.mutable_data_ptr<float>();
      views[i].accumulates = all.accumulates;
      if (!all.accumulates) grads.factors.emplace_back(da, db);
    }
    cpu::grouped_lora_backward(views, shape_of(all, x), dy.const_data_ptr<float>(), x.const_data_ptr<float>(),
                               projected[0].const_data_ptr<float>(), wants_x ? grads.x.mutable_data_ptr<float>() : nullptr);
    return grads;
  }
  for (size_t i = 0; i < all.groups.size(); ++i) {
    const auto& group = all.groups[i];
    const auto dy_part = dy.narrow(0, group.begin, group.count);
    const auto dprojected = at::mm(dy_part, group.b).mul_(group.scale);
    grads.factors.emplace_back(at::mm(dprojected.t(), x.narrow(0, group.begin, group.count)), at::mm(dy_part.t(), projected[i]));
    if (!wants_x) continue;
    auto dx_part = grads.x.narrow(0, group.begin, group.count);
    at::mm_out(dx_part, dprojected, group.a);
  }
  return grads;
}

// On a GPU all groups take one launch, in x's type, as one adapter alone is computed there.
bool supports_rounded_groups(const LoraGroups& all, const Tensor& x) {
  return !all.groups.empty() && all.outputs % 8 == 0 && x.scalar_type() == at::kBFloat16 &&
         std::ranges::all_of(all.groups,
                             [&](const LoraGroup& group) { return supports_rounded(x, {.a = group.a, .b = group.b}); });
}

// The factors as [groups, ...], their dimension `dim` padded with zeros to `rank`: these add nothing, and their gradients are
// dropped. All are copied at once.
Tensor padded_stack(const TensorList& factors, int64_t dim, int64_t rank) {
  if (std::ranges::all_of(factors, [&](const Tensor& factor) { return factor.size(dim) == rank; })) return at::stack(factors);
  auto shape = factors.front().sizes().vec();
  shape[static_cast<size_t>(dim)] = rank;
  const auto zeros = at::zeros(shape, factors.front().options());
  TensorList parts;
  for (const auto& factor : factors) {
    parts.push_back(factor);
    if (const auto missing = rank - factor.size(dim); missing > 0) parts.push_back(zeros.narrow(dim, 0, missing));
  }
  const auto joined = at::cat(parts, dim);
  return dim == 0 ? joined.view({-1, rank, shape[1]}) : joined.view({shape[0], -1, rank}).transpose(0, 1);
}

Tensor padded_product(const LoraGroups& all, const Tensor& x) {
  const auto rank = padded_rank(all);
  TensorList a, b;
  std::vector<int64_t> counts;
  std::vector<float> scales;
  auto append = [&](const Tensor& of_a, const Tensor& of_b, int64_t count, double scale) {
    a.push_back(of_a);
    b.push_back(of_b);
    counts.push_back(count);
    scales.push_back(static_cast<float>(scale));
  };
  int64_t next = 0;
  auto append_rows_of_none = [&](int64_t end) {
    if (end > next) append(at::zeros({rank, x.size(1)}, all.options), at::zeros({all.outputs, rank}, all.options), end - next, 1);
  };
  for (const auto& group : all.groups) {
    append_rows_of_none(group.begin);
    append(group.a, group.b, group.count, group.scale);
    next = group.begin + group.count;
  }
  append_rows_of_none(all.rows);
  const auto counts_g = at::tensor(counts, at::kLong).to(x.device());
  const auto scales_g = at::tensor(scales, at::kFloat).to(x.device(), all.options.dtype());
  auto matrices = [&](const Tensor& factors) {
    return factors.to(x.scalar_type(), /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous).transpose(1, 2);
  };
  const auto projected = grouped_matmul(x.contiguous(), matrices(padded_stack(a, 0, rank) * scales_g.view({-1, 1, 1})), counts_g);
  return grouped_matmul(projected, matrices(padded_stack(b, 1, rank)), counts_g);
}

// Each factor's gradient exists, and no adapter comes twice: groups are computed at the same time.
bool accumulates(const LoraGroups& all) {
  std::set<const void*> factors;
  return supports_cpu_groups(all) && std::ranges::all_of(all.groups, [&](const LoraGroup& group) {
           return accumulates_in_place(group.a.grad()) && accumulates_in_place(group.b.grad()) &&
                  factors.insert(device::identity_of(group.a)).second;
         });
}

void save_groups(AutogradContext* ctx, const c10::intrusive_ptr<LoraGroups>& all, const TensorList& saved, const Tensor& x) {
  ctx->save_for_backward(saved);  // x in the adapters' type, then the projections
  ctx->saved_data["groups"] = c10::IValue::make_capsule(all);
  ctx->saved_data["wants_x"] = x.requires_grad();
}

GroupedGradients saved_backward(AutogradContext* ctx, const Tensor& dy) {
  const auto all = c10::static_intrusive_pointer_cast<LoraGroups>(ctx->saved_data["groups"].toCapsule());
  const auto saved = ctx->get_saved_variables();
  return grouped_backward(*all, dy, saved[0], TensorList(saved.begin() + 1, saved.end()), ctx->saved_data["wants_x"].toBool());
}

// y += the groups' updates, in place. The backward pass adds to the gradients of the factors itself. Inputs: y, x, and a leaf
// that makes autograd call it where neither needs a gradient.
class AddGroupedLora : public torch::autograd::Function<AddGroupedLora> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& y, const Tensor& x, const Tensor&,
                        const c10::intrusive_ptr<LoraGroups>& all) {
    const auto rows = x.contiguous(), projected = at::empty({all->rows, padded_rank(*all)}, all->options);
    add_groups(*all, rows, projected, y, /*adds=*/true);
    ctx->mark_dirty({y});
    save_groups(ctx, all, {rows, projected}, x);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto dy = grads[0].contiguous();
    return {dy, saved_backward(ctx, dy).x, {}, {}};
  }
};

// Inputs: x, then a and b of each group.
class GroupedLora : public torch::autograd::Function<GroupedLora> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const c10::intrusive_ptr<LoraGroups>& all) {
    TensorList saved{inputs[0].to(all->options.dtype()).contiguous()}, projected;
    auto y = grouped_forward(*all, saved[0], projected);
    saved.insert(saved.end(), projected.begin(), projected.end());
    save_groups(ctx, all, saved, inputs[0]);
    ctx->saved_data["x_type"] = static_cast<int64_t>(inputs[0].scalar_type());
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto found = saved_backward(ctx, grads[0].contiguous());
    variable_list result{found.x.defined() ? found.x.to(static_cast<at::ScalarType>(ctx->saved_data["x_type"].toInt()))
                                           : Tensor()};
    for (const auto& [da, db] : found.factors) result.insert(result.end(), {da, db});
    result.emplace_back();  // for the groups, which are an argument too
    return result;
  }
};

}  // namespace

Tensor grouped_lora_plain(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs) {
  const auto all = groups_of(x, adapters, rows, outputs);
  auto y = at::zeros({x.size(0), outputs}, all->options);
  for (const auto& group : all->groups) {
    auto part = at::linear(at::linear(x.narrow(0, group.begin, group.count).to(group.a.scalar_type()), group.a), group.b);
    y = y.slice_scatter(part * group.scale, 0, group.begin, group.begin + group.count);
  }
  return y;
}

Tensor grouped_lora(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs) {
  const auto all = groups_of(x, adapters, rows, outputs);
  if (supports_rounded_groups(*all, x)) return padded_product(*all, x);
  if (!at::GradMode::is_enabled()) {
    TensorList projected;
    return grouped_forward(*all, x.to(all->options.dtype()).contiguous(), projected);
  }
  TensorList inputs{x};
  for (const auto& group : all->groups) inputs.insert(inputs.end(), {group.a, group.b});
  return GroupedLora::apply(at::TensorList(inputs), all);
}

bool accumulates_in_place(const Tensor& gradient) {
  return gradient.defined() && gradient.is_cpu() && gradient.scalar_type() == at::kFloat && gradient.is_contiguous();
}

Tensor add_accumulating_grouped_lora(const Tensor& y, const Tensor& x, const std::vector<LoraWeights>& adapters,
                                     const LoraMapping& rows) {
  const auto all = groups_of(x, adapters, rows, y.size(1));
  const auto is_plain = [](const Tensor& values) { return values.scalar_type() == at::kFloat && values.is_contiguous(); };
  if (!at::GradMode::is_enabled() || !is_plain(y) || y.is_view() || x.scalar_type() != at::kFloat || !accumulates(*all))
    return (y + grouped_lora(x, adapters, rows, y.size(1))).to(y.scalar_type());
  all->accumulates = true;
  return AddGroupedLora::apply(y, x, at::empty({0}, all->options).requires_grad_(true), all);
}

Tensor padded_grouped_lora(const Tensor& x, const std::vector<LoraWeights>& adapters, const LoraMapping& rows, int64_t outputs) {
  const auto all = groups_of(x, adapters, rows, outputs);
  return all->groups.empty() ? at::zeros({x.size(0), outputs}, x.options()) : padded_product(*all, x);
}

}  // namespace hone::ops
