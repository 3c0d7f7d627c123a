#include "hone/cli/megatron.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/parallel/launch/supervisor.h"

namespace hone::cli {
namespace {

struct GivenOption {
  std::string name;
  std::vector<std::string> values;

  std::string value() const { return values.empty() ? "true" : values.front(); }
};

std::vector<GivenOption> read_given(const std::vector<std::string>& words) {
  std::vector<GivenOption> list;
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with("--") || words[i].size() == 2) {
      if (list.empty())
        throw UserError(ExitCode::usage, fmt::format("megatron {} begins with \"{}\"", words[0], words[i]),
                        "give options, as in --model …; files of options are read by swift sft");
      list.back().values.push_back(words[i]);
      continue;
    }
    auto name = words[i].substr(2);
    const auto equals = name.find('=');
    GivenOption option{name.substr(0, equals), {}};
    if (equals != std::string::npos) option.values.push_back(name.substr(equals + 1));
    std::ranges::replace(option.name, '-', '_');
    list.push_back(std::move(option));
  }
  return list;
}

int64_t whole_number(const GivenOption& option) {
  int64_t number = 0;
  const auto text = option.value();
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size() || number < 1)
    throw UserError(ExitCode::usage, fmt::format("--{} is \"{}\"", option.name, text), "expected a whole number of at least 1");
  return number;
}

// Said once, by whoever starts the ranks.
void remark(const std::string& text) {
  if (!parallel::is_supervised()) log::warning("{}", text);
}

// The line under way: options by the names of `swift sft`, in the order given.
class MegatronLine {
 public:
  MegatronLine(std::vector<GivenOption> given, int processes) : given_(std::move(given)), processes_(processes) {}

  std::vector<std::string> words(const std::string& command) {
    for (const auto& option : given_) translate(option);
    set_batches();
    set_schedule();
    set_recomputation();
    set_experts();
    set_defaults(command);
    std::vector<std::string> line{command};
    for (const auto& [name, values] : made_) {
      line.push_back("--" + name);
      line.insert(line.end(), values.begin(), values.end());
    }
    return line;
  }

 private:
  void translate(const GivenOption& option) {
    static constexpr std::string_view kHandled[] = {
        "global_batch_size",     "min_lr",           "lr_decay_style",      "optimizer",
        "recompute_granularity", "recompute_method", "recompute_num_layers"};
    const auto known = std::ranges::find(megatron_options(), option.name, &MegatronOption::name);
    if (std::ranges::count(kHandled, option.name)) {
      handled_[option.name] = option;
    } else if (known == megatron_options().end()) {
      made_.push_back(option);  // ms-swift's own: data, templates, models, tuners
    } else if (known->fate == MegatronOption::Fate::renamed) {
      made_.push_back({std::string(known->text), option.values});
    } else if (known->fate == MegatronOption::Fate::accepted) {
      remark(fmt::format("--{} has no effect: {}", option.name, known->text));
    } else if (!is_neutral(*known, option.value())) {
      throw UserError(ExitCode::usage, fmt::format("--{} {}: {}", option.name, option.value(), known->text));
    }
  }

  static bool is_neutral(const MegatronOption& option, const std::string& value) {
    auto lower = value;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (size_t begin = 0; begin <= option.neutral.size() && !option.neutral.empty();) {
      const auto end = std::min(option.neutral.find('|', begin), option.neutral.size());
      if (option.neutral.substr(begin, end - begin) == lower) return true;
      begin = end + 1;
    }
    return false;
  }

  bool has(std::string_view name) const { return std::ranges::count(made_, name, &GivenOption::name) > 0; }
  int64_t number(const std::string& name, int64_t otherwise) const {
    const auto found = std::ranges::find(made_, name, &GivenOption::name);
    return found == made_.end() ? otherwise : whole_number(*found);
  }
  void add(std::string name, std::string value) { made_.push_back({std::move(name), {std::move(value)}}); }

  // The global batch comes in portions of one micro-batch on each data parallel rank.
  void set_batches() {
    const auto given = handled_.find("global_batch_size");
    const int64_t global = given == handled_.end() ? 16 : whole_number(given->second);
    const int64_t micro = number("per_device_train_batch_size", 1);
    const int64_t model =
        number("tensor_parallel_size", 1) * number("pipeline_parallel_size", 1) * number("context_parallel_size", 1);
    const int64_t copies = std::max<int64_t>(processes_ / model, 1);
    if (global % (micro * copies) != 0)
      throw UserError(
          ExitCode::usage,
          fmt::format("--global_batch_size {} is not a multiple of --micro_batch_size {} times {} data parallel ranks", global,
                      micro, copies),
          fmt::format("choose a multiple of {}", micro * copies));
    if (!has("per_device_train_batch_size")) add("per_device_train_batch_size", "1");
    add("gradient_accumulation_steps", std::to_string(global / (micro * copies)));
    if (!has("max_steps") && !has("num_train_epochs"))
      throw UserError(ExitCode::usage, "megatron needs to know how long to train", "give --num_train_epochs or --train_iters");
  }

  void set_schedule() {
    static const std::map<std::string, std::string> kStyles = {{"cosine", "cosine"},
                                                               {"linear", "linear"},
                                                               {"constant", "constant_with_warmup"},
                                                               {"inverse-square-root", "inverse_sqrt"}};
    const auto style = handled_.contains("lr_decay_style") ? handled_["lr_decay_style"].value() : "cosine";
    const auto found = kStyles.find(style);
    if (found == kStyles.end())
      throw UserError(ExitCode::usage, fmt::format("--lr_decay_style is {}", style),
                      "expected cosine, linear, constant or inverse-square-root");
    const auto lowest = handled_.contains("min_lr") ? handled_["min_lr"].value() : "0";
    const bool falls_to_zero = lowest.find_first_not_of("0.") == std::string::npos;
    if (!falls_to_zero && style != "cosine")
      throw UserError(ExitCode::usage, fmt::format("--min_lr {} with --lr_decay_style {}", lowest, style),
                      "a lowest rate goes with cosine");
    add("lr_scheduler_type", falls_to_zero ? found->second : "cosine_with_min_lr");
    if (!falls_to_zero) add("lr_scheduler_kwargs", fmt::format("{{\"min_lr\": {}}}", lowest));
    if (!handled_.contains("optimizer")) return;
    const auto optimizer = handled_["optimizer"].value();
    if (optimizer != "adam" && optimizer != "sgd")
      throw UserError(ExitCode::usage, fmt::format("--optimizer is {}", optimizer),
                      "expected adam or sgd; muon needs whole matrices, which tensor parallelism cuts");
    add("optim", optimizer == "adam" ? "adamw_torch" : "sgd");
  }

  // Megatron's selective recomputation is what attention does here anyway.
  void set_recomputation() {
    const auto granularity = handled_.contains("recompute_granularity") ? handled_["recompute_granularity"].value() : "selective";
    const bool uniform = !handled_.contains("recompute_method") || handled_["recompute_method"].value() == "uniform";
    const bool single = !handled_.contains("recompute_num_layers") || handled_["recompute_num_layers"].value() == "1";
    if (granularity == "full" && (!uniform || !single))
      throw UserError(ExitCode::usage, "--recompute_granularity full with portions of several blocks",
                      "use --recompute_method uniform --recompute_num_layers 1: each block is run again by itself");
    if (!has("gradient_checkpointing")) add("gradient_checkpointing", granularity == "full" ? "true" : "false");
  }

  // ms-swift leaves experts whole unless told otherwise.
  void set_experts() {
    if (!has("expert_tensor_parallel_size")) add("expert_tensor_parallel_size", "1");
  }

  // Where Megatron's differ from those of `swift sft`.
  void set_defaults(const std::string& command) {
    const std::pair<const char*, const char*> defaults[] = {
        {"tuner_type", "full"}, {"weight_decay", "0.1"}, {"adam_beta2", "0.95"}, {"warmup_ratio", "0"}};
    for (const auto& [name, value] : defaults)
      if (!has(name) && !(name == std::string_view("warmup_ratio") && has("warmup_steps"))) add(name, value);
    if (has("output_dir") || command == "export") return;
    const auto model = std::ranges::find(made_, "model", &GivenOption::name);
    if (model != made_.end()) add("output_dir", (fs::path("megatron_output") / fs::path(model->value()).filename()).string());
  }

  std::vector<GivenOption> given_;
  int processes_;
  std::vector<GivenOption> made_;
  std::map<std::string, GivenOption> handled_;
};

}  // namespace

std::vector<std::string> unwrap_megatron(const std::vector<std::string>& words, int processes) {
  if (words.empty() || words[0].starts_with("-")) return words;
  if (words[0] == "rlhf")
    throw UserError(ExitCode::usage, "megatron rlhf is not in this version",
                    "swift rlhf trains these methods with --deepspeed zero3");
  if (words[0] == "export")
    throw UserError(ExitCode::usage, "megatron export has nothing to do: checkpoints are the hub's files already",
                    "merge an adapter with swift export --adapters … --merge_lora true");
  if (words[0] != "sft" && words[0] != "pt") return words;
  if (words.size() == 2 && (words[1] == "--help" || words[1] == "-h")) return words;
  return MegatronLine(read_given(words), processes).words(words[0]);
}

}  // namespace hone::cli
