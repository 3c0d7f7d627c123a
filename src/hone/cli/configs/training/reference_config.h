// The reference model of a method: its options, validated before anything is loaded.
#pragma once
#include "hone/cli/options.h"
#include "hone/train/run.h"

namespace hone::cli {

// `needed`: the method uses a reference. `method` names it in the error for a reference that is not used.
void read_reference(const Options& options, bool needed, std::string_view method, train::TrainingJob& job);

}  // namespace hone::cli
