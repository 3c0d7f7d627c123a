// The chat template of a model that is given none.
#pragma once
#include <string>

#include "hone/data/encode/encoder.h"

namespace hone::data {

// The template that ms-swift and LLaMA-Factory select for this model, "" if ambiguous: then the model's own is used.
std::string default_template(Dialect dialect, const ModelIdentity& model);

}  // namespace hone::data
