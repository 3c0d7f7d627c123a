// Files from a rank to its supervisor: the reason of a failure, the folder of the run, and where to resume.
#pragma once
#include <optional>
#include <string>

namespace hone::parallel {

// Set by the supervisor for each rank. The rank that owns the terminal has no pipe to the supervisor, so it writes these files.
inline constexpr const char* kSupervisedMark = "HONE_SUPERVISED";
inline constexpr const char* kFailureNote = "HONE_FAILURE_NOTE";
inline constexpr const char* kRunNote = "HONE_RUN_NOTE";
inline constexpr const char* kContinueRun = "HONE_CONTINUE_RUN";

void write_error_file(const std::string& why);   // the first note stays; without a supervisor nothing happens
void write_run_dir(const std::string& folder);   // where this run writes its checkpoints
std::optional<std::string> run_dir_to_resume();  // after a restart: the folder of the attempt before

}  // namespace hone::parallel
