// Full disks: what the system, SQLite and hone's own writers throw.
#pragma once
#include <cerrno>
#include <system_error>

#include "hone/base/error.h"

namespace hone {

inline bool is_out_of_space(const std::exception& problem) {
  if (const auto* error = dynamic_cast<const UserError*>(&problem)) return error->code() == ExitCode::out_of_space;
  const auto* error = dynamic_cast<const std::system_error*>(&problem);
  return error &&
         (error->code() == std::errc::no_space_on_device || error->code() == std::error_code(EDQUOT, std::generic_category()));
}

}  // namespace hone
