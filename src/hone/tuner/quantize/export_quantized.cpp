#include "hone/tuner/quantize/export_quantized.h"

#include <cmath>

#include "hone/base/error.h"
#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/model_file.h"
#include "hone/base/progress.h"
#include "hone/io/quantized/bitsandbytes.h"
#include "hone/io/quantized/fp8.h"
#include "hone/io/quantized/gptq_awq.h"
#include "hone/io/weight_folder.h"
#include "hone/model/decoder.h"
#include "hone/tuner/model_folder.h"
#include "hone/tuner/quantize/awq.h"
#include "hone/tuner/quantize/gptq.h"

namespace hone::tuner {
namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;  // the stored tensors of a layer, named without its path

const char* type_text(at::ScalarType type) { return type == at::kFloat ? "float32" : type == at::kHalf ? "float16" : "bfloat16"; }

NamedTensors stored_bitsandbytes(const Tensor& weight, const ops::WeightQuantization& how, at::ScalarType type) {
  HONE_CHECK(how.code != ops::QuantType::grouped, "bitsandbytes has no grouped codes");
  auto parts = ops::QuantizedTensor(weight, how).parts();
  if (how.code == ops::QuantType::int8)
    return {{"weight", parts.codes}, {"SCB", parts.scales.view({-1})}, {"weight_format", at::zeros({}, at::kByte)}};
  const char* code = how.code == ops::QuantType::nf4 ? "nf4" : "fp4";
  Json state{{"quant_type", code}, {"blocksize", 64}, {"dtype", type_text(type)}, {"shape", {weight.size(0), weight.size(1)}}};
  NamedTensors stored{
      {"weight", parts.codes.view({-1, 1})}, {"weight.absmax", parts.scales.view({-1})}, {"weight.quant_map", parts.table}};
  if (parts.outer.defined()) {
    stored.emplace_back("weight.nested_absmax", parts.outer.view({-1}));
    stored.emplace_back("weight.nested_quant_map", parts.scale_table);
    state["nested_blocksize"] = 256;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = parts.offset;
  }
  stored.emplace_back(fmt::format("weight.quant_state.bitsandbytes__{}", code), io::state_tensor(state));
  return stored;
}

// Quantizes the linear layers of a model block by block and keeps the stored tensors.
class Quantizer {
 public:
  Quantizer(model::CausalLM& model, const QuantizeConfig& how) : model_(model), how_(how) {}

  void run(std::vector<model::ForwardInput> texts) {
    at::NoGradGuard no_grad;
    if (how_.needs_calibration()) return run_calibrated(BlockwiseCalibration(model_, std::move(texts)));
    for (int64_t i = 0; i < model_.config().layers; ++i)
      for (auto* layer : model_.decoder().blocks[static_cast<size_t>(i)].module().linears()) {
        auto weight = layer->weight;
        if (how_.method == QuantFormat::fp8) {
          auto packed = io::pack_fp8(weight);
          keep(*layer, {{"weight", packed.codes}, {"weight_scale_inv", packed.scales}});
        } else {
          keep(*layer, stored_bitsandbytes(weight, how_.codes, how_.stored_type));
        }
      }
  }

  const std::map<std::string, NamedTensors>& layers() const { return stored_; }

  QuantizeReport report() const {
    return {stored_.size(), before_, after_, size_ > 0 ? std::sqrt(error_ / size_) : 0,
            size_ > 0 ? std::sqrt(nearest_ / size_) : 0};
  }

 private:
  void run_calibrated(BlockwiseCalibration walk) {
    ProgressBar bar("Quantize", walk.blocks());
    for (int64_t i = 0; i < walk.blocks(); ++i) {
      how_.method == QuantFormat::awq ? round_awq_block(walk) : round_gptq_block(walk);
      bar.update(i + 1);
    }
    bar.finish();
  }

  // Layers in the order of their data dependencies, so that each compensates for the errors before it.
  void round_gptq_block(BlockwiseCalibration& walk) {
    auto& block = walk.block();
    GptqConfig config{.grid = {.bits = how_.bits, .group = how_.group, .symmetric = true}};
    bool less_one = how_.method == QuantFormat::gptq;
    std::vector<std::vector<model::Linear*>> stages{{&block.attention.q, &block.attention.k, &block.attention.v},
                                                    {&block.attention.o},
                                                    {&block.mlp->gate, &block.mlp->up},
                                                    {&block.mlp->down}};
    for (const auto& stage : stages) {
      auto seen = walk.collect(stage);
      for (auto* layer : stage) {
        auto weight = layer->weight.to(at::kFloat);
        auto rounded = gptq_quantize(weight, seen[layer].hessian, config);
        note(weight, rounded.restored(), round_to_nearest(weight, config.grid).restored(), seen[layer].hessian);
        auto groups =
            at::arange(weight.size(1), at::TensorOptions(at::kInt)).floor_divide(config.grid.inputs_of_group(weight.size(1)));
        const auto stored = rounded.on_host();
        auto packed = io::pack_gptq(stored.codes, stored.scales, stored.zeros, groups, how_.bits, less_one);
        keep(*layer,
             {{"qweight", packed.qweight}, {"qzeros", packed.qzeros}, {"scales", packed.scales}, {"g_idx", packed.g_idx}});
        layer->weight = rounded.restored().to(layer->weight.scalar_type());
      }
    }
    walk.step();
  }

  // Scales are searched with the original block; its output stays the same except for rounding.
  void round_awq_block(BlockwiseCalibration& walk) {
    auto& block = walk.block();
    GroupQuantConfig grid{.bits = how_.bits, .group = how_.group};
    auto layers = block.module().linears();
    auto seen = walk.collect(layers);
    std::map<const model::Linear*, double> nearest;
    for (const auto* layer : layers) {
      auto weight = layer->weight.to(at::kFloat);
      nearest[layer] = output_size(round_to_nearest(weight, grid).restored() - weight, seen[layer].hessian);
    }
    walk.step();  // with the original weights; `block` is still the previous one
    auto scaled = apply_awq_scales(block, seen, grid);
    for (auto* layer : layers) {
      auto weight = layer->weight.to(at::kFloat);
      auto rounded = quantize_clipped(weight, scaled[layer], grid);
      error_ += output_size(rounded.restored() - weight, scaled[layer].hessian);
      nearest_ += nearest[layer];
      size_ += output_size(weight, scaled[layer].hessian);
      const auto stored = rounded.on_host();
      auto packed = io::pack_awq(stored.codes, stored.scales, stored.zeros);
      keep(*layer, {{"qweight", packed.qweight}, {"qzeros", packed.qzeros}, {"scales", packed.scales}});
      layer->weight = rounded.restored().to(layer->weight.scalar_type());
    }
  }

  static double output_size(const Tensor& weight, const Tensor& products) {
    return (at::matmul(weight, products) * weight).sum().item<double>();
  }

  void note(const Tensor& weight, const Tensor& rounded, const Tensor& nearest, const Tensor& products) {
    error_ += output_size(rounded - weight, products);
    nearest_ += output_size(nearest - weight, products);
    size_ += output_size(weight, products);
  }

  void keep(const model::Linear& layer, NamedTensors stored) {
    before_ += layer.weight.nbytes();
    for (auto& [name, tensor] : stored) {
      tensor = tensor.to(at::kCPU).contiguous();
      after_ += tensor.nbytes();
    }
    stored_[layer.name] = std::move(stored);
  }

  model::CausalLM& model_;
  const QuantizeConfig& how_;
  std::map<std::string, NamedTensors> stored_;
  size_t before_ = 0, after_ = 0;
  double error_ = 0, nearest_ = 0, size_ = 0;
};

Json quantization_config(const QuantizeConfig& how, at::ScalarType type) {
  switch (how.method) {
    case QuantFormat::gptq:
    case QuantFormat::gptq_v2:
      return {{"quant_method", "gptq"},
              {"bits", how.bits},
              {"group_size", how.group},
              {"desc_act", false},
              {"sym", true},
              {"damp_percent", 0.01},
              {"true_sequential", true},
              {"lm_head", false},
              {"checkpoint_format", how.method == QuantFormat::gptq ? "gptq" : "gptq_v2"},
              {"pack_dtype", "int32"}};
    case QuantFormat::awq:
      return {{"quant_method", "awq"}, {"bits", how.bits},  {"group_size", how.group},
              {"zero_point", true},    {"version", "gemm"}, {"modules_to_not_convert", {"lm_head"}}};
    case QuantFormat::fp8:
      return {{"quant_method", "fp8"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {io::kFp8Block, io::kFp8Block}},
              {"modules_to_not_convert", {"lm_head"}}};
    case QuantFormat::bitsandbytes:
      break;
  }
  bool eight = how.codes.code == ops::QuantType::int8;
  return {{"quant_method", "bitsandbytes"},
          {"load_in_8bit", eight},
          {"load_in_4bit", !eight},
          {"_load_in_8bit", eight},
          {"_load_in_4bit", !eight},
          {"bnb_4bit_quant_type", how.codes.code == ops::QuantType::fp4 ? "fp4" : "nf4"},
          {"bnb_4bit_use_double_quant", how.codes.double_quant},
          {"bnb_4bit_compute_dtype", type_text(type)},
          {"bnb_4bit_quant_storage", "uint8"},
          {"llm_int8_threshold", 6.0},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_skip_modules", {"lm_head"}}};
}

std::vector<io::TensorSource> stored_tensors(model::CausalLM& model, const std::map<std::string, NamedTensors>& layers,
                                             at::ScalarType type) {
  std::vector<io::TensorSource> all;
  for (const auto& [name, value] : model.parameters()) {
    auto path = name.substr(0, name.rfind('.'));
    auto rounded = name.ends_with(".weight") ? layers.find(path) : layers.end();
    if (rounded == layers.end())
      all.push_back(io::TensorSource::of(name, value->detach().to(at::kCPU), type));
    else
      for (const auto& [part, tensor] : rounded->second) all.push_back(io::TensorSource::of(path + "." + part, tensor));
  }
  append_carried(model, all);
  const auto& experts = model.config().experts;
  if (experts.count > 0) all = io::unstack_experts(std::move(all), experts.stored_as);
  return io::StoredNames::of(model.config().source).stored(std::move(all));
}

}  // namespace

void check_quantizable(const model::DecoderConfig& config, const QuantizeConfig& how) {
  auto refuse = [](const std::string& found, const std::string& hint) { throw UserError(ExitCode::usage, found, hint); };
  if (config.experts.count > 0 && how.method != QuantFormat::bitsandbytes)
    refuse("experts are not rounded to files of this kind",
           "use bnb, which quantizes the other layers; CPU inference quantizes experts too, with `quant_bits`");
  if (!how.needs_calibration()) return;
  if (config.linear_attention)
    refuse("layers of linear attention (gated delta nets) are not rounded to files of this kind", "use bnb or fp8");
  if (how.method == QuantFormat::awq && how.bits != 4)
    refuse(fmt::format("AWQ of {} bits", how.bits), "its format holds 4; use gptq for 8");
  if (how.bits != 2 && how.bits != 4 && how.bits != 8) refuse(fmt::format("GPTQ of {} bits", how.bits), "2, 4 or 8");
  int64_t heads = config.attention.heads * config.attention.head_dim,
          values = config.attention.kv_heads * config.attention.head_dim, in_word = 32 / how.bits;
  for (int64_t width : {config.hidden_size, heads, values, config.intermediate_size})
    if (width % in_word)
      refuse(fmt::format("a width of {} does not fill words of {} codes", width, in_word),
             "this model cannot be packed this way; use bnb or fp8");
  if (how.group <= 0) return;
  const auto fits = [&](int64_t group) {
    return config.hidden_size % group == 0 && heads % group == 0 && config.intermediate_size % group == 0;
  };
  for (int64_t inputs : {config.hidden_size, heads, config.intermediate_size})
    if (inputs % how.group)
      refuse(fmt::format("{} inputs are not a multiple of `group_size` {}", inputs, how.group),
             fits(64)   ? "`group_size` 64 divides them"
             : fits(32) ? "`group_size` 32 divides them"
                        : "`group_size` -1 keeps one scale per output");
}

QuantizeReport export_quantized(model::CausalLM& model, std::vector<model::ForwardInput> texts, const QuantizeConfig& how,
                                const fs::path& source, const fs::path& output) {
  check_quantizable(model.config(), how);
  if (fs::exists(output) && !fs::is_empty(output) && !how.exist_ok)
    throw UserError(ExitCode::usage, fmt::format("{} exists already", output.string()),
                    "choose another `output_dir`, or pass `exist_ok` true");
  Staging staging(output);
  Quantizer quantizer(model, how);
  quantizer.run(std::move(texts));
  io::write_sharded(staging.folder(), stored_tensors(model, quantizer.layers(), how.stored_type), how.max_shard_bytes);
  copy_small_files(source, staging.folder());
  auto config = read_model_file(source / "config.json");
  config.update(model.config().source);
  config["quantization_config"] = quantization_config(how, how.stored_type);
  config[config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype"] = type_text(how.stored_type);
  write_file_atomically(staging.folder() / "config.json", config.dump(2) + "\n");
  staging.publish();
  return quantizer.report();
}

}  // namespace hone::tuner
