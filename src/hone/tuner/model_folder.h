// A model folder on its way to disk: it appears whole, with what stood beside the weights it came from.
#pragma once
#include <filesystem>
#include <set>
#include <string>

namespace hone::tuner {

// Everything of a model folder but its weights; with `only`, of the files named there.
void copy_small_files(const std::filesystem::path& from, const std::filesystem::path& to,
                      const std::set<std::string>* only = nullptr);

// A folder beside the output that is gone again unless the work came to its end.
class Staging {
 public:
  // Throws UserError(usage) when it cannot be made.
  explicit Staging(const std::filesystem::path& output);
  ~Staging();
  Staging(const Staging&) = delete;
  const std::filesystem::path& folder() const { return folder_; }
  void publish();

 private:
  void move_into();
  std::filesystem::path output_, folder_;
};

}  // namespace hone::tuner
