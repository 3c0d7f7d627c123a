// Prompts with pictures: whatever the engine does, answers are those of whole passes.
#include "engine/engine_fixture.h"
#include "hone/engine/prompt_images.h"
#include "model/vision_json.h"

namespace hone::engine {
namespace {

class EngineImagesTest : public EngineTest {
 protected:
  static constexpr int64_t kBefore = 7, kBehind = 6;

  void use(const std::string& architecture) {
    Json config{{"architectures", {architecture}}, {"vocab_size", 260},           {"hidden_size", 32},
                {"intermediate_size", 48},         {"num_hidden_layers", 3},      {"num_attention_heads", 4},
                {"num_key_value_heads", 2},        {"tie_word_embeddings", true}, {"num_local_experts", 4},
                {"num_experts_per_tok", 2},        {"moe_intermediate_size", 24}, {"max_position_embeddings", 256},
                {"initializer_range", 0.3}};
    config.update(model::vision_fields(architecture));
    model_ = model::CausalLM::random(model::parse_config(config, "test"), 4);
  }

  const model::VisionConfig& tower() const { return *model_->config().vision; }
  bool has_axes() const { return !model_->config().rope.mrope_section.empty(); }
  // InternVL's are two tiles, which its tower sees one by one.
  ops::PatchGrid grid() const { return {has_axes() ? 1 : 2, 4, 4}; }
  int64_t cells() const { return grid().frames * 4; }

  model::ImageInput picture(int64_t seed) const {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
    model::ImageInput images;
    images.patches_pr = at::empty({grid().frames * 16, tower().row_size()}).normal_(0, 1, generator);
    images.grids = {grid()};
    images.rows_n = at::arange(kBefore, kBefore + cells());
    return images;
  }

  // Of the first `count` tokens: a picture of 2 x 2 cells takes two places.
  Tensor positions(int64_t count) const {
    if (!has_axes()) return at::arange(count);
    const int64_t rest = std::max<int64_t>(0, count - kBefore - 4);
    auto text = [](int64_t first, int64_t size) { return at::arange(first, first + size).expand({3, size}); };
    auto cell = at::tensor({0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1}, at::kLong).view({3, 4}) + kBefore;
    return at::cat({text(0, kBefore), cell, text(kBefore + 2, rest)}, 1);
  }

  Request request(int64_t seed) const {
    Request made;
    for (int64_t i = 0; i < kBefore + cells() + kBehind; ++i) made.prompt.push_back(static_cast<text::TokenId>(40 + i * 7 % 200));
    made.sampling.max_tokens = 12;
    made.images = PromptImages::make(picture(seed), positions(static_cast<int64_t>(made.prompt.size())));
    return made;
  }

  Tokens expected_with(int64_t seed) {
    return expected(request(seed), [&](model::ForwardInput& input) {
      input.positions_t = positions(input.tokens_t.size(0));
      input.images = picture(seed);
    });
  }
};

TEST_F(EngineImagesTest, EveryWayOfComputingGivesTheSameAnswers) {
  for (const auto* architecture :
       {"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", "Qwen3VLForConditionalGeneration",
        "Qwen3VLMoeForConditionalGeneration", "InternVLForConditionalGeneration", "InternVLChatModel"}) {
    use(architecture);
    // The same text with two pictures, one of them twice.
    const std::vector<Request> list{request(1), request(2), request(1)};
    const std::vector<Tokens> wanted{expected_with(1), expected_with(2), expected_with(1)};
    EXPECT_NE(wanted[0], wanted[1]) << architecture;
    for (auto [name, config] : std::vector<std::pair<std::string, EngineConfig>>{
             {"plain", {.block_size = 4}},
             {"prompts in parts", {.block_size = 4, .max_num_batched_tokens = 5}},
             {"no prefix cache", {.enable_prefix_caching = false}},
             {"tiny cache, parts", {.block_size = 4, .kv_cache_tokens = 84, .max_num_batched_tokens = 7}}}) {
      auto engine = this->engine(config);
      EXPECT_EQ(answers(engine, list), wanted) << architecture << ", " << name;
      EXPECT_EQ(answers(engine, list), wanted) << architecture << ", " << name << ", again";
      if (name == "plain") {
        EXPECT_GT(engine.stats().cached_tokens, 0) << architecture;
      }
    }
  }
}

}  // namespace
}  // namespace hone::engine
