#include "hone/cli/megatron/optimizer_options.h"

#include <algorithm>
#include <array>

#include "hone/base/error.h"

namespace hone::cli {
namespace {

using Given = std::map<std::string, GivenOption>;

constexpr std::string_view kSgdMomentum = "sgd_momentum";
constexpr std::array<std::string_view, 4> kOfMuon = {"muon_momentum", "muon_use_nesterov", "muon_num_ns_steps",
                                                     "muon_extra_scale_factor"};

double number(const Given& given, const char* name, double otherwise) {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : found->second.real_number();
}

void warn_of_other_optimizer(const Given& given, std::string_view name, const char* optimizer) {
  if (given.contains(std::string(name))) warn_once(fmt::format("--{} has no effect without --optimizer {}", name, optimizer));
}

// As in Megatron, data parallel ranks share the state of dist_muon, with or without a distributed optimizer; each
// keeps that of muon.
void add_muon(const Given& given, bool is_distributed, std::vector<GivenOption>& made) {
  const auto nesterov = given.find("muon_use_nesterov");
  made.push_back({"optim", {"muon"}});
  made.push_back({"optim_args",
                  {fmt::format("momentum={}, nesterov={}, ns_steps={}, scale={}", number(given, "muon_momentum", 0.9),
                               nesterov != given.end() && !nesterov->second.is_off(), number(given, "muon_num_ns_steps", 5),
                               number(given, "muon_extra_scale_factor", 1))}});
  std::erase_if(made, [&](const GivenOption& option) {
    if (option.name != "use_distributed_optimizer") return false;
    if (!option.is_off() && !is_distributed)
      warn_once(
          "--use_distributed_optimizer true has no effect with --optimizer muon, whose state every replica keeps: use dist_muon");
    return true;
  });
  made.push_back({"use_distributed_optimizer", {is_distributed ? "true" : "false"}});
}

}  // namespace

bool is_megatron_optimizer_option(std::string_view name) {
  return name == "optimizer" || name == kSgdMomentum || std::ranges::count(kOfMuon, name) > 0;
}

void add_megatron_optimizer(const Given& given, std::vector<GivenOption>& made) {
  const auto found = given.find("optimizer");
  const auto optimizer = found == given.end() ? "" : found->second.value();
  const bool is_muon = optimizer == "muon" || optimizer == "dist_muon";
  if (!optimizer.empty() && optimizer != "adam" && optimizer != "sgd" && !is_muon)
    throw UserError(ExitCode::usage, fmt::format("--optimizer is {}", optimizer), "expected adam, sgd, muon or dist_muon");
  if (optimizer != "sgd") warn_of_other_optimizer(given, kSgdMomentum, "sgd");
  if (is_muon) return add_muon(given, optimizer == "dist_muon", made);
  for (const auto name : kOfMuon) warn_of_other_optimizer(given, name, "muon");
  if (optimizer.empty()) return;
  made.push_back({"optim", {optimizer == "adam" ? "adamw_torch" : "sgd"}});
  if (optimizer == "sgd") made.push_back({"optim_args", {fmt::format("momentum={}", number(given, "sgd_momentum", 0.9))}});
}

}  // namespace hone::cli
