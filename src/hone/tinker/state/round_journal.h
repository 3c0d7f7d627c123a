// Which requests were being computed when the process ended: after a few times the request is taken for the cause and fails, so
// that it does not end the server again and again. Not synced to the disk: a machine that loses power is no request's fault.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hone::tinker {

using RequestName = std::pair<std::string, int64_t>;  // of a run, its sequence number

class RoundJournal {
 public:
  static constexpr int kMaxCrashes = 3;

  explicit RoundJournal(std::filesystem::path file);  // with the entries of an earlier process
  // Around the computation of a round.
  void begin(const std::vector<RequestName>& requests);
  void end();

  // How often the process ended while it computed this request.
  int crashes(const RequestName& request) const;
  void forget(const RequestName& request) { crashes_.erase(request); }

 private:
  std::filesystem::path file_;
  std::map<RequestName, int> crashes_;
};

}  // namespace hone::tinker
