#include "hone/base/protobuf.h"

#include <gtest/gtest.h>

namespace hone {
namespace {

TEST(Protobuf, FieldsComeBackAsTheyWereWritten) {
  const auto inner = ProtobufWriter().number(7, 1).take();
  const auto bytes = ProtobufWriter().number(1, 300).number(2, 0).real(3, -2.5).real32(4, 0.25F).bytes(1000, inner).take();
  ProtobufReader reader(bytes);
  auto field = reader.next();
  EXPECT_EQ(field->number, 1u);
  EXPECT_EQ(field->value, 300u);
  EXPECT_EQ((field = reader.next())->number, 3u);  // a zero is left out
  EXPECT_EQ(field->as_double(), -2.5);
  EXPECT_EQ((field = reader.next())->as_float(), 0.25F);
  EXPECT_EQ((field = reader.next())->number, 1000u);
  EXPECT_TRUE(field->is_bytes);
  EXPECT_EQ(field->bytes, inner);
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.ok());
}

TEST(Protobuf, DamageIsSeen) {
  const auto whole = ProtobufWriter().number(1, 1u << 30).bytes(2, "some text").real(3, 1).take();
  for (size_t size = 1; size < whole.size(); ++size) {
    ProtobufReader reader(std::string_view(whole).substr(0, size));
    size_t fields = 0;
    while (reader.next()) ++fields;
    EXPECT_TRUE(fields < 3) << size;
  }
  for (std::string_view bad : {"\x0b", "\x0c", "\x0a\xff\xff\xff\xff\x7f", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"}) {
    ProtobufReader reader(bad);
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.ok());
  }
}

TEST(Protobuf, PackedLists) {
  EXPECT_EQ(*ProtobufReader::packed("\x01\xac\x02\x7f"), (std::vector<uint64_t>{1, 300, 127}));
  EXPECT_TRUE(ProtobufReader::packed("")->empty());
  EXPECT_FALSE(ProtobufReader::packed("\x01\xac"));
}

}  // namespace
}  // namespace hone
