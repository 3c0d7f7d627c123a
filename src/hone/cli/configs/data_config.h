// From options to the data pipeline's config. The only code that reads data options.
#pragma once
#include <filesystem>
#include <string>

#include "hone/cli/options.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/encode/encoder.h"

namespace hone::cli {

// The template of the rows: the requested one, or the one selected by the model's name; "" is the model's own ("jinja", if its
// name would select another).
std::string resolved_template(const std::string& asked, data::Dialect dialect, const std::filesystem::path& model);
std::string resolved_template(const Options& options, const std::filesystem::path& model);
bool uses_factory_dialect(const Options& options);  // LLaMA-Factory's rules for rows, templates and truncation
data::DatasetConfig dataset_config(const Options& options);
// `length_limit` is what max_length falls back to: the model's own context, 0 when unknown.
data::EncodeConfig encode_config(const Options& options, int64_t length_limit);

}  // namespace hone::cli
