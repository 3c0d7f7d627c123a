// BAdam: AdamW on one block of the model (a decoder layer) at a time. Only that block has gradients, moments and a float32 copy;
// embeddings, the final norm and the head are never trained.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hone/optim/optimizers/adam.h"

namespace hone::optim {

enum class BlockOrder { ascending, descending, random, fixed };

struct BlockAdamConfig {
  AdamConfig adam;
  BlockOrder order = BlockOrder::ascending;
  int64_t interval = 50;     // steps a block stays; 0 and less: forever
  int64_t start_block = -1;  // -1: the order's own first one
  bool verbose = false;      // log each block that trains
};

class BlockAdam : public Optimizer {
 public:
  BlockAdam(std::vector<ParameterGroup> groups, const BlockAdamConfig& config);
  void step(double learning_rate) override;
  void visit_state(const StateVisitor& visit) override;

 private:
  struct Copy {
    std::string name;
    Tensor working, master;
  };
  int64_t switch_count() const;  // how many blocks were left before the present one
  int64_t block_at_switch(int64_t visit) const;
  void activate(int64_t visit);
  void announce_block();  // at its first step: an optimizer that is only checked, or about to load its state, trains nothing

  BlockAdamConfig config_;
  std::vector<std::string> blocks_;  // "model.layers.0.": prefixes of the names of a block's parameters
  int64_t active_visit_ = -1;
  bool is_announced_ = false;
  std::vector<Copy> copies_;  // of the active block's half-precision parameters
  std::unique_ptr<Adam> adam_;
  Tensor step_ = at::zeros({}, at::kLong);
};

}  // namespace hone::optim
