// Activation memory and products of a layer of linear attention (gated delta net, ops/linear_attention), estimated.
#pragma once
#include "hone/model/config.h"

namespace hone::model {

// Elements per token that are saved for the backward pass.
struct DeltaNetActivations {
  double of_model = 0;    // of the model's type: the projections before and after the convolution, and the gate
  double of_float32 = 0;  // the terms of chunks and the states between them

  double bytes(double weight_bytes) const { return of_model * weight_bytes + of_float32 * 4; }
};
DeltaNetActivations delta_net_activations(const LinearAttentionConfig& net);

// Multiplications per token of the chunked rule.
double delta_rule_products(const LinearAttentionConfig& net);

// Bytes that a step of generation needs in one layer, per prompt token and per sequence: a prompt computes the terms of
// chunks, of which the last is half empty on average; a decode gathers its state and computes the next one. 0 of a model without
// such layers.
int64_t delta_net_bytes_per_token(const DecoderConfig& config);
int64_t delta_net_bytes_per_sequence(const DecoderConfig& config);

}  // namespace hone::model
