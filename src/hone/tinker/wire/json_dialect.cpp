#include "hone/tinker/wire/json_dialect.h"

#include <cmath>
#include <utility>

#include "hone/base/error.h"
#include "hone/base/protobuf.h"
#include "hone/tinker/wire/arrays.h"
#include "hone/tinker/wire/json_fields.h"

namespace hone::tinker {
namespace {

const Json& list_in(const Json& object, const char* name) {
  if (!has_field(object, name) || !object[name].is_array()) throw RequestError(fmt::format("{}: expected a list", name));
  return object[name];
}

// A value outside the range of T, such as a token of 2^32, would become a different number.
template <class T>
bool fits(const Json& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value.is_number();
  } else {
    if (value.is_number_unsigned()) return std::in_range<T>(value.get<uint64_t>());
    return value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
  }
}

template <class T>
std::vector<T> numbers_in(const Json& object, const char* name) {
  const auto& list = list_in(object, name);
  std::vector<T> values;
  values.reserve(list.size());
  for (const auto& each : list) {
    if (!fits<T>(each))
      throw RequestError(
          fmt::format("{}: expected {}", name,
                      std::is_floating_point_v<T> ? "numbers" : fmt::format("whole numbers of {} bits", 8 * sizeof(T))));
    values.push_back(each.get<T>());
  }
  return values;
}

std::string values_bytes(const Json& tensor, uint64_t dtype) {
  if (dtype == kInt64) return std::string(bytes_of(numbers_in<int64_t>(tensor, "data")));
  return std::string(bytes_of(numbers_in<float>(tensor, "data")));
}

std::string tensor_from_json(const Json& tensor) {
  const auto name = text_field(tensor, "dtype", "float32");
  if (name != "float32" && name != "int64") throw RequestError(fmt::format("dtype is \"{}\"; expected float32 or int64", name));
  const uint64_t dtype = name == "int64" ? kInt64 : kFloat32;
  ProtobufWriter out;
  if (has_field(tensor, "sparse_crow_indices")) {
    const auto rows = numbers_in<int64_t>(tensor, "sparse_crow_indices"),
               columns = numbers_in<int64_t>(tensor, "sparse_col_indices");
    out.bytes(2,
              ProtobufWriter().bytes(1, values_bytes(tensor, dtype)).bytes(2, bytes_of(rows)).bytes(3, bytes_of(columns)).take());
  } else {
    out.bytes(1, values_bytes(tensor, dtype));
  }
  out.number(3, dtype);
  if (has_field(tensor, "shape"))
    for (auto size : numbers_in<int64_t>(tensor, "shape")) out.number(4, static_cast<uint64_t>(size));
  return out.take();
}

std::string chunk_from_json(const Json& chunk) {
  const auto type = text_field(chunk, "type", "encoded_text");
  if (type != "encoded_text") throw RequestError(fmt::format("\"{}\" in training data is not supported by this server", type));
  return ProtobufWriter().bytes(1, ProtobufWriter().bytes(1, bytes_of(numbers_in<int32_t>(chunk, "tokens"))).take()).take();
}

std::string datum_from_json(const Json& datum) {
  if (!datum.is_object()) throw RequestError("data: expected objects with model_input and loss_fn_inputs");
  ProtobufWriter out;
  const auto input = datum.value("model_input", Json());
  for (const auto& chunk : list_in(input, "chunks")) out.bytes(1, chunk_from_json(chunk));
  const auto inputs = datum.value("loss_fn_inputs", Json::object());
  if (!inputs.is_object()) throw RequestError("loss_fn_inputs: expected an object of tensors");
  for (const auto& [name, tensor] : inputs.items())
    out.bytes(2, ProtobufWriter().bytes(1, name).bytes(2, tensor_from_json(tensor)).take());
  return out.take();
}

// The fields of a message that this server wrote, so that it is not validated again.
template <class Take>
void each_field(std::string_view bytes, Take take) {
  ProtobufReader reader(bytes);
  while (auto field = reader.next()) take(*field);
  HONE_CHECK(reader.ok());
}

// A batched tensor as one tensor per datum.
void add_tensors(const std::string& name, std::string_view bytes, std::vector<Json>& data) {
  std::string_view values;
  std::vector<int64_t> offsets;
  int64_t width = 0;
  each_field(bytes, [&](const ProtobufReader::Field& field) {
    if (field.number == 1) values = field.bytes;
    if (field.number == 2) offsets = array_of<int64_t>(field.bytes, "a stored result");
    if (field.number == 4) width = static_cast<int64_t>(field.value);
  });
  for (size_t i = 0; i + 1 < offsets.size() && i < data.size(); ++i) {
    const auto begin = static_cast<size_t>(offsets[i]), end = static_cast<size_t>(offsets[i + 1]);
    const auto numbers = array_of<float>(values.substr(begin, end - begin), "a stored result");
    const auto count = static_cast<int64_t>(numbers.size());
    const auto shape = width > 0 ? Json::array({count / width, width}) : Json::array({count});
    data[i][name] = {{"data", numbers}, {"dtype", "float32"}, {"shape", shape}};
  }
}

void add_record(std::string_view bytes, Json& outputs) {
  std::vector<std::pair<std::string, std::string_view>> tensors;
  size_t count = 0;
  each_field(bytes, [&](const ProtobufReader::Field& field) {
    if (field.number == 3) count = static_cast<size_t>(field.value);
    if (field.number != 2) return;
    auto& [name, tensor] = tensors.emplace_back();
    each_field(field.bytes, [&](const ProtobufReader::Field& part) {
      if (part.number == 1) name = part.bytes;
      if (part.number == 2) tensor = part.bytes;
    });
  });
  std::vector<Json> data(count, Json::object());
  for (const auto& [name, tensor] : tensors) add_tensors(name, tensor, data);
  for (auto& each : data) outputs.push_back(std::move(each));
}

Json sequence_to_json(std::string_view bytes) {
  Json sequence = {{"stop_reason", "stop"}, {"tokens", Json::array()}, {"logprobs", Json::array()}};
  each_field(bytes, [&](const ProtobufReader::Field& field) {
    if (field.number == 1 && field.value == 1) sequence["stop_reason"] = "length";
    if (field.number == 2) sequence["tokens"] = array_of<int32_t>(field.bytes, "a stored result");
    if (field.number == 3) sequence["logprobs"] = array_of<float>(field.bytes, "a stored result");
  });
  return sequence;
}

Json numbers_or_null(const std::vector<float>& values) {
  Json list = Json::array();
  for (float value : values) list.push_back(std::isnan(value) ? Json() : Json(value));
  return list;
}

// A list of [token, log-probability] for each position; null if unknown.
Json top_to_json(std::string_view bytes) {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  size_t k = 1;
  each_field(bytes, [&](const ProtobufReader::Field& field) {
    if (field.number == 1) tokens = array_of<int32_t>(field.bytes, "a stored result");
    if (field.number == 2) logprobs = array_of<float>(field.bytes, "a stored result");
    if (field.number == 3) k = static_cast<size_t>(field.value);
  });
  Json rows = Json::array();
  for (size_t row = 0; row + k <= tokens.size(); row += k) {
    Json candidates = Json::array();
    for (size_t i = row; i < row + k; ++i)
      if (logprobs[i] != kNoCandidate) candidates.push_back(Json::array({tokens[i], logprobs[i]}));
    rows.push_back(candidates.empty() ? Json() : std::move(candidates));
  }
  return rows;
}

}  // namespace

std::string forward_backward_from_json(const Json& body, bool forward_only) {
  const char* name = forward_only ? "forward_input" : "forward_backward_input";
  if (!has_field(body, name) || !body[name].is_object()) throw RequestError(fmt::format("{}: expected an object", name));
  const auto& input = body[name];
  ProtobufWriter out;
  out.bytes(1, required_text(body, "model_id")).number(2, static_cast<uint64_t>(required_integer(body, "seq_id", 1)));
  for (const auto& datum : list_in(input, "data")) out.bytes(3, datum_from_json(datum));
  out.bytes(4, required_text(input, "loss_fn"));
  if (has_field(input, "loss_fn_config"))
    for (const auto& [key, value] : input["loss_fn_config"].items()) {
      if (!value.is_number()) throw RequestError(fmt::format("loss_fn_config \"{}\": expected a number", key));
      out.bytes(5, ProtobufWriter().bytes(1, key).real(2, value.get<double>()).take());
    }
  out.number(6, forward_only ? 1 : 0);
  return out.take();
}

Json forward_backward_output_to_json(std::string_view bytes) {
  Json result = {{"loss_fn_output_type", "ArrayRecord"}, {"loss_fn_outputs", Json::array()}, {"metrics", Json::object()}};
  each_field(bytes, [&](const ProtobufReader::Field& field) {
    if (field.number == 2) add_record(field.bytes, result["loss_fn_outputs"]);
    if (field.number != 3) return;
    std::string name;
    each_field(field.bytes, [&](const ProtobufReader::Field& part) {
      if (part.number == 1) name = part.bytes;
      if (part.number == 2) result["metrics"][name] = part.as_double();
    });
  });
  return result;
}

Json sample_response_to_json(std::string_view bytes) {
  Json result = {{"type", "sample"}, {"sequences", Json::array()}};
  each_field(bytes, [&](const ProtobufReader::Field& field) {
    if (field.number == 1) result["sequences"].push_back(sequence_to_json(field.bytes));
    if (field.number == 2) result["prompt_logprobs"] = numbers_or_null(array_of<float>(field.bytes, "a stored result"));
    if (field.number == 3) result["topk_prompt_logprobs"] = top_to_json(field.bytes);
  });
  return result;
}

}  // namespace hone::tinker
