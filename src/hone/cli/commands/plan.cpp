// What a training command will need before it is run: memory per device for every way of sharding, and where it fits.
#include <cstdlib>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/terminal.h"
#include "hone/cli/command_line.h"
#include "hone/cli/environment_numbers.h"
#include "hone/cli/jobs/parallel_job.h"
#include "hone/cli/jobs/plan_job.h"
#include "hone/cli/text_table.h"
#include "hone/train/plan/devices.h"

namespace hone::cli {
namespace {

using terminal::Style;
using terminal::styled;
using train::MemoryPlan;
using train::Sharding;

constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr int kCounts[] = {1, 2, 4, 8};

std::string gib(double bytes) { return fmt::format("{:.1f}", bytes / kGiB); }

// The environment's word, then accelerate's.
int devices_asked(const World& world, const Options& options) {
  const auto launch = accelerate_launch(options);
  auto number = [&](const char* name) {
    auto text = world.environment(name);
    auto launched = launch.find(name);
    if (!text && launched != launch.end()) text = launched->second;
    return text ? std::max(1, std::atoi(text->c_str())) : 1;
  };
  return number("NPROC_PER_NODE") * number("NNODES");
}

bool makes_sense(Sharding sharding, int devices) {
  bool offload = sharding == Sharding::zero2_offload || sharding == Sharding::zero3_offload;
  return devices > 1 || sharding == Sharding::none || offload;
}

Json as_json(const MemoryPlan& plan) {
  return {{"weights", plan.weights},       {"reference", plan.reference},         {"gradients", plan.gradients},         {"optimizer", plan.optimizer}, {"activations", plan.activations},
          {"logits", plan.logits},         {"fragmentation", plan.fragmentation}, {"runtime", plan.runtime},     {"host", plan.host},
          {"total", plan.total()}};
}

Json whole_plan(const PlanJob& job, int devices) {
  Json layouts = Json::array();
  for (int count : kCounts)
    for (auto sharding : train::kShardings)
      if (makes_sense(sharding, count)) {
        auto plan = as_json(train::plan_memory(job.workload, sharding, count, job.place));
        plan["devices"] = count, plan["sharding"] = train::sharding_name(sharding);
        layouts.push_back(std::move(plan));
      }
  auto asked = as_json(train::plan_memory(job.workload, job.sharding, devices, job.place));
  asked["devices"] = devices, asked["sharding"] = train::sharding_name(job.sharding);
  return {{"model", job.model},
          {"parameters", job.workload.parameters},
          {"trained", job.workload.trained()},
          {"tokens", job.workload.tokens},
          {"asked", asked},
          {"layouts", layouts},
          {"assumptions", job.assumptions}};
}

void print_asked(const PlanJob& job, int devices) {
  auto plan = train::plan_memory(job.workload, job.sharding, devices, job.place);
  fmt::print("{}\n", styled(fmt::format("{}, {} device{}, sharding {}", job.model, devices, devices == 1 ? "" : "s", train::sharding_name(job.sharding)),
                            Style::bold));
  TextTable table({"GiB per device", ""});
  table.align_right(1);
  const std::pair<const char*, double> parts[] = {
      {"weights", plan.weights}, {"reference", plan.reference}, {"gradients", plan.gradients},         {"optimizer", plan.optimizer}, {"activations", plan.activations},
      {"logits", plan.logits},   {"fragmentation", plan.fragmentation}, {"the program", plan.runtime}};
  for (const auto& [name, bytes] : parts)
    if (bytes > 0) table.add({name, gib(bytes)});
  table.add({styled("in all", Style::bold), gib(plan.total())});
  if (plan.host > 0) table.add({"in main memory", gib(plan.host)});
  fmt::print("{}\n", table.str(100, 2));
  fmt::print("  {} parameters, {} of them train; {} tokens a micro-batch{}\n", format_count(static_cast<double>(job.workload.parameters)),
             format_count(static_cast<double>(job.workload.trained())), job.workload.tokens,
             job.workload.recompute ? "; activations are recomputed" : "");
  for (const auto& assumption : job.assumptions) fmt::print("  {}\n", styled(assumption, Style::dim));
}

void print_layouts(const PlanJob& job) {
  TextTable table({"GiB per device", "1 device", "2 devices", "4 devices", "8 devices"});
  for (size_t column = 1; column < 5; ++column) table.align_right(column);
  for (auto sharding : train::kShardings) {
    std::vector<std::string> cells{std::string(train::sharding_name(sharding))};
    for (int count : kCounts) cells.push_back(makes_sense(sharding, count) ? gib(train::plan_memory(job.workload, sharding, count, job.place).total()) : "");
    table.add(std::move(cells));
  }
  fmt::print("\n{}", table.str(100, 2));
}

// The least that a device takes: the fewest of them, and of the ways that fit the one that shards least.
std::string way_to_fit(const PlanJob& job, const train::PlannedDevice& device) {
  double room = (device.memory_gib - device.reserved_gib) * kGiB;
  for (int count : kCounts)
    for (auto sharding : train::kShardings) {
      if (!makes_sense(sharding, count)) continue;
      auto plan = train::plan_memory(job.workload, sharding, count, {});
      if (plan.total() <= room)
        return fmt::format("{} with {}: {} of {:.0f} GiB", count == 1 ? "one" : std::to_string(count), train::sharding_name(sharding), gib(plan.total()),
                           device.memory_gib);
    }
  return "not on 8 of them; shorten --max_length or use a smaller model";
}

void print_devices(const PlanJob& job) {
  TextTable table({"device", "fits on"});
  for (const auto& device : train::planned_devices()) table.add({std::string(device.name), way_to_fit(job, device)});
  fmt::print("\n{}", table.str(100, 2));
}

void print_time(const PlanJob& job, const Options& options, int devices) {
  if (!options.has("tokens_per_second")) return;
  double tokens = static_cast<double>(job.workload.tokens * job.workload.accumulation) * devices;
  double rate = options.real("tokens_per_second") * devices;
  fmt::print("\n  a step is {} tokens and takes {:.1f} s at {} tokens/s per device\n", format_count(tokens), tokens / rate,
             format_count(options.real("tokens_per_second")));
}

}  // namespace

int plan_command(const Options& options) {
  auto outer = real_world();
  auto line = read_command_line(options.words(), outer);
  auto world = with_environment(outer, line.environment);
  auto parsed = parse_invocation(line.invocation, world);
  if (!(parsed.options.verb() & kTraining))
    throw UserError(ExitCode::usage, fmt::format("{} does not train; plan looks at training commands", line.invocation.typed));
  world = with_environment(world, parsed.environment);
  check_environment_numbers(world);
  int devices = devices_asked(world, parsed.options);
  log::configure({.level = log::Level::warning});  // values that are worked out are part of the plan, not news
  decide_automatic(parsed.options, devices);
  auto job = plan_job(parsed.options);
  if (options.text("format") == "json") {
    fmt::print("{}\n", whole_plan(job, devices).dump(1));
    return 0;
  }
  print_asked(job, devices);
  print_layouts(job);
  print_devices(job);
  print_time(job, options, devices);
  return 0;
}

}  // namespace hone::cli
