// forward_backward on the wire: the request, and the log-probabilities in its response.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hone::tinker {

// A dense tensor of a datum with one or two dimensions, from any layout. Integers are exact in a double.
struct LossInput {
  std::vector<double> values;
  int64_t rows = 0, width = 1;  // width: how many values a position has
  bool is_matrix = false;
};

struct Datum {
  std::vector<int64_t> tokens;
  std::map<std::string, LossInput> inputs;
};

struct ForwardBackwardRequest {
  std::string model_id;
  int64_t seq_id = 0;
  std::vector<Datum> data;
  std::string loss_fn;
  std::map<std::string, double> config;
  bool forward_only = false;
};

// The routing information of a request, without its data.
struct RequestAddress {
  std::string model_id;
  int64_t seq_id = 0;
  bool forward_only = false;
  int64_t tokens = 0;  // of its data
};
// Both throw RequestError for invalid bytes.
RequestAddress read_address(std::string_view bytes);
ForwardBackwardRequest read_forward_backward(std::string_view bytes);

struct DatumLogprobs {
  std::vector<float> values;
  int64_t width = 1;
  bool is_matrix = false;
};
// In the order of the data; metrics are "name:reduction".
std::string write_forward_backward_output(const std::vector<DatumLogprobs>& data, const std::map<std::string, double>& metrics);

}  // namespace hone::tinker
