// `hone logits`: a model's logits, loss and gradients written to a file. For comparing with other implementations; hidden from
// help.
#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/arguments/tools.h"
#include "hone/cli/arguments/training.h"
#include "hone/cli/commands.h"
#include "hone/cli/hub_options.h"
#include "hone/device/device.h"
#include "hone/io/safetensors.h"
#include "hone/model/causal_lm.h"
#include "hone/model/inference/paged_input.h"
#include "hone/model/inference/paged_kv_cache.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/train/losses/router_losses.h"
#include "hone/tuner/adapter.h"
#include "hone/tuner/adapter_files.h"

namespace hone::cli {
namespace {

struct LogitsOptions {
  std::string model;                  // folder
  std::vector<std::string> adapters;  // PEFT folders, all active
  std::string new_adapter;            // an adapter_config.json: starts such an adapter …
  std::string save_adapter;           // … and writes it here
  std::string input;   // {"sequences": [[ids, …], …], "labels": optional, the same shape, -100 where there is none}
  std::string output;  // safetensors: logits [T, vocabulary], loss (sum), correct, count, "grad.<parameter>"
  std::string dtype;   // float32, bfloat16, float16; empty: the checkpoint's
  std::string device = "cpu";
  double router_balance = 0;  // the experts' balance times this is added to the loss
  bool grads = false;         // of every parameter, through the fused loss
  bool recompute = false;     // activation checkpointing
  bool cached = false;        // token by token through the cache
};

using Sequences = std::vector<std::vector<int64_t>>;
using Texts = std::vector<std::vector<text::TokenId>>;

template <class Lists>
Lists read_sequences(const Json& input, const char* field, const std::string& origin) try {
  return input.contains(field) ? input[field].get<Lists>() : Lists{};
} catch (const Json::exception&) {
  throw UserError(ExitCode::bad_data, fmt::format("{}: \"{}\" is not a list of lists of integers", origin, field));
}

model::LoadOptions load_options(const LogitsOptions& options) {
  model::LoadOptions load{.device = device::select_device(options.device)};
  if (options.dtype == "float32") load.dtype = at::kFloat;
  if (options.dtype == "bfloat16") load.dtype = at::kBFloat16;
  if (options.dtype == "float16") load.dtype = at::kHalf;
  if (!options.dtype.empty() && !load.dtype)
    throw UserError(ExitCode::usage, fmt::format("dtype \"{}\"; expected float32, bfloat16 or float16", options.dtype));
  return load;
}

// Labels are stored at the labeled token; the position before predicts it.
Tensor packed_targets(const Texts& texts, const Sequences& labels, at::Device device) {
  std::vector<int64_t> targets;
  for (size_t i = 0; i < texts.size(); ++i)
    for (size_t j = 0; j < texts[i].size(); ++j) {
      const bool last = j + 1 == texts[i].size();
      targets.push_back(last ? ops::kIgnoredTarget : labels.empty() ? texts[i][j + 1] : labels.at(i).at(j + 1));
    }
  return at::tensor(targets, at::kLong).to(device);
}

// "images": {"patches": a safetensors file, "grids": [[frames, height, width, of a video or not]], "rows": […], "positions":
// [[…], […], […]]}. Without positions they have one axis.
void add_images(const Json& asked, model::ForwardInput& input) {
  if (asked.is_null()) return;
  const io::SafetensorsFile file(asked.at("patches").get<std::string>());
  input.images.patches_pr = file.tensor("patches");
  for (const auto& grid : asked.at("grids"))
    input.images.grids.push_back({grid.at(0), grid.at(1), grid.at(2), grid.size() > 3 && grid.at(3).get<bool>()});
  const auto device = input.tokens_t.device();
  input.images.rows_n = at::tensor(asked.at("rows").get<std::vector<int64_t>>(), at::kLong).to(device);
  if (!asked.contains("positions")) return;
  TensorList axes;
  for (const auto& axis : asked.at("positions")) axes.push_back(at::tensor(axis.get<std::vector<int64_t>>(), at::kLong));
  input.positions_t = at::stack(axes).to(device);
}

// "audio": {"frames": a safetensors file, "lengths": […], "rows": […]}.
void add_audio(const Json& asked, model::ForwardInput& input) {
  if (asked.is_null()) return;
  const io::SafetensorsFile file(asked.at("frames").get<std::string>());
  input.audio = {file.tensor("frames"), asked.at("lengths").get<std::vector<int64_t>>(),
                 at::tensor(asked.at("rows").get<std::vector<int64_t>>(), at::kLong).to(input.tokens_t.device())};
}

// Prefills the first part of every sequence at once and decodes the rest token by token, in the order of the packed row.
Tensor cached_hidden(model::CausalLM& model, const Texts& sequences) {
  at::NoGradGuard no_grad;
  size_t longest = 0;
  for (const auto& sequence : sequences) longest = std::max(longest, sequence.size());
  constexpr int64_t kBlock = 4;  // small, so that short test sequences span several blocks
  auto per_sequence = (longest + kBlock - 1) / kBlock;
  model::PagedKvCache cache(model.config(), static_cast<int64_t>(sequences.size() * per_sequence), kBlock, model.dtype(),
                            model.device(), static_cast<int64_t>(sequences.size()));
  std::vector<std::vector<int32_t>> blocks(sequences.size(), std::vector<int32_t>(per_sequence));
  for (size_t i = 0; i < blocks.size(); ++i)
    std::iota(blocks[i].begin(), blocks[i].end(), static_cast<int32_t>(i * per_sequence));
  std::vector<TensorList> rows(sequences.size());
  for (size_t begin = 0; begin < longest;) {
    size_t end = begin == 0 ? (longest + 1) / 2 : begin + 1;
    std::vector<size_t> members;
    std::vector<model::PagedChunk> chunks;
    for (size_t i = 0; i < sequences.size(); ++i) {
      size_t stop = std::min(end, sequences[i].size());
      if (begin >= stop) continue;
      members.push_back(i);
      chunks.push_back({{sequences[i].data() + begin, stop - begin}, static_cast<int64_t>(begin), blocks[i]});
      chunks.back().slot = static_cast<int64_t>(i);
    }
    auto [input, metadata, slots] = model::paged_input(chunks, kBlock);
    cache.set_metadata(ops::moved(std::move(metadata), model.device()), slots);
    auto hidden_th = model.hidden_states(input.to(model.device()), &cache);
    for (size_t m = 0; m < members.size(); ++m)
      rows[members[m]].push_back(hidden_th.narrow(0, input.segments.offsets[m], input.segments.length(static_cast<int64_t>(m))));
    begin = end;
  }
  TensorList all;
  for (auto& parts : rows) all.push_back(at::cat(parts));
  return at::cat(all);
}

void attach_adapters(model::CausalLM& model, const LogitsOptions& options) {
  for (size_t i = 0; i < options.adapters.size(); ++i)
    tuner::load_adapter(model, options.adapters[i], {.name = fmt::format("adapter{}", i)});
  if (options.new_adapter.empty()) return;
  auto config = io::parse_adapter_config(read_file(options.new_adapter)).or_throw(ExitCode::bad_data, options.new_adapter);
  auto adapter = tuner::attach_adapter(model, config, {});
  if (!options.save_adapter.empty()) tuner::save_adapter(model, adapter, options.save_adapter);
}

int run_logits(const LogitsOptions& options) {
  auto json = parse_json(read_file(options.input)).or_throw(ExitCode::bad_data, options.input);
  auto sequences = read_sequences<Texts>(json, "sequences", options.input);
  auto labels = read_sequences<Sequences>(json, "labels", options.input);
  auto model = model::CausalLM::load(options.model, load_options(options));
  model->set_training(options.grads);
  model::apply_activation_checkpointing(*model, options.recompute ? model::Recompute::block : model::Recompute::none);
  attach_adapters(*model, options);
  for (auto& parameter : model->parameters()) parameter.value->requires_grad_(options.grads);
  for (auto& parameter : model->tree().adapter_parameters()) parameter.value->requires_grad_(options.grads);

  auto targets_t = packed_targets(sequences, labels, model->device());
  TensorList router_logits;
  auto input = model::packed_texts(sequences, model->device());
  add_images(json.value("images", Json()), input);
  add_audio(json.value("audio", Json()), input);
  auto hidden_th = options.cached ? cached_hidden(*model, sequences) : model->hidden_states(input, nullptr, &router_logits);
  const auto& head = model->head();
  auto loss = ops::linear_cross_entropy(hidden_th, head.weight, head.bias, targets_t,
                                        {.adapters = head.adapters, .training = model->training()});
  if (options.router_balance > 0 && !router_logits.empty())
    loss.sum =
        loss.sum + options.router_balance *
                       train::load_balancing_loss(router_logits, model->config().experts.num_experts_per_tok, loss.sum.device());
  std::vector<io::TensorSource> tensors{io::TensorSource::of("logits", model->logits(hidden_th.detach()).to(at::kFloat)),
                                        io::TensorSource::of("loss", loss.sum), io::TensorSource::of("correct", loss.correct),
                                        io::TensorSource::of("count", loss.count)};
  if (options.grads) {
    loss.sum.backward();
    for (auto& parameter : model->parameters())  // without media the encoder has no gradients
      if (parameter.value->grad().defined())
        tensors.push_back(io::TensorSource::of("grad." + parameter.name, parameter.value->grad()));
    for (auto& parameter : model->tree().adapter_parameters())
      tensors.push_back(io::TensorSource::of("grad." + parameter.name, parameter.value->grad()));
  }
  io::write_safetensors(options.output, tensors);
  return 0;
}

}  // namespace

int logits_command(const Options& options) {
  const ModelArguments model_args(options);
  const ToolArguments tool_args(options);
  return run_logits(LogitsOptions{.model = model_folder(options).string(),
                                  .adapters = *model_args.adapters,
                                  .new_adapter = *tool_args.new_adapter,
                                  .save_adapter = *tool_args.save_adapter,
                                  .input = tool_args.input.required(),
                                  .output = tool_args.output.required(),
                                  .dtype = model_args.torch_dtype.value_or(""),
                                  .device = model_args.devices.value_or("cpu"),
                                  .router_balance = *TrainingArguments(options).router_aux_loss_coef,
                                  .grads = *tool_args.grads,
                                  .recompute = *tool_args.recompute,
                                  .cached = *tool_args.cached});
}

}  // namespace hone::cli
