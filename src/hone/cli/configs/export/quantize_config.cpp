#include "hone/cli/configs/export/quantize_config.h"

#include "hone/base/file.h"
#include "hone/base/log.h"
#include "hone/base/progress.h"
#include "hone/base/rng.h"
#include "hone/base/strings/counted.h"
#include "hone/base/strings/shell_quoted.h"
#include "hone/cli/arguments/data.h"
#include "hone/cli/arguments/generation.h"
#include "hone/cli/arguments/model.h"
#include "hone/cli/commands.h"
#include "hone/cli/configs/data_config.h"
#include "hone/cli/configs/model_config.h"
#include "hone/cli/configs/training/tuning_config.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/row_report.h"
#include "hone/model/pooling.h"
#include "hone/tuner/adapter.h"
#include "hone/tuner/quantize/export_quantized.h"

namespace hone::cli {
namespace {

using tuner::QuantFormat;
using TokenLists = std::vector<std::vector<text::TokenId>>;

constexpr int64_t kSwiftBlock = 2048;  // ms-swift's default length of a calibration text

bool asked_here(const AnyArg& option) { return option.has_value() && option.source() != Source::checkpoint; }

QuantFormat method_of(const ModelArguments& args) {
  if (args.uses_factory_dialect()) return QuantFormat::gptq;
  auto name = *args.quant_method;
  return name == "awq"       ? QuantFormat::awq
         : name == "bnb"     ? QuantFormat::bitsandbytes
         : name == "fp8"     ? QuantFormat::fp8
         : name == "gptq_v2" ? QuantFormat::gptq_v2
                             : QuantFormat::gptq;
}

// Group size 128 if it divides every input width, else smaller.
int64_t fitting_group(const model::DecoderConfig& model) {
  for (int64_t group : {128, 64, 32, 16})
    if (model.hidden_size % group == 0 && model.intermediate_size % group == 0 &&
        (model.attention.heads * model.attention.head_dim) % group == 0)
      return group;
  return -1;
}

tuner::QuantizeConfig quantize_config(const Options& options, const ExportOptions& job) {
  const ExportArguments export_args(options);
  const ModelArguments model_args(options);
  tuner::QuantizeConfig config{.method = method_of(model_args), .max_shard_bytes = job.max_shard_bytes, .exist_ok = job.exist_ok};
  if (uses_factory_dialect(options)) {
    config.bits = static_cast<int>(*export_args.export_quantization_bit);
    config.group = fitting_group(model::read_config(job.model));  // its format has no field for it
  } else {
    config.group = *export_args.group_size;
    if (config.method != QuantFormat::fp8) config.bits = std::stoi(model_args.quant_bits.required());
  }
  if (config.method == QuantFormat::bitsandbytes) {
    if (config.bits != 4 && config.bits != 8)
      throw UserError(ExitCode::usage, fmt::format("bitsandbytes of {} bits", config.bits), "4 or 8");
    auto code = config.bits == 8                           ? ops::QuantType::int8
                : *model_args.bnb_4bit_quant_type == "fp4" ? ops::QuantType::fp4
                                                           : ops::QuantType::nf4;
    config.codes = {.code = code, .double_quant = config.bits == 4 && *model_args.bnb_4bit_use_double_quant};
  }
  return config;
}

// As in ms-swift: rows rendered with the chat template, concatenated and split into blocks.
TokenLists blocks_of_rows(const Options& options, const data::Encoder& encoder) {
  const DataArguments args(options);
  auto opened = data::open_datasets(dataset_config(options));
  if (!opened.train) throw UserError(ExitCode::usage, "calibration needs rows", "name them with --dataset");
  auto length = static_cast<size_t>(args.max_length.value_or(kSwiftBlock));
  std::vector<text::TokenId> all;
  int64_t taken = 0;
  data::RowReport report(*args.strict);
  for (int64_t i = 0; i < opened.train->size() && taken < *ExportArguments(options).quant_n_samples; ++i) {
    auto row = opened.train->at(i);
    auto sample = row ? encoder.encode(*row) : Result<data::Sample>(Error{row.error()});
    if (!sample) {
      report.bad_row(sample.error());
      continue;
    }
    report.good_row();
    all.insert(all.end(), sample->ids.begin(), sample->ids.end());
    ++taken;
  }
  report.log_summary();
  if (all.empty()) throw UserError(ExitCode::bad_data, "the calibration data has no usable row\n" + report.summary());
  TokenLists blocks;
  for (size_t i = 0; i < std::max<size_t>(all.size() / length, 1); ++i)
    blocks.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i * length),
                        all.begin() + static_cast<std::ptrdiff_t>(std::min((i + 1) * length, all.size())));
  return blocks;
}

// As in LLaMA-Factory: a random span of each text that is long enough.
TokenLists stretches_of_texts(const Options& options, const text::Tokenizer& tokenizer) {
  const ExportArguments export_args(options);
  const ModelArguments model_args(options);
  data::DatasetConfig config;
  config.datasets = {export_args.export_quantization_dataset.required()};
  config.pretraining = true;
  config.data_seed = *model_args.seed;
  auto opened = data::open_datasets(config);
  auto length = static_cast<size_t>(*export_args.export_quantization_maxlen),
       most = static_cast<size_t>(*export_args.quant_n_samples);
  Rng rng(static_cast<uint64_t>(*model_args.seed), 0x9074ull);
  TokenLists stretches;
  for (int64_t i = 0; i < opened.train->size() && stretches.size() < most; ++i) {
    auto row = opened.train->at(i);
    if (!row) continue;
    auto ids = tokenizer.encode(row->messages.front().content);
    if (ids.size() < length) continue;
    auto first = ids.begin() + static_cast<std::ptrdiff_t>(rng.below(ids.size() - length + 1));
    stretches.emplace_back(first, first + static_cast<std::ptrdiff_t>(length));
  }
  if (stretches.empty())
    throw UserError(ExitCode::usage, fmt::format("no calibration text has {} tokens", length),
                    "lower export_quantization_maxlen");
  return stretches;
}

std::vector<model::ForwardInput> in_batches(const TokenLists& texts, int64_t at_once, at::Device device) {
  auto step = at_once > 0 ? static_cast<size_t>(at_once) : texts.size();
  std::vector<model::ForwardInput> batches;
  for (size_t i = 0; i < texts.size(); i += step)
    batches.push_back(model::packed_texts({texts.begin() + static_cast<std::ptrdiff_t>(i),
                                           texts.begin() + static_cast<std::ptrdiff_t>(std::min(i + step, texts.size()))},
                                          device));
  return batches;
}

std::unique_ptr<model::CausalLM> whole_model(const Options& options, const ExportOptions& job,
                                             const tuner::QuantizeConfig& config, const text::Tokenizer& tokenizer) {
  auto load = load_options(options, job.model);
  load.changes.compression.reset();
  load.changes.vocabulary = room_for(tokenizer, vocabulary_config(options));
  if (config.needs_calibration() && load.device.is_cpu())
    load.dtype = at::kFloat;  // full error compensation; the folder is float16
  auto model = model::CausalLM::load(job.model, load);
  for (size_t i = 0; i < job.adapters.size(); ++i) {
    tuner::AttachOptions attach;
    attach.name = fmt::format("adapter{}", i);
    tuner::merge_adapter(*model, tuner::load_adapter(*model, job.adapters[i], attach));
  }
  return model;
}

std::string suffix_of(const tuner::QuantizeConfig& config) {
  switch (config.method) {
    case QuantFormat::fp8:
      return "fp8";
    case QuantFormat::awq:
      return fmt::format("awq-int{}", config.bits);
    case QuantFormat::bitsandbytes:
      return fmt::format("bnb-int{}", config.bits);
    default:
      return fmt::format("gptq-int{}", config.bits);
  }
}

}  // namespace

bool quantizes(const Options& options) {
  return uses_factory_dialect(options) ? asked_here(ExportArguments(options).export_quantization_bit)
                                       : asked_here(ModelArguments(options).quant_method);
}

void require_method(const Options& options) {
  const ModelArguments args(options);
  if (uses_factory_dialect(options) || !asked_here(args.quant_bits) || asked_here(args.quant_method)) return;
  throw UserError(ExitCode::usage,
                  fmt::format("{} {} needs {}", args.quant_bits.flag(), *args.quant_bits, args.quant_method.flag()),
                  "expected gptq or awq (with calibration rows), or bnb");
}

void reject_quantized_base(const Options& options) {
  const ExportArguments export_args(options);
  const ModelArguments model_args(options);
  if (!uses_factory_dialect(options) || !asked_here(ModelArguments(options).quant_bits)) return;
  if (model_args.adapters.has_value())
    throw UserError(
        ExitCode::usage, fmt::format("{}: an adapter cannot be merged into a quantized model", model_args.quant_bits.flag()),
        fmt::format("leave it out: the adapter is merged into unquantized weights; {} then quantizes them in a separate run",
                    export_args.export_quantization_bit.flag()));
  log::warning("{} has no effect on what is exported; {} has", model_args.quant_bits.flag(),
               export_args.export_quantization_bit.flag());
}

std::filesystem::path export_quantized(const Options& options, const ExportOptions& job) {
  const ExportArguments args(options);
  if (!job.adapters.empty() && (uses_factory_dialect(options) || !job.merge_lora))
    throw UserError(
        ExitCode::usage, "adapters are given, but only a full model can be quantized",
        uses_factory_dialect(options) ? "merge them first: export without export_quantization_bit" : "pass --merge_lora true");
  auto config = quantize_config(options, job);
  tuner::check_quantizable(model::read_config(job.model, job.changes.config), config);
  auto tokenizer = text::load_tokenizer(job.model, new_tokens(options));
  TokenLists texts;
  if (config.needs_calibration() && uses_factory_dialect(options))
    texts = stretches_of_texts(options, *tokenizer);
  else if (config.needs_calibration())
    texts = blocks_of_rows(
        options, *data::Encoder::make(encode_config(options, kSwiftBlock), tokenizer, data::read_model_identity(job.model)));
  auto model = whole_model(options, job, config, *tokenizer);
  config.stored_type =
      dtype_option(ModelArguments(options).torch_dtype).value_or(config.needs_calibration() ? at::kHalf : model->dtype());
  auto source = job.adapters.empty() ? job.model : fs::path(job.adapters.back());
  auto output = job.output_dir.empty() ? fs::path(source.lexically_normal().string() + "-" + suffix_of(config)) : job.output_dir;
  auto at_once = args.quant_batch_size.exists() ? *args.quant_batch_size : 1;
  auto report = tuner::export_quantized(*model, in_batches(texts, at_once, model->device()), config, job.model, output);
  fmt::print("quantized {} of {}: {} became {}\n", counted(report.layers, "layer"), job.model.string(),
             format_bytes(static_cast<double>(report.bytes_before)), format_bytes(static_cast<double>(report.bytes_after)));
  if (report.nearest > 0)
    fmt::print("outputs of the layers differ by {:.2f} % over {}; rounding to the nearest would give {:.2f} %\n",
               100 * report.error, counted(texts.size(), "calibration text"), 100 * report.nearest);
  fmt::print("written to {}\nnext: {} {}\n", output.string(), job.next, shell_quoted(output.string()));
  return output;
}

}  // namespace hone::cli
