#include "hone/tinker/wire/forward_backward.h"

#include "hone/base/protobuf.h"
#include "hone/tinker/wire/arrays.h"

namespace hone::tinker {
namespace {

constexpr int64_t kMostValues = int64_t{1} << 28;  // of one tensor
// Limit on the total size of the sparse tensors of a request once they are dense: a few bytes may encode any number of zeros.
constexpr int64_t kMostSparseValues = int64_t{1} << 24;
template <class T>
std::vector<double> widened(std::string_view bytes, const char* what) {
  auto values = array_of<T>(bytes, what);
  return {values.begin(), values.end()};
}

std::vector<double> numbers_of(std::string_view bytes, uint64_t dtype) {
  switch (dtype) {
    case kFloat32:
      return widened<float>(bytes, "a float32 tensor");
    case kInt64:
      return widened<int64_t>(bytes, "an int64 tensor");
    case kInt32:
      return widened<int32_t>(bytes, "an int32 tensor");
    default:
      throw RequestError(fmt::format("a tensor has dtype {}; expected float32, int64 or int32", dtype));
  }
}

void require_whole(const ProtobufReader& reader, const char* what) {
  if (!reader.ok()) throw RequestError(fmt::format("{} is damaged: the bytes are not a protobuf message", what));
}

struct Csr {
  std::string_view values, rows, columns;
};

Csr read_csr(std::string_view bytes) {
  ProtobufReader reader(bytes);
  Csr csr;
  while (auto field = reader.next()) {
    if (field->number == 1) csr.values = field->bytes;
    if (field->number == 2) csr.rows = field->bytes;
    if (field->number == 3) csr.columns = field->bytes;
  }
  require_whole(reader, "a sparse tensor");
  return csr;
}

std::vector<double> dense_of(const Csr& csr, uint64_t dtype, int64_t rows, int64_t width) {
  auto values = numbers_of(csr.values, dtype);
  auto starts = array_of<int64_t>(csr.rows, "crow_indices"), columns = array_of<int64_t>(csr.columns, "col_indices");
  if (static_cast<int64_t>(starts.size()) != rows + 1 || columns.size() != values.size())
    throw RequestError("a sparse tensor's crow_indices and col_indices do not fit its shape and values");
  std::vector<double> dense(static_cast<size_t>(rows * width));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t begin = starts[static_cast<size_t>(row)], end = starts[static_cast<size_t>(row) + 1];
    if (begin < 0 || end < begin || end > static_cast<int64_t>(values.size()))
      throw RequestError("a sparse tensor's crow_indices point outside its values");
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = columns[static_cast<size_t>(i)];
      if (column < 0 || column >= width) throw RequestError("a sparse tensor's col_indices point outside its shape");
      dense[static_cast<size_t>(row * width + column)] = values[static_cast<size_t>(i)];
    }
  }
  return dense;
}

void read_shape(const ProtobufReader::Field& field, std::vector<int64_t>& shape) {
  if (!field.is_bytes) {
    shape.push_back(static_cast<int64_t>(field.value));
    return;
  }
  const auto sizes = ProtobufReader::packed(field.bytes);
  if (!sizes) throw RequestError("a tensor's shape is damaged");
  shape.insert(shape.end(), sizes->begin(), sizes->end());
}

// `room`: sparse values that the request may still have.
LossInput read_tensor(std::string_view bytes, int64_t& room) {
  ProtobufReader reader(bytes);
  std::string_view dense;
  std::optional<Csr> csr;
  uint64_t dtype = 0;
  std::vector<int64_t> shape;
  while (auto field = reader.next()) {
    if (field->number == 1) dense = field->bytes;
    if (field->number == 2) csr = read_csr(field->bytes);
    if (field->number == 3) dtype = field->value;
    if (field->number == 4) read_shape(*field, shape);
  }
  require_whole(reader, "a tensor");
  if (shape.size() > 2) throw RequestError(fmt::format("a tensor has {} dimensions; expected one or two", shape.size()));
  LossInput input;
  if (!csr) input.values = numbers_of(dense, dtype);
  input.is_matrix = shape.size() == 2;
  input.rows = shape.empty() ? static_cast<int64_t>(input.values.size()) : shape[0];
  input.width = input.is_matrix ? shape[1] : 1;
  const bool sane = input.rows >= 0 && input.width >= 1 && input.rows <= kMostValues && input.width <= kMostValues &&
                    input.rows * input.width <= kMostValues;
  if (!sane) throw RequestError(fmt::format("a tensor has shape {} x {}", input.rows, input.width));
  if (csr) {
    room -= input.rows * input.width;
    if (room < 0)
      throw RequestError(
          fmt::format("the request's sparse tensors have more than {} values with their zeros", kMostSparseValues));
    input.values = dense_of(*csr, dtype, input.rows, input.width);
  }
  if (static_cast<int64_t>(input.values.size()) != input.rows * input.width)
    throw RequestError(fmt::format("a tensor of shape {} x {} holds {} values", input.rows, input.width, input.values.size()));
  return input;
}

// Both kinds of map entries: {1 key, 2 value}.
struct MapEntry {
  std::string key;
  ProtobufReader::Field value;
};

MapEntry read_entry(std::string_view bytes) {
  ProtobufReader reader(bytes);
  MapEntry entry;
  while (auto field = reader.next()) {
    if (field->number == 1) entry.key = field->bytes;
    if (field->number == 2) entry.value = *field;
  }
  require_whole(reader, "a map entry");
  return entry;
}

void read_chunk(std::string_view bytes, std::vector<int64_t>& tokens) {
  ProtobufReader reader(bytes);
  while (auto field = reader.next()) {
    if (field->number == 2) throw RequestError("images in training data are not supported by this server");
    if (field->number == 3) throw RequestError("audio (dmel) in training data is not supported by this server");
    if (field->number != 1) continue;
    ProtobufReader text(field->bytes);
    while (auto part = text.next()) {
      if (part->number != 1) continue;
      auto ids = array_of<int32_t>(part->bytes, "tokens");
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    require_whole(text, "a chunk of text");
  }
  require_whole(reader, "a chunk");
}

Datum read_datum(std::string_view bytes, int64_t& room) {
  ProtobufReader reader(bytes);
  Datum datum;
  while (auto field = reader.next()) {
    if (field->number == 1) read_chunk(field->bytes, datum.tokens);
    if (field->number != 2) continue;
    auto entry = read_entry(field->bytes);
    datum.inputs[entry.key] = read_tensor(entry.value.bytes, room);
  }
  require_whole(reader, "a datum");
  return datum;
}

// The newer form of loss settings: {1 number | 2 text}.
void read_setting(const MapEntry& entry, std::map<std::string, double>& config) {
  ProtobufReader reader(entry.value.bytes);
  while (auto field = reader.next()) {
    if (field->number == 1) config[entry.key] = field->as_double();
    if (field->number == 2)
      throw RequestError(fmt::format("loss_fn_config \"{}\" is the text \"{}\"; expected a number", entry.key, field->bytes));
  }
  require_whole(reader, "loss_fn_config");
}

// Four bytes per token: datum.model_input (1), chunk.text (1), text.tokens (1). Corruption is reported where the data are read.
int64_t token_count(std::string_view bytes, int depth) {
  if (depth == 0) return static_cast<int64_t>(bytes.size() / sizeof(int32_t));
  ProtobufReader reader(bytes);
  int64_t count = 0;
  while (auto field = reader.next())
    if (field->number == 1 && field->is_bytes) count += token_count(field->bytes, depth - 1);
  return count;
}

}  // namespace

RequestAddress read_address(std::string_view bytes) {
  ProtobufReader reader(bytes);
  RequestAddress address;
  while (auto field = reader.next()) {
    if (field->number == 1) address.model_id = field->bytes;
    if (field->number == 2) address.seq_id = static_cast<int32_t>(field->value);
    if (field->number == 3) address.tokens += token_count(field->bytes, 3);
    if (field->number == 6) address.forward_only = field->value != 0;
  }
  require_whole(reader, "the request");
  return address;
}

ForwardBackwardRequest read_forward_backward(std::string_view bytes) {
  ProtobufReader reader(bytes);
  ForwardBackwardRequest request;
  int64_t room = kMostSparseValues;
  while (auto field = reader.next()) switch (field->number) {
      case 1:
        request.model_id = field->bytes;
        break;
      case 2:
        request.seq_id = static_cast<int32_t>(field->value);
        break;
      case 3:
        request.data.push_back(read_datum(field->bytes, room));
        break;
      case 4:
        request.loss_fn = field->bytes;
        break;
      case 5: {
        auto entry = read_entry(field->bytes);
        request.config[entry.key] = entry.value.as_double();
        break;
      }
      case 6:
        request.forward_only = field->value != 0;
        break;
      case 7:
        read_setting(read_entry(field->bytes), request.config);
        break;
      default:
        break;  // from a newer SDK
    }
  require_whole(reader, "the request");
  return request;
}

// Consecutive datums of one width share a record; the next width starts another.
std::string write_forward_backward_output(const std::vector<DatumLogprobs>& data, const std::map<std::string, double>& metrics) {
  ProtobufWriter output;
  output.bytes(1, "ArrayRecord");
  for (size_t begin = 0, end = 0; begin < data.size(); begin = end) {
    std::string values;
    std::vector<int64_t> offsets{0};
    for (end = begin; end < data.size() && data[end].width == data[begin].width && data[end].is_matrix == data[begin].is_matrix;
         ++end) {
      values.append(reinterpret_cast<const char*>(data[end].values.data()), data[end].values.size() * sizeof(float));
      offsets.push_back(static_cast<int64_t>(values.size()));
    }
    ProtobufWriter tensor;
    tensor.bytes(1, values).bytes(2, bytes_of(offsets));
    tensor.number(3, kFloat32);
    if (data[begin].is_matrix) tensor.number(4, static_cast<uint64_t>(data[begin].width));
    auto field = ProtobufWriter().bytes(1, "logprobs").bytes(2, tensor.take()).take();
    output.bytes(2, ProtobufWriter().bytes(1, "ArrayRecord").bytes(2, field).number(3, end - begin).take());
  }
  for (const auto& [name, value] : metrics) output.bytes(3, ProtobufWriter().bytes(1, name).real(2, value).take());
  return output.take();
}

}  // namespace hone::tinker
