#include "hone/model/forward_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hone/model/causal_lm.h"
#include "hone/model/inference/paged_input.h"
#include "hone/model/memory/activation_checkpointing.h"
#include "hone/model/rotary/rope_frequencies.h"
#include "model/tiny_json.h"
#include "model/vision_json.h"

namespace hone::model {
namespace {

using testing::HasSubstr;

Json small_json(const std::string& architecture, Json changes = Json::object()) {
  auto json = tiny_json(architecture, {{"num_hidden_layers", 3}, {"head_dim", 8}, {"tie_word_embeddings", false}});
  json.update(vision_fields(architecture));
  json.update(changes);
  return with_thinker(std::move(json), architecture);
}

std::unique_ptr<CausalLM> small_model(const std::string& architecture = "Qwen2ForCausalLM", Json changes = Json::object()) {
  return CausalLM::random(parse_config(small_json(architecture, std::move(changes)), "test"), 4);
}

const std::vector<std::vector<text::TokenId>> kTexts{{3, 14, 15, 9, 2}, {6}, {5, 35, 8, 9, 7, 9}};

Tensor by_heads(const Tensor& x_th, int64_t heads) { return x_th.view({x_th.size(0), heads, -1}).transpose(0, 1); }

// As transformers has it: the halves of a head, [x1 x2] -> [-x2 x1].
Tensor rotate_half(const Tensor& x) {
  auto halves = x.chunk(2, -1);
  return at::cat({-halves[1], halves[0]}, -1);
}

TEST(ForwardInput, EmbeddingsInPlaceOfTokensGiveTheSame) {
  at::NoGradGuard no_grad;
  for (const auto& architecture : supported_architectures()) {
    auto model = small_model(architecture);
    auto tokens = packed_texts(kTexts, at::kCPU), embedded = tokens;
    embedded.embeddings_th = model->embed(tokens);
    embedded.tokens_t = Tensor();
    EXPECT_TRUE(at::equal(model->hidden_states(tokens), model->hidden_states(embedded))) << architecture;
  }
}

TEST(ForwardInput, StagesAreAForwardPass) {
  at::NoGradGuard no_grad;
  for (const auto& architecture : supported_architectures()) {
    auto model = small_model(architecture);
    auto input = packed_texts(kTexts, at::kCPU);
    auto x_th = model->run_blocks(model->embed(input), 0, 1, input);
    x_th = model->final_norm(model->run_blocks(x_th, 1, 3, input));
    EXPECT_TRUE(at::equal(model->hidden_states(input), x_th)) << architecture;
  }
}

TEST(ForwardInput, GradientsReachTheEmbeddings) {
  auto model = small_model();
  model->set_training(true);
  auto tokens = packed_texts(kTexts, at::kCPU), embedded = tokens;
  auto& weight = model->embedding().weight.requires_grad_();
  model->hidden_states(tokens).square().sum().backward();
  embedded.tokens_t = Tensor();
  for (auto what : {Recompute::none, Recompute::block}) {
    apply_activation_checkpointing(*model, what);
    embedded.embeddings_th = weight.detach().index_select(0, tokens.tokens_t).requires_grad_();
    model->hidden_states(embedded).square().sum().backward();
    auto summed = at::zeros_like(weight).index_add(0, tokens.tokens_t, embedded.embeddings_th.grad());
    EXPECT_TRUE(at::allclose(summed, weight.grad(), 1e-5, 1e-6));
  }
}

TEST(ForwardInput, AnEncoderFillsItsRows) {
  auto model = small_model();
  auto input = packed_texts(kTexts, at::kCPU), by_hand = input;
  at::manual_seed(3);
  auto rows_n = at::tensor({1, 2, 8}, at::kLong);
  auto features_nh = at::randn({3, 32}).requires_grad_(), first_nh = at::randn({3, 32}).requires_grad_();
  input.encoder = {rows_n, features_nh, {first_nh, first_nh * 2}};
  auto hidden_th = model->hidden_states(input);
  hidden_th.square().sum().backward();

  at::NoGradGuard no_grad;
  auto x_th = model->embed(by_hand);
  x_th.index_copy_(0, rows_n, features_nh);
  for (int64_t block = 0; block < 3; ++block) {
    x_th = model->run_blocks(x_th, block, block + 1, by_hand);
    if (block < 2) x_th.index_add_(0, rows_n, first_nh * static_cast<double>(block + 1));
  }
  EXPECT_TRUE(at::equal(hidden_th, model->final_norm(x_th)));
  EXPECT_GT(features_nh.grad().abs().min().item<float>(), 0);
  EXPECT_GT(first_nh.grad().abs().min().item<float>(), 0);
}

TEST(ForwardInput, BidirectionalSegmentsSeeWhatFollows) {
  at::NoGradGuard no_grad;
  auto model = small_model();
  auto input = packed_texts(kTexts, at::kCPU), other = packed_texts({kTexts[0], kTexts[1], {5, 35, 8, 9, 7, 1}}, at::kCPU);
  using Kind = ops::AttentionKind;
  auto changed_rows = [&](std::vector<Kind> kinds) {  // by another last token
    input.attention_kinds = other.attention_kinds = std::move(kinds);
    return (model->hidden_states(input) != model->hidden_states(other)).any(1).nonzero().squeeze(1);
  };
  EXPECT_TRUE(at::equal(changed_rows({}), at::tensor({11}, at::kLong)));
  EXPECT_TRUE(at::equal(changed_rows({Kind::causal, Kind::causal, Kind::bidirectional}), at::arange(6, 12)));
  EXPECT_TRUE(at::equal(changed_rows({Kind::bidirectional, Kind::causal, Kind::causal}), at::tensor({11}, at::kLong)));
}

// apply_multimodal_rotary_pos_emb and apply_interleaved_mrope of transformers, word for word.
TEST(ForwardInput, RopeOfThreeAxesIsThatOfTransformers) {
  at::manual_seed(1);
  const std::vector<int64_t> sections{2, 1, 1}, doubled{2, 1, 1, 2, 1, 1};
  auto positions = at::tensor({0, 1, 2, 2, 2, 2, 6, 0, 1, 2, 2, 3, 3, 6, 0, 1, 2, 3, 2, 3, 6}, at::kLong).view({3, 7});
  auto x_th = at::randn({7, 16});
  for (bool interleaved : {false, true}) {
    auto config = parse_config(
        small_json("Qwen2ForCausalLM",
                   {{"rope_scaling", {{"type", "mrope"}, {"mrope_section", sections}, {"mrope_interleaved", interleaved}}}}),
        "test");
    auto frequencies = rope_frequencies(config.rope, config, 0);
    auto freqs = positions.to(at::kFloat).unsqueeze(2) * frequencies.inverse;  // [3, T, head_dim / 2]
    Tensor cos, sin;
    if (interleaved) {
      auto mixed = freqs[0].clone();
      for (int64_t axis : {1, 2})
        mixed.slice(1, axis, sections[static_cast<size_t>(axis)] * 3, 3)
            .copy_(freqs[axis].slice(1, axis, sections[static_cast<size_t>(axis)] * 3, 3));
      auto whole = at::cat({mixed, mixed}, -1);
      cos = whole.cos(), sin = whole.sin();
    } else {
      auto whole = at::cat({freqs, freqs}, -1);
      auto picked = [&](const Tensor& values) {
        TensorList parts;
        auto split = values.split_with_sizes(doubled, -1);
        for (size_t i = 0; i < split.size(); ++i) parts.push_back(split[i][static_cast<int64_t>(i % 3)]);
        return at::cat(parts, -1);
      };
      cos = picked(whole.cos()), sin = picked(whole.sin());
    }
    auto heads = by_heads(x_th, 2);
    auto expected = (heads * cos + rotate_half(heads) * sin).transpose(0, 1).reshape({7, 16});
    EXPECT_TRUE(at::allclose(ops::rope(x_th, rope_table(positions, frequencies)), expected, 1e-5, 1e-6)) << interleaved;
  }
}

TEST(ForwardInput, ThreeEqualAxesAreOne) {
  at::NoGradGuard no_grad;
  auto model = small_model("Qwen2ForCausalLM", {{"rope_scaling", {{"rope_type", "default"}, {"mrope_section", {2, 1, 1}}}}});
  auto one = packed_texts(kTexts, at::kCPU), three = one;
  three.positions_t = one.positions_t.expand({3, -1});
  EXPECT_TRUE(at::equal(model->hidden_states(one), model->hidden_states(three)));
}

TEST(ForwardInput, SectionsThatDoNotFitAreRefused) {
  for (const Json& sections : {Json{2, 1}, Json{4, 4, 4}, Json{-1, 4, 1}}) {
    Json scaling{{"type", "mrope"}, {"mrope_section", sections}};
    try {
      parse_config(small_json("Qwen2ForCausalLM", {{"rope_scaling", scaling}}), "config.json");
      FAIL() << sections.dump();
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("expected three counts whose sum is 4"));
    }
  }
}

TEST(PagedInput, LaysChunksEndToEnd) {
  std::vector<text::TokenId> a{7}, b{1, 2, 3}, c{4, 5};
  std::vector<int32_t> blocks{0, 1};
  std::vector<PagedChunk> chunks{{a, 5, blocks, "x"}, {b, 0, blocks, "x"}, {c, 2, blocks}};
  auto [input, metadata, slots] = paged_input(chunks, 4);
  EXPECT_TRUE(at::equal(input.tokens_t, at::tensor({7, 1, 2, 3, 4, 5}, at::kInt)));
  EXPECT_TRUE(at::equal(input.positions_t, at::tensor({5, 0, 1, 2, 2, 3}, at::kInt)));
  EXPECT_EQ(input.segments.offsets, (std::vector<int64_t>{0, 1, 4, 6}));
  ASSERT_EQ(input.adapters.size(), 1u);
  EXPECT_EQ(input.adapters[0].begin, 0);
  EXPECT_EQ(input.adapters[0].end, 4);
  EXPECT_EQ(slots.slots, (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(slots.starts, (std::vector<bool>{false, true, false}));
}

}  // namespace
}  // namespace hone::model
