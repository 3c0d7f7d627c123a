// Public datasets that guides of ms-swift name: which of their columns, subsets and splits it reads, and the rows it makes of
// them.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "hone/data/datasets/dataset_info.h"

namespace hone::data {

// By id, or by the last component of an id or folder, as ms-swift finds them. Null: an unknown dataset, read by its columns
// alone.
const SwiftEntry* find_known_dataset(const std::string& word);

// The entry without subsets and splits that `folder` has no files of: a copy of a dataset may have another layout.
SwiftEntry present_in(const SwiftEntry& entry, const std::filesystem::path& folder);

// What ms-swift makes of the columns of a row as they are in the file.
struct KnownRows {
  std::function<bool(Json& fields, const RowOrigin& origin)> change;  // false: ms-swift leaves the row out; empty: none
  bool is_complete = false;  // the changed row has the names of `swift_format`; else its columns are renamed as usual
  std::vector<std::string> columns = {};  // that the change reads

  // Whether a file with these columns holds rows of the dataset. If not, the user's own data has its name.
  bool describes(const std::vector<std::string>& present) const;
};
// The format of the rows of a dataset, or of one of its subsets.
KnownRows known_rows(const SwiftEntry& entry, const std::string& subset);

// A format that changes rows before `format` reads them.
std::shared_ptr<const RowFormat> changed_rows(std::shared_ptr<const RowFormat> format, KnownRows rows);

}  // namespace hone::data
