// Whether a command fits its devices before it runs: yes or no, the memory breakdown, and alternative configurations.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/strings/counted.h"
#include "hone/base/terminal.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/commands/plan_device.h"
#include "hone/cli/commands/plan_inference.h"
#include "hone/cli/commands/plan_layouts.h"
#include "hone/cli/commands/plan_sharding.h"
#include "hone/cli/configs/plan_config.h"
#include "hone/cli/configs/training/accelerate_config.h"
#include "hone/cli/hub_options.h"
#include "hone/cli/parsing/command_line.h"
#include "hone/cli/parsing/environment.h"
#include "hone/cli/parsing/resolve_auto.h"
#include "hone/cli/text_table.h"

namespace hone::cli {
namespace {

using terminal::Style;
using terminal::styled;
using train::MemoryPlan;
using train::Sharding;

constexpr std::string_view kSmaller = "shorten --max_length, lower the batch size, or use a smaller model";

// The environment takes precedence over accelerate's config.
train::Cluster cluster_asked(const SystemAccess& system, const Options& options) {
  const auto launch = accelerate_launch(options);
  auto number = [&](const char* name) {
    auto text = system.environment(name);
    auto launched = launch.find(name);
    if (!text && launched != launch.end()) text = launched->second;
    return text ? std::max(1, std::atoi(text->c_str())) : 1;
  };
  const int per_node = number("NPROC_PER_NODE"), nodes = number("NNODES");
  return {.devices = per_node * nodes, .per_node = per_node};
}

// `fits_in_layout`: tensor, pipeline or expert parallelism makes it fit.
void print_fit(const ShardingPlanner& planner, const ShardingLayout& asked, bool fits_in_layout) {
  const auto& target = planner.target();
  fmt::print("{}\n", fit_line(asked.fits, asked.devices, target, asked.memory.total()));
  auto text = fmt::format("{}, {}, sharding {}", planner.job().model, counted(asked.devices, "device"),
                          train::sharding_name(asked.sharding));
  if (asked.memory.host > 0) text += fmt::format("; {} GiB of host memory a node", gib(asked.host()));
  if (asked.memory.cache > 0) text += fmt::format("; KV cache {} GiB", gib(asked.memory.cache));
  if (!target.device.name.starts_with("CPU"))
    text += fmt::format("; {} of {} tokens takes about {}", asked.memory.cache > 0 ? "training on a batch" : "a step",
                        format_count(planner.tokens_of_step(asked.devices)), seconds_text(asked.time.seconds()));
  if (asked.memory.cache > 0) text += ", to which generating its completions is added";
  print_note(text);
  if (asked.fits) return;
  auto least = planner.least_on(target.device, asked.devices);
  print_note(least ? fmt::format("it would on {} with {}: {} GiB a device", least->devices, train::sharding_name(least->sharding),
                                 gib(least->memory.total()))
                   : fmt::format("nor on {} of them with data parallelism and sharding alone: {}",
                                 std::max(asked.devices, std::end(kDeviceCounts)[-1]),
                                 fits_in_layout ? "the layouts listed below fit" : kSmaller));
}

// The largest MAX_PIXELS with which the command still fits; 0 if none does.
int64_t pixels_that_fit(const PlanJob& job, const TargetDevice& target, const ShardingLayout& asked) {
  auto fits = [&](int64_t tokens) {
    auto smaller = job;
    smaller.workload.image_tokens = tokens;
    return ShardingPlanner(smaller, target, 0).layout(asked.sharding, asked.devices).fits;
  };
  int64_t low = 0, high = job.workload.image_tokens + 1;  // low fits, high does not
  if (!fits(1)) return 0;
  while (high - low > 1) (fits((low + high) / 2) ? low : high) = (low + high) / 2;
  return low * job.token_pixels;
}

void print_images(const ShardingPlanner& planner, const ShardingLayout& asked) {
  const auto& job = planner.job();
  if (asked.fits || job.token_pixels == 0) return;
  if (const auto pixels = pixels_that_fit(job, planner.target(), asked); pixels > 0)
    print_note(
        fmt::format("with smaller images it would: {}{} ({} tokens each)", job.pixel_setting, pixels, pixels / job.token_pixels));
}

void print_parts(const ShardingPlanner& planner, const ShardingLayout& asked) {
  const auto& plan = asked.memory;
  const auto& work = planner.job().workload;
  TextTable table({"GiB per device", ""});
  table.align_right(1);
  const std::pair<const char*, double> parts[] = {{"weights", plan.weights},
                                                  {"reference", plan.reference},
                                                  {"gradients", plan.gradients},
                                                  {"optimizer", plan.optimizer},
                                                  {"activations", plan.activations},
                                                  {"logits", plan.logits},
                                                  {"fragmentation", plan.fragmentation},
                                                  {work.engine_sleeps ? "KV cache beyond training" : "KV cache", plan.kv_cache},
                                                  {"the program", plan.runtime}};
  for (const auto& [name, bytes] : parts)
    if (bytes > 0) table.add({name, gib(bytes)});
  table.add({styled("in all", Style::bold), gib(plan.total())});
  if (plan.host > 0) table.add({"host memory for it", gib(plan.host)});
  fmt::print("{}\n", table.str(plan_width(), 2));
  print_note(fmt::format("{} parameters, {} of them train; {} tokens a micro-batch{}",
                         format_count(static_cast<double>(work.parameters)), format_count(static_cast<double>(work.trained())),
                         work.tokens, work.recompute ? "; activations are recomputed" : ""));
  for (const auto& assumption : planner.job().assumptions) print_note(assumption, Style::dim);
}

void print_alternatives(const ShardingPlanner& planner, int devices) {
  const auto rows = planner.alternatives(devices);
  auto any = [&](auto bytes) {
    return std::ranges::any_of(rows, [&](const ShardingLayout& each) { return bytes(each.memory) > 0; });
  };
  const bool generates = any([](const MemoryPlan& plan) { return plan.cache; });
  const bool offloads = any([](const MemoryPlan& plan) { return plan.host; });
  const bool narrow = plan_width() < 80;  // without columns that follow from the step's time
  std::vector<std::string> titles{"devices", "sharding", "GiB each"};
  if (offloads) titles.emplace_back(narrow ? "host GiB" : "host GiB a node");
  if (generates) titles.emplace_back("KV cache");
  titles.emplace_back("step");
  if (!narrow) titles.emplace_back("tokens/s");
  titles.emplace_back("fits");
  TextTable table(titles);
  for (size_t column = 0; column + 1 < titles.size(); ++column)
    if (column != 1) table.align_right(column);
  for (const auto& each : rows) {
    std::vector<std::string> row{std::to_string(each.devices), std::string(train::sharding_name(each.sharding)),
                                 gib(each.memory.total())};
    if (offloads) row.push_back(each.memory.host > 0 ? gib(each.host()) : "");
    if (generates) row.push_back(gib(each.memory.cache));
    row.push_back(seconds_text(each.time.seconds()));
    if (!narrow) row.push_back(format_count(std::round(planner.tokens_of_step(each.devices) / each.time.seconds())));
    row.push_back(each.fits ? "yes" : "no");
    table.add(row);
  }
  fmt::print("\n{}", table.str(plan_width(), 2));
  if (planner.target().assumed)
    print_note(fmt::format("planned for {}; --target_device names another", planner.target().name), Style::dim);
  print_note("times are estimates; --tokens_per_second takes a rate that was measured on one device", Style::dim);
}

void print_devices(const ShardingPlanner& planner) {
  bool fits_all = true;
  TextTable table({"device", "fits on"});
  for (const auto& device : train::planned_devices()) {
    auto least = planner.least_on(device);
    fits_all &= least.has_value();
    table.add({std::string(device.name),
               least ? fmt::format("{}{}: {} of {:.0f} GiB", least->devices == 1 ? "one" : std::to_string(least->devices),
                                   least->sharding == train::Sharding::none
                                       ? ""
                                       : fmt::format(" with {}", train::sharding_name(least->sharding)),
                                   gib(least->memory.total()), device.memory_gib)
                     : "not on 8 of them"});
  }
  fmt::print("\n{}", table.str(plan_width(), 2));
  if (!fits_all) print_note(fmt::format("where it does not fit, {}", kSmaller), Style::dim);
}

int plan_inference_command(const Options& command, const Options& options) {
  auto job = inference_plan_job(command);
  auto target = target_device(options, false);
  if (*ToolArguments(options).format == "json")
    fmt::print("{}\n", inference_plan_json(job, target).dump(1));
  else
    print_inference_plan(job, target);
  return 0;
}

}  // namespace

int plan_command(const Options& options) {
  const ToolArguments args(options);
  auto outer = system_access();
  auto line = read_command_line(options.positional(), outer, options.front_end());
  auto system = with_environment(outer, line.environment);
  auto parsed = parse_invocation(line.invocation, system);
  for (const auto& [name, value] : line.environment) ::setenv(name.c_str(), value.c_str(), 1);  // MAX_PIXELS and similar
  const auto verb = parsed.options.verb();
  if (!(verb & (kTraining | kInfer | kDeploy)))
    throw UserError(ExitCode::usage, fmt::format("{} is neither a training nor an inference command", line.invocation.typed),
                    "plan supports sft, pt, rlhf, train, infer, deploy and app");
  system = with_environment(system, parsed.environment);
  check_environment_numbers(system);
  auto cluster = cluster_asked(system, parsed.options);
  cluster.network_gb_per_s = *args.network_gb_per_s;
  const int devices = cluster.devices;
  log::configure({.level = log::Level::warning});  // resolved values are part of the plan and not reported separately
  if (!(verb & kTraining)) resolve_folders(parsed.options);
  resolve_auto_values(parsed.options, devices);
  if (!(verb & kTraining)) return plan_inference_command(parsed.options, options);
  auto job = plan_job(parsed.options);
  auto target = target_device(options, job.place.cpu);
  target.device.link_gb_per_s = args.link_gb_per_s.value_or(target.device.link_gb_per_s);
  const ShardingPlanner planner(job, target, args.tokens_per_second.value_or(0));
  const LayoutPlanner layouts(job, target, cluster, args.tokens_per_second.value_or(0));
  const bool has_layouts = devices > 1 && !job.place.cpu && verb & (kSft | kPt);
  if (*args.format == "json") {
    auto plan = planner.json(devices);
    if (has_layouts) plan.update(layouts.json());
    fmt::print("{}\n", plan.dump(1));
    return 0;
  }
  if (has_layouts && layouts.is_asked()) {
    layouts.print_asked();
    layouts.print_fastest();
    return 0;
  }
  auto asked = planner.layout(job.sharding, devices);
  print_fit(planner, asked, has_layouts && layouts.fits());
  print_images(planner, asked);
  print_parts(planner, asked);
  print_alternatives(planner, devices);
  if (has_layouts) layouts.print_fastest();
  print_devices(planner);
  return 0;
}

}  // namespace hone::cli
