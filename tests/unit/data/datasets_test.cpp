#include <gmock/gmock.h>

#include <set>

#include "data/temporary_folder.h"
#include "hone/data/datasets/dataset_files.h"
#include "hone/data/datasets/dataset_info.h"
#include "hone/data/datasets/dataset_spec.h"
#include "hone/data/datasets/mixing.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/datasets/self_cognition.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

std::string rows_file(int count, const std::string& mark) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{{\"query\":\"{}{}\",\"response\":\"r\"}}\n", mark, i);
  return text;
}

std::vector<std::string> questions(const ConversationSource& source) {
  std::vector<std::string> list;
  for (int64_t i = 0; i < source.size(); ++i) {
    auto row = source.at(i);
    list.push_back(row ? row->messages[0].content : "error: " + row.error());
  }
  return list;
}

std::vector<std::string> rest_of(ConversationStream& stream, size_t at_most = 1'000'000) {
  std::vector<std::string> list;
  while (list.size() < at_most) {
    auto row = stream.next();
    if (!row) break;
    list.push_back((*row)->messages[0].content);
  }
  return list;
}

TEST(DatasetSpec, Forms) {
  TemporaryFolder folder;
  auto file = folder.write("odd#5:x.jsonl", "{}");
  auto word = parse_dataset_spec(file);
  EXPECT_EQ(word.name, file);
  EXPECT_FALSE(word.sample);
  word = parse_dataset_spec(file + "#7");
  EXPECT_EQ(word.name, file);
  EXPECT_EQ(word.sample, 7);
  word = parse_dataset_spec("HF::org/name:sub1/ sub2#500");
  EXPECT_EQ(word.hub, "hf");
  EXPECT_EQ(word.name, "org/name");
  EXPECT_EQ(word.subsets, (std::vector<std::string>{"sub1", "sub2"}));
  EXPECT_EQ(word.sample, 500);
  EXPECT_EQ(parse_dataset_spec("ms::a/b").hub, "ms");
  for (auto bad : {"a.jsonl#x", "a.jsonl#0", "a.jsonl#-3", "", "#5"}) EXPECT_THROW(parse_dataset_spec(bad), UserError) << bad;
}

TEST(DatasetFiles, SplitsAndSubsetsByName) {
  TemporaryFolder folder;
  folder.write("r/data/train-00000.jsonl", "{}");
  folder.write("r/data/validation-00000.jsonl", "{}");
  folder.write("r/README.md", "x");
  folder.write("r/dataset_infos.json", "{}");
  folder.write("r/special/train.jsonl", "{}");
  EXPECT_EQ(dataset_files(folder / "r", "", "train").size(), 2u);
  EXPECT_EQ(dataset_files(folder / "r", "special", "train").size(), 1u);
  EXPECT_EQ(dataset_files(folder / "r", "data", "validation").size(), 1u);
  EXPECT_THROW(dataset_files(folder / "r", "nothing", "train"), UserError);
  EXPECT_THROW(dataset_files(folder / "r", "", "test"), UserError);
  folder.write("plain/constrained.csv", "a\n1\n");
  EXPECT_EQ(dataset_files(folder / "plain", "", "train").size(), 1u);
}

TEST(OpenDatasets, SamplesAndOversamples) {
  TemporaryFolder folder;
  DatasetConfig config;
  config.shuffle = false;
  config.datasets = {folder.write("a.jsonl", rows_file(5, "a")) + "#7"};
  EXPECT_EQ(questions(*open_datasets(config).train), (std::vector<std::string>{"a0", "a1", "a2", "a3", "a4", "a0", "a1"}));
  config.datasets = {folder / "a.jsonl#2"};
  EXPECT_EQ(questions(*open_datasets(config).train), (std::vector<std::string>{"a0", "a1"}));
}

TEST(OpenDatasets, SplitTakesFromEveryDatasetAndSharesNothing) {
  TemporaryFolder folder;
  DatasetConfig config;
  config.split_dataset_ratio = 0.1;
  config.datasets = {folder.write("a.jsonl", rows_file(50, "a")), folder.write("b.jsonl", rows_file(4, "b"))};
  auto data = open_datasets(config);
  EXPECT_EQ(data.train->size(), 48);
  EXPECT_EQ(data.validation->size(), 6);
  auto train = questions(*data.train), validation = questions(*data.validation);
  std::set<std::string> all(train.begin(), train.end());
  all.insert(validation.begin(), validation.end());
  EXPECT_EQ(all.size(), 54u);
  EXPECT_EQ(questions(*open_datasets(config).train), train);
  config.data_seed = 43;
  EXPECT_NE(questions(*open_datasets(config).train), train);
}

TEST(OpenDatasets, InterleaveStops) {
  EXPECT_EQ(interleave_rows({3, 4, 5}, {}, 0, StoppingStrategy::first_exhausted), (RowOrder{0, 3, 7, 1, 4, 8, 2, 5, 9}));
  EXPECT_EQ(interleave_rows({3, 4, 5}, {}, 0, StoppingStrategy::all_exhausted),
            (RowOrder{0, 3, 7, 1, 4, 8, 2, 5, 9, 0, 6, 10, 1, 3, 11}));
  EXPECT_EQ(interleave_rows({3, 4, 3}, {}, 0, StoppingStrategy::all_exhausted_once), (RowOrder{0, 3, 7, 1, 4, 8, 2, 5, 9, 6}));
  auto once = interleave_rows({30, 20}, {0.3, 0.7}, 1, StoppingStrategy::all_exhausted_once);
  EXPECT_EQ(std::set<uint32_t>(once.begin(), once.end()).size(), 50u);
  EXPECT_EQ(once.size(), 50u);
  EXPECT_THROW(interleave_rows({3, 4}, {0.5, 0.6}, 0, StoppingStrategy::first_exhausted), UserError);
  EXPECT_THROW(interleave_rows({3, 4}, {0.0, 1.0}, 0, StoppingStrategy::all_exhausted), UserError);
  EXPECT_THROW(interleave_rows({3, 4}, {1.0}, 0, StoppingStrategy::first_exhausted), UserError);
}

TEST(OpenDatasets, FolderSubsetSplitAndCustomInfo) {
  TemporaryFolder folder;
  folder.write("repo/train.jsonl", "{\"frage\":\"q\",\"antwort\":\"a\"}\n");
  folder.write("repo/test.jsonl", "{\"frage\":\"t\",\"antwort\":\"a\"}\n");
  DatasetConfig config;
  config.custom_dataset_info = {folder.write(
      "info.json", R"([{"dataset_path":"repo","dataset_name":"mine","columns":{"frage":"query","antwort":"response"}}])")};
  config.datasets = {"mine"};
  EXPECT_EQ(questions(*open_datasets(config).train), std::vector<std::string>{"q"});
  config.datasets = {folder / "repo:test"};
  EXPECT_EQ(questions(*open_datasets(config).train), std::vector<std::string>{"t"});
  config.custom_dataset_info = {R"({"not":"a list"})"};
  EXPECT_THROW(open_datasets(config), UserError);
}

TEST(OpenDatasets, SelfCognitionIsFilledIn) {
  DatasetConfig config;
  config.shuffle = false;
  config.datasets = {"swift/self-cognition"};
  config.model_name = {"小河", "River"};
  config.model_author = {"团队"};
  auto data = open_datasets(config);
  ASSERT_EQ(data.train->size(), static_cast<int64_t>(self_cognition_rows().size()));
  int named = 0;
  for (int64_t i = 0; i < data.train->size(); ++i) {
    auto row = data.train->at(i);
    ASSERT_TRUE(row.ok());
    EXPECT_EQ(row->messages[1].content.find("{{"), std::string::npos);
    named += row->messages[1].content.find(i < 50 ? "小河" : "River") != std::string::npos;
  }
  EXPECT_GT(named, 70);
  config.datasets = {"self-cognition:qwen3#3"};
  EXPECT_TRUE(open_datasets(config).train->at(0)->messages[0].content.ends_with(" /no_think"));
  config.datasets = {"self-cognition:nothing"};
  EXPECT_THROW(open_datasets(config), UserError);
}

TEST(OpenDatasets, UnknownNamesAreUserErrorsWithHints) {
  DatasetConfig config;
  config.datasets = {"no/such-dataset"};
  EXPECT_THROW(open_datasets(config), UserError);
  config.datasets = {"/no/such/file.jsonl"};
  EXPECT_THROW(open_datasets(config), UserError);
}

TEST(FactoryDatasets, EntriesSamplesAndValidation) {
  TemporaryFolder folder;
  std::string list = "[";
  for (int i = 0; i < 20; ++i)
    list += fmt::format("{}{{\"instruction\":\"q{}\",\"input\":\"\",\"output\":\"a\"}}", i ? "," : "", i);
  folder.write("d/a.json", list + "]");
  folder.write(
      "d/dataset_info.json",
      R"({"a":{"file_name":"a.json"},"more":{"file_name":"a.json","num_samples":30},"rank":{"file_name":"a.json","ranking":true},"bad":{"file_name":3}})");
  DatasetConfig config;
  config.dialect = DatasetConfig::Dialect::factory;
  config.dataset_dir = folder / "d";
  config.datasets = {"a"};
  EXPECT_EQ(questions(*open_datasets(config).train).front(), "q0");
  config.max_samples = 3;
  EXPECT_EQ(questions(*open_datasets(config).train), (std::vector<std::string>{"q0", "q1", "q2"}));
  config.max_samples = 0;
  config.datasets = {"more"};
  auto more = questions(*open_datasets(config).train);
  EXPECT_EQ(more.size(), 30u);
  EXPECT_EQ(std::set<std::string>(more.begin(), more.end()).size(), 20u);
  config.datasets = {"a"};
  config.val_size = 0.1;
  auto data = open_datasets(config);
  EXPECT_EQ(data.train->size(), 18);
  EXPECT_EQ(data.validation->size(), 2);
  for (auto name : {"rank", "bad", "absent"}) {
    config.datasets = {name};
    EXPECT_THROW(open_datasets(config), UserError) << name;
  }
}

// A list that somebody wrote may name any file; one that came with a model or from a hub names files of its own folder.
TEST(FactoryDatasets, ListsThatCameFromElsewhereNameTheirOwnFiles) {
  TemporaryFolder folder;
  const std::string row = R"([{"instruction":"q","input":"","output":"a"}])";
  const auto outside = folder.write("outside.json", row);
  for (auto place : {"mine", "model", "downloaded"}) {
    const std::string dir = place;
    folder.write(dir + "/in.json", row);
    std::filesystem::create_symlink(outside, folder / (dir + "/link.json"));
    folder.write(
        dir + "/dataset_info.json",
        fmt::format(R"({{"in":{{"file_name":"in.json"}},"up":{{"file_name":"../outside.json"}},"absolute":{{"file_name":"{}"}},)"
                    R"("link":{{"file_name":"link.json"}},"leaves":{{"file_name":".","folder":".."}}}})",
                    outside));
  }
  folder.write("model/config.json", "{}");
  folder.write("model/model.safetensors", "");
  folder.write("downloaded/.hone/downloaded", "org/rows");
  auto opens = [&](const std::string& dir, const std::string& name) {
    DatasetConfig config;
    config.dialect = DatasetConfig::Dialect::factory;
    config.dataset_dir = folder / dir;
    config.datasets = {name};
    try {
      return open_datasets(config).train->size() == 1;
    } catch (const UserError& problem) {
      EXPECT_NE(std::string(problem.what()).find("outside"), std::string::npos) << problem.what();
      return false;
    }
  };
  for (auto name : {"in", "up", "absolute", "link"}) EXPECT_TRUE(opens("mine", name)) << name;
  EXPECT_FALSE(opens("mine", "leaves"));
  for (auto place : {"model", "downloaded"}) {
    EXPECT_TRUE(opens(place, "in")) << place;
    for (auto name : {"up", "absolute", "link", "leaves"}) EXPECT_FALSE(opens(place, name)) << place << " " << name;
  }
  DatasetConfig swift;
  swift.datasets = {"up"};
  const std::string list = fmt::format(R"([{{"dataset_name":"up","dataset_path":"{}"}}])", outside);
  swift.custom_dataset_info = {folder.write("mine/list.json", list)};
  EXPECT_EQ(open_datasets(swift).train->size(), 1);
  swift.custom_dataset_info = {folder.write("model/list.json", list)};
  EXPECT_THROW(open_datasets(swift), UserError);
}

TEST(Streaming, ResumesAtEveryRowWithShuffleAndInterleave) {
  TemporaryFolder folder;
  DatasetConfig config;
  config.streaming = true;
  config.shuffle_buffer_size = 16;
  config.interleave_prob = {0.3, 0.7};
  config.stopping = StoppingStrategy::all_exhausted;
  config.datasets = {folder.write("a.jsonl", rows_file(30, "a")), folder.write("b.jsonl", rows_file(45, "b"))};
  auto stream = open_datasets(config).train_stream;
  std::vector<Json> positions;
  std::vector<std::string> all;
  while (true) {
    positions.push_back(stream->position());
    auto row = stream->next();
    if (!row) break;
    all.push_back((*row)->messages[0].content);
  }
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 75u);
  for (size_t i = 0; i < positions.size(); i += 5) {
    auto resumed = open_datasets(config).train_stream;
    resumed->seek(Json::parse(positions[i].dump()));
    EXPECT_EQ(rest_of(*resumed), std::vector<std::string>(all.begin() + static_cast<long>(i), all.end())) << "from " << i;
  }
}

TEST(Streaming, LimitsAndHoldsOut) {
  TemporaryFolder folder;
  DatasetConfig config;
  config.streaming = true;
  config.shuffle = false;
  config.datasets = {folder.write("a.jsonl", rows_file(9, "a")) + "#4"};
  EXPECT_EQ(rest_of(*open_datasets(config).train_stream), (std::vector<std::string>{"a0", "a1", "a2", "a3"}));
  config.dialect = DatasetConfig::Dialect::factory;
  config.datasets = {folder / "a.jsonl"};
  config.val_size = 3;
  auto data = open_datasets(config);
  EXPECT_EQ(data.validation->size(), 3);
  EXPECT_EQ(rest_of(*data.train_stream).size(), 6u);
}

TEST(RowReport, OneMessageForEachSortOfMistake) {
  RowReport report;
  for (int i = 1; i < 30; ++i)
    report.bad_row(
        row_error(RowProblem::too_long, fmt::format("a.jsonl:{}", i), fmt::format("{} tokens; max_length is 8", 10 + i)).message);
  report.bad_row(row_error(RowProblem::too_long, "b.jsonl:4", "99 tokens; max_length is 8").message);
  EXPECT_THAT(report.messages(),
              testing::ElementsAre(
                  "a.jsonl:1: row too long: 11 tokens; max_length is 8 (30 rows like this; next line 2, line 3, line 4, …)"));
  for (int i = 0; i < 20; ++i)
    report.bad_row(row_error(RowProblem::role, "a.jsonl:1", std::string(static_cast<size_t>(i) + 1, 'x')).message);
  EXPECT_EQ(report.messages().size(), RowReport::kRemembered);
  EXPECT_EQ(report.unlisted(), 11);
  report.good_row(7, 3);
  report.good_row(9, 4);
  EXPECT_EQ(report.tokens(), 16);
  EXPECT_EQ(report.trained_tokens(), 7);
  EXPECT_EQ(report.longest(), 9);
}

TEST(RowReport, CountsByKindAndStopsWhenStrict) {
  RowReport report;
  for (int i = 0; i < 12; ++i) report.bad_row(row_error(RowProblem::json, fmt::format("f:{}", i), "x; expected y").message);
  report.bad_row(row_error(RowProblem::role, "f:99", "x").message);
  report.good_row();
  EXPECT_EQ(report.bad(), 13);
  EXPECT_EQ(report.by_kind().at(RowProblem::json), 12);
  EXPECT_EQ(
      report.summary(),
      "skipped 13 of 14 rows (broken JSON: 12, unknown role: 1)\n  f:0: broken JSON: x; expected y (12 rows like this; next "
      "line 1, line 2, line 3, …)\n  f:99: unknown role: x");
  EXPECT_EQ(report.unlisted(), 0);
  RowReport strict(true);
  EXPECT_THROW(strict.bad_row("f:1: broken JSON: x"), UserError);
}

}  // namespace
}  // namespace hone::data
