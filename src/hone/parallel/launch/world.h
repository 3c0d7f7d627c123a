// Which process of how many this is. Read once, from whatever started us: our supervisor, torchrun, Slurm or a Kubernetes job.
#pragma once
#include <map>
#include <string>

namespace hone::parallel {

struct World {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 29500;
  bool launched = false;            // somebody started us as one of a number, be it the only one
  bool has_external_store = false;  // torchrun keeps the master's store, through all its attempts …
  int attempt = 0;                  // … of which this is one: what ranks of another left there is not for us

  bool distributed() const { return size > 1; }
  bool is_main() const { return rank == 0; }
};

// RANK, WORLD_SIZE, LOCAL_RANK … (torchrun's names) or SLURM_PROCID, SLURM_NTASKS …. Throws UserError(usage) for values that do
// not fit.
World world_from_environment();

// What a person asked this node to start: NPROC_PER_NODE, NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT; MIN_NNODES and MAX_NNODES,
// as LLaMA-Factory calls them, make it elastic.
struct LaunchConfig {
  int processes = 0;  // on this node; 0: no launch asked for
  int nodes = 1, node_rank = 0;
  std::string master_address = "127.0.0.1";
  int master_port = 0;       // 0: any free port (one node only)
  int min_nodes = 0;         // above 0: elastic, a restart continues with as few
  double elastic_wait = 30;  // seconds that a restart waits for nodes that have not come yet
};
// `otherwise` holds values of the same names that another launcher's file gives: they count where the environment says nothing.
LaunchConfig launch_from_environment(const std::map<std::string, std::string>& otherwise = {});

// Whether somebody has started every process there will be: our supervisor, torchrun, Slurm. False where a job's pod stands for a
// whole node (PET_NPROC_PER_NODE of a PyTorchJob) and its ranks are still to be started.
bool is_launched_externally();

// Cores for each of `ranks` processes on this machine: what Slurm gives a task, or an equal share of those we may run on; at
// least one.
int cores_per_rank(int ranks);

}  // namespace hone::parallel
