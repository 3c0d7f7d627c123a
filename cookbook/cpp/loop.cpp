// loop MODEL FILE OUTPUT [GAMMA]: a training loop and a loss of one's own. Trains a LoRA adapter on the rows of FILE with the
// focal loss (1 - p)^GAMMA * -log p, which looks away from tokens that the model knows already; GAMMA 0 is cross entropy.
#include <hone/data/batches/make_loader.h>
#include <hone/data/datasets/open_datasets.h>
#include <hone/data/encode/encoder.h>
#include <hone/model/causal_lm.h>
#include <hone/train/stepwise_trainer.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct NoPayload : hone::data::PayloadOf<NoPayload> {};  // rows have nothing in addition to their tokens

class FocalLoss final : public hone::train::LossOf<NoPayload> {
 public:
  explicit FocalLoss(double gamma) : gamma_(gamma) {}
  double num_items(const hone::data::Batch& batch) const override { return static_cast<double>(batch.target_count); }
  hone::train::LossSum loss(const hone::train::ForwardOutputs& outputs, const NoPayload&) override {
    const auto logps_t = outputs.target_logps().logps_t;  // 0 where there is no target, and no loss
    return {-((1 - logps_t.exp()).pow(gamma_) * logps_t).sum(), {}};
  }

 private:
  double gamma_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) return std::puts("usage: loop MODEL FILE OUTPUT [GAMMA]"), 2;
  const std::string folder = argv[1], output = argv[3];
  const auto tokenizer = hone::text::Tokenizer::load(folder);
  const auto encoder = hone::data::Encoder::make({}, tokenizer, hone::data::read_model_identity(folder));
  hone::data::DatasetConfig files;
  files.datasets = {argv[2]};
  hone::data::LoaderConfig batches;
  batches.batch_size = 8;
  const auto loader = hone::data::make_loader(hone::data::open_datasets(files).train, encoder, batches,
                                              std::make_shared<hone::data::RowReport>());

  hone::train::StepwiseConfig config;
  config.tuner.lora.rank = 16;
  config.schedule.learning_rate = config.groups.learning_rate = 2e-3;
  config.schedule.total_steps = 5 * loader->batches_per_epoch();
  hone::train::StepwiseTrainer trainer(hone::model::CausalLM::load(folder), config);
  FocalLoss loss(argc > 4 ? std::atof(argv[4]) : 2);
  while (trainer.global_step() < config.schedule.total_steps) {
    const double value = trainer.forward_backward({loader->next()}, loss).loss;
    trainer.clip_grad_norm(1.0);
    trainer.step();
    trainer.lr_step();
    trainer.zero_grad();
    std::printf("step %lld loss %.6f\n", static_cast<long long>(trainer.global_step()), value);
  }
  hone::train::CheckpointAssets assets;
  assets.model_folder = assets.model_name = folder;
  assets.adapter = true;
  assets.tokenizer = tokenizer;
  trainer.save_weights(output, assets);
} catch (const hone::UserError& error) {
  return std::fprintf(stderr, "error: %s\n  hint: %s\n", error.what(), error.hint().c_str()), static_cast<int>(error.code());
}
