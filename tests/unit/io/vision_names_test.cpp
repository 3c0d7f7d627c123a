#include "hone/io/vision_names.h"

#include <gtest/gtest.h>

namespace hone::io {
namespace {

StoredNames names_of(const char* type) { return StoredNames::of({{"model_type", type}, {"vision_config", Json::object()}}); }

TEST(StoredNames, BothSpellingsAreReadAndTheOlderIsWritten) {
  for (const auto& [type, stored, module] :
       {std::tuple("qwen2_5_vl", "visual.merger.ln_q.weight", "model.visual.merger.ln_q.weight"),
        {"qwen2_vl", "model.layers.0.mlp.up_proj.weight", "model.language_model.layers.0.mlp.up_proj.weight"},
        {"qwen2_vl", "lm_head.weight", "lm_head.weight"},
        {"internvl", "language_model.model.norm.weight", "model.language_model.norm.weight"},
        {"internvl", "language_model.lm_head.weight", "lm_head.weight"},
        {"internvl", "vision_tower.embeddings.cls_token", "model.vision_tower.embeddings.cls_token"},
        {"internvl", "multi_modal_projector.linear_1.bias", "model.multi_modal_projector.linear_1.bias"},
        {"qwen3_vl", "model.visual.pos_embed.weight", "model.visual.pos_embed.weight"},
        {"internvl_chat", "language_model.lm_head.weight", "language_model.lm_head.weight"}}) {
    const auto names = names_of(type);
    EXPECT_EQ(names.module_name(stored), module) << type;
    EXPECT_EQ(names.module_name(module), module) << type;
    EXPECT_EQ(names.stored_name(module), stored) << type;
  }
  EXPECT_TRUE(names_of("qwen3_vl").empty());
  EXPECT_TRUE(StoredNames::of({{"model_type", "qwen2_vl"}}).empty());  // text alone
  EXPECT_TRUE(StoredNames::of(Json()).empty());
}

}  // namespace
}  // namespace hone::io
