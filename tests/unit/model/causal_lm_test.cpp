#include "hone/model/causal_lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hone/model/decoder.h"
#include "hone/model/inference/paged_kv_cache.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "model/tiny_json.h"
#include "model/vision_json.h"

namespace hone::model {
namespace {

Json json_of(const std::string& architecture = "Qwen2ForCausalLM") {
  auto json = tiny_json(architecture, {{"rope_theta", 10000.0}});
  json.update(vision_fields(architecture));
  return with_thinker(std::move(json), architecture);
}

std::unique_ptr<CausalLM> tiny_model(const std::string& architecture = "Qwen2ForCausalLM") {
  return CausalLM::random(parse_config(json_of(architecture), "test"), 4);
}

ForwardInput packed(std::initializer_list<int64_t> lengths) {
  ForwardInput input;
  TensorList positions;
  for (int64_t length : lengths) {
    input.segments.append(length);
    positions.push_back(at::arange(length));
  }
  at::manual_seed(6);
  input.tokens_t = at::randint(50, {input.segments.total()}, at::kLong);
  input.positions_t = at::cat(positions);
  return input;
}

Tensor slice(const Tensor& rows, const ops::CuSeqlens& segments, int64_t i) {
  return rows.narrow(0, segments.offsets[static_cast<size_t>(i)], segments.length(i));
}

TEST(CausalLM, PackedSequencesDoNotSeeEachOther) {
  at::NoGradGuard no_grad;
  for (const auto& architecture : supported_architectures()) {
    auto model = tiny_model(architecture);
    auto all = packed({5, 1, 9});
    auto together = model->hidden_states(all);
    for (int64_t i = 0; i < 3; ++i) {
      ForwardInput alone;
      alone.segments.append(all.segments.length(i));
      alone.tokens_t = slice(all.tokens_t, all.segments, i);
      alone.positions_t = slice(all.positions_t, all.segments, i);
      EXPECT_TRUE(at::allclose(model->hidden_states(alone), slice(together, all.segments, i), 1e-4, 1e-5))
          << architecture << " sequence " << i;
    }
  }
}

TEST(CausalLM, RoutersAreHeardWithAndWithoutRecomputation) {
  auto model = tiny_model("Qwen2MoeForCausalLM");
  model->set_training(true);
  for (auto& parameter : model->parameters()) parameter.value->requires_grad_();
  auto heard = [&](Recompute what) {
    apply_activation_checkpointing(*model, what);
    TensorList logits;
    model->hidden_states(packed({5, 3}), nullptr, &logits);
    EXPECT_EQ(logits.size(), 2u);
    at::cat(logits).square().sum().backward();  // nothing but the routers is asked: what else a block gives has no gradient
    auto grad = model->parameters().front().value->grad().clone();
    for (auto& parameter : model->parameters()) parameter.value->mutable_grad() = Tensor();
    return std::pair(at::cat(logits).detach(), grad);
  };
  auto [kept, kept_grad] = heard(Recompute::none);
  for (auto what : {Recompute::block, Recompute::mlp}) {
    auto [again, again_grad] = heard(what);
    EXPECT_TRUE(at::equal(kept, again));
    EXPECT_TRUE(at::allclose(kept_grad, again_grad, 1e-4, 1e-6));
  }
}

TEST(CausalLM, CacheGivesTheSameHiddenStates) {
  at::NoGradGuard no_grad;
  auto model = tiny_model("Qwen3ForCausalLM");
  auto whole = packed({8});
  auto expected = model->hidden_states(whole);
  PagedKvCache cache(model->config(), 8, 4, model->dtype(), model->device());
  std::vector<int32_t> blocks{5, 2};
  TensorList parts;
  for (auto [begin, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 2}, {5, 1}, {6, 1}, {7, 1}}) {
    ForwardInput part;
    part.segments.append(count);
    part.tokens_t = whole.tokens_t.narrow(0, begin, count);
    part.positions_t = whole.positions_t.narrow(0, begin, count);
    cache.set_metadata(ops::paged_attention_metadata({{begin, count, blocks}}, 4, model->device()));
    parts.push_back(model->hidden_states(part, &cache));
  }
  EXPECT_TRUE(at::allclose(at::cat(parts), expected, 1e-4, 1e-5));
}

TEST(CausalLM, OutputRowsHaveTheGradientsOfAllRows) {
  for (const char* family : {"Qwen3ForCausalLM", "Gemma3ForCausalLM", "Qwen3MoeForCausalLM"})
    for (const auto again : {Recompute::none, Recompute::block, Recompute::attention, Recompute::mlp}) {
      auto model = tiny_model(family);
      for (auto& block : model->decoder().blocks) block.recompute = again;
      model->set_training(true);
      const auto rows = at::tensor(std::vector<int64_t>{2, 4, 7});
      const auto gradients = [&](const Tensor& hidden_rh) {
        (hidden_rh * at::linspace(-1, 1, hidden_rh.size(1))).sum().backward();
        TensorList list;
        for (const auto& parameter : model->parameters()) {
          list.push_back(parameter.value->grad().defined() ? parameter.value->grad().clone() : Tensor());
          parameter.value->mutable_grad().reset();
        }
        return list;
      };
      for (const auto& parameter : model->parameters()) parameter.value->requires_grad_(true);
      auto input = packed({5, 3});
      const auto all_th = model->hidden_states(input);
      const auto expected = gradients(all_th.index_select(0, rows));
      input.output_rows_r = rows;
      const auto hidden_rh = model->hidden_states(input);
      EXPECT_TRUE(at::allclose(hidden_rh, all_th.index_select(0, rows), 1e-4, 1e-5)) << family;
      const auto found = gradients(hidden_rh);
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(expected[i].defined() ? at::allclose(found[i], expected[i], 1e-4, 1e-5) : !found[i].defined())
            << family << " " << model->parameters()[i].name;
    }
}

TEST(CausalLM, OutputRowsAreThoseOfAllRowsAndCacheTheRest) {
  at::NoGradGuard no_grad;
  for (const char* family : {"Qwen3ForCausalLM", "Gemma3ForCausalLM", "Qwen3MoeForCausalLM"}) {
    auto model = tiny_model(family);
    auto input = packed({5, 3});
    std::vector<int32_t> a{0, 1}, b{2};
    PagedKvCache cache(model->config(), 8, 4, model->dtype(), model->device());
    auto metadata = [&] { return ops::paged_attention_metadata({{0, 5, a}, {0, 3, b}}, 4, model->device()); };
    cache.set_metadata(metadata());
    const auto all = model->hidden_states(input, &cache);
    PagedKvCache again(model->config(), 8, 4, model->dtype(), model->device());
    again.set_metadata(metadata());
    input.output_rows_r = at::tensor(std::vector<int32_t>{3, 4, 7});
    EXPECT_TRUE(at::allclose(model->hidden_states(input, &again), all.index_select(0, input.output_rows_r), 1e-4, 1e-5))
        << family;
    ForwardInput next;
    next.segments.append(1);
    next.tokens_t = input.tokens_t.narrow(0, 0, 1);
    next.positions_t = at::tensor(std::vector<int64_t>{5});
    TensorList behind;
    for (auto* filled : {&cache, &again}) {
      filled->set_metadata(ops::paged_attention_metadata({{5, 1, a}}, 4, model->device()));
      behind.push_back(model->hidden_states(next, filled));
    }
    EXPECT_TRUE(at::equal(behind[0], behind[1])) << family;
  }
}

TEST(CausalLM, RowsUseTheAdapterTheyName) {
  at::NoGradGuard no_grad;
  auto model = tiny_model("Qwen2ForCausalLM");
  auto input = packed({3, 4, 2});
  auto base = model->hidden_states(input);
  auto attach = [&](const std::string& name, double size, bool active) {
    for (auto* linear : model->tree().linears())
      linear->adapters.push_back({.adapter = name,
                                  .a = at::ones({2, linear->weight.size(1)}) * size,
                                  .b = at::ones({linear->weight.size(0), 2}) * size,
                                  .active = active});
  };
  auto with_one = [&](const std::string& name, double size) {
    attach(name, size, true);
    auto result = model->hidden_states(input);
    for (auto* linear : model->tree().linears()) linear->adapters.clear();
    return result;
  };
  auto first = with_one("first", 0.01), second = with_one("second", 0.02);
  attach("first", 0.01, false);
  attach("second", 0.02, false);
  PagedKvCache cache(model->config(), 8, 4, model->dtype(), model->device());
  std::vector<int32_t> a{0}, b{1}, c{2};
  cache.set_metadata(ops::paged_attention_metadata({{0, 3, a}, {0, 4, b}, {0, 2, c}}, 4, model->device()));
  input.adapters = {{"first", 0, 3}, {"second", 7, 9}};
  auto mixed = model->hidden_states(input, &cache);
  EXPECT_TRUE(at::allclose(mixed.narrow(0, 0, 3), first.narrow(0, 0, 3), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(mixed.narrow(0, 3, 4), base.narrow(0, 3, 4), 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(mixed.narrow(0, 7, 2), second.narrow(0, 7, 2), 1e-4, 1e-5));
}

TensorList gradients(CausalLM& model, const ForwardInput& input) {
  for (auto& parameter : model.parameters()) parameter.value->requires_grad_().mutable_grad().reset();
  at::manual_seed(8);
  auto targets = at::roll(input.tokens_t, {-1});
  auto hidden = model.hidden_states(input);
  ops::linear_cross_entropy(hidden, model.head().weight, {}, targets).sum.backward();
  TensorList grads;
  for (auto& parameter : model.parameters()) grads.push_back(parameter.value->grad().clone());
  return grads;
}

TEST(CausalLM, RecomputationChangesNoBit) {
  auto model = tiny_model();
  model->set_training(true);
  for (auto* linear : model->tree().linears())
    linear->adapters.push_back(
        {.a = at::randn({2, linear->weight.size(1)}), .b = at::randn({linear->weight.size(0), 2}), .dropout = 0.3});
  model->decoder().neftune_alpha = 5.0;
  auto input = packed({6, 3});
  at::manual_seed(1);
  auto kept = gradients(*model, input);
  auto after_kept = at::rand({1});
  for (Recompute what : {Recompute::block, Recompute::attention, Recompute::mlp})
    for (const std::vector<int64_t>& blocks : {std::vector<int64_t>{}, {1}}) {
      apply_activation_checkpointing(*model, what, blocks);
      auto recomputed = gradients(*model, input);
      auto after_recomputed = at::rand({1});
      for (size_t i = 0; i < kept.size(); ++i) EXPECT_TRUE(at::equal(kept[i], recomputed[i])) << model->parameters()[i].name;
      EXPECT_TRUE(at::equal(after_kept, after_recomputed)) << "the generator must stand where it stood without recomputation";
    }
}

TEST(CausalLM, RecomputationReachesAdaptersOfAFrozenModel) {
  auto model = tiny_model();
  model->set_training(true);
  apply_activation_checkpointing(*model, Recompute::block);
  auto* linear = model->tree().linears().front();
  linear->adapters.push_back({.a = at::randn({2, 32}).requires_grad_(), .b = at::randn({32, 2}).requires_grad_()});
  ops::linear_cross_entropy(model->hidden_states(packed({7})), model->head().weight, {}, packed({7}).tokens_t).sum.backward();
  EXPECT_GT(linear->adapters[0].a.grad().abs().sum().item<float>(), 0);
}

TEST(CausalLM, TiedHeadFollowsAReplacedEmbedding) {
  auto model = tiny_model();
  *model->parameters().front().value = at::ones({50, 32});
  EXPECT_TRUE(model->head().weight.is_same(model->embedding().weight));
}

TEST(CausalLM, ThreadsDoNotChangeABit) {
  auto model = tiny_model();
  auto input = packed({40, 25});
  int threads = at::get_num_threads();
  at::set_num_threads(1);
  auto one = gradients(*model, input);
  at::set_num_threads(threads);
  auto many = gradients(*model, input);
  auto again = gradients(*model, input);
  for (size_t i = 0; i < many.size(); ++i) {
    EXPECT_TRUE(at::equal(many[i], again[i])) << model->parameters()[i].name;
    EXPECT_TRUE(at::allclose(one[i], many[i], 1e-4, 1e-6)) << model->parameters()[i].name;
  }
}

}  // namespace
}  // namespace hone::model
