// Merges the responses of several workers.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hone/tinker/state/store.h"

namespace hone::tinker {

// A page of all entries: newest first by their field `time`, or in order if it is null.
Json page_of_entries(Json entries, const char* time, Page page);
// Sums the counters of all workers. Other values are those of the first worker.
void add_numbers(Json& sum, const Json& each);
// Metrics in Prometheus' text format, each sample labelled with its worker; samples of one family are adjacent.
std::string merged_metrics(const std::vector<std::pair<std::string, std::string>>& worker_and_text);

}  // namespace hone::tinker
