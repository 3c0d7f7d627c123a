// Detects the rank that slows down all others: in each step every rank learns how long each of them computed.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace hone::train {

class StragglerDetector {
 public:
  explicit StragglerDetector(int processes) : sums_(static_cast<size_t>(processes)), late_(sums_.size()) {}

  // Seconds that each process computed in the step before, not counting what it waited for others. Returns a warning when one of
  // them took more than twice the median for some windows in a row; once for each slow spell.
  std::optional<std::string> observe(const std::vector<double>& seconds);

 private:
  std::vector<double> sums_;  // over the window
  std::vector<int> late_;     // windows in a row
  int steps_ = 0;
};

}  // namespace hone::train
