// The ranks of a run as a grid with named axes, and the groups along them: pipeline stages (pp), data (dp), shards of a replica
// (fsdp), one sequence (cp, sp), one layer (tp). Experts have a second grid over the same ranks and stages: etp, ep, edp.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace hone::parallel {

class DeviceMesh {
 public:
  struct Axis {
    std::string name;
    int size = 1;
  };
  // Requested size of each axis; a dp of 0 takes the remaining ranks.
  struct Request {
    std::string device_type = "cpu";
    int dp = 0, fsdp = 1, sp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
    int etp = 0;             // of experts; 0: as many as tp
    int ranks_per_node = 0;  // 0: unknown. Axes that communicate most should not cross nodes; notes() names those that do
  };

  // Arranges `world` ranks. Throws UserError(usage) with the reason when it cannot.
  static DeviceMesh make(const Request& request, int world);
  // The mesh of the experts, from the same request: the experts of a stage are sharded by etp and distributed over ep; edp is
  // the rest.
  static DeviceMesh make_for_experts(const Request& request, int world);
  // The first axis varies slowest: ranks that are adjacent along the last axis are adjacent on a node.
  DeviceMesh(std::string device_type, std::vector<Axis> axes);

  int size() const;
  int size(std::string_view axis) const;  // 1 for an axis the mesh does not have
  int coordinate(int rank, std::string_view axis) const;
  std::vector<int> group(int rank, std::string_view axis) const;  // the ranks that differ from `rank` along this axis alone
  std::vector<int> group(int rank, std::initializer_list<std::string_view> axes) const;  // along these, in order of rank
  // Ranks that train on the same rows share a data rank: its position over dp and fsdp.
  int data_rank(int rank) const;
  int data_size() const { return size("dp") * size("fsdp"); }

  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<std::string>& notes() const { return notes_; }
  std::string str() const;  // "cpu mesh of 8: dp 2 x fsdp 4", then one line for each group of the innermost axis

 private:
  int stride(size_t axis) const;
  std::string device_type_;
  std::vector<Axis> axes_;
  std::vector<std::string> notes_;
};

}  // namespace hone::parallel
