// Protocol buffers as far as the protocol uses them: varints, doubles, bytes, nested messages. Input is untrusted.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hone::tinker {

// Walks the fields of one message. A message that ends in the middle of a field, or holds a group, is an error: ok() is false.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes) : rest_(bytes) {}

  struct Field {
    uint32_t number = 0;
    uint64_t value = 0;      // of varints and fixed numbers
    std::string_view bytes;  // of strings, bytes, messages and packed lists
    bool is_bytes = false;

    double as_double() const;
  };
  std::optional<Field> next();
  bool ok() const { return ok_; }

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
  ProtobufWriter& bytes(uint32_t field, std::string_view value);
  std::string take() { return std::move(out_); }

 private:
  void varint(uint64_t value);
  std::string out_;
};

}  // namespace hone::tinker
