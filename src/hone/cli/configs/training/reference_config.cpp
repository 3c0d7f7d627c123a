#include "hone/cli/configs/training/reference_config.h"

#include "hone/cli/configs/model_checks.h"
#include "hone/hub/locate.h"
#include "hone/model/config.h"

namespace hone::cli {
namespace {

void refuse_reference(const Options& options, std::string_view method) {
  for (auto option : {"ref_model", "ref_adapters"})
    if (options.has(option))
      throw UserError(ExitCode::usage, fmt::format("{}: {} compares with no reference", options.display_name(option), method),
                      "leave it out");
}

int64_t reference_bits(const Options& options) {
  if (!options.has_option("ref_model_quantization_bit") || !options.has("ref_model_quantization_bit")) return 0;
  auto bits = options.integer("ref_model_quantization_bit");
  if (bits != 4 && bits != 8)
    throw UserError(ExitCode::usage, fmt::format("{} is {}", options.display_name("ref_model_quantization_bit"), bits),
                    "expected 4 or 8");
  return bits;
}

}  // namespace

void read_reference(const Options& options, bool needed, std::string_view method, train::TrainingJob& job) {
  auto& reference = job.preference.reference;
  reference.needed = needed;
  if (!needed) return refuse_reference(options, method);
  auto adapters = options.list("ref_adapters");
  if (adapters.size() > 1)
    throw UserError(ExitCode::usage, fmt::format("{} names {} adapters", options.display_name("ref_adapters"), adapters.size()),
                    "expected one");
  for (const auto& adapter : adapters) reference.adapters.push_back(hub::locate_model(adapter));
  reference.bits = reference_bits(options);
  if (!options.has("ref_model")) return;
  auto revision = options.has_option("ref_model_revision") ? options.text("ref_model_revision") : "";
  reference.folder = hub::locate_model(options.text("ref_model"), revision);
  const auto config = model::read_config(reference.folder);
  require_generative_model(reference.folder, config);
  auto own = model::read_config(job.model_folder, job.load.changes.config).vocab_size, other = config.vocab_size;
  if (own != other)
    throw UserError(ExitCode::usage,
                    fmt::format("{} knows {} tokens, the model {}", options.display_name("ref_model"), other, own),
                    "a reference has the model's own vocabulary");
}

}  // namespace hone::cli
