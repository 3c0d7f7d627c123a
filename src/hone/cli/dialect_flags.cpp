#include "hone/cli/dialect_flags.h"

#include <algorithm>
#include <cctype>

namespace hone::cli {
namespace {

bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The front end's name of an option, provided that values mean the same under both names.
std::string_view name_in_dialect(std::string_view name, FrontEnd front_end, Verbs verb, const TypedNames& typed) {
  if (const auto found = typed.find(name); found != typed.end()) return found->second;
  for (const auto& option : options_table()) {
    if (option.name != name || !(option.verbs & verb)) continue;
    const auto shown = shown_name(option, front_end);
    const auto aliases = option.other_names();
    const auto alias = std::ranges::find(aliases, shown, &Alias::name);
    return alias != aliases.end() && alias->negated ? name : shown;
  }
  return name;
}

// Config fields whose name differs from the option that fills them. Of several options, the first that the command has applies.
constexpr std::pair<std::string_view, std::string_view> kFieldOptions[] = {
    {"async_lag", "async_generate"},
    {"correction.mode", "rollout_importance_sampling_mode"},
    {"correction.report", "log_rollout_offpolicy_metrics"},
    {"correction.threshold", "rollout_importance_sampling_threshold"},
    {"datasets", "dataset"},
    {"device", "devices"},
    {"eval", "eval_strategy"},
    {"eval_dtype", "bf16_full_eval"},
    {"kind", "tuner_type"},
    {"kl_target", "ppo_target"},
    {"in_loss", "sdar_loss_coef"},
    {"mu_peak", "chord_mu_peak"},
    {"mu_valley", "chord_mu_valley"},
    {"off_policy_mask_delta", "off_policy_sequence_mask_delta"},
    {"reference.sync", "sync_ref_model"},
    {"reweight", "advantage_reweight"},
    {"micro_batch_size", "per_device_train_batch_size"},
    {"save", "save_strategy"},
    {"sequence_parallel", "sequence_parallel_size"},
    {"servers.addresses", "vllm_server_base_url"},
    {"servers.sampling_only", "vllm_server_type"},
    {"stage", "rlhf_type"},
    {"stage", "stage"},
    {"task", "task_type"},
    {"teacher.folder", "teacher_model"},
    {"teacher.servers", "teacher_model_server"},
    {"teacher.stored", "teacher_logps"},
    {"teacher.tag_key", "teacher_tag_key"},
    {"topk", "gkd_logits_topk"},
    {"turns.scheduler", "multi_turn_scheduler"},
    {"warmup.ratio", "warmup_ratio"},
    {"warmup.steps", "warmup_steps"},
};

bool has_command_option(std::string_view name, FrontEnd front_end, Verbs verb) {
  return std::ranges::any_of(options_table(), [&](const Option& option) {
    return option.name == name && option.verbs & verb && belongs_to(option, front_end);
  });
}

// "" if no option fills the field. A command that inspects another command's options (plan, preview) shows those, and a front end
// without the option shows hone's name.
std::string_view option_of_field(std::string_view field, FrontEnd front_end, Verbs verb) {
  for (const auto verbs : {verb, kTraining, kEveryVerb}) {
    for (const auto& [known, option] : kFieldOptions)
      if (known == field && has_command_option(option, front_end, verbs)) return option;
    if (has_command_option(field, front_end, verbs)) return field;
  }
  const auto& table = options_table();
  return std::ranges::find(table, field, &Option::name) != table.end() ? field : "";
}

// "`beta` is 0" as "--beta is 0".
std::string with_options(std::string_view message, FrontEnd front_end, Verbs verb) {
  std::string out;
  for (;;) {
    const auto begin = message.find('`');
    const auto end = begin == message.npos ? begin : message.find('`', begin + 1);
    if (end == message.npos) return out += message;
    const auto option = option_of_field(message.substr(begin + 1, end - begin - 1), front_end, verb);
    out += message.substr(0, begin);
    out += option.empty() ? std::string(message.substr(begin, end + 1 - begin)) : fmt::format("--{}", option);
    message.remove_prefix(end + 1);
  }
}

// "lower --max_length" as "lower --cutoff_len".
std::string with_shown_names(std::string_view message, FrontEnd front_end, Verbs verb, const TypedNames& typed) {
  std::string out;
  while (!message.empty()) {
    const auto dashes = message.find("--");
    const auto begin = dashes == message.npos ? message.size() : dashes + 2;
    auto end = begin;
    while (end < message.size() && is_of_name(message[end])) ++end;
    const bool is_flag = dashes != message.npos && (dashes == 0 || !is_of_name(message[dashes - 1]));
    const auto name = message.substr(begin, end - begin);
    out += message.substr(0, begin);
    out += is_flag ? name_in_dialect(name, front_end, verb, typed) : name;
    message.remove_prefix(end);
  }
  return out;
}

}  // namespace

std::string in_dialect(std::string_view text, FrontEnd front_end, Verbs verb, const TypedNames& typed) {
  return with_shown_names(with_options(text, front_end, verb), front_end, verb, typed);
}

UserError in_dialect(const UserError& error, FrontEnd front_end, Verbs verb, const TypedNames& typed) {
  return {error.code(), in_dialect(std::string_view(error.what()), front_end, verb, typed),
          in_dialect(error.hint(), front_end, verb, typed)};
}

}  // namespace hone::cli
