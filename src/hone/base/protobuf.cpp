#include "hone/base/protobuf.h"

#include <bit>

namespace hone {
namespace {

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

}  // namespace

double ProtobufReader::Field::as_double() const { return std::bit_cast<double>(value); }
float ProtobufReader::Field::as_float() const { return std::bit_cast<float>(static_cast<uint32_t>(value)); }

std::optional<uint64_t> ProtobufReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  ok_ = false;
  return std::nullopt;
}

std::optional<std::string_view> ProtobufReader::take(size_t count) {
  if (count > rest_.size()) {
    ok_ = false;
    return std::nullopt;
  }
  auto taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

std::optional<ProtobufReader::Field> ProtobufReader::next() {
  if (!ok_ || rest_.empty()) return std::nullopt;
  const auto tag = varint();
  if (!tag) return std::nullopt;
  Field field{.number = static_cast<uint32_t>(*tag >> 3), .bytes = {}};
  const auto type = *tag & 7;
  if (type == kVarint) {
    const auto value = varint();
    if (!value) return std::nullopt;
    field.value = *value;
    return field;
  }
  std::optional<uint64_t> size = type == kFixed64 ? 8 : type == kFixed32 ? 4 : type == kBytes ? varint() : std::nullopt;
  const auto bytes = size ? take(static_cast<size_t>(*size)) : std::nullopt;
  if (!bytes) {
    ok_ = false;
    return std::nullopt;
  }
  if (type == kBytes) {
    field.is_bytes = true;
    field.bytes = *bytes;
  } else {
    field.value = little_endian(*bytes);
  }
  return field;
}

std::optional<std::vector<uint64_t>> ProtobufReader::packed(std::string_view bytes) {
  ProtobufReader reader(bytes);
  std::vector<uint64_t> values;
  while (!reader.rest_.empty()) {
    const auto value = reader.varint();
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

void ProtobufWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>((value & 0x7f) | 0x80));
  out_.push_back(static_cast<char>(value));
}

void ProtobufWriter::fixed(uint64_t bits, size_t size) {
  for (size_t i = 0; i < size; ++i) out_.push_back(static_cast<char>(bits >> (8 * i)));
}

ProtobufWriter& ProtobufWriter::number(uint32_t field, uint64_t value) {
  if (value == 0) return *this;
  varint(uint64_t{field} << 3 | kVarint);
  varint(value);
  return *this;
}

ProtobufWriter& ProtobufWriter::real(uint32_t field, double value) {
  varint(uint64_t{field} << 3 | kFixed64);
  fixed(std::bit_cast<uint64_t>(value), sizeof value);
  return *this;
}

ProtobufWriter& ProtobufWriter::real32(uint32_t field, float value) {
  varint(uint64_t{field} << 3 | kFixed32);
  fixed(std::bit_cast<uint32_t>(value), sizeof value);
  return *this;
}

ProtobufWriter& ProtobufWriter::bytes(uint32_t field, std::string_view value) {
  varint(uint64_t{field} << 3 | kBytes);
  varint(value.size());
  out_.append(value);
  return *this;
}

}  // namespace hone
