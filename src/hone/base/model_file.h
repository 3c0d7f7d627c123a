// Reads config.json and other JSON files of a model folder.
#pragma once
#include <filesystem>

#include "hone/base/file.h"
#include "hone/base/json.h"

namespace hone {

// An object. A file that cannot be parsed belongs to a damaged checkpoint, whereas read_config_file() blames the command line.
inline Json read_model_file(const std::filesystem::path& path) {
  auto value =
      parse_json(read_file(path)).or_throw(ExitCode::bad_checkpoint, path.string(), "the file may be damaged: fetch it again");
  if (!value.is_object())
    throw UserError(ExitCode::bad_checkpoint, fmt::format("{}: expected an object, found {}", path.string(), value.type_name()));
  return value;
}

}  // namespace hone
