// The files of a folder for a subset and a split, by the naming rules of Hugging Face dataset repositories.
#pragma once
#include <string>
#include <vector>

#include "hone/base/file.h"

namespace hone::data {

// Sorted by path. `subset` is a subfolder or a word in file names, empty or "default" for all; `split` is train, validation or
// test. Throws UserError(bad_data) listing what the folder contains.
std::vector<fs::path> dataset_files(const fs::path& folder, const std::string& subset, const std::string& split);

// The alphabetic parts of a path in lower case: "test/anatomy_test.csv" contains the word test.
std::vector<std::string> path_words(const std::string& path);

// "train", "validation", "test" or "" by the words in a file's path below the folder.
std::string split_of(const fs::path& relative);
bool is_split_name(const std::string& word);

}  // namespace hone::data
