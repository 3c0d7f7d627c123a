// The picture of a load test: how the times to the first token, between tokens and of whole requests are spread.
#pragma once
#include "hone/base/file.h"
#include "hone/serve/bench/load.h"

namespace hone::cli {

void write_load_plot(const fs::path& path, const serve::LoadResult& result, const serve::LoadSummary& summary);

}  // namespace hone::cli
