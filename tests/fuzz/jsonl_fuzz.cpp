// Any bytes as a dataset file of each kind: every row is a conversation or an error, never a crash; the stream agrees with the
// index.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hone/data/formats/format.h"
#include "hone/data/readers/row_reader.h"

using namespace hone;
using namespace hone::data;

namespace {

const char* const kKinds[] = {".jsonl", ".json", ".csv", ".tsv", ".txt"};

void read_all(const fs::path& file) {
  auto rows = open_rows(file, {.max_row_bytes = 4096});
  auto stream = open_row_stream(file, {.max_row_bytes = 4096});
  auto format = swift_format({}, sniff_columns(*stream));
  for (int64_t i = 0; i < rows->size(); ++i) {
    auto row = rows->at(i);
    auto streamed = stream->next();
    if (!streamed || streamed->ok() != row.ok()) std::abort();
    if (!row.ok()) continue;
    if (row->fields != (*streamed)->fields || row->origin.line != (*streamed)->origin.line) std::abort();
    (void)format->convert(std::move(row).value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const auto folder = fs::temp_directory_path() / ("hone_jsonl_fuzz_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto file = folder / (std::string("input") + kKinds[data[0] % std::size(kKinds)]);
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(data + 1), static_cast<std::streamsize>(size - 1));
  try {
    read_all(file);
  } catch (const UserError&) {
  }
  return 0;
}
