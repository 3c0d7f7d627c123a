// ZeRO 1 to 3, FSDP and Megatron's distributed optimizer: shards parameters, gradients and optimizer state over ranks; parameter
// units are gathered before use and resharded afterwards.
#pragma once
#include <functional>
#include <set>
#include <unordered_map>

#include "hone/model/causal_lm.h"
#include "hone/model/weight_hooks.h"
#include "hone/parallel/sharding/flat_parameter.h"
#include "hone/parallel/sharding/sharding_config.h"

namespace hone::parallel {

// The ranks across which the state of a model is sharded.
struct ShardingGroups {
  ProcessGroup& shards;
  ProcessGroup* replicas = nullptr;  // that hold the same shards; null: one replica

  // For tensor, pipeline or expert parallel models, per parameter: the ranks that shard it, and those over which its gradient is
  // summed after the reduction. The latter hold the same shards of it.
  struct OfParameter {
    ProcessGroup* shards = nullptr;             // null: as all
    const ProcessGroup* summed_over = nullptr;  // null: the gradient is complete

    bool operator==(const OfParameter&) const = default;
  };
  std::function<OfParameter(const Tensor& parameter)> of_parameter = {};
};

class ShardedModel final : public model::WeightHooks {
 public:
  // `pure_16_bit`: gradients have the dtype of the weights instead of float32. Placeholders (placeholder.h) of other stages are
  // skipped.
  ShardedModel(model::CausalLM& model, const ShardingConfig& config, ShardingGroups groups, bool pure_16_bit);
  ~ShardedModel() override;

  void before_forward(size_t unit) override;
  void after_forward(size_t unit) override;
  void before_backward(size_t unit) override;
  void after_backward(size_t unit) override;

  void begin_backward(bool last_of_update);
  void end_backward();     // all gradients of the pass are reduced; in stage 1 after the last pass of an update
  void sync_after_step();  // after an update; the all-gather may run until the next pass, or wait_for_sync()
  void wait_for_sync();

  bool holds(const Tensor& parameter) const;
  const std::vector<ParameterShard*>& shards_of(const Tensor& parameter) const;
  std::pair<FlatParameter*, size_t> flat_of(const Tensor& parameter) const;  // with its index among the members
  void fill(const Tensor& parameter, const Tensor& values);
  void reload_shards();  // after resident or gathered parameters were written: the optimizer continues from them
  // While held, the full model stays in every rank's memory: for generation, whose length differs between ranks.
  void keep_gathered(bool hold);
  bool is_kept_gathered() const { return kept_gathered_; }
  void gather_trained();  // gathers all adapters at once, until release_trained: they are small
  void release_trained();
  int64_t bytes_held() const;  // by shards and resident buffers
  std::string units() const;   // "9 units by size"; empty where blocks are the units

 private:
  friend class GatheredParameters;
  struct ParameterLocation {
    size_t part, flat, member;
  };
  using Flats = std::vector<std::unique_ptr<FlatParameter>>;
  void add_unit(const std::vector<model::NamedParameter>& unit, const FlatParameterConfig& common, bool stays);
  void add_flats(const TensorList& tensors, bool trained, const FlatParameterConfig& common, bool stays);
  void add_part(const std::vector<model::NamedParameter>& parameters, const FlatParameterConfig& common);
  // The part of a unit: one of its own, except that final norm and heads share one, which with a tied head is the embedding's.
  size_t part_of(size_t unit) const { return unit <= blocks_ ? unit : tied_ ? 0 : blocks_ + 1; }
  void reduce(size_t part);
  void release(size_t part);
  void reshard(size_t part);  // between the passes: root parameters stay gathered
  bool reduces_now() const { return config_.stage > 1 || last_of_update_; }
  template <class Visit>
  void each_trained(Visit visit);
  bool offloads_next(const TensorList& members);

  model::CausalLM& model_;
  ShardingConfig config_;
  ShardingGroups groups_;
  int64_t trained_ = 0, offloaded_ = 0;  // values, of those whose optimizer may be in host memory
  std::vector<Flats> parts_;  // the embedding, the blocks, norm and head; of a tied model all but the blocks are the first
  size_t blocks_;
  bool tied_;
  std::unordered_map<const void*, ParameterLocation> locations_;
  std::unordered_map<const void*, std::vector<ParameterShard*>> parameter_shards_;
  // Parts are reduced from the last to the first, in the same order on every rank, even if a rank has no gradient for a part.
  size_t reduced_ = 0;                              // of them, in this backward pass
  std::vector<bool> complete_;                      // parts that this backward pass has finished
  std::vector<bool> comes_in_backward_;             // recorded: frozen first parts of the model need no backward pass
  std::vector<FlatParameter*> pending_reductions_;  // reductions under way
  std::set<const FlatParameter*> staying_;          // units of the full model, from their first use in a pass until its end
  bool last_of_update_ = false, kept_gathered_ = false, has_encoder_ = false;
};

// Shards a model that was loaded and tuned in full; `pure_16_bit` as in ShardedModel. The model computes with it as long as it
// exists.
std::unique_ptr<ShardedModel> apply_fsdp(model::CausalLM& model, const ShardingConfig& config, ShardingGroups groups,
                                         bool pure_16_bit);

}  // namespace hone::parallel
