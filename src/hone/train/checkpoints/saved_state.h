// Optimizer state of a checkpoint, written by one process or in shards, readable in any other layout.
#pragma once
#include <functional>
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

  // The elements of a flattened tensor in a piece.
  struct Runs {
    static constexpr int64_t kMostElements = int64_t{1} << 48;
    int64_t begin = 0, run = 0, stride = 0;  // of run 0: all from `begin` on
    int64_t count = 0, jump = 0;  // count 0: all runs at that stride; else `count` of them make a row, one every `jump`
    int64_t skip = 0;             // elements of the runs before the first that this piece holds

    bool operator==(const Runs&) const = default;
    bool is_cut() const { return run > 0; }
    // Whether a piece of this many elements can consist of such runs; then end() is valid.
    bool fits(int64_t size) const;
    int64_t end(int64_t size) const { return position(size - 1) + 1; }
    // For a piece of this many elements, each run: its offset in the tensor and in the piece, and its length.
    void each_run(int64_t size, const std::function<void(int64_t at, int64_t from, int64_t length)>& visit) const;

   private:
    int64_t position(int64_t element) const;  // in the whole
  };

  // The tensors of `wanted`, in its shapes: "exp_avg/model.norm.weight", or a part of it: "…@1024" starts there, "…@1024:64:256"
  // is runs of 64 elements, one every 256, "…@1024:64:256:8:4096" rows of 8 such runs, one every 4096, and "…@1024:64:256@100"
  // starts at the 100th of their elements. Incomplete tensors are omitted; the caller reports them.
  optim::NamedTensors read(const std::string& prefix, const optim::NamedTensors& wanted) const;

 private:
  struct Stored {
    Runs runs;
    size_t file;
    const io::TensorEntry* entry;
  };
  Tensor assemble(const std::vector<Stored>& stored, const Runs& wanted, const Tensor& like) const;
  Tensor assemble_runs(const std::vector<Stored>& stored, const Runs& wanted, const Tensor& like) const;

  std::vector<io::SafetensorsFile> files_;
  std::map<std::string, std::vector<Stored>> stored_;  // by name without what follows the @
};

}  // namespace hone::train
