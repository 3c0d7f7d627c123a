#include "hone/train/rl/loader/evaluation_rollouts.h"

namespace hone::train::rl {
namespace {

constexpr uint64_t kEvaluation = 0x4556414c;  // keeps random streams of one seed apart

class EvaluationRollouts final : public data::Loader {
 public:
  EvaluationRollouts(RolloutWorker& worker, std::shared_ptr<const Prompts> prompts, int64_t generations, int64_t batch,
                     MakeEvaluationBatch make)
      : worker_(worker),
        prompts_(std::move(prompts)),
        shape_{generations, batch, 1, 1.0 / worker.group().size()},
        make_(std::move(make)) {}

  data::Batch next() override {
    std::vector<std::shared_ptr<const Prompt>> prompts;
    int64_t count = prompts_at_once();
    for (int64_t i = 0; i < count; ++i)
      prompts.push_back(std::make_shared<const Prompt>(prompts_->in_file_order(done_ * count + i)));
    auto number = kEvaluation + static_cast<uint64_t>(done_++);
    return make_(worker_.generate(prompts, shape_.generations, number, 0), shape_);
  }
  int64_t batches_per_epoch() const override { return (prompts_->count() + prompts_at_once() - 1) / prompts_at_once(); }
  double epoch() const override { return static_cast<double>(done_) / static_cast<double>(batches_per_epoch()); }
  Json state() const override { return done_; }
  void restore(const Json& state) override { done_ = state.get<int64_t>(); }

 private:
  int64_t prompts_at_once() const { return shape_.micro_batch * worker_.group().size() / shape_.generations; }

  RolloutWorker& worker_;
  std::shared_ptr<const Prompts> prompts_;
  RolloutShape shape_;
  MakeEvaluationBatch make_;
  int64_t done_ = 0;
};

}  // namespace

std::unique_ptr<data::Loader> evaluation_rollouts(RolloutWorker& worker, std::shared_ptr<const Prompts> prompts,
                                                  int64_t generations, int64_t batch, MakeEvaluationBatch make) {
  return std::make_unique<EvaluationRollouts>(worker, std::move(prompts), generations, batch, std::move(make));
}

}  // namespace hone::train::rl
