// A request to a hub: site, kind, id and revision; and the checks on names before they become paths.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "hone/base/error.h"

namespace hone::hub {

enum class Kind { model, dataset };
enum class Site { modelscope, hugging_face };

std::string_view site_name(Site site);  // "ModelScope", "Hugging Face"
Site other_site(Site site);

struct Repo {
  Site site = Site::modelscope;
  Kind kind = Kind::model;
  std::string id;        // "Qwen/Qwen2.5-7B-Instruct"
  std::string revision;  // branch, tag or commit; empty is the main branch

  // The revision as this site spells it: ModelScope's main branch is master, Hugging Face's is main.
  std::string branch() const;
};

// "owner/name" in plain characters; anything else must not become part of a path or an address.
bool is_repo_id(std::string_view text);
bool is_revision(std::string_view text);
bool is_hex(std::string_view text, size_t digits);

// A file name from a server as a path below its target folder. Rejects everything that could leave that folder or affect other
// programs there: "..", absolute names, control characters, ".git".
Result<std::filesystem::path> file_name_from_server(const std::string& name);

}  // namespace hone::hub
