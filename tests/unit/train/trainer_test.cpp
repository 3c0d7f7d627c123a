#include "hone/train/loop/trainer.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "hone/base/rng.h"
#include "hone/device/generator.h"
#include "hone/io/safetensors.h"
#include "hone/optim/factory.h"
#include "hone/optim/param_groups.h"
#include "hone/train/losses/sft.h"
#include "hone/tuner/trained_files.h"
#include "train/scratch_folder.h"

namespace hone::train {
namespace {

constexpr int64_t kVocabulary = 61;

model::DecoderConfig tiny_config() {
  model::DecoderConfig config;
  config.architecture = "Qwen2ForCausalLM";
  config.vocab_size = kVocabulary;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.layers = 2;
  config.max_position_embeddings = 128;
  config.attention = {.heads = 4, .kv_heads = 2, .head_dim = 8, .qkv_bias = true};
  config.sliding_windows.assign(2, 0);
  config.tie_word_embeddings = true;
  return config;
}

// `size` random sequences, the first third of each without targets; which ones depends on (seed, index) alone.
data::Batch random_batch(int64_t index, int64_t size) {
  std::vector<int64_t> tokens, positions, targets;
  data::Batch batch;
  for (int64_t s = 0; s < size; ++s) {
    Rng rng(7, static_cast<uint64_t>(index * size + s));
    auto length = static_cast<int64_t>(6 + rng.below(10));
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < length; ++i) ids.push_back(static_cast<int64_t>(rng.below(kVocabulary)));
    for (int64_t i = 0; i < length; ++i) {
      tokens.push_back(ids[static_cast<size_t>(i)]);
      positions.push_back(i);
      bool labelled = i >= length / 3 && i + 1 < length;
      targets.push_back(labelled ? ids[static_cast<size_t>(i) + 1] : -100);
      batch.target_count += labelled;
    }
    batch.segments.append(length);
    batch.rows.push_back(index * size + s);
  }
  batch.tokens_t = at::tensor(tokens);
  batch.positions_t = at::tensor(positions);
  batch.targets_t = at::tensor(targets);
  batch.sample_count = size;
  return batch;
}

class FakeLoader : public data::Loader {
 public:
  FakeLoader(int64_t batches, int64_t size) : batches_(batches), size_(size) {}
  data::Batch next() override {
    if (position_ == raise_at) ::raise(SIGTERM);
    return random_batch(position_++ % batches_, size_);
  }
  int64_t batches_per_epoch() const override { return batches_; }
  double epoch() const override { return static_cast<double>(position_) / static_cast<double>(batches_); }
  Json state() const override { return {{"position", position_}}; }
  void restore(const Json& state) override { position_ = state.at("position").get<int64_t>(); }
  int64_t raise_at = -1;

 private:
  int64_t batches_, size_, position_ = 0;
};

// The supervised loss, but not a number in one chosen step.
class PoisonedLoss : public LossOf<SftPayload> {
 public:
  explicit PoisonedLoss(int64_t step) : step_(step) {}
  double num_items(const data::Batch& batch) const override { return sft_.num_items(batch); }
  LossSum loss(const ForwardOutputs& outputs, const SftPayload& payload) override {
    auto loss = sft_.loss(outputs, payload);
    if (++calls_ == step_) loss.sum = loss.sum * std::numeric_limits<double>::quiet_NaN();
    return loss;
  }

 private:
  SftLoss sft_;
  int64_t step_, calls_ = 0;
};

struct Setting {
  tuner::TunerType kind = tuner::TunerType::full;
  at::ScalarType dtype = at::kFloat;
  int64_t batch_size = 2, batches = 5;
  double dropout = 0, learning_rate = 1e-2;
};

// A model, an optimizer and all a trainer needs, built the same way each time.
struct Rig {
  Rig(const fs::path& folder, Setting setting = {}, TrainerConfig base = {})
      : config(std::move(base)), loader(setting.batches, setting.batch_size) {
    config.output_dir = folder;
    config.add_version = false;
    run = {make_run_folder(config, begin_run(config, {"model and data"})), "run"};
    model = model::CausalLM::random(tiny_config(), 3, {.dtype = setting.dtype});
    device::seed(5);
    tuner::TunerConfig tuning{.kind = setting.kind};
    tuning.lora.dropout = setting.dropout;
    tuned = tuner::apply_tuner(*model, tuning);
    auto groups = optim::make_param_groups(tuned.trainable, {.learning_rate = setting.learning_rate, .weight_decay = 0.1});
    masters = MasterWeights(groups);
    optimizer = optim::make_optimizer({}, std::move(groups));
    schedule.emplace(
        optim::LrSchedulerConfig{.name = "linear", .learning_rate = setting.learning_rate, .total_steps = config.max_steps});
    files = {[this](const fs::path& to) { tuner::save_trained(*model, tuned, to); },
             [this](const fs::path& from) { tuner::load_trained(*model, tuned, from); },
             {}};
  }
  std::unique_ptr<Trainer> trainer() {
    return std::make_unique<Trainer>(config, run,
                                     TrainerDeps{.model = *model,
                                                 .loss = *loss,
                                                 .loader = loader,
                                                 .optimizer = *optimizer,
                                                 .lr_scheduler = *schedule,
                                                 .masters = masters,
                                                 .strategy = strategy,
                                                 .save_group = strategy,
                                                 .weights = files,
                                                 .evaluations = evaluations});
  }
  std::vector<float> weights() const {
    std::vector<float> all;
    for (const auto& [name, tensor] : tuned.trainable) {
      auto flat = tensor.detach().to(at::kFloat).contiguous().reshape({-1});
      all.insert(all.end(), flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
    }
    return all;
  }

  TrainerConfig config;
  RunFolder run;
  FakeLoader loader;
  std::unique_ptr<model::CausalLM> model;
  tuner::Tuned tuned;
  MasterWeights masters;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<optim::LrScheduler> schedule;
  SftLoss sft;
  Loss* loss = &sft;
  SingleProcess strategy;
  WeightFiles files;
  std::vector<EvaluationSet> evaluations;
};

std::vector<double> losses(const TrainState& state) {
  std::vector<double> all;
  for (const auto& item : state.log_history)
    if (item.contains("loss")) all.push_back(item["loss"].get<double>());
  return all;
}

struct ResumeCase {
  Setting setting;
  int64_t accumulation;
};

class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, EqualsTheUninterruptedRunBitForBit) {
  TrainerConfig config{
      .max_steps = 6, .gradient_accumulation_steps = GetParam().accumulation, .logging_steps = 2, .save_steps = 3};
  ScratchFolder scratch;
  Rig whole(scratch.path() / "whole", GetParam().setting, config);
  auto first = whole.trainer();
  ASSERT_EQ(first->train(), Outcome::finished);

  Rig second(scratch.path() / "second", GetParam().setting, config);
  device::seed(999);  // a restarted process draws other numbers until the state is restored
  auto continued = second.trainer();
  continued->resume(whole.run.root / "checkpoint-3");
  ASSERT_EQ(continued->train(), Outcome::finished);

  EXPECT_EQ(whole.weights(), second.weights());
  EXPECT_EQ(losses(first->state()), losses(continued->state()));
  EXPECT_EQ(first->state().tokens_seen, continued->state().tokens_seen);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Resume,
                         testing::Values(ResumeCase{{.kind = tuner::TunerType::full}, 1},
                                         ResumeCase{{.kind = tuner::TunerType::full}, 2},
                                         ResumeCase{{.kind = tuner::TunerType::adapter, .dropout = 0.2}, 2},
                                         ResumeCase{{.kind = tuner::TunerType::full, .dtype = at::kBFloat16}, 2}));

TEST(Trainer, LearnsAndLogs) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {}, {.max_steps = 20, .logging_steps = 5, .report_to = {"tensorboard"}});
  auto trainer = rig.trainer();
  trainer->train();
  auto all = losses(trainer->state());
  ASSERT_EQ(all.size(), 5u);  // the first step, then every fifth
  EXPECT_LT(all.back(), all.front() * 0.9);
  EXPECT_TRUE(fs::exists(scratch.path() / "logging.jsonl"));
  EXPECT_TRUE(fs::exists(scratch.path() / "runs"));
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoint-20/trainer_state.json"));
}

TEST(Trainer, MaxEpochsEndsTheRunWithASave) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {},
          {.max_steps = 100, .max_epochs = 2, .logging = IntervalStrategy::epoch, .logging_first_step = false});
  auto trainer = rig.trainer();
  EXPECT_EQ(trainer->train(), Outcome::finished);
  EXPECT_EQ(trainer->state().global_step, 10);
  EXPECT_EQ(losses(trainer->state()).size(), 2u);  // one line an epoch
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoint-10/trainer_state.json"));
}

TEST(Trainer, AccumulationDoesNotChangeTheUpdate) {
  std::vector<std::vector<float>> weights;
  for (auto [size, batches, accumulation] : {std::tuple{4, 2, 1}, {2, 4, 2}, {1, 8, 4}}) {
    ScratchFolder scratch;
    Rig rig(scratch.path(), {.batch_size = size, .batches = batches},
            {.max_steps = 1, .gradient_accumulation_steps = accumulation, .save = IntervalStrategy::never});
    // Gradients are what must agree, so the update is plain descent: Adam's first step would only show their signs.
    rig.optimizer = optim::make_optimizer({.name = "sgd"}, optim::make_param_groups(rig.tuned.trainable, {.learning_rate = 1.0}));
    rig.schedule.emplace(optim::LrSchedulerConfig{.name = "constant", .learning_rate = 1.0, .total_steps = 1});
    rig.trainer()->train();
    weights.push_back(rig.weights());
  }
  for (size_t run = 1; run < weights.size(); ++run)
    for (size_t i = 0; i < weights[0].size(); ++i) ASSERT_NEAR(weights[run][i], weights[0][i], 1e-5) << "weight " << i;
}

TEST(StepCounts, TheLastUpdateOfAnEpochTakesWhatIsLeft) {
  auto counts = StepCounts::make({.epochs = 2, .gradient_accumulation_steps = 4}, 10);
  EXPECT_EQ(counts.max_steps, 6);
  EXPECT_EQ(counts.batches_in_update(0), 4);
  EXPECT_EQ(counts.batches_in_update(2), 2);
  EXPECT_EQ(counts.batches_in_update(3), 4);
  EXPECT_THROW(StepCounts::make({.max_steps = -1}, -1), UserError);
}

TEST(NonFinite, SkipLeavesTheWeightsAlone) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {}, {.max_steps = 1, .save = IntervalStrategy::never});
  PoisonedLoss poisoned(1);
  rig.loss = &poisoned;
  auto before = rig.weights();
  auto trainer = rig.trainer();
  EXPECT_EQ(trainer->train(), Outcome::finished);
  EXPECT_EQ(rig.weights(), before);
  EXPECT_EQ(trainer->state().skipped_steps, 1);
}

TEST(NonFinite, StopNamesTheRows) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {}, {.max_steps = 5, .on_non_finite = NonFinite::stop, .save = IntervalStrategy::never});
  PoisonedLoss poisoned(2);
  rig.loss = &poisoned;
  try {
    rig.trainer()->train();
    FAIL() << "went on";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::non_finite);
    EXPECT_NE(std::string(error.what()).find("step 2"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("row 2, row 3"), std::string::npos) << error.what();
  }
}

TEST(Signals, SigtermSavesAndStops) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {}, {.max_steps = 50, .save_steps = 500});
  rig.loader.raise_at = 2;
  auto trainer = rig.trainer();
  EXPECT_EQ(trainer->train(), Outcome::preempted);
  EXPECT_EQ(trainer->state().global_step, 3);
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoint-3/manifest.json"));
}

TEST(FullDisk, TrainingGoesOnAndThreeMissesStopIt) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {}, {.max_steps = 12, .save_steps = 2});
  int64_t attempts = 0, failing_from = 2, failing_to = 3;
  auto save = rig.files.save;
  rig.files.save = [&](const fs::path& folder) {
    if (++attempts >= failing_from && attempts <= failing_to) throw std::system_error(ENOSPC, std::generic_category(), "weights");
    save(folder);
  };
  auto trainer = rig.trainer();
  EXPECT_EQ(trainer->train(), Outcome::finished);
  EXPECT_EQ(trainer->state().failed_saves, 2);
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoint-2"));
  EXPECT_FALSE(fs::exists(scratch.path() / "checkpoint-4"));

  ScratchFolder again;
  Rig doomed(again.path(), {}, {.max_steps = 12, .save_steps = 2});
  doomed.files.save = [](const fs::path&) { throw std::system_error(ENOSPC, std::generic_category(), "weights"); };
  try {
    doomed.trainer()->train();
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::out_of_space);
  }
}

TEST(Evaluation, StopsEarlyAndKeepsTheBest) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {.learning_rate = 0},
          {.max_steps = 40,
           .save_steps = 2,
           .save_total_limit = 1,
           .eval = IntervalStrategy::steps,
           .eval_steps = 2,
           .load_best_model_at_end = true,
           .early_stop_patience = 3});
  rig.evaluations = {{"eval", [] { return std::make_unique<FakeLoader>(2, 2); }}};
  auto trainer = rig.trainer();
  EXPECT_EQ(trainer->train(), Outcome::early_stopped);
  EXPECT_EQ(trainer->state().global_step, 8);
  EXPECT_EQ(trainer->state().best_global_step, 2);
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoint-2"));
  EXPECT_TRUE(fs::exists(scratch.path() / "checkpoint-8"));
  EXPECT_FALSE(fs::exists(scratch.path() / "checkpoint-6"));
}

TEST(Evaluation, ALossThatIsNoNumberIsNeverTheBest) {
  ScratchFolder scratch;
  Rig rig(scratch.path(), {.learning_rate = 0}, {.max_steps = 2, .eval = IntervalStrategy::steps, .eval_steps = 1});
  rig.evaluations = {{"eval", [] { return std::make_unique<FakeLoader>(1, 2); }}};
  PoisonedLoss poisoned(2);  // in the first evaluation: one batch of training comes before it
  rig.loss = &poisoned;
  auto trainer = rig.trainer();
  trainer->train();
  EXPECT_EQ(trainer->state().best_global_step, 2);
}

TEST(GradScaler, FallsOnOverflowAndIsSaved) {
  GradScaler scale(true);
  EXPECT_TRUE(scale.back_off());
  EXPECT_EQ(scale.value(), 32768.0);
  GradScaler other(true);
  other.restore(scale.state());
  EXPECT_EQ(other.value(), 32768.0);
  GradScaler off(false);
  EXPECT_EQ(off.value(), 1.0);
  EXPECT_FALSE(off.back_off());
}

}  // namespace
}  // namespace hone::train
