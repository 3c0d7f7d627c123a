// Reads the "model" object of tokenizer.json; the large lists go directly from simdjson into the tables.
#pragma once
#include <simdjson.h>

#include "hone/base/json.h"
#include "hone/text/tokenizer/models/model.h"

namespace hone::text::tokenizer {

Result<std::unique_ptr<Model>> read_model(simdjson::dom::element json);

// A copy of a small part as hone's JSON type; fails if nested too deeply.
Result<Json> small_json(simdjson::dom::element element, int depth = 0);

}  // namespace hone::text::tokenizer
