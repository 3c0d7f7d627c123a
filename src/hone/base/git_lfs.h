// Git LFS pointers: what `git clone` leaves in place of large files where git-lfs is not installed.
#pragma once
#include <string_view>

namespace hone {

inline bool is_git_lfs_pointer(std::string_view content) {
  return content.starts_with("version https://git-lfs.github.com/spec/");
}

inline constexpr std::string_view kGitLfsPointer = "a Git LFS pointer, not the file itself; run `git lfs pull` in its folder";

}  // namespace hone
