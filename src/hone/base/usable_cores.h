// The cores this process may use: its affinity mask, limited by the cgroup's CPU quota, and their NUMA nodes.
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace hone {

// "0-2,5" → {0, 1, 2, 5}, the list format of kernels and drivers; ignores everything after an error.
std::vector<int> parse_core_list(std::string_view text);

std::vector<int> allowed_cores();  // of the calling thread's affinity mask

// The CPU quota of this process in cores, from cgroup versions 1 and 2, its own group and its ancestors; infinity without a
// limit. `root` replaces "/".
double cpu_quota(const std::filesystem::path& root = "/");

// The number of useful threads: at least one, at most one per allowed core, with the quota rounded up. Computed once.
int usable_cores();

// The allowed cores by NUMA node; a single node with all of them if the kernel reports none.
std::vector<std::vector<int>> numa_nodes(const std::vector<int>& allowed, const std::filesystem::path& root = "/");

// The cores for one of several processes on a machine: adjacent, in as few nodes as possible, in shares of almost equal size.
// With more processes than cores, some share a core.
std::vector<int> share_of_cores(const std::vector<std::vector<int>>& nodes, int index, int count);

// Restricts the calling thread, and threads it starts later, to these cores. False if the system rejects this.
bool bind_to(const std::vector<int>& cores);

}  // namespace hone
