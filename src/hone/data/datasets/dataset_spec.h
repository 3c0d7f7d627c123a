// A dataset argument of the command line: [hf::|ms::]ID_OR_PATH[:subset1/subset2][#N]. An existing path takes precedence.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hone::data {

struct DatasetSpec {
  std::string name;  // path or id
  std::vector<std::string> subsets;
  std::optional<int64_t> sample;
  std::string hub;  // "hf", "ms" or empty
};

// Throws UserError(usage) for a count that is not a positive number.
DatasetSpec parse_dataset_spec(const std::string& word);

}  // namespace hone::data
