// Every file under tests/hostile/data: rows are conversations or errors with a place and a kind; opening may refuse with a
// UserError.
#include <gtest/gtest.h>

#include "hone/data/datasets/open_datasets.h"
#include "hone/data/readers/row_reader.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

struct Outcome {
  int good = 0, bad = 0;
};

Outcome read_all(const fs::path& file) {
  DatasetConfig config;
  config.datasets = {file.string()};
  config.shuffle = false;
  auto data = open_datasets(config);
  Outcome outcome;
  for (int64_t i = 0; i < data.train->size(); ++i) {
    auto row = data.train->at(i);
    ++(row ? outcome.good : outcome.bad);
    if (row) continue;
    EXPECT_TRUE(row.error().starts_with(file.string() + ":")) << row.error();
    EXPECT_NE(problem_of(row.error()), RowProblem::other) << row.error();
  }
  return outcome;
}

TEST(HostileFiles, NeverCrashAndNeverLoseARow) {
  auto folder = fs::path(HONE_SOURCE_DIR) / "tests/hostile/data";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_dataset_file(entry.path())) continue;
    ++files;
    SCOPED_TRACE(entry.path().filename().string());
    try {
      auto outcome = read_all(entry.path());
      EXPECT_GT(outcome.bad + outcome.good, 0);
    } catch (const UserError& refusal) {
      EXPECT_NE(std::string(refusal.what()).find(entry.path().filename().string()), std::string::npos) << refusal.what();
    }
  }
  EXPECT_GE(files, 15);
}

TEST(HostileFiles, GoodRowsBetweenBadOnesSurvive) {
  auto folder = fs::path(HONE_SOURCE_DIR) / "tests/hostile/data";
  for (auto [file, good, bad] : std::initializer_list<std::tuple<const char*, int, int>>{{"broken_lines.jsonl", 1, 6},
                                                                                         {"bad_utf8.jsonl", 1, 2},
                                                                                         {"deep.jsonl", 1, 1},
                                                                                         {"wrong_types.jsonl", 0, 9},
                                                                                         {"roles.jsonl", 0, 4},
                                                                                         {"duplicate_keys.jsonl", 0, 2}}) {
    auto outcome = read_all(folder / file);
    EXPECT_EQ(outcome.good, good) << file;
    EXPECT_EQ(outcome.bad, bad) << file;
  }
}

}  // namespace
}  // namespace hone::data
