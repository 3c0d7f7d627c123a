#include "hone/model/loader.h"

#include "hone/base/log.h"
#include "hone/device/device.h"
#include "hone/io/hf_index.h"

namespace hone::model {
namespace {

constexpr size_t kNamesShown = 8;

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesShown)));
  auto text = fmt::format("{}", fmt::join(shown, ", "));
  return names.size() > kNamesShown ? text + fmt::format(" and {} more", names.size() - kNamesShown) : text;
}

// What older exports leave in a file although the model computes it.
bool is_harmless(const std::string& name, bool tied) {
  return name.ends_with("rotary_emb.inv_freq") || (tied && name == "lm_head.weight");
}

void check_names(const io::WeightFolder& weights, std::vector<NamedParameter>& wanted, const DecoderConfig& config, const std::string& folder) {
  std::vector<std::string> missing, misshapen, extra;
  std::set<std::string> known;
  for (const auto& parameter : wanted) {
    known.insert(parameter.name);
    const auto* entry = weights.find(parameter.name);
    if (!entry) {
      missing.push_back(parameter.name);
    } else if (parameter.value->sizes() != at::IntArrayRef(entry->shape)) {
      misshapen.push_back(fmt::format("{} is [{}] instead of [{}]", parameter.name, fmt::join(entry->shape, ", "), fmt::join(parameter.value->sizes(), ", ")));
    } else if (!at::isFloatingType(entry->dtype)) {
      misshapen.push_back(fmt::format("{} holds {}", parameter.name, c10::toString(entry->dtype)));
    }
  }
  for (const auto& [name, entry] : weights.entries())
    if (!known.contains(name) && !is_harmless(name, config.tied)) extra.push_back(name);
  if (!extra.empty()) log::warning("{}: {} tensors are not part of {}: {}", folder, extra.size(), config.architecture, some_of(extra));
  if (missing.empty() && misshapen.empty()) return;
  std::string found;
  if (!missing.empty()) found += fmt::format("{} tensors are missing: {}", missing.size(), some_of(missing));
  if (!misshapen.empty()) found += fmt::format("{}{} do not fit config.json: {}", found.empty() ? "" : "; ", misshapen.size(), some_of(misshapen));
  throw UserError(ExitCode::bad_checkpoint, folder + ": " + found, "config.json and the weights must be of the same model; fetch the folder again");
}

at::ScalarType stored_type(const io::WeightFolder& weights, const NamedParameter& first, const DecoderConfig& config) {
  return config.dtype.value_or(weights.find(first.name)->dtype);
}

}  // namespace

Decoder load_decoder(const std::filesystem::path& folder, const LoadOptions& options) {
  auto decoder = decoder_skeleton(read_config(folder));
  io::WeightFolder weights(folder);
  auto parameters = decoder.parameters();
  check_names(weights, parameters, decoder.config, folder.string());
  auto dtype = device::fitting_type(options.dtype.value_or(stored_type(weights, parameters.front(), decoder.config)), options.device);
  for (auto& parameter : parameters) *parameter.value = weights.tensor(parameter.name).to(options.device, dtype);
  if (decoder.config.tied) decoder.head.weight = decoder.embedding.weight;
  return decoder;
}

Decoder random_decoder(const DecoderConfig& config, uint64_t seed, const LoadOptions& options) {
  auto decoder = decoder_skeleton(config);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  auto dtype = device::fitting_type(options.dtype.value_or(config.dtype.value_or(at::kFloat)), options.device);
  for (auto& parameter : decoder.parameters()) {
    auto value = at::empty(parameter.value->sizes(), at::TensorOptions(at::kFloat));
    if (parameter.name.ends_with("norm.weight")) {
      value.fill_(1.0);
    } else if (parameter.name.ends_with(".bias")) {
      value.zero_();
    } else {
      value.normal_(0.0, config.initializer_range, generator);
    }
    *parameter.value = value.to(options.device, dtype);
  }
  if (config.tied) decoder.head.weight = decoder.embedding.weight;
  return decoder;
}

}  // namespace hone::model
