#include "hone/tuner/trained_files.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "hone/base/error.h"
#include "hone/ops/loss/linear_cross_entropy.h"
#include "hone/tuner/adapter_files.h"
#include "hone/tuner/multi_adapter.h"
#include "model/tiny_json.h"

namespace hone::tuner {
namespace {

using testing::HasSubstr;

std::unique_ptr<model::CausalLM> tiny_model(bool tied = true) {
  const auto config = model::tiny_json("Qwen2ForCausalLM", {{"tie_word_embeddings", tied}, {"rope_theta", 10000.0}});
  return model::CausalLM::random(model::parse_config(config, "test"), 4);
}

Tensor logits(model::CausalLM& model) {
  at::NoGradGuard no_grad;
  model::ForwardInput input{at::arange(7), at::arange(7), {}};
  input.segments.append(7);
  return model.logits(model.hidden_states(input));
}

void shake(const Tuned& tuned) {
  at::NoGradGuard no_grad;
  at::manual_seed(3);
  for (const auto& [name, tensor] : tuned.trainable) Tensor(tensor).add_(at::randn_like(tensor) * 0.1);
}

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(fs::temp_directory_path() / fmt::format("hone-tuner-{}-{}", getpid(), count_++)) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  static inline int count_ = 0;
  fs::path path_;
};

TEST(Tuner, FreshLoraChangesNothingAndTrainsOnlyItself) {
  auto model = tiny_model();
  const Tensor before = logits(*model);
  const Tuned tuned = apply_tuner(*model, {});
  EXPECT_TRUE(at::equal(logits(*model), before));
  EXPECT_EQ(tuned.trainable.size(), 2U * 7 * 2);
  for (const auto& parameter : model->parameters()) EXPECT_FALSE(parameter.value->requires_grad()) << parameter.name;
  for (const auto& [name, tensor] : tuned.trainable)
    EXPECT_TRUE(tensor.requires_grad() && tensor.is_leaf() && tensor.scalar_type() == at::kFloat) << name;
  EXPECT_THAT(tuned.summary(), HasSubstr("trainable parameters: "));
  EXPECT_EQ(tuned.adapter->config.targets.names,
            (std::vector<std::string>{"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"}));
}

TEST(Tuner, SameSeedSameAdapter) {
  const auto first_values = [](uint64_t seed) {
    auto model = tiny_model();
    TunerConfig config;
    config.seed = seed;
    return apply_tuner(*model, config).trainable.front().second.detach().clone();
  };
  EXPECT_TRUE(at::equal(first_values(1), first_values(1)));
  EXPECT_FALSE(at::equal(first_values(1), first_values(2)));
}

TEST(Tuner, TiedHeadFollowsTheEmbeddingUnderFullTuning) {
  auto model = tiny_model();
  TunerConfig config;
  config.kind = TunerType::full;
  const Tuned tuned = apply_tuner(*model, config);
  EXPECT_TRUE(model->head().weight.is_same(model->embedding().weight) ||
              model->head().weight.data_ptr() == model->embedding().weight.data_ptr());
  EXPECT_EQ(tuned.trainable_count, tuned.total_count);
  shake(tuned);
  EXPECT_TRUE(at::equal(model->head().weight, model->embedding().weight));
}

TEST(Tuner, SaveAndLoadGiveTheSameModel) {
  for (auto kind : {TunerType::adapter, TunerType::full, TunerType::freeze}) {
    TunerConfig config;
    config.kind = kind;
    config.layers.trainable_layers = 1;
    config.lora.dora = true;
    config.lora.modules_to_save = {"lm_head"};
    auto model = tiny_model(false), other = tiny_model(false);
    const Tuned tuned = apply_tuner(*model, config), same = apply_tuner(*other, config);
    shake(tuned);
    TemporaryFolder folder;
    save_trained(*model, tuned, folder.path());
    EXPECT_FALSE(at::equal(logits(*model), logits(*other)));
    load_trained(*other, same, folder.path());
    EXPECT_TRUE(at::equal(logits(*model), logits(*other)));
  }
}

TEST(Tuner, ContinuesTheLastAdapterAndMergesTheOthers) {
  TemporaryFolder first, second;
  TunerConfig config;
  config.lora.rank = 4;
  auto made = tiny_model();
  const Tuned one = apply_tuner(*made, config);
  shake(one);
  save_trained(*made, one, first.path());
  const Tensor expected = logits(*made);

  auto model = tiny_model();
  config.adapters = {first.path()};
  const Tuned continued = apply_tuner(*model, config);
  EXPECT_TRUE(at::equal(logits(*model), expected));
  EXPECT_EQ(continued.trainable_count, one.trainable_count);

  auto fresh = tiny_model();
  config.create_new_adapter = true;
  config.lora.rank = 2;
  const Tuned created = apply_tuner(*fresh, config);
  EXPECT_TRUE(at::allclose(logits(*fresh), expected, 1e-4, 1e-5));
  EXPECT_EQ(created.trainable_count, one.trainable_count / 2);
}

TEST(Tuner, ConvertedPissaIsAPlainAdapterOfTheUntouchedBase) {
  auto model = tiny_model();
  TunerConfig config;
  config.lora.rank = 4;
  config.lora.init = "pissa";
  config.lora.targets = {"q_proj", "down_proj"};
  const Tensor before = logits(*model);
  const Tuned tuned = apply_tuner(*model, config);
  EXPECT_TRUE(at::allclose(logits(*model), before, 1e-4, 1e-5));
  shake(tuned);
  TemporaryFolder folder;
  save_converted_adapter(*model, *tuned.adapter, folder.path());
  auto plain = tiny_model();
  const auto loaded = load_adapter(*plain, folder.path());
  EXPECT_EQ(loaded.config.rank, 8);
  EXPECT_EQ(loaded.config.init, "true");
  EXPECT_TRUE(at::allclose(logits(*plain), logits(*model), 1e-3, 1e-4));
}

TEST(Tuner, FastPissaIsTheSameAfterAReload) {
  auto model = tiny_model(), other = tiny_model();
  TunerConfig config;
  config.lora.init = "pissa_niter_4";
  config.lora.targets = {"q_proj"};
  const Tuned tuned = apply_tuner(*model, config);
  TemporaryFolder folder;
  save_trained(*model, tuned, folder.path());
  load_adapter(*other, folder.path(), {.seed = 99});
  EXPECT_TRUE(at::equal(logits(*model), logits(*other)));
}

TEST(Tuner, SwitchedOffAdaptersDoNothing) {
  auto model = tiny_model();
  const Tensor before = logits(*model);
  const Tuned tuned = apply_tuner(*model, {});
  shake(tuned);
  EXPECT_FALSE(at::equal(logits(*model), before));
  set_active(*model, {});
  EXPECT_TRUE(at::equal(logits(*model), before));
  EXPECT_THROW(set_active(*model, {"nobody"}), UserError);
}

TEST(Tuner, AnAdapterOfAnotherModelLeavesNothingBehind) {
  auto model = tiny_model(), other = tiny_model();
  const Tuned tuned = apply_tuner(*model, {});
  shake(tuned);
  TemporaryFolder folder;
  save_trained(*model, tuned, folder.path());
  io::Adapter files = io::read_adapter(folder.path());
  for (auto& [name, tensor] : files.tensors)
    if (name.starts_with("model.layers.1.")) name.replace(0, 15, "model.layers.9.");
  io::write_adapter(folder.path(), files);
  const Tensor before = logits(*other);
  EXPECT_THROW(load_adapter(*other, folder.path(), {}), UserError);
  EXPECT_TRUE(at::equal(logits(*other), before));
}

TEST(Tuner, AStartByGradientsCannotServeBesideOthers) {
  auto model = tiny_model();
  TunerConfig config;
  config.lora.init = "lora-ga";
  config.lora.targets = {"q_proj"};
  const Tuned tuned = apply_tuner(*model, config, [](model::CausalLM&, const std::vector<model::Linear*>& layers) {
    BaseGradients gradients;
    for (const auto* layer : layers) gradients[layer->name] = at::randn_like(layer->weight);
    return gradients;
  });
  TemporaryFolder folder;
  save_trained(*model, tuned, folder.path());
  EXPECT_THAT(multi_adapter_conflict(folder.path()), HasSubstr("lora_ga"));
}

TEST(Tuner, MistakesAreNamed) {
  const auto message = [](TunerConfig config) {
    auto model = tiny_model();
    try {
      apply_tuner(*model, config);
    } catch (const UserError& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string("no error");
  };
  TunerConfig config;
  config.lora.targets = {"q_porj"};
  EXPECT_THAT(message(config), testing::AllOf(HasSubstr("q_porj"), HasSubstr("q_proj")));
  config = {};
  config.lora.init = "lora-ga";
  EXPECT_THAT(message(config), HasSubstr("gradients of training data"));
  config.lora.init = "eva";
  EXPECT_THAT(message(config), testing::AllOf(HasSubstr("eva"), HasSubstr("loftq")));
  config = {};
  config.lora.init = "pissa";
  config.lora.rank = 4096;
  EXPECT_THAT(message(config), HasSubstr("rank 4096"));
  config = {};
  config.kind = TunerType::full;
  config.adapters = {"somewhere"};
  EXPECT_THAT(message(config), HasSubstr("`adapters` is given with `kind` full"));
}

}  // namespace
}  // namespace hone::tuner
