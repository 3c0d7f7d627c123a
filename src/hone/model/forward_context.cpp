#include "hone/model/forward_context.h"

#include "hone/base/error.h"
#include "hone/model/decoder.h"
#include "hone/model/forward_input.h"

namespace hone::model {

std::shared_ptr<ForwardContext> make_forward_context(const Decoder& decoder, const ForwardInput& input,
                                                     const RotaryTables& rotary, PagedKvCache* cache, bool training,
                                                     at::Device device) {
  const auto rope = rotary.to(device);
  const bool has_metadata = cache || input.offsets_s.defined();
  auto context = std::make_shared<ForwardContext>(ForwardContext{
      .attention = has_metadata ? ops::AttentionMetadata{input.segments, {}} : ops::attention_metadata(input.segments, device),
      .rope = rope.global,
      .local_rope = rope.local,
      .linear = {training, cache ? &input.adapters : nullptr},
      .cache = cache,
      .region = decoder.region,
      .expert_dispatcher = decoder.experts,
      .offloader = decoder.offloader.get(),
      .observer = training ? decoder.observer : nullptr});
  context->attention.kinds = input.attention_kinds;
  context->attention.blocks = input.attention_blocks;
  if (cache) {
    context->states = cache->states();
  } else {
    if (input.offsets_s.defined()) context->attention.offsets = input.offsets_s;
    context->distributed_attention = decoder.distributed_attention;
    if (decoder.shifted_attention && training)
      context->shifted_attention =
          std::make_shared<ops::ShiftedAttentionMetadata>(ops::shifted_attention_metadata(input.segments, device));
  }
  if (input.routed_experts_tlk.defined()) context->routed_experts_tlk = input.routed_experts_tlk.to(device);
  if (decoder.config.linear_attention)
    context->linear_attention = std::make_shared<const ops::LinearAttentionMetadata>(
        ops::linear_attention_metadata(input.segments, device, cache != nullptr));
  HONE_CHECK((input.attention_kinds.empty() && input.attention_blocks.empty()) ||
                 (!cache && !context->distributed_attention && !context->shifted_attention),
             "a cache, sequence parallelism and shifted attention are causal");
  return context;
}

}  // namespace hone::model
