#include "hone/eval/scores/language_tools.h"

#include <unistd.h>

#include "hone/base/file.h"
#include "hone/train/rl/rewards/plugin_worker.h"

namespace hone::eval {
namespace {

constexpr double kAnalysisSeconds = 600;  // for one call
constexpr size_t kTextsPerCall = 64;

// A plugin that returns numbers: a language is its code's bytes.
constexpr const char* kLanguagePlugin = R"py(
import langdetect
import nltk
from swift.rewards import orms

langdetect.DetectorFactory.seed = 0
splitter = nltk.tokenize.PunktTokenizer("english")


def language(completions):
    def code(text):
        try:
            return int.from_bytes(langdetect.detect(text).encode(), "big")
        except langdetect.LangDetectException:
            return 0
    return [code(text) for text in completions]


orms["language"] = language
orms["sentences"] = lambda completions: [len(splitter.tokenize(text)) for text in completions]
orms["capital_words"] = lambda completions: [sum(word.isupper() for word in nltk.word_tokenize(text)) for text in completions]
)py";

// The plugin's file, which exists while the worker may start again.
struct PluginFile {
  fs::path folder;
  PluginFile() {
    auto name = (fs::temp_directory_path() / "hone-language-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw UserError(ExitCode::failure, fmt::format("{} cannot be created", name));
    folder = name;
    write_file_atomically(path(), kLanguagePlugin);
  }
  ~PluginFile() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  PluginFile(const PluginFile&) = delete;
  fs::path path() const { return folder / "language_tools.py"; }
};

std::string language_of(double code) {
  std::string text;
  for (auto rest = static_cast<uint64_t>(code); rest > 0; rest >>= 8) text.insert(text.begin(), static_cast<char>(rest & 0xff));
  return text;
}

}  // namespace

struct LanguageTools::Worker {
  explicit Worker(const std::string& python)
      : plugins({.files = {file.path().string()}, .python = python, .timeout = kAnalysisSeconds},
                {"language", "sentences", "capital_words"}) {}

  std::vector<double> numbers(const std::string& name, const std::vector<std::string>& texts) {
    const auto found = plugins.call(name, {{"keywords", {{"completions", texts}, {"trainer_state", Json::object()}}}}, {});
    if (!found || !found->is_array() || found->size() != texts.size())
      throw UserError(ExitCode::failure, fmt::format("langdetect and nltk failed: {}", found ? found->dump() : found.error()));
    return found->get<std::vector<double>>();
  }

  PluginFile file;
  train::rl::PluginWorker plugins;
};

LanguageTools::LanguageTools(const std::string& python) try : worker_(std::make_unique<Worker>(python)) {
  worker_->plugins.greeting();
} catch (const UserError& problem) {
  throw UserError(ExitCode::usage, problem.what(),
                  "ifeval needs `plugin_python` with: pip install langdetect nltk, python -m nltk.downloader punkt_tab; without "
                  "`plugin_python`, instructions that need these are left out");
}

LanguageTools::~LanguageTools() = default;

TextAnalyses LanguageTools::analyze(const std::set<std::string>& texts) {
  TextAnalyses analyses;
  const std::vector<std::string> all(texts.begin(), texts.end());
  for (size_t begin = 0; begin < all.size(); begin += kTextsPerCall) {
    const std::vector<std::string> some(all.begin() + static_cast<long>(begin),
                                        all.begin() + static_cast<long>(std::min(all.size(), begin + kTextsPerCall)));
    const auto languages = worker_->numbers("language", some), sentences = worker_->numbers("sentences", some),
               words = worker_->numbers("capital_words", some);
    for (size_t i = 0; i < some.size(); ++i)
      analyses[some[i]] = {language_of(languages[i]), static_cast<int64_t>(sentences[i]), static_cast<int64_t>(words[i])};
  }
  return analyses;
}

}  // namespace hone::eval
