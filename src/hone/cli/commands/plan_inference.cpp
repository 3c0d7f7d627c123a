#include "hone/cli/commands/plan_inference.h"

#include <cmath>

#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/text_table.h"

namespace hone::cli {
namespace {

using terminal::Style;
using terminal::styled;

// Models with linear attention are not sharded in inference.
std::vector<int> splits_of(const InferencePlanJob& job) {
  return job.workload.model.linear_attention ? std::vector{1} : std::vector{1, 2, 4, 8};
}

Json layout_json(const InferencePlanJob& job, const TargetDevice& target, int devices) {
  auto plan = train::plan_inference(job.workload, devices, target.device);
  return {{"devices", devices},
          {"weights", plan.weights},
          {"activations", plan.activations},
          {"kv_cache", plan.cache},
          {"kv_cache_tokens", plan.kv_cache_tokens},
          {"recurrent_states", plan.states},
          {"max_num_seqs", plan.max_num_seqs},
          {"needed", plan.needed},
          {"total", plan.total()},
          {"fits", train::fits(plan, job.workload, target.device)},
          {"decode_tokens_per_second", plan.decode_tokens_per_second}};
}

void print_inference_parts(const train::InferencePlan& plan) {
  TextTable table({"GiB per device", ""});
  table.align_right(1);
  table.add({"weights", gib(plan.weights)});
  table.add({"activations of a step", gib(plan.activations)});
  table.add({"KV cache", gib(plan.cache)});
  if (plan.states > 0) table.add({fmt::format("recurrent states of {} sequences", plan.max_num_seqs), gib(plan.states)});
  table.add({styled("in all", Style::bold), gib(plan.total())});
  fmt::print("{}\n", table.str(plan_width(), 2));
}

void print_splits(const InferencePlanJob& job, const TargetDevice& target) {
  TextTable table({"tensor parallel", "weights", "KV cache", "its tokens", "sequences", "tokens/s of one", "fits"});
  for (size_t column = 0; column < 6; ++column) table.align_right(column);
  for (int devices : splits_of(job)) {
    auto plan = train::plan_inference(job.workload, devices, target.device);
    table.add({std::to_string(devices), gib(plan.weights), gib(plan.cache),
               format_count(static_cast<double>(plan.kv_cache_tokens)), fmt::format("{:.1f}", plan.full_sequences(job.workload)),
               format_count(std::round(plan.decode_tokens_per_second)),
               train::fits(plan, job.workload, target.device) ? "yes" : "no"});
  }
  fmt::print("\n{}", table.str(plan_width(), 2));
}

}  // namespace

void print_inference_plan(const InferencePlanJob& job, const TargetDevice& target) {
  const auto& work = job.workload;
  auto plan = train::plan_inference(work, job.devices, target.device);
  const bool fits = train::fits(plan, work, target.device);
  fmt::print("{}\n", fit_line(fits, job.devices, target, fits ? plan.total() : plan.needed));
  if (fits)
    print_note(fmt::format(
        "{}, {} parameters; the KV cache holds {} tokens: {:.1f} sequences of {} tokens at a time; about {} tokens/s for one "
        "of them",
        job.model, format_count(static_cast<double>(job.parameters)), format_count(static_cast<double>(plan.kv_cache_tokens)),
        plan.full_sequences(work), work.max_model_len, format_count(std::round(plan.decode_tokens_per_second))));
  else
    print_note(fmt::format(
        "{}, {} parameters; the cache of one sequence of {} tokens is {} GiB: shorten it, quantize the weights to fewer bits, or "
        "use more devices",
        job.model, format_count(static_cast<double>(job.parameters)), work.max_model_len,
        gib(static_cast<double>(work.max_model_len) * work.cache_bytes_per_token / job.devices)));
  print_inference_parts(plan);
  for (const auto& assumption : job.assumptions) print_note(assumption, Style::dim);
  if (target.assumed) print_note(fmt::format("planned for {}; --target_device names another", target.name), Style::dim);
  print_note("speeds are estimates from the bandwidth of the memory", Style::dim);
  print_splits(job, target);
}

Json inference_plan_json(const InferencePlanJob& job, const TargetDevice& target) {
  Json layouts = Json::array();
  for (int devices : splits_of(job)) layouts.push_back(layout_json(job, target, devices));
  return {{"model", job.model},
          {"parameters", job.parameters},
          {"device", target.name},
          {"max_context", job.workload.max_model_len},
          {"asked", layout_json(job, target, job.devices)},
          {"layouts", layouts},
          {"assumptions", job.assumptions}};
}

}  // namespace hone::cli
