#include "hone/eval/tasks/benchmark_table.h"

#include "hone/eval/tasks/benchmark_settings.h"

namespace hone::eval {
namespace {

constexpr Benchmark kBenchmarks[] = {
    {.name = "mmlu", .dataset = "cais/mmlu", .settings = kMmlu, .has_subjects = true, .base = kSubjectExam},
    {.name = "ceval", .dataset = "ceval/ceval-exam", .settings = kCeval, .has_subjects = true, .base = kSubjectExam},
    {.name = "cmmlu", .dataset = "haonan-li/cmmlu", .settings = kCmmlu, .has_subjects = true, .base = kSubjectExam},
    {"gsm8k", "openai/gsm8k:main", kGsm8k},
    {.name = "bbh", .dataset = "SaylorTwift/bbh", .settings = kBbh, .has_subjects = true},
    {.name = "arc", .dataset = "allenai/ai2_arc", .settings = kArc, .has_subjects = true},
    {.name = "ARC_c",
     .dataset = "allenai/ai2_arc",
     .settings = kArc,
     .has_subjects = true,
     .only_subject = "ARC-Challenge"},  // OpenCompass's names
    {.name = "ARC_e", .dataset = "allenai/ai2_arc", .settings = kArc, .has_subjects = true, .only_subject = "ARC-Easy"},
    {"math_500", "HuggingFaceH4/MATH-500", kMath},
    {"competition_math", "evalscope/competition_math", kMath},
    {"math", "evalscope/competition_math", kMath},  // OpenCompass's name
    {"aime24", "math-ai/aime24", kMath},
    {"aime25", "math-ai/aime25", kMath},
    {"aime26", "math-ai/aime26", kMath},
    {.name = "hmmt25", .dataset = "MathArena/hmmt_feb_2025", .settings = kMath, .split = "train"},
    {.name = "hmmt26", .dataset = "MathArena/hmmt_feb_2026", .settings = kMath, .split = "train"},
    {.name = "hmmt_nov25", .dataset = "MathArena/hmmt_nov_2025", .settings = kMath, .split = "train"},
    {"hellaswag", "Rowan/hellaswag", kHellaswag},
    {"truthful_qa", "truthfulqa/truthful_qa:multiple_choice", kTruthfulQa},
    {"trivia_qa", "mandarjoshi/trivia_qa:rc.nocontext", kTriviaQa},
    {"boolq", "google/boolq", kBoolq},
    {"BoolQ", "google/boolq", kBoolq},  // OpenCompass's name
    {"piqa", "baber/piqa", kPiqa},
    {"winogrande", "allenai/winogrande:winogrande_xl", kWinogrande},
    {"obqa", "allenai/openbookqa:main", kObqa},
    {"commonsense_qa", "tau/commonsense_qa", kCommonsenseQa},
    {"lambada", "EleutherAI/lambada_openai:default", kLambada},
    {"gpqa_diamond", "Idavidrein/gpqa:gpqa_diamond", kGpqaDiamond},
    {"ifeval", "google/IFEval", kIfeval},
    {.name = "humaneval", .dataset = "openai/openai_humaneval", .settings = kHumaneval, .chat_settings = kHumanevalInstruct},
    {"mmlu_pro", "TIGER-Lab/MMLU-Pro", kMmluPro},
    {.name = "race", .dataset = "evalscope/race", .settings = kRace, .has_subjects = true},
    {.name = "iquiz", .dataset = "AI-ModelScope/IQuiz", .settings = kLetteredChoices, .has_subjects = true},
    {"sciq", "extraordinarylab/sciq", kLetteredChoices},
    {.name = "siqa", .dataset = "extraordinarylab/siqa", .settings = kLetteredChoices, .split = "validation"},
    {.name = "qasc", .dataset = "extraordinarylab/qasc", .settings = kLetteredChoices, .split = "validation"},
    {.name = "general_mcq", .dataset = "", .settings = kGeneralMcq, .has_subjects = true},
    {.name = "general_qa", .dataset = "", .settings = kGeneralQa, .has_subjects = true},
};

}  // namespace

std::span<const Benchmark> benchmark_table() { return kBenchmarks; }

std::string_view modelscope_dataset(std::string_view benchmark) {
  constexpr std::pair<std::string_view, std::string_view> kCopies[] = {
      {"aime24", "evalscope/aime24"},
      {"aime26", "evalscope/aime26"},
      {"ceval", "evalscope/ceval"},
      {"gpqa_diamond", "AI-ModelScope/gpqa_diamond"},
      {"gsm8k", "AI-ModelScope/gsm8k:main"},
      {"hellaswag", "evalscope/hellaswag"},
      {"hmmt25", "evalscope/hmmt_feb_2025"},
      {"hmmt26", "evalscope/hmmt_feb_2026"},
      {"hmmt_nov25", "evalscope/hmmt_nov_2025"},
      {"humaneval", "opencompass/humaneval:openai_humaneval"},
      {"ifeval", "opencompass/ifeval"},
      {"math_500", "AI-ModelScope/MATH-500"},
      {"truthful_qa", "evalscope/truthful_qa:multiple_choice"},
  };
  for (const auto& [name, dataset] : kCopies)
    if (name == benchmark) return dataset;
  return {};
}

}  // namespace hone::eval
