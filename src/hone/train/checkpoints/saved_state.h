// Optimizer state of a checkpoint, written by one process or in shards, readable in any other layout.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hone/base/file.h"
#include "hone/io/safetensors.h"
#include "hone/optim/optimizer.h"

namespace hone::train {

// hone_state.json, hone_state.safetensors; of another process than the first, hone_state-rank-1.json ….
std::string state_name(int rank, const char* extension);

class SavedState {
 public:
  SavedState(const fs::path& checkpoint, int processes);

  // What `wanted` names, in its shapes: "exp_avg/model.norm.weight", or a part of it, "exp_avg/model.norm.weight@1024". What the
  // files do not hold whole is left out; whoever asked reports it.
  optim::NamedTensors read(const std::string& prefix, const optim::NamedTensors& wanted) const;

 private:
  struct Stored {
    int64_t begin;
    size_t file;
    const io::TensorEntry* entry;
  };
  Tensor assemble(const std::vector<Stored>& stored, int64_t begin, const Tensor& like) const;

  std::vector<io::SafetensorsFile> files_;
  std::map<std::string, std::vector<Stored>> stored_;  // by name without the "@begin"
};

}  // namespace hone::train
