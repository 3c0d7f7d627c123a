// Any bytes as an answer of a hub: listings of both kinds, commits, links to next pages, names of files.
#include <string>

#include "hone/hub/listing.h"

using namespace hone::hub;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  (void)read_commit(text);
  (void)next_page(text);
  if (auto path = file_name_from_server(text);
      path && (path->is_absolute() || path->lexically_normal().begin()->string() == ".."))
    __builtin_trap();
  if (auto files = read_tree(text)) (void)filter_files(*files, {{text}, {}}, Kind::model);
  if (auto page = read_files(text)) (void)filter_files(page->files, {}, Kind::dataset);
  return 0;
}
