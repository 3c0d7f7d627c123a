// One dataset word of the command line: [hf::|ms::]ID_OR_PATH[:subset1/subset2][#N]. What exists as a path wins over the syntax.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hone::data {

struct DatasetWord {
  std::string name;  // path or id
  std::vector<std::string> subsets;
  std::optional<int64_t> sample;
  std::string hub;   // "hf", "ms" or empty
};

// Throws UserError(usage) for a count that is no positive number.
DatasetWord parse_dataset_word(const std::string& word);

}  // namespace hone::data
