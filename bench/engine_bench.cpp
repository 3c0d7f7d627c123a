// The engine alone on a model folder: prompt and answer tokens per second as one line of JSON, or the greedy answers to given
// prompts. Without a model: how fast all threads together read memory. bench/engine.py runs it and transformers (and
// llama.cpp) and prints the ratios.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>

#include "hone/base/file.h"
#include "hone/base/json.h"
#include "hone/base/rng.h"
#include "hone/device/device.h"
#include "hone/device/memory.h"
#include "hone/device/num_threads.h"
#include "hone/engine/engine.h"
#include "hone/model/causal_lm.h"
#include "hone/ops/cpu/simd.h"
#include "hone/train/loop/profiler.h"

namespace hone {
namespace {

struct Settings {
  std::string model, dtype, device = "cpu", answers;  // answers: a JSON file of prompts to answer greedily instead of measuring
  std::string profile;                                // a folder: three steps after the first `profile_from` are recorded there
  int64_t profile_from = 100;
  int64_t batch = 1, prompt = 32, tokens = 32, step_tokens = 0, mixed = 0;  // mixed: requests of 100 to 1,024 tokens in and out
  double temperature = 0;
  engine::EngineConfig engine;
};

Settings parse(int argc, char** argv) {
  Settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string key = argv[i], value = argv[i + 1];
    auto number = [&] { return std::stoll(value); };
    if (key == "--model") s.model = value;
    if (key == "--dtype") s.dtype = value;
    if (key == "--device") s.device = value;
    if (key == "--answers") s.answers = value;
    if (key == "--profile") s.profile = value;
    if (key == "--profile_from") s.profile_from = number();
    if (key == "--batch") s.batch = number();
    if (key == "--prompt") s.prompt = number();
    if (key == "--tokens") s.tokens = number();
    if (key == "--mixed") s.mixed = number();
    if (key == "--temperature") s.temperature = std::stod(value);
    if (key == "--quant_bits") s.engine.quant_bits = static_cast<int>(number());
    if (key == "--float8") s.engine.float8_products = number() != 0;
    if (key == "--graphs") s.engine.use_cuda_graphs = number() != 0;
    if (key == "--kv_cache" && value == "fp8") s.engine.kv_cache_dtype = ops::KvCacheDtype::fp8_e4m3;
    if (key == "--cache_tokens") s.engine.kv_cache_tokens = number();
    if (key == "--step_tokens") s.engine.max_num_batched_tokens = number();
    if (key == "--speculative") s.engine.speculative_tokens = number();
    if (key == "--prefix_cache") s.engine.enable_prefix_caching = number() != 0;
    if (key == "--max_context") s.engine.max_model_len = number();
  }
  return s;
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::unique_ptr<model::CausalLM> load(const Settings& s) {
  model::LoadOptions options{.device = device::select_device(s.device)};
  if (s.dtype == "bfloat16") options.dtype = at::kBFloat16;
  if (s.dtype == "float16") options.dtype = at::kHalf;
  if (s.dtype == "float32") options.dtype = at::kFloat;
  return model::CausalLM::load(s.model, options);
}

engine::Request random_request(const Settings& s, Rng& rng, int64_t vocabulary, int64_t prompt, int64_t tokens) {
  engine::Request request{.detokenize = false};
  for (int64_t i = 0; i < prompt; ++i)
    request.prompt.push_back(static_cast<text::TokenId>(rng.below(static_cast<uint64_t>(std::min<int64_t>(vocabulary, 10000)))));
  request.sampling.temperature = s.temperature;
  request.sampling.seed = rng.next();
  request.sampling.max_tokens = tokens;
  request.sampling.ignore_eos = true;
  return request;
}

struct Rates {
  double prompt_seconds = 0, answer_seconds = 0, all_seconds = 0;
  int64_t prompt_tokens = 0, answer_tokens = 0, all_tokens = 0;  // answer: those of steps where nothing else was computed
};

Rates run(engine::Engine& engine, std::vector<engine::Request> requests, train::StepProfiler* profiler = nullptr) {
  Rates rates;
  size_t started = 0, count = requests.size();
  for (auto& request : requests) {
    rates.prompt_tokens += static_cast<int64_t>(request.prompt.size());
    engine.add(std::move(request));
  }
  double begin = seconds(), prompts_done = begin;
  std::set<engine::RequestId> seen;
  while (!engine.idle()) {
    bool all_started = started == count;
    if (profiler) profiler->before_step();
    const auto outputs = engine.step();
    if (profiler) profiler->after_step(engine.stats().steps);
    for (const auto& output : outputs) {
      started += seen.insert(output.id).second;
      rates.all_tokens += static_cast<int64_t>(output.tokens.size());
      if (all_started) rates.answer_tokens += static_cast<int64_t>(output.tokens.size());
    }
    if (!all_started && started == count) prompts_done = seconds();
  }
  double end = seconds();
  rates.prompt_seconds = prompts_done - begin;
  rates.answer_seconds = end - prompts_done;
  rates.all_seconds = end - begin;
  return rates;
}

Json answers(engine::Engine& engine, const Settings& s) {
  auto prompts = parse_json(read_file(s.answers)).or_throw(ExitCode::bad_data, s.answers);
  std::vector<engine::Request> requests;
  for (const auto& prompt : prompts) {
    engine::Request request{.prompt = prompt.get<std::vector<text::TokenId>>(), .detokenize = false};
    request.sampling.max_tokens = s.tokens;
    request.sampling.ignore_eos = true;
    requests.push_back(std::move(request));
  }
  Json result = Json::array();
  for (auto& completion : engine::generate(engine, std::move(requests))) result.push_back(completion.tokens);
  return result;
}

// Steps of a plain sum: a few rows side by side, those of the next step asked of memory on the way, as a product reads them.
constexpr int64_t kRowWords = 448, kRowsRead = 4, kStepWords = kRowWords * kRowsRead;
HONE_CPU_KERNEL int64_t sum_of(const int64_t* words, int64_t steps) {
  using Line = int64_t __attribute__((vector_size(64)));
  Line sums{};
  for (int64_t step = 0; step < steps; ++step, words += kStepWords)
    for (int64_t i = 0; i < kRowWords; i += 8)
      for (int64_t row = 0; row < kRowsRead; ++row) {
        const auto* line = words + row * kRowWords + i;
        __builtin_prefetch(line + kStepWords);
        sums += *reinterpret_cast<const Line*>(line);
      }
  int64_t total = 0;
  for (int64_t i = 0; i < 8; ++i) total += sums[i];
  return total;
}

// Bytes a second over 1 GB on huge pages, by all threads. The best of several passes.
double memory_rate() {
  constexpr int64_t kSteps = 75'000;
  device::enable_cpu_caching_allocator();
  auto block = at::ones({kSteps * kStepWords}, at::TensorOptions(at::kLong));
  const auto* words = block.const_data_ptr<int64_t>();
  std::atomic<int64_t> total = 0;
  double best = 1e30;
  for (int pass = 0; pass < 8; ++pass) {
    double begin = seconds();
    at::parallel_for(0, kSteps, 1,
                     [&](int64_t first, int64_t last) { total += sum_of(words + first * kStepWords, last - first); });
    best = std::min(best, seconds() - begin);
  }
  HONE_CHECK(total == 8 * block.numel());
  return static_cast<double>(block.nbytes()) / best;
}

int main_of(const Settings& s) {
  device::settle_threads(false);  // as the program does
  if (s.model.empty()) {
    std::printf("%s\n", Json{{"memory_bytes_per_second", memory_rate()}}.dump().c_str());
    return 0;
  }
  auto model = load(s);
  engine::Engine engine(*model, text::Tokenizer::load(s.model), s.engine);
  if (!s.answers.empty()) {
    std::printf("%s\n", answers(engine, s).dump().c_str());
    return 0;
  }
  Rng rng(0);
  auto vocabulary = model->config().vocab_size;
  auto round = [&](int64_t tokens) {
    std::vector<engine::Request> requests;
    for (int64_t i = 0; i < std::max(s.mixed, s.batch); ++i) {
      int64_t in = s.mixed ? 100 + static_cast<int64_t>(rng.below(925)) : s.prompt,
              out = s.mixed ? 100 + static_cast<int64_t>(rng.below(925)) : tokens;
      requests.push_back(random_request(s, rng, vocabulary, in, out));
    }
    return requests;
  };
  auto warm_up = round(std::min<int64_t>(s.tokens, 4));
  if (s.mixed)  // as many requests, but short: every batch size on the way down is met once
    for (auto& request : warm_up)
      request.prompt.resize(16), request.sampling.max_tokens = 1 + static_cast<int64_t>(rng.below(48));
  run(engine, std::move(warm_up));
  std::unique_ptr<train::StepProfiler> profiler;
  if (!s.profile.empty())
    profiler = std::make_unique<train::StepProfiler>(train::ProfilerConfig{.wait = s.profile_from,
                                                                           .warmup = 1,
                                                                           .active = 3,
                                                                           .shapes = false,
                                                                           .memory = false,
                                                                           .stack = false,
                                                                           .folder = s.profile},
                                                     0);
  auto rates = run(engine, round(s.tokens), profiler.get());
  Json line{{"prompt_tokens_per_second", static_cast<double>(rates.prompt_tokens) / rates.prompt_seconds},
            {"answer_tokens_per_second", static_cast<double>(rates.answer_tokens) / rates.answer_seconds},
            {"output_tokens_per_second", static_cast<double>(rates.all_tokens) / rates.all_seconds},
            {"steps", engine.stats().steps},
            {"preemptions", engine.stats().preemptions},
            {"peak_bytes", device::memory_use(model->device()).peak}};
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  try {
    return hone::main_of(hone::parse(argc, argv));
  } catch (const hone::UserError& error) {
    std::fprintf(stderr, "error: %s\n  hint: %s\n", error.what(), error.hint().c_str());
    return static_cast<int>(error.code());
  }
}
