// Detects the rank that slows down all others: in each step the ranks exchange their compute times.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hone::train {

class StragglerDetector {
 public:
  explicit StragglerDetector(int processes) : sums_(static_cast<size_t>(processes)), late_(sums_.size()) {}

  // Takes the seconds that each process computed in the previous step, without waiting. Returns a warning when one took more than
  // twice the median for some consecutive windows, once per slow period.
  std::optional<std::string> observe(const std::vector<double>& seconds);

 private:
  std::vector<double> sums_;  // over the window
  std::vector<int> late_;     // consecutive windows
  int steps_ = 0;
};

}  // namespace hone::train
