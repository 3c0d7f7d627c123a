#include "hone/model/loader.h"

#include <cmath>
#include <map>

#include "hone/base/error.h"
#include "hone/base/log.h"
#include "hone/device/device.h"
#include "hone/io/weight_folder.h"
#include "hone/model/expansion.h"
#include "hone/model/value_head.h"

namespace hone::model {
namespace {

constexpr size_t kNamesShown = 8;
// The head of a classifier, which a language model's folder lacks.
std::string scores_of(const DecoderConfig& config) { return config.names.classifier + ".weight"; }

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesShown)));
  auto text = fmt::format("{}", fmt::join(shown, ", "));
  return names.size() > kNamesShown ? text + fmt::format(" and {} more", names.size() - kNamesShown) : text;
}

// Computed buffers that older exports store in the file, and what the caller reads itself.
bool is_harmless(const std::string& name, const DecoderConfig& config, const ModelOverrides& changes) {
  return name.ends_with("rotary_emb.inv_freq") ||
         ((config.tie_word_embeddings || config.num_labels) && name == config.names.head + ".weight") ||
         (changes.has_own_score_layers && name.starts_with(config.names.classifier + "."));
}

void check_names(const io::WeightFolder& weights, std::vector<NamedParameter>& wanted, const DecoderConfig& config,
                 const std::string& folder, const ModelOverrides& changes) {
  std::vector<std::string> missing, misshapen, extra;
  std::set<std::string> known;
  for (const auto& parameter : wanted) {
    known.insert(parameter.name);
    const auto* entry = weights.find(parameter.name);
    if (!entry) {
      missing.push_back(parameter.name);
    } else if (parameter.value->sizes() != at::IntArrayRef(entry->shape)) {
      misshapen.push_back(fmt::format("{} is [{}] instead of [{}]", parameter.name, fmt::join(entry->shape, ", "),
                                      fmt::join(parameter.value->sizes(), ", ")));
    } else if (!at::isFloatingType(entry->dtype)) {
      misshapen.push_back(fmt::format("{} holds {}", parameter.name, c10::toString(entry->dtype)));
    }
  }
  for (const auto& [name, entry] : weights.entries())
    if (!known.contains(name) && !is_harmless(name, config, changes) && !config.is_carried(name)) extra.push_back(name);
  if (!extra.empty())
    log::warning("{}: {} tensors are not part of {}: {}", folder, extra.size(), config.architecture, some_of(extra));
  if (config.num_labels) std::erase(missing, scores_of(config));  // initialized from scratch, or loaded from an adapter
  if (!changes.init_strategy.empty() && !missing.empty()) {
    log::warning("{}: {} weights are missing and newly initialized: {}", folder, missing.size(), some_of(missing));
    missing.clear();
  }
  if (missing.empty() && misshapen.empty()) return;
  std::string found;
  if (!missing.empty()) found += fmt::format("{} tensors are missing: {}", missing.size(), some_of(missing));
  if (!misshapen.empty())
    found += fmt::format("{}{} do not fit config.json: {}", found.empty() ? "" : "; ", misshapen.size(), some_of(misshapen));
  throw UserError(ExitCode::bad_checkpoint, folder + ": " + found,
                  "config.json and the weights must be of the same model; fetch the folder again");
}

// torch.nn.init's functions by ms-swift's names and settings; vectors stay 0 if the function needs a matrix.
Tensor initial_weight(const std::string& way, const Tensor& shape) {
  auto value = at::empty(shape.sizes(), at::TensorOptions(at::kFloat));
  if (way == "uniform") return value.uniform_(-0.1, 0.1);
  if (way == "normal") return value.normal_(0, 0.01);
  if (way == "zero" || value.dim() < 2) return value.zero_();
  double in = static_cast<double>(value.size(1)), out = static_cast<double>(value.size(0));
  if (way == "xavier_uniform") return value.uniform_(-std::sqrt(6 / (in + out)), std::sqrt(6 / (in + out)));
  if (way == "xavier_normal") return value.normal_(0, std::sqrt(2 / (in + out)));
  double bound = std::sqrt(6 / (1.01 * out));  // leaky ReLU slope of 0.1
  if (way == "kaiming_uniform") return value.uniform_(-bound, bound);
  if (way == "kaiming_normal") return value.normal_(0, std::sqrt(2 / in));
  HONE_CHECK(way == "orthogonal", "{} is not a known initialization", way);
  bool wide = in > out;
  value.normal_(0, 1);
  auto [q, r] = at::linalg_qr(wide ? value.t() : value);
  q = q * at::sign(r.diagonal());
  return wide ? q.t().contiguous() : q.contiguous();
}

Tensor new_head(const Tensor& shape, const DecoderConfig& config, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::empty(shape.sizes(), at::TensorOptions(at::kFloat)).normal_(0, config.initializer_range, generator);
}

// A block runs on one device, and so do the final norm and the head (and the embedding if tied); every name of the device map
// must match a module.
void check_device_map(Decoder& decoder, const LoadOptions& options) {
  if (options.device_map.empty()) return;
  auto device_of = [&](const std::string& name) { return lookup_device(options.device_map, name, options.device); };
  auto together = [&](const std::string& first, const std::string& second) {
    if (device_of(first) != device_of(second))
      throw UserError(
          ExitCode::usage,
          fmt::format("{} would be on {} and {} on {}", first, device_of(first).str(), second, device_of(second).str()),
          "a decoder block is on one device, and the final norm with the head (with the embedding, where they share a weight)");
  };
  for (auto& block : decoder.blocks)
    for (auto& parameter : block.module().parameters()) together(block.input_norm.name + ".weight", parameter.name);
  together(decoder.norm.name + ".weight",
           (decoder.config.tie_word_embeddings ? decoder.embedding.name : decoder.head.name) + ".weight");
  for (const auto& [prefix, device] : options.device_map) {
    auto begins = [&](const NamedParameter& parameter) {
      return prefix.empty() || parameter.name == prefix || parameter.name.starts_with(prefix + ".");
    };
    if (std::ranges::none_of(decoder.tree().parameters(), begins) && prefix != decoder.head.name)
      throw UserError(
          ExitCode::usage,
          fmt::format("the device map names \"{}\", which is not a module of {}", prefix, decoder.config.architecture),
          fmt::format("{}, {} …, {} and {} are", decoder.embedding.name, decoder.config.names.block(0), decoder.norm.name,
                      decoder.head.name));
  }
}

at::ScalarType stored_type(const io::WeightFolder& weights, const NamedParameter& first, const DecoderConfig& config) {
  const auto* entry = weights.find(first.name);
  return config.dtype.value_or(entry ? entry->dtype : at::kFloat);
}

}  // namespace

Decoder load_decoder(const std::filesystem::path& folder, const LoadOptions& options) {
  auto decoder = decoder_skeleton(read_config(folder, options.changes.config));
  for (auto& block : decoder.blocks)
    if (block.moe) {
      block.moe->is_eager = options.changes.experts_one_by_one;
      block.moe->routes_in_float32 = options.changes.routers_in_float32;
    }
  const auto files = std::make_shared<const io::WeightFolder>(folder);
  const auto& weights = *files;
  if (!decoder.config.carried.empty()) decoder.files = files;
  check_device_map(decoder, options);
  auto parameters = decoder.tree().parameters();
  const auto& fill = options.changes.init_strategy;
  check_names(weights, parameters, decoder.config, folder.string(), options.changes);
  auto dtype =
      device::supported_dtype(options.dtype.value_or(stored_type(weights, parameters.front(), decoder.config)), options.device);
  std::map<const Tensor*, Linear*> compressible;
  if (options.changes.compression)
    for (auto& block : decoder.blocks)
      for (auto* linear : block.module().linears()) compressible[&linear->weight] = linear;
  std::set<const Tensor*> on_host;
  if (options.changes.experts_on_host)
    for (auto& block : decoder.blocks)
      if (block.moe) on_host.insert({&block.moe->gate_up.weight, &block.moe->down.weight});
  for (auto& parameter : parameters) {
    const auto device = on_host.contains(parameter.value) ? at::Device(at::kCPU)
                                                          : lookup_device(options.device_map, parameter.name, options.device);
    auto value = weights.find(parameter.name) ? weights.tensor(parameter.name)
                 : fill.empty() && parameter.name == scores_of(decoder.config)
                     ? new_head(*parameter.value, decoder.config, options.changes.head_seed)
                     : initial_weight(fill, *parameter.value);
    *parameter.value = value.to(device, dtype);
    if (auto found = compressible.find(parameter.value); found != compressible.end() && !device.is_meta())
      found->second->quantize_base(*options.changes.compression);
  }
  if (decoder.config.tie_word_embeddings) decoder.head.weight = decoder.embedding.weight;
  resize_token_embeddings(decoder, options.changes.vocabulary);
  if (options.changes.block_stride > 0) expand_blocks(decoder, options.changes.block_stride);
  if (options.changes.value_head) add_value_head(decoder, *options.changes.value_head, options.changes.head_seed);
  return decoder;
}

Decoder random_decoder(const DecoderConfig& config, uint64_t seed, const LoadOptions& options) {
  auto decoder = decoder_skeleton(config);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  auto dtype = device::supported_dtype(options.dtype.value_or(config.dtype.value_or(at::kFloat)), options.device);
  for (auto& parameter : decoder.tree().parameters()) {
    auto value = at::empty(parameter.value->sizes(), at::TensorOptions(at::kFloat));
    if (auto own = initial_delta_net_value(parameter.name, value.sizes(), config, generator); own.defined()) {
      value = own;
    } else if (parameter.value->dim() == 1 && parameter.name.ends_with(".weight")) {
      value.fill_(config.zero_centered_norms ? 0.0 : 1.0);
    } else if (parameter.name.ends_with(".bias")) {
      value.zero_();
    } else {
      value.normal_(0.0, config.initializer_range, generator);
    }
    *parameter.value = value.to(lookup_device(options.device_map, parameter.name, options.device), dtype);
  }
  if (config.tie_word_embeddings) decoder.head.weight = decoder.embedding.weight;
  resize_token_embeddings(decoder, options.changes.vocabulary);
  if (options.changes.value_head) add_value_head(decoder, *options.changes.value_head, options.changes.head_seed);
  return decoder;
}

}  // namespace hone::model
