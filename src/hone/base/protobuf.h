// The wire format of protocol buffers: varints, fixed numbers, bytes, nested messages. Input is untrusted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone {

// Iterates over the fields of one message. A message that ends inside a field, or contains a group, is an error: ok() is false.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;      // of varints and fixed numbers
    std::string_view bytes;  // of strings, bytes, messages and packed lists
    bool is_bytes = false;

    double as_double() const;
    float as_float() const;
  };
  std::optional<Field> next();
  bool ok() const { return ok_; }
  // The values of a packed list of varints. None if its bytes end inside one.
  static std::optional<std::vector<uint64_t>> packed(std::string_view bytes);

 private:
  std::optional<uint64_t> varint();
  std::optional<std::string_view> take(size_t count);
  std::string_view rest_;
  bool ok_ = true;
};

class ProtobufWriter {
 public:
  ProtobufWriter& number(uint32_t field, uint64_t value);  // 0 is left out, as proto3 does
  ProtobufWriter& real(uint32_t field, double value);
  ProtobufWriter& real32(uint32_t field, float value);
  ProtobufWriter& bytes(uint32_t field, std::string_view value);
  std::string take() { return std::move(out_); }

 private:
  void varint(uint64_t value);
  void fixed(uint64_t bits, size_t size);
  std::string out_;
};

}  // namespace hone
