#include "hone/tinker/api/audit.h"

#include "hone/base/file.h"
#include "hone/base/log.h"

namespace hone::tinker {

// A failed write to the log does not undo the action.
void AuditLog::write(const Call& call, int status) const try {
  Json line = {{"time", unix_seconds()},
               {"tenant", call.tenant},
               {"method", std::string(call.request.method)},
               {"path", std::string(call.request.path)},
               {"status", status}};
  if (const auto body = parse_json(call.request.body); body && body->is_object())
    for (const char* name : {"session_id", "model_id", "model_seq_id", "seq_id", "path", "ttl_seconds"})
      if (body->contains(name)) line["request"][name] = (*body)[name];
  append_line(file_, line.dump(-1, ' ', true, Json::error_handler_t::replace));
} catch (const std::exception& problem) {
  log::error("the audit log: {}", problem.what());
}

}  // namespace hone::tinker
