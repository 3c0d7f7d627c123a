#include "hone/cli/commands/plan_layouts.h"

#include <algorithm>
#include <cmath>

#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/text_table.h"

namespace hone::cli {
namespace {

constexpr size_t kShown = 10;

std::string sizes_of(const train::ModelLayout& layout) {
  std::string text;
  for (const auto& [name, size] : {std::pair("tp", layout.tp), {"pp", layout.pp}, {"cp", layout.cp}, {"ep", layout.ep}})
    if (size > 1) text += fmt::format("{} {} ", name, size);
  return text + fmt::format("dp {}", layout.dp);
}

Json layout_as_json(const train::LayoutPlan& plan) {
  const auto& layout = plan.layout;
  return {{"tp", layout.tp},
          {"pp", layout.pp},
          {"cp", layout.cp},
          {"ep", layout.ep},
          {"dp", layout.dp},
          {"micro_batches", plan.micro_batches},
          {"total", plan.memory.total()},
          {"weights", plan.memory.weights},
          {"gradients", plan.memory.gradients},
          {"optimizer", plan.memory.optimizer},
          {"activations", plan.memory.activations},
          {"logits", plan.memory.logits},
          {"bubble", plan.bubble},
          {"node_bytes", plan.node_bytes},
          {"network_bytes", plan.network_bytes},
          {"seconds_per_step", plan.seconds},
          {"tokens_per_second", plan.tokens_per_second},
          {"fits", plan.fits}};
}

}  // namespace

train::ModelLayout LayoutPlanner::asked_layout() const {
  auto layout = job_.layout;
  const int copy = layout.tp * layout.pp * layout.cp;
  if (cluster_.devices % copy != 0)
    throw UserError(
        ExitCode::usage,
        fmt::format("{} devices cannot be laid out as tp {} x pp {} x cp {}", cluster_.devices, layout.tp, layout.pp, layout.cp),
        fmt::format("plan for a multiple of {}: NPROC_PER_NODE and NNODES say how many", copy));
  layout.dp = cluster_.devices / copy;
  return layout;
}

int64_t LayoutPlanner::micro_batches() const {
  return job_.workload.accumulation * (is_asked() ? asked_layout().dp : cluster_.devices);
}

train::LayoutPlan LayoutPlanner::asked() const {
  const auto layout = asked_layout();
  if (auto problem = train::layout_problem(job_.workload, layout, micro_batches()); !problem.empty())
    throw UserError(ExitCode::usage,
                    fmt::format("{} cannot be laid out as {}: {} do not divide", job_.model, sizes_of(layout), problem),
                    "choose sizes that divide them");
  return train::plan_layout(job_.workload, layout, cluster_, target_.device, micro_batches(), rate_);
}

Json LayoutPlanner::json() const {
  Json list = Json::array();
  for (const auto& plan : train::plan_layouts(job_.workload, cluster_, target_.device, micro_batches(), rate_))
    list.push_back(layout_as_json(plan));
  Json plan{{"model_layouts", list}};
  if (is_asked()) plan["asked_layout"] = layout_as_json(asked());
  return plan;
}

bool LayoutPlanner::fits() const {
  const auto plans = train::plan_layouts(job_.workload, cluster_, target_.device, micro_batches(), rate_);
  return !plans.empty() && plans.front().fits;
}

void LayoutPlanner::print_asked() const {
  const auto plan = asked();
  fmt::print("{}\n", fit_line(plan.fits, cluster_.devices, target_, plan.memory.total()));
  print_note(
      fmt::format("{}, {}; {} micro-batch{} a step in each replica, {:.0f} % of it bubble; a step takes about {}, {} tokens/s",
                  job_.model, sizes_of(plan.layout), plan.micro_batches, plan.micro_batches == 1 ? "" : "es", 100 * plan.bubble,
                  seconds_text(plan.seconds), format_count(std::round(plan.tokens_per_second))));
}

void LayoutPlanner::print_fastest() const {
  auto plans = train::plan_layouts(job_.workload, cluster_, target_.device, micro_batches(), rate_);
  if (plans.empty()) return;
  const bool fit = plans.front().fits;
  std::erase_if(plans, [&](const train::LayoutPlan& plan) { return plan.fits != fit; });
  TextTable table({"layout", "batches", "GiB", "bubble", "GB node", "GB net", "step", "tokens/s"});
  for (size_t column = 1; column < 8; ++column) table.align_right(column);
  for (const auto& plan : plans) {
    if (&plan - plans.data() == static_cast<std::ptrdiff_t>(kShown)) break;
    table.add({sizes_of(plan.layout), std::to_string(plan.micro_batches), gib(plan.memory.total()),
               fmt::format("{:.0f} %", 100 * plan.bubble), fmt::format("{:.1f}", plan.node_bytes / 1e9),
               fmt::format("{:.1f}", plan.network_bytes / 1e9), seconds_text(plan.seconds),
               format_count(std::round(plan.tokens_per_second))});
  }
  fmt::print("\n");
  print_note(fmt::format("{} on {} devices, nodes of {}, {} GB/s between them:",
                         fit ? "fastest layouts that fit" : "no layout fits; the closest ones", cluster_.devices,
                         cluster_.per_node, cluster_.network_gb_per_s));
  fmt::print("{}", table.str(plan_width(), 2));
  print_note("batches: micro-batches a step; GiB: memory of a device; GB: sent in a node and between nodes",
             terminal::Style::dim);
}

}  // namespace hone::cli
