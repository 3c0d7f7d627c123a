#include "hone/hub/repo.h"

#include <algorithm>
#include <cctype>

namespace hone::hub {
namespace {

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' || c == '/'; }

bool is_plain_path(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_plain) && text.find("..") == text.npos &&
         text.find("//") == text.npos && text.front() != '/' && text.back() != '/';
}

}  // namespace

std::string_view site_name(Site site) { return site == Site::modelscope ? "ModelScope" : "Hugging Face"; }

Site other_site(Site site) { return site == Site::modelscope ? Site::hugging_face : Site::modelscope; }

std::string Repo::branch() const {
  bool main_branch = revision.empty() || revision == "main" || revision == "master";
  if (!main_branch) return revision;
  return site == Site::modelscope ? "master" : "main";
}

bool is_repo_id(std::string_view text) {
  return is_plain_path(text) && std::count(text.begin(), text.end(), '/') == 1 && text.front() != '.' && text.size() <= 200;
}

bool is_revision(std::string_view text) { return is_plain_path(text) && text.front() != '.' && text.size() <= 200; }

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

Result<std::filesystem::path> file_name_from_server(const std::string& name) {
  auto refuse = [&](const char* why) { return error("the hub lists a file named \"{}\", which {}", name.substr(0, 200), why); };
  if (name.empty() || name.size() > 1024) return refuse("is empty or too long");
  if (std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
    return error("the hub lists a file with control characters in its name");
  if (name.front() == '/' || name.find('\\') != name.npos) return refuse("is not a relative path");
  for (size_t from = 0; from <= name.size();) {
    auto slash = std::min(name.find('/', from), name.size());
    auto part = name.substr(from, slash - from);
    if (part.empty() || part == "." || part == "..") return refuse("would leave its folder");
    if (part == ".git" || part == ".hone") return refuse("belongs to another program");
    if (part.size() > 240) return refuse("is too long");
    from = slash + 1;
  }
  return std::filesystem::path(name);
}

}  // namespace hone::hub
