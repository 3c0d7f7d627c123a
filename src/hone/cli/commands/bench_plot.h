// The plot of a load test: distributions of time to first token, inter-token latency and request latency.
#pragma once
#include "hone/base/file.h"
#include "hone/serve/bench/load.h"

namespace hone::cli {

void write_load_plot(const fs::path& path, const serve::LoadResult& result, const serve::LoadSummary& summary);

}  // namespace hone::cli
