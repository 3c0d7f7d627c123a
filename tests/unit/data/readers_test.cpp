#include <gtest/gtest.h>

#include <thread>

#include "data/temporary_folder.h"
#include "hone/data/readers/row_reader.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

std::vector<std::string> dumps(const RowReader& rows) {
  std::vector<std::string> list;
  for (int64_t i = 0; i < rows.size(); ++i) {
    auto row = rows.at(i);
    list.push_back(row ? row->fields.dump() : "error: " + row.error());
  }
  return list;
}

std::vector<std::string> stream_dumps(RowStream& rows) {
  std::vector<std::string> list;
  while (auto row = rows.next()) list.push_back(*row ? (*row)->fields.dump() : "error: " + row->error());
  return list;
}

TEST(Readers, JsonlSkipsBlankLinesAndKeepsLineNumbers) {
  TemporaryFolder folder;
  auto file = folder.write("a.jsonl", "\xEF\xBB\xBF{\"a\":1}\r\n\n  \n{\"a\":\"é\"}\n{\"a\":3}");
  auto rows = open_rows(file);
  EXPECT_EQ(dumps(*rows), (std::vector<std::string>{R"({"a":1})", R"({"a":"é"})", R"({"a":3})"}));
  EXPECT_EQ(rows->at(1)->origin.line, 4);
  EXPECT_EQ(rows->at(2)->origin.str(), file + ":5");
}

TEST(Readers, BadJsonRowsNameFileLineAndKind) {
  TemporaryFolder folder;
  auto file = folder.write(
      "bad.jsonl", "{\"a\":1}\n{\"a\":\n[1]\n{\"a\":1,\"a\":2}\n{\"a\":\"\xff\"}\n{\"a\":123456789012345678901234567890}\n");
  auto rows = open_rows(file);
  ASSERT_EQ(rows->size(), 6);
  std::vector<RowProblem> expected = {RowProblem::json, RowProblem::type, RowProblem::duplicate_key, RowProblem::encoding};
  for (int64_t i = 0; i < 4; ++i) {
    auto row = rows->at(i + 1);
    ASSERT_FALSE(row.ok());
    EXPECT_EQ(problem_of(row.error()), expected[static_cast<size_t>(i)]) << row.error();
    EXPECT_TRUE(row.error().starts_with(file + ":" + std::to_string(i + 2) + ": ")) << row.error();
  }
  EXPECT_TRUE(rows->at(5).ok());
}

TEST(Readers, JsonLayouts) {
  TemporaryFolder folder;
  std::vector<std::string> expected = {R"({"a":"x,]}"})", R"({"b":[1,{"c":2}]})"};
  EXPECT_EQ(dumps(*open_rows(folder.write("list.json", "[\n {\"a\": \"x,]}\"},\n\n {\"b\": [1, {\"c\": 2}]}\n]\n"))), expected);
  EXPECT_EQ(dumps(*open_rows(folder.write("data.json", "{\"data\": [{\"a\": \"x,]}\"}, {\"b\": [1, {\"c\": 2}]}]}"))), expected);
  EXPECT_EQ(dumps(*open_rows(folder.write("lines.json", "{\"a\": \"x,]}\"}\n{\"b\": [1, {\"c\": 2}]}\n"))), expected);
  EXPECT_EQ(dumps(*open_rows(folder.write("spread.json", "{\n \"a\": \"x,]}\"\n}\n{\n\"b\": [1,\n {\"c\": 2}]}\n"))), expected);
  EXPECT_EQ(dumps(*open_rows(folder.write("list.jsonl", "[{\"a\": \"x,]}\"}, {\"b\": [1, {\"c\": 2}]}]"))), expected);
  EXPECT_EQ(open_rows(folder.write("empty.json", "[]"))->size(), 0);
  EXPECT_EQ(open_rows(folder.write("one_line.json", "[{\"a\": 1}, {\"b\": 2}, {\"c\": 3}]\n"))->at(2)->origin.line,
            3);  // its number: lines tell nothing
  EXPECT_EQ(open_rows(folder.write("list.json", "[\n {\"a\": 1},\n\n {\"b\": 2}\n]\n"))->at(1)->origin.line, 4);
  EXPECT_EQ(open_rows(folder.write("none.jsonl", ""))->size(), 0);
}

TEST(Readers, CsvKeepsQuotedNewlinesAndText) {
  TemporaryFolder folder;
  auto rows = open_rows(folder.write("a.csv", "query,response\r\n\"say \"\"hi\"\", please\",\"two\nlines\"\r\n1,\nonly\n"));
  EXPECT_EQ(dumps(*rows), (std::vector<std::string>{R"({"query":"say \"hi\", please","response":"two\nlines"})",
                                                    R"({"query":"1","response":""})", R"({"query":"only","response":null})"}));
  EXPECT_EQ(rows->at(1)->origin.line, 4);
  EXPECT_EQ(dumps(*open_rows(folder.write("a.tsv", "a\tb\nx,y\tz\n"))), (std::vector<std::string>{R"({"a":"x,y","b":"z"})"}));
  EXPECT_FALSE(open_rows(folder.write("wide.csv", "a\n1,2\n"))->at(0).ok());
  EXPECT_THROW(open_rows(folder.write("twice.csv", "a,a\n1,2\n")), UserError);
}

TEST(Readers, TextIsOneRowPerLine) {
  TemporaryFolder folder;
  EXPECT_EQ(dumps(*open_rows(folder.write("a.txt", "one\r\n\ntwo"))),
            (std::vector<std::string>{R"({"text":"one"})", R"({"text":"two"})"}));
}

TEST(Readers, UnknownTypesAndMissingFilesAreUserErrors) {
  TemporaryFolder folder;
  EXPECT_THROW(open_rows(folder.write("a.docx", "x")), UserError);
  EXPECT_THROW(open_rows(folder / "absent.jsonl"), UserError);
  EXPECT_THROW(open_rows(folder.write("broken.parquet", "PAR1 not really")), UserError);
}

// Rows of very different sizes, so that index entries fall in every position.
std::string many_rows(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{{\"i\":{},\"t\":\"{}\"}}\n", i, std::string(static_cast<size_t>(i * 7919 % 5000), 'x'));
  return text;
}

TEST(Readers, RandomAccessFromManyThreadsGivesEveryRow) {
  TemporaryFolder folder;
  auto rows = open_rows(folder.write("many.jsonl", many_rows(3000)));
  ASSERT_EQ(rows->size(), 3000);
  auto check = [&](int64_t start) {
    for (int64_t k = 0; k < 3000; ++k) {
      int64_t i = (start + k * 1231) % 3000;
      auto row = rows->at(i);
      ASSERT_TRUE(row.ok());
      ASSERT_EQ(row->fields["i"], i);
      ASSERT_EQ(row->origin.line, i + 1);
    }
  };
  std::vector<std::jthread> threads;
  for (int64_t t = 0; t < 4; ++t) threads.emplace_back(check, t * 700);
}

TEST(Readers, LineIndexIsTheSameAcrossSections) {
  TemporaryFolder folder;  // more than one 32 MiB section, scanned by several threads
  std::string text;
  int64_t count = 0;
  while (text.size() < (40u << 20)) text += fmt::format("{{\"i\":{},\"t\":\"{}\"}}\n", count++, std::string(900, 'y'));
  auto rows = open_rows(folder.write("large.jsonl", text));
  ASSERT_EQ(rows->size(), count);
  for (int64_t i = 0; i < count; i += 997) {
    EXPECT_EQ(rows->at(i)->fields["i"], i);
    EXPECT_EQ(rows->at(i)->origin.line, i + 1);
  }
}

TEST(Readers, LongRowsAreReportedWithoutBeingRead) {
  TemporaryFolder folder;
  ReaderOptions options{.max_row_bytes = 1 << 20};
  auto file = folder.write("long.jsonl", "{\"a\":1}\n{\"a\":\"" + std::string(10 << 20, 'x') + "\"}\n{\"a\":3}\n");
  auto rows = open_rows(file, options);
  ASSERT_EQ(rows->size(), 3);
  EXPECT_EQ(problem_of(rows->at(1).error()), RowProblem::too_long) << rows->at(1).error();
  EXPECT_EQ(rows->at(2)->fields["a"], 3);
  auto stream = open_row_stream(file, options);
  auto list = stream_dumps(*stream);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0], "{\"a\":1}");
  EXPECT_NE(list[1].find("long.jsonl:2: row too long"), std::string::npos) << list[1];
  EXPECT_EQ(list[2], "{\"a\":3}");
}

TEST(Readers, AFileCutShortIsAnErrorNotACrash) {
  TemporaryFolder folder;
  auto file = folder.write("cut.jsonl", many_rows(1000));
  auto rows = open_rows(file);
  std::filesystem::resize_file(file, 1000);
  EXPECT_EQ(problem_of(rows->at(999).error()), RowProblem::file);
}

class StreamsEqualReaders : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(StreamsEqualReaders, FromEveryPosition) {
  TemporaryFolder folder;
  auto file = folder.write(GetParam().first, GetParam().second);
  auto expected = dumps(*open_rows(file));
  auto stream = open_row_stream(file);
  std::vector<Json> positions;
  for (size_t i = 0; i <= expected.size(); ++i) {
    positions.push_back(stream->position());
    auto row = stream->next();
    ASSERT_EQ(row.has_value(), i < expected.size());
  }
  for (size_t i = 0; i <= expected.size(); ++i) {
    auto resumed = open_row_stream(file);
    resumed->seek(Json::parse(positions[i].dump()));
    EXPECT_EQ(stream_dumps(*resumed), std::vector<std::string>(expected.begin() + static_cast<long>(i), expected.end()))
        << "from " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, StreamsEqualReaders,
                         testing::Values(std::pair{"a.jsonl", "{\"a\":1}\n\n{\"a\":2}\nbroken\n{\"a\":3}"},
                                         std::pair{"a.json", "[{\"a\":1},\n {\"a\":2} , {\"a\":[3,4]}\n]\n"},
                                         std::pair{"b.json", "{\n\"a\":1}\n{\"a\":2}{\"a\":3}\n"},
                                         std::pair{"a.csv", "a,b\n1,\"x\ny\"\n\n2,z\n"}, std::pair{"a.txt", "x\n\ny\r\nz"}));

}  // namespace
}  // namespace hone::data
