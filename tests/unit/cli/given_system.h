// A file system and an environment that a test gives, instead of the real ones.
#pragma once
#include <map>
#include <string>

#include "hone/cli/run.h"

namespace hone::cli {

inline SystemAccess given_system(std::map<std::string, std::string> files, std::map<std::string, std::string> variables) {
  return {[files = std::move(files)](const std::string& path) {
            auto found = files.find(path);
            if (found == files.end()) throw UserError(ExitCode::bad_data, path + ": no such file");
            return found->second;
          },
          [variables = std::move(variables)](const std::string& name) {
            auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional(found->second);
          }};
}

}  // namespace hone::cli
