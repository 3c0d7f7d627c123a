// Programs that hone starts: by argument vector, never by a shell.
#pragma once
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "hone/base/error.h"

namespace hone {

// Both ends are closed in programs that are started, unless given to them, and when it is destroyed. Their numbers are at
// least 20.
class Pipe {
 public:
  Pipe();  // throws UserError(failure)
  ~Pipe();
  Pipe(const Pipe&) = delete;

  int read_end() const { return read_; }  // -1 once closed
  int write_end() const { return write_; }
  void close_read();
  void close_write();
  int take_read() { return std::exchange(read_, -1); }  // the caller closes it
  int take_write() { return std::exchange(write_, -1); }

 private:
  int read_ = -1, write_ = -1;
};

struct ChildProgram {
  std::vector<std::string> words;                     // its name, looked up in PATH, and its arguments
  std::vector<std::string> variables = {};            // "NAME=value", in addition to this process's environment
  bool inherits_environment = true;                   // false: the variables are all it has
  std::vector<std::pair<int, int>> descriptors = {};  // one of this process, and its number in the program, below 20
  std::vector<int> null_descriptors = {};             // those that are /dev/null
  bool own_group = false;                             // a process group that can be ended as a whole
};

Result<pid_t> start_program(const ChildProgram& program);
int wait_for_program(pid_t process);  // its status, as of waitpid; -1: there is none
// Runs it until it ends. -> what it wrote to standard output
Result<std::string> program_output(ChildProgram program);

}  // namespace hone
