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
  // What somebody wants of each axis; 0 of dp takes whatever ranks are left.
  struct Request {
    std::string device_type = "cpu";
    int dp = 0, fsdp = 1, sp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
    int etp = 0;             // of experts; 0: as many as tp
    int ranks_per_node = 0;  // 0: unknown. Axes that talk most should not cross nodes; the plan says when they do
  };

  // Lays `world` ranks out. Throws UserError(usage) that explains why they cannot be.
  static DeviceMesh plan(const Request& request, int world);
  // The grid of the experts, of the same request: those of a stage are cut by etp and dealt out over ep; edp is what is left.
  static DeviceMesh plan_experts(const Request& request, int world);
  // The first axis varies slowest: neighbors along the last one are neighbors on a node.
  DeviceMesh(std::string device_type, std::vector<Axis> axes);

  int size() const;
  int size(std::string_view axis) const;  // 1 for an axis the mesh does not have
  int coordinate(int rank, std::string_view axis) const;
  std::vector<int> group(int rank, std::string_view axis) const;  // the ranks that differ from `rank` along this axis alone
  std::vector<int> group(int rank, std::initializer_list<std::string_view> axes) const;  // along these, in order of rank
  // Ranks that see the same rows share a data rank: its position over dp and fsdp.
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
