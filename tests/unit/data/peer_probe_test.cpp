// Answers questions of tests/data/test_peers.py, which compares the answers with NumPy and Hugging Face datasets asked live.
// HONE_DATA_PROBE names a JSON file {"config": …} or {"draws": …}; the answer is written beside it with ".answer" appended.
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "hone/base/file.h"
#include "hone/data/datasets/mixing.h"
#include "hone/data/datasets/open_datasets.h"
#include "hone/data/datasets/python_random.h"

namespace hone::data {
namespace {

Json draws(const Json& request) {
  uint32_t seed = request.at("seed"), size = request.at("size");
  NumpyRandomState legacy(seed);
  Json answer;
  answer["draw_seed"] = legacy.draw_seed();
  answer["legacy_permutation"] = legacy.permutation(size);
  answer["legacy_below"] = legacy.below(size);
  NumpyGenerator modern(request.at("wide_seed").get<uint64_t>());
  answer["permutation"] = modern.permutation(size);
  answer["random"] = modern.random();
  answer["choice"] = modern.choice(request.at("probabilities").get<std::vector<double>>(), 1000);
  PythonRandom own(request.at("wide_seed").get<uint64_t>());
  answer["python_random"] = own.random();
  answer["python_samples"] = Json::array();
  for (size_t count : {1u, 3u, 7u, 40u}) answer["python_samples"].push_back(own.sample(size, std::min<size_t>(count, size)));
  std::vector<int> items(50);
  std::iota(items.begin(), items.end(), 0);
  own.shuffle(items);
  answer["python_shuffled"] = items;
  return answer;
}

Json rows(const ConversationSource* source) {
  Json list = Json::array();
  for (int64_t i = 0; source && i < source->size(); ++i)
    list.push_back(source->at(i).or_throw(ExitCode::bad_data, "row").messages[0].content);
  return list;
}

Json opened(const Json& request) {
  DatasetConfig config;
  if (request.value("factory", false)) config.dialect = DatasetConfig::Dialect::factory;
  config.datasets = request.at("datasets").get<std::vector<std::string>>();
  config.dataset_dir = request.value("dataset_dir", "data");
  config.split_dataset_ratio = request.value("split_dataset_ratio", 0.0);
  config.val_size = request.value("val_size", 0.0);
  config.data_seed = request.value("seed", 42);
  config.shuffle = request.value("shuffle", true);
  config.interleave_prob = request.value("interleave_prob", std::vector<double>{});
  auto stopping = request.value("stopping", std::string("first_exhausted"));
  if (request.value("interleave", false)) config.mix = MixStrategy::interleave;
  config.stopping = stopping == "all_exhausted"     ? StoppingStrategy::all_exhausted
                    : stopping == "first_exhausted" ? StoppingStrategy::first_exhausted
                                                    : StoppingStrategy::all_exhausted_once;
  auto data = open_datasets(config);
  return {{"train", rows(data.train.get())}, {"validation", rows(data.validation.get())}};
}

TEST(PeerProbe, Answers) {
  const char* path = std::getenv("HONE_DATA_PROBE");
  if (!path) GTEST_SKIP() << "only for tests/data/test_peers.py";
  auto requests = parse_json(read_file(path)).or_throw(ExitCode::bad_data, path);
  Json answers = Json::array();
  for (const auto& request : requests) answers.push_back(request.contains("wide_seed") ? draws(request) : opened(request));
  write_file_atomically(std::string(path) + ".answer", answers.dump());
}

}  // namespace
}  // namespace hone::data
