// One finding of `hone doctor`, and the checks that produce them.
#pragma once
#include <string>
#include <vector>

namespace hone::cli::doctor {

enum class Severity { good, absent, warning, bad };

struct Finding {
  Severity mark;
  std::string subject, found;
  std::string advice;  // what to do, or what the part would enable
};
using Findings = std::vector<Finding>;

Findings check_software();  // libtorch, CUDA, optional parts
Findings examine_npu();     // driver, CANN, torch_npu, a small computation
Findings examine_devices();
Findings examine_machine();  // memory, disks, limits, ports, terminal
Findings examine_hubs(bool ask_network);

// Environment variables that guides set, and their effect in hone.
enum class Effect { supported, passed_on, none };
struct Variable {
  std::string name, value, note;
  Effect effect;
};
std::vector<Variable> known_variables();      // all of them; families end in *
std::vector<Variable> known_variables_set();  // those that are set, members of families by their own names

}  // namespace hone::cli::doctor
