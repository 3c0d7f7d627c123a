#include "hone/eval/factory_evaluation.h"

#include <algorithm>

#include "hone/base/file.h"
#include "hone/base/progress.h"
#include "hone/data/datasets/python_random.h"
#include "hone/eval/tasks/documents.h"

namespace hone::eval {
namespace {

constexpr std::string_view kLetters[] = {"A", "B", "C", "D"};
constexpr std::string_view kCategories[] = {"Average", "STEM", "Social Sciences", "Humanities", "Other"};

struct Wording {
  std::string before, after, answer;  // the subject goes between the first two
};
Wording wording(const std::string& lang) {
  if (lang == "zh") return {"以下是中国关于", "考试的单项选择题，请选出其中的正确答案。\n\n", "\n答案："};
  return {"The following are multiple choice questions (with answers) about ", ".\n\n", "\nAnswer:"};
}

// File names of a split: LLaMA-Factory's train is the dev set.
std::vector<std::string> split_names(const std::string& split) {
  if (split == "train") return {"dev", "train"};
  if (split == "validation") return {"val", "validation"};
  return {split};
}

std::vector<Json> subject_rows(const fs::path& folder, const std::string& subject, const std::string& split) {
  DatasetConfig dataset{.path = folder.string(), .subset = subject, .data_files = {}, .task_folder = {}};
  auto names = split_names(split);
  for (size_t i = 0;; ++i) try {
      return load_documents(dataset, names[i], [](const std::string& id) { return fs::path(id); });
    } catch (const UserError&) {
      if (i + 1 == names.size()) throw;
    }
}

std::string column(const Json& row, const std::string& name, const std::string& where) {
  auto other = name;
  other[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(other[0])));
  for (const auto& key : {name, other})
    if (auto found = row.find(key); found != row.end()) return found->is_string() ? found->get<std::string>() : found->dump();
  throw UserError(ExitCode::bad_data, fmt::format("{}: a row has no column {}", where, name),
                  "expected question, A, B, C, D and answer");
}

std::string question_text(const Json& row, const Wording& words, const std::string& where) {
  auto text = column(row, "question", where);
  for (auto letter : kLetters)
    if (row.contains(std::string(letter))) text += fmt::format("\n{}. {}", letter, column(row, std::string(letter), where));
  return text + words.answer;
}

data::Message message(const char* role, std::string content) {
  return {.role = role, .content = std::move(content), .loss = {}, .loss_scale = {}, .extra = {}};
}

fs::path benchmark_folder(const FactoryEvaluationConfig& config, const std::string& benchmark) {
  auto folder = config.task_dir / benchmark;
  if (fs::is_regular_file(folder / "mapping.json")) return folder;
  throw UserError(
      ExitCode::usage, fmt::format("{}: there is no mapping.json", folder.string()),
      fmt::format(
          "task_dir is the evaluation folder of LLaMA-Factory's repository: {0}/mapping.json next to the unpacked {0}.zip",
          benchmark));
}

// `batch` questions at a time; 0: all at once.
std::vector<engine::Completion> ask(engine::Engine& engine, std::vector<engine::Request> requests, int64_t batch,
                                    const std::function<void()>& answered) {
  const auto step = batch > 0 ? static_cast<size_t>(batch) : std::max<size_t>(1, requests.size());
  std::vector<engine::Completion> answers;
  for (size_t first = 0; first < requests.size(); first += step) {
    const auto begin = requests.begin() + static_cast<ptrdiff_t>(first);
    const auto end = requests.begin() + static_cast<ptrdiff_t>(std::min(first + step, requests.size()));
    std::vector<engine::Request> part(std::make_move_iterator(begin), std::make_move_iterator(end));
    for (auto& answer : engine::generate(engine, std::move(part), {}, [&](size_t) { answered(); }))
      answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace

std::vector<FactorySubject> read_factory_subjects(const FactoryEvaluationConfig& config) {
  auto cut = config.task.find('_');
  if (cut == config.task.npos)
    throw UserError(ExitCode::usage, fmt::format("task is {}", config.task),
                    "expected a benchmark and its split: mmlu_test, ceval_validation, cmmlu_test");
  auto folder = benchmark_folder(config, config.task.substr(0, cut));
  auto split = config.task.substr(cut + 1);
  auto mapping = read_config_file((folder / "mapping.json").string());
  auto words = wording(config.lang);
  data::PythonRandom random(config.seed);
  std::vector<FactorySubject> subjects;
  for (const auto& [id, entry] : mapping.items()) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("category"))
      throw UserError(ExitCode::bad_data, fmt::format("{}/mapping.json: {} has no name and category", folder.string(), id));
    FactorySubject subject{id, entry["name"].get<std::string>(), entry["category"].get<std::string>(), {}, {}};
    auto examples = config.n_shot > 0 ? subject_rows(folder, id, "train") : std::vector<Json>();
    for (const auto& row : subject_rows(folder, id, split)) {
      random.shuffle(examples);
      data::Conversation prompt;
      for (size_t i = 0; i < std::min(examples.size(), static_cast<size_t>(config.n_shot)); ++i) {
        prompt.messages.push_back(message("user", question_text(examples[i], words, id)));
        prompt.messages.push_back(message("assistant", column(examples[i], "answer", id)));
      }
      prompt.messages.push_back(message("user", question_text(row, words, id)));
      prompt.messages.front().content = words.before + subject.name + words.after + prompt.messages.front().content;
      subject.prompts.push_back(std::move(prompt));
      subject.labels.push_back(column(row, "answer", id));
    }
    subjects.push_back(std::move(subject));
  }
  if (!config.save_dir.empty() && fs::exists(config.save_dir))
    throw UserError(ExitCode::usage, fmt::format("save_dir {} exists already", config.save_dir.string()), "name another one");
  return subjects;
}

std::string run_factory_evaluation(const FactoryEvaluationConfig& config, const std::vector<FactorySubject>& subjects,
                                   engine::Engine& engine, const data::Encoder& encoder) {
  std::vector<text::TokenId> letters;
  for (auto letter : kLetters) letters.push_back(encoder.tokenizer().encode(letter).back());
  int64_t total = 0, done = 0;
  for (const auto& subject : subjects) total += static_cast<int64_t>(subject.prompts.size());
  ProgressBar bar("Processing subjects", total);
  Json results = Json::object();
  std::map<std::string, std::pair<int64_t, int64_t>> scores;  // correct and total, by category
  for (const auto& subject : subjects) {
    std::vector<engine::Request> requests;
    for (const auto& prompt : subject.prompts) {
      engine::Request request{
          .prompt = encoder.encode_prompt(prompt).or_throw(ExitCode::bad_data, subject.id), .sampling = {}, .detokenize = false};
      request.sampling.max_tokens = 1;
      request.sampling.ignore_eos = true;
      request.sampling.logprobs = 0;
      request.sampling.logprob_token_ids = letters;
      requests.push_back(std::move(request));
    }
    const auto answers = ask(engine, std::move(requests), config.batch_size, [&] { bar.update(++done, subject.name); });
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].finish == engine::FinishReason::error) throw UserError(ExitCode::failure, answers[i].error);
      const auto& others = answers[i].logprobs.at(0).others;
      auto best = std::ranges::max_element(others, {}, &engine::TokenLogprob::logprob) - others.begin();
      auto letter = std::string(kLetters[best]);
      results[subject.id][std::to_string(i)] = letter;
      for (const auto& category : {std::string("Average"), subject.category}) {
        scores[category].first += letter == subject.labels[i];
        ++scores[category].second;
      }
    }
  }
  bar.finish();
  std::string table;
  for (auto category : kCategories)
    if (auto found = scores.find(std::string(category)); found != scores.end())
      table += fmt::format("{}{:>15}: {:.2f}", table.empty() ? "" : "\n", category,
                           100.0 * static_cast<double>(found->second.first) / static_cast<double>(found->second.second));
  if (!config.save_dir.empty()) {
    fs::create_directories(config.save_dir);
    write_file_atomically(config.save_dir / "results.json", results.dump(2));
    write_file_atomically(config.save_dir / "results.log", table);
  }
  return table;
}

}  // namespace hone::eval
