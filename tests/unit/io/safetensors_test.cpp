#include "hone/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/io/weight_folder.h"

namespace hone::io {
namespace {

using testing::HasSubstr;

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              fmt::format("hone-io-{}-{}", ::getpid(), testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

std::string file_with(const std::string& header, size_t data = 0) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data, '\0');
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

struct Hostile {
  std::string name, file, says;
};

const std::vector<Hostile>& hostile_files() {
  static const std::vector<Hostile> files{
      {"empty", "", "too few"},
      {"seven_bytes", "1234567", "too few"},
      {"header_longer_than_file", std::string("\x40\0\0\0\0\0\0\0{}", 10), "truncated"},
      {"header_length_2_63", std::string("\0\0\0\0\0\0\0\x80{}", 10), "claims"},
      {"header_length_all_ones", std::string(8, '\xff') + "{}", "claims"},
      {"truncated_json", file_with("{\"a\":{\"dtype\""), "not valid JSON"},
      {"an_array", file_with("[]"), "expected an object"},
      {"no_json", file_with("hello"), "not valid JSON"},
      {"invalid_utf8", file_with("{\"\xff\":1}"), "not valid JSON"},
      {"deep_json", file_with("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}"), "not valid JSON"},
      {"entry_is_number", file_with("{\"a\":1}"), "expected an object"},
      {"unknown_dtype", file_with("{" + entry("a", "[1]", "[0,4]", "F99") + "}", 4), "unknown dtype"},
      {"no_shape", file_with(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "shape"},
      {"negative_extent", file_with("{" + entry("a", "[-1]", "[0,4]") + "}", 4), "extent"},
      {"fractional_extent", file_with("{" + entry("a", "[1.5]", "[0,4]") + "}", 4), "extent"},
      {"count_2_63", file_with("{" + entry("a", "[9223372036854775808]", "[0,4]") + "}", 4), "extent"},
      {"count_2_62", file_with("{" + entry("a", "[4611686018427387904]", "[0,4]") + "}", 4), "more than any file holds"},
      {"shape_product_overflows", file_with("{" + entry("a", "[4294967296,4294967296]", "[0,0]") + "}"),
       "more than any file holds"},
      {"product_wraps_to_right_size", file_with("{" + entry("a", "[4611686018427387905]", "[0,4]") + "}", 4),
       "more than any file holds"},
      {"offset_past_end", file_with("{" + entry("a", "[2]", "[0,8]") + "}", 4), "truncated"},
      {"offsets_reversed", file_with("{" + entry("a", "[0]", "[4,0]") + "}", 4), "data_offsets"},
      {"offsets_negative", file_with("{" + entry("a", "[1]", "[-4,0]") + "}", 4), "data_offsets"},
      {"offsets_not_a_pair", file_with("{" + entry("a", "[1]", "[0]") + "}", 4), "data_offsets"},
      {"size_differs", file_with("{" + entry("a", "[2]", "[0,4]") + "}", 4), "expected 8"},
      {"overlap", file_with("{" + entry("a", "[1]", "[0,4]") + "," + entry("b", "[1]", "[2,6]") + "}", 6), "overlaps"},
      {"same_bytes_twice", file_with("{" + entry("a", "[1]", "[0,4]") + "," + entry("b", "[1]", "[0,4]") + "}", 4), "overlaps"},
      {"gap", file_with("{" + entry("a", "[1]", "[0,4]") + "," + entry("b", "[1]", "[8,12]") + "}", 12), "belong to no tensor"},
      {"trailing_bytes", file_with("{" + entry("a", "[1]", "[0,4]") + "}", 8), "describes 4"},
      {"duplicate_name", file_with("{" + entry("a", "[1]", "[0,4]") + "," + entry("a", "[1]", "[4,8]") + "}", 8),
       "described twice"},
      {"metadata_is_list", file_with(R"({"__metadata__":[]})"), "__metadata__"},
  };
  return files;
}

class HostileFile : public testing::TestWithParam<Hostile> {};
INSTANTIATE_TEST_SUITE_P(Corpus, HostileFile, testing::ValuesIn(hostile_files()),
                         [](const auto& info) { return info.param.name; });

TEST_P(HostileFile, IsRefusedWithAReason) {
  auto header = parse_safetensors_header(GetParam().file, GetParam().file.size());
  ASSERT_FALSE(header.ok());
  EXPECT_THAT(header.error(), HasSubstr(GetParam().says));
}

TEST(Header, ScalarsAndEmptyTensorsAreFine) {
  auto file = file_with("{" + entry("scalar", "[]", "[0,4]") + "," + entry("empty", "[0,7]", "[4,4]") + "}", 4);
  auto header = parse_safetensors_header(file, file.size());
  ASSERT_TRUE(header.ok()) << header.error();
  EXPECT_EQ(header->entries.size(), 2u);
}

TEST_F(Folder, EveryTypeComesBackAsWritten) {
  std::vector<TensorSource> sources;
  for (auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool})
    sources.push_back(TensorSource::of(c10::toString(dtype), at::arange(6).view({2, 3}).to(dtype)));
  sources.push_back(TensorSource::of("scalar", at::scalar_tensor(3.5)));
  sources.push_back(TensorSource::of("empty", at::empty({0, 4})));
  write_safetensors(folder_ / "x.safetensors", sources, {{"format", "pt"}, {"why", "test"}});
  SafetensorsFile file(folder_ / "x.safetensors");
  EXPECT_EQ(file.metadata().at("why"), "test");
  for (auto& source : sources) {
    auto expected = source.load(), found = file.tensor(source.name);
    EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << source.name;
    EXPECT_TRUE(at::equal(found, expected)) << source.name;
  }
  EXPECT_THROW(file.tensor("absent"), UserError);
}

TEST_F(Folder, TensorsOutliveTheFileAndWritesStayPrivate) {
  auto path = folder_ / "x.safetensors";
  write_safetensors(path, {TensorSource::of("w", at::ones({1000}))});
  auto tensor = SafetensorsFile(path).tensor("w");
  tensor.fill_(5);
  EXPECT_EQ(SafetensorsFile(path).tensor("w").sum().item<float>(), 1000);
  EXPECT_EQ(tensor.sum().item<float>(), 5000);
}

TEST_F(Folder, UnalignedTensorsAreCopied) {
  auto path = folder_ / "x.safetensors";
  auto header = "{" + entry("byte", "[1]", "[0,1]", "U8") + "," + entry("float", "[2]", "[1,9]") + "}";
  std::ofstream(path) << file_with(header, 9);
  EXPECT_EQ(SafetensorsFile(path).tensor("float").sum().item<float>(), 0);
}

TEST_F(Folder, ShardsHoldTheLimitAndAreReadAsOne) {
  std::vector<TensorSource> sources;
  for (int i = 0; i < 5; ++i) sources.push_back(TensorSource::of(fmt::format("t{}", i), at::full({100}, static_cast<float>(i))));
  write_sharded(folder_, sources, 900);
  EXPECT_TRUE(fs::exists(folder_ / "model-00001-of-00003.safetensors"));
  WeightFolder weights(folder_);
  EXPECT_EQ(weights.entries().size(), 5u);
  EXPECT_EQ(weights.tensor("t4").sum().item<float>(), 400);

  write_sharded(folder_, sources);
  EXPECT_TRUE(fs::exists(folder_ / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "model-00001-of-00003.safetensors"));
  EXPECT_FALSE(fs::exists(folder_ / "model.safetensors.index.json"));
}

TEST_F(Folder, IndexMayNotLeadOutOfTheFolder) {
  std::ofstream(folder_ / "model.safetensors.index.json") << R"({"weight_map": {"a": "../../etc/passwd"}})";
  EXPECT_THROW(WeightFolder{folder_}, UserError);
}

TEST_F(Folder, PickledWeightsAreRefusedWithAHint) {
  std::ofstream(folder_ / "pytorch_model.bin") << "x";
  try {
    WeightFolder weights(folder_);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.hint(), HasSubstr("pickle"));
  }
}

TEST(ParseSize, KnowsBothKindsOfUnits) {
  EXPECT_EQ(parse_size("5GB"), 5'000'000'000u);
  EXPECT_EQ(parse_size("1.5GiB"), 1'610'612'736u);
  EXPECT_EQ(parse_size("300"), 300u);
  EXPECT_THROW(parse_size("five"), UserError);
  EXPECT_THROW(parse_size("-1GB"), UserError);
}

}  // namespace
}  // namespace hone::io
