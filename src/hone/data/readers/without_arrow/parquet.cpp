#include "hone/data/readers/parquet.h"

namespace hone::data {

std::unique_ptr<RowReader> open_parquet(const fs::path& file) {
  throw UserError(ExitCode::bad_data, file.string() + ": this build of hone cannot read Parquet",
                  "pip install pyarrow into the Python that hone was built with and build again, or convert the file to JSONL");
}

bool can_read_parquet() { return false; }

}  // namespace hone::data
