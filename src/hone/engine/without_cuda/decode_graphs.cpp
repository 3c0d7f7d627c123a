#include "hone/engine/decode_graphs.h"

namespace hone::engine {

struct DecodeGraphs::Impl {};

DecodeGraphs::DecodeGraphs(model::CausalLM&, const DecodeGraphsConfig&) {}
DecodeGraphs::~DecodeGraphs() = default;
Tensor DecodeGraphs::hidden(const model::PagedInput&, model::PagedKvCache&, const Tensor&) { return {}; }
void DecodeGraphs::clear() {}

}  // namespace hone::engine
