// Rank and world size of this process. Read once, from the launcher: hone's supervisor, torchrun, Slurm or a Kubernetes job.
#pragma once
#include <map>
#include <string>

namespace hone::parallel {

struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  bool launched = false;            // a launcher started this process as a rank, possibly the only one
  bool has_external_store = false;  // torchrun owns the master's store, for all its attempts …
  int attempt = 0;                  // … of which this is one: keys of other attempts are ignored

  bool distributed() const { return size > 1; }
  bool is_main() const { return rank == 0; }
};

// RANK, WORLD_SIZE, LOCAL_RANK … (torchrun's names) or SLURM_PROCID, SLURM_NTASKS …. Throws UserError(usage) for values that do
// not fit.
World world_from_environment();

// The launch that the user requested on this node: NPROC_PER_NODE, NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT; LLaMA-Factory's
// MIN_NNODES and MAX_NNODES make it elastic.
struct LaunchConfig {
  int processes = 0;  // on this node; 0: no launch requested
  int nodes = 1, node_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 0;       // 0: any free port (one node only)
  int min_nodes = 0;         // above 0: elastic, a restart continues with as few
  double elastic_wait = 30;  // seconds that a restart waits for missing nodes
};
// `otherwise` holds defaults of the same names from another launcher's file; the environment overrides them.
LaunchConfig launch_from_environment(const std::map<std::string, std::string>& otherwise = {});

// Whether a launcher has started all processes: hone's supervisor, torchrun, Slurm. False if a pod is one node of a job
// (PET_NPROC_PER_NODE of a PyTorchJob) whose ranks are still to be started.
bool is_launched_externally();

// Cores for each of `ranks` processes on this machine: Slurm's cores per task, or an equal share of the available ones; at least
// one.
int cores_per_rank(int ranks);

}  // namespace hone::parallel
