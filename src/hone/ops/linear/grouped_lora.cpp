#include "hone/ops/linear/grouped_lora.h"

#include <numeric>
#include <utility>

#include "hone/base/error.h"
#include "hone/device/autograd.h"
#include "hone/ops/cpu/parallel.h"
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

// What the backward pass needs besides tensors that autograd watches.
struct LoraGroups : torch::CustomClassHolder {
  std::vector<LoraGroup> groups;
  int64_t rows = 0, outputs = 0;
  at::TensorOptions options;  // of the adapters
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

// Groups are many and their products small: on a CPU each is one thread's.
template <class Body>
void for_each_group(const LoraGroups& all, Body body) {
  const auto count = static_cast<int64_t>(all.groups.size());
  if (!all.options.device().is_cpu()) {
    for (int64_t i = 0; i < count; ++i) body(static_cast<size_t>(i));
    return;
  }
  cpu::parallel_tasks(count, [&](int64_t i) {
    at::NoGradGuard no_grad;  // which is of a thread
    body(static_cast<size_t>(i));
  });
}

bool covers_all_rows(const LoraGroups& all) {
  return std::accumulate(all.groups.begin(), all.groups.end(), int64_t{0},
                         [](int64_t sum, const LoraGroup& group) { return sum + group.count; }) == all.rows;
}

Tensor rows_for(const LoraGroups& all, int64_t width) {
  return covers_all_rows(all) ? at::empty({all.rows, width}, all.options) : at::zeros({all.rows, width}, all.options);
}

// y, and x A^T of each group.
Tensor grouped_forward(const LoraGroups& all, const Tensor& x, TensorList& projected) {
  auto y = rows_for(all, all.outputs);
  projected.resize(all.groups.size());
  for_each_group(all, [&](size_t i) {
    const auto& group = all.groups[i];
    projected[i] = at::mm(x.narrow(0, group.begin, group.count), group.a.t()).mul_(group.scale);
    auto part = y.narrow(0, group.begin, group.count);
    at::mm_out(part, projected[i], group.b.t());
  });
  return y;
}

// On a GPU, adapters of one rank whose ranges follow each other: all groups in one launch, in x's type, as one adapter alone is
// computed there.
bool serves_rounded_groups(const LoraGroups& all, const Tensor& x) {
  if (all.groups.empty()) return false;
  const auto rank = all.groups.front().a.size(0);
  int64_t next = 0;
  return all.outputs % 8 == 0 && rank % 8 == 0 && x.scalar_type() == at::kBFloat16 && covers_all_rows(all) &&
         std::ranges::all_of(all.groups, [&](const LoraGroup& group) {
           const bool follows = group.begin == std::exchange(next, group.begin + group.count);
           return follows && group.a.size(0) == rank && serves_rounded(x, {.a = group.a, .b = group.b});
         });
}

Tensor rounded_grouped_lora(const LoraGroups& all, const Tensor& x) {
  TensorList a, b;
  std::vector<int64_t> counts;
  std::vector<float> scales;
  for (const auto& group : all.groups) {
    a.push_back(group.a);
    b.push_back(group.b);
    counts.push_back(group.count);
    scales.push_back(static_cast<float>(group.scale));
  }
  const auto counts_g = at::tensor(counts, at::kLong).to(x.device());
  const auto scales_g = at::tensor(scales, at::kFloat).to(x.device());
  auto stacked = [&](const Tensor& matrices) { return matrices.to(x.scalar_type()).transpose(1, 2); };
  const auto projected = grouped_matmul(x.contiguous(), stacked(at::stack(a) * scales_g.view({-1, 1, 1})), counts_g);
  return grouped_matmul(projected, stacked(at::stack(b)), counts_g);
}

// Inputs: x, then a and b of each group.
class GroupedLora : public torch::autograd::Function<GroupedLora> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList inputs, const c10::intrusive_ptr<LoraGroups>& all) {
    TensorList saved{inputs[0].to(all->options.dtype())}, projected;
    auto y = grouped_forward(*all, saved[0], projected);
    saved.insert(saved.end(), projected.begin(), projected.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["groups"] = c10::IValue::make_capsule(all);
    ctx->saved_data["x_type"] = static_cast<int64_t>(inputs[0].scalar_type());
    ctx->saved_data["wants_x"] = inputs[0].requires_grad();
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    auto all = c10::static_intrusive_pointer_cast<LoraGroups>(ctx->saved_data["groups"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];
    const auto dy = grads[0].contiguous();
    const bool wants_x = ctx->saved_data["wants_x"].toBool();
    auto dx = wants_x ? rows_for(*all, x.size(1)) : Tensor();
    variable_list result(2 * all->groups.size() + 2);  // x, the groups' a and b, and the groups, which are an argument too
    for_each_group(*all, [&](size_t i) {
      const auto& group = all->groups[i];
      const auto dy_part = dy.narrow(0, group.begin, group.count);
      const auto dprojected = at::mm(dy_part, group.b).mul_(group.scale);
      result[1 + 2 * i] = at::mm(dprojected.t(), x.narrow(0, group.begin, group.count));
      result[2 + 2 * i] = at::mm(dy_part.t(), saved[1 + i]);
      if (!wants_x) return;
      auto dx_part = dx.narrow(0, group.begin, group.count);
      at::mm_out(dx_part, dprojected, group.a);
    });
    if (wants_x) result[0] = dx.to(static_cast<at::ScalarType>(ctx->saved_data["x_type"].toInt()));
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
  if (serves_rounded_groups(*all, x)) return rounded_grouped_lora(*all, x);
  if (!at::GradMode::is_enabled()) {
    TensorList projected;
    return grouped_forward(*all, x.to(all->options.dtype()), projected);
  }
  TensorList inputs{x};
  for (const auto& group : all->groups) inputs.insert(inputs.end(), {group.a, group.b});
  return GroupedLora::apply(at::TensorList(inputs), all);
}

}  // namespace hone::ops
