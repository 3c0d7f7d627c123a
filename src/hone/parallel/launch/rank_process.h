// A rank of this node in the supervisor: its process, output and exit status.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "hone/parallel/launch/world.h"

namespace hone::parallel {

class RankProcess {
 public:
  struct Start {
    const LaunchConfig& launch;
    const std::vector<std::string>& command;
    int local_rank;
    int port;
    std::string notes;         // folder for the notes of this attempt
    std::string continue_run;  // empty on the first attempt
  };
  explicit RankProcess(const Start& start);
  RankProcess(RankProcess&&) = default;

  int number() const { return number_; }
  bool ended() const { return status_.has_value(); }
  int exit_code() const;             // 128 + signal for a killed one
  std::string how_it_ended() const;  // "was killed by signal 9 (Killed)"
  std::string why() const;           // the content of its error file; empty if it wrote none

  bool reap();  // true once, when it has ended since the last look
  void signal(int number) const;
  int output() const { return output_; }
  void relay();  // prints what there is to read, each line with the rank before it

 private:
  int number_ = 0;
  pid_t pid_ = -1;
  int output_ = -1;  // read end of stdout and stderr; -1 for the rank that owns the terminal, and after the end
  std::string line_, failure_note_;
  std::optional<int> status_;
};

}  // namespace hone::parallel
