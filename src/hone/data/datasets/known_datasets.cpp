#include "hone/data/datasets/known_datasets.h"

#include <algorithm>

#include "hone/base/error.h"
#include "hone/data/datasets/dataset_files.h"
#include "hone/data/row_report.h"

namespace hone::data {
namespace {

// Entries in the form of ms-swift's dataset_info.json. Datasets whose columns say everything need none.
constexpr const char* kEntries = R"json([
{"ms_dataset_id": "AI-ModelScope/alpaca-gpt4-data-zh", "hf_dataset_id": "llm-wizard/alpaca-gpt4-data-zh"},
{"ms_dataset_id": "AI-ModelScope/LongAlpaca-12k", "hf_dataset_id": "Yukang/LongAlpaca-12k"},
{"ms_dataset_id": "AI-ModelScope/ruozhiba", "subsets": ["post-annual", "title-good", "title-norm"]},
{"ms_dataset_id": "lvjianjin/AdvertiseGen", "hf_dataset_id": "shibing624/AdvertiseGen", "columns": {"content": "query", "summary": "response"}, "split": ["train", "validation"]},
{"ms_dataset_id": "modelscope/clue", "hf_dataset_id": "clue", "subsets": ["cmnli"], "split": ["train", "validation"]},
{"ms_dataset_id": "DAMO_NLP/jd", "subsets": [{"subset": "default"}, {"name": "cls", "subset": "default", "columns": {"sentence": "query"}}], "split": ["train", "validation"]},
{"ms_dataset_id": "AI-ModelScope/synthetic_text_to_sql", "hf_dataset_id": "gretelai/synthetic_text_to_sql"},
{"ms_dataset_id": "AI-ModelScope/blossom-math-v2", "hf_dataset_id": "Azure99/blossom-math-v2"},
{"ms_dataset_id": "AI-ModelScope/sql-create-context", "hf_dataset_id": "b-mc2/sql-create-context", "columns": {"question": "instruction", "context": "input", "answer": "output"}},
{"ms_dataset_id": "codefuse-ai/CodeExercise-Python-27k", "columns": {"chat_rounds": "messages"}},
{"ms_dataset_id": "sentence-transformers/stsb", "hf_dataset_id": "sentence-transformers/stsb", "subsets": ["default", {"name": "positive"}, {"name": "generate"}, {"name": "reg"}]},
{"ms_dataset_id": "MTEB/scidocs-reranking", "hf_dataset_id": "mteb/scidocs-reranking", "split": ["validation", "test"]},
{"ms_dataset_id": "MTEB/stackoverflowdupquestions-reranking", "hf_dataset_id": "mteb/stackoverflowdupquestions-reranking", "split": ["train", "test"]},
{"ms_dataset_id": "tastelikefeet/competition_math", "split": ["train", "test"]},
{"ms_dataset_id": "modelscope/gsm8k", "subsets": ["main"]},
{"ms_dataset_id": "modelscope/MathR", "subsets": ["default", "clean"]},
{"ms_dataset_id": "modelscope/MathR-32B-Distill", "subsets": ["data"]},
{"ms_dataset_id": "zouxuhong/Countdown-Tasks-3to4"},
{"ms_dataset_id": "LLM-Research/xlam-function-calling-60k", "hf_dataset_id": "Salesforce/xlam-function-calling-60k", "subsets": [{"name": "default", "subset": "dataset"}, {"name": "grpo", "subset": "dataset"}]},
{"ms_dataset_id": "hjh0119/shareAI-Llama3-DPO-zh-en-emoji", "hf_dataset_id": "shareAI/DPO-zh-en-emoji", "columns": {"answer_zh": "response", "answer_en": "rejected_response"}},
{"ms_dataset_id": "AI-ModelScope/function-calling-chatml", "hf_dataset_id": "Locutusque/function-calling-chatml"},
{"ms_dataset_id": "AI-ModelScope/databricks-dolly-15k", "hf_dataset_id": "databricks/databricks-dolly-15k"},
{"ms_dataset_id": "AI-ModelScope/orpo-dpo-mix-40k", "hf_dataset_id": "mlabonne/orpo-dpo-mix-40k", "columns": {"chosen": "messages", "rejected": "rejected_messages"}},
{"ms_dataset_id": "open-r1/DAPO-Math-17k-Processed", "hf_dataset_id": "open-r1/DAPO-Math-17k-Processed", "subsets": ["all"]},
{"ms_dataset_id": "sapientinc/sudoku-extreme-1k", "hf_dataset_id": "sapientinc/sudoku-extreme-1k"},
{"ms_dataset_id": "swift/gpt4v-dataset", "hf_dataset_id": "laion/gpt4v-dataset", "columns": {"link": "images", "caption": "response"}},
{"ms_dataset_id": "swift/RLAIF-V-Dataset", "hf_dataset_id": "openbmb/RLAIF-V-Dataset", "columns": {"question": "query", "chosen": "response", "rejected": "rejected_response"}},
{"ms_dataset_id": "tany0699/garbage265", "columns": {"category": "label", "image:FILE": "images"}},
{"ms_dataset_id": "modelscope/coco_2014_caption", "subsets": [{"name": "train", "subset": "coco_2014_caption", "split": ["train"]}, {"name": "validation", "subset": "coco_2014_caption", "split": ["validation"]}]},
{"ms_dataset_id": "speech_asr/speech_asr_aishell1_trainsets", "columns": {"Audio:FILE": "audios"}, "subsets": [{"name": "train", "split": ["train"]}, {"name": "validation", "split": ["validation"]}, {"name": "test", "split": ["test"]}]},
{"ms_dataset_id": "swift/VideoChatGPT", "hf_dataset_id": "lmms-lab/VideoChatGPT", "subsets": ["Generic", "Temporal", "Consistency"], "split": ["test"]},
{"ms_dataset_id": "swift/TextCaps", "hf_dataset_id": "HuggingFaceM4/TextCaps", "columns": {"reference_strs": "response"}, "subsets": ["default", {"name": "emb"}], "split": ["train", "validation"]},
{"ms_dataset_id": "AI-ModelScope/coco", "hf_dataset_id": "detection-datasets/coco"},
{"ms_dataset_id": "AI-ModelScope/LaTeX_OCR", "hf_dataset_id": "linxy/LaTeX_OCR", "subsets": ["default", "human_handwrite", "human_handwrite_print", "synthetic_handwrite", "small"], "split": ["train", "validation", "test"]},
{"ms_dataset_id": "AI-ModelScope/captcha-images", "columns": {"solution": "response"}, "split": ["train", "validation"]},
{"ms_dataset_id": "AI-ModelScope/clevr_cogen_a_train", "hf_dataset_id": "leonardPKU/clevr_cogen_a_train"},
{"ms_dataset_id": "clip-benchmark/wds_voc2007_multilabel", "hf_dataset_id": "clip-benchmark/wds_voc2007_multilabel", "columns": {"webp": "images"}},
{"hf_dataset_id": "hiyouga/geometry3k", "subsets": [{"name": "train", "split": ["train"]}, {"name": "validation", "split": ["validation"]}, {"name": "test", "split": ["test"]}]},
{"ms_dataset_id": "AI-ModelScope/OpenOrca-Chinese", "hf_dataset_id": "yys/OpenOrca-Chinese", "columns": {"system_prompt": "system", "question": "query"}},
{"ms_dataset_id": "AI-ModelScope/OpenOrca", "subsets": ["default", "3_5M"], "columns": {"question": "query"}},
{"ms_dataset_id": "swift/path-vqa", "hf_dataset_id": "flaviagiammarino/path-vqa", "columns": {"question": "query", "answer": "response"}},
{"ms_dataset_id": "swift/aya_collection", "hf_dataset_id": "CohereForAI/aya_collection", "subsets": ["aya_dataset"], "columns": {"inputs": "query", "targets": "response"}},
{"ms_dataset_id": "swift/WebInstructSub", "hf_dataset_id": "TIGER-Lab/WebInstructSub", "columns": {"question": "query", "answer": "response"}},
{"ms_dataset_id": "swift/cinepile", "hf_dataset_id": "tomg-group-umd/cinepile", "columns": {"yt_clip_link": "videos", "question": "query", "answer_key": "response"}},
{"ms_dataset_id": "iic/100PoisonMpts", "columns": {"prompt": "query", "answer": "response"}},
{"ms_dataset_id": "swift/ChartQA", "hf_dataset_id": "HuggingFaceM4/ChartQA", "columns": {"label": "response"}},
{"ms_dataset_id": "swift/VQAv2", "hf_dataset_id": "HuggingFaceM4/VQAv2", "columns": {"question": "query", "multiple_choice_answer": "response"}},
{"ms_dataset_id": "AI-ModelScope/Duet-v0.5", "hf_dataset_id": "G-reen/Duet-v0.5", "columns": {"rewritten_question": "query", "rewritten_answer": "response"}},
{"ms_dataset_id": "AI-ModelScope/zhihu_rlhf_3k", "hf_dataset_id": "liyucheng/zhihu_rlhf_3k", "columns": {"prompt": "query", "chosen": "response", "rejected": "rejected_response"}},
{"ms_dataset_id": "swift/ultrachat_200k", "hf_dataset_id": "HuggingFaceH4/ultrachat_200k", "split": ["train_sft"]},
{"ms_dataset_id": "swift/orca_dpo_pairs", "hf_dataset_id": "Intel/orca_dpo_pairs", "columns": {"question": "query", "chosen": "response", "rejected": "rejected_response"}},
{"ms_dataset_id": "swift/RedPajama-Data-V2", "hf_dataset_id": "togethercomputer/RedPajama-Data-V2", "columns": {"raw_content": "response"}},
{"ms_dataset_id": "swift/Infinity-Instruct", "hf_dataset_id": "BAAI/Infinity-Instruct", "columns": {"label": "_"}, "subsets": ["3M", "7M", "0625", "Gen", "7M_domains"]},
{"ms_dataset_id": "AI-ModelScope/wikipedia-cn-20230720-filtered", "hf_dataset_id": "pleisto/wikipedia-cn-20230720-filtered", "columns": {"completion": "response"}},
{"ms_dataset_id": "AI-ModelScope/the-stack", "hf_dataset_id": "bigcode/the-stack", "columns": {"content": "response"}},
{"ms_dataset_id": "AI-ModelScope/starcoderdata", "hf_dataset_id": "bigcode/starcoderdata", "columns": {"content": "response"}},
{"ms_dataset_id": "swift/github-code", "hf_dataset_id": "codeparrot/github-code", "columns": {"code": "response"}},
{"ms_dataset_id": "AI-ModelScope/deepctrl-sft-data", "subsets": ["default", "en"]},
{"ms_dataset_id": "AI-ModelScope/ms_agent_for_agentfabric", "subsets": ["default", "addition"]},
{"ms_dataset_id": "modelscope/chinese-poetry-collection", "columns": {"text1": "response"}, "split": ["test"]},
{"ms_dataset_id": "wyj123456/instruct", "columns": {"prompt": "query", "completion": "response"}},
{"ms_dataset_id": "damo/zh_cls_fudan-news", "columns": {"prompt": "query", "answer": "response"}},
{"ms_dataset_id": "damo/zh_ner-JAVE", "columns": {"prompt": "query", "answer": "response"}},
{"ms_dataset_id": "AI-ModelScope/lawyer_llama_data", "hf_dataset_id": "Skepsun/lawyer_llama_data", "columns": {"instruction": "query", "output": "response", "history": "-"}},
{"ms_dataset_id": "codefuse-ai/Evol-instruction-66k", "columns": {"instruction": "query", "output": "response"}},
{"ms_dataset_id": "swift/moondream2-coyo-5M-captions", "hf_dataset_id": "isidentical/moondream2-coyo-5M-captions", "columns": {"url": "images", "moondream2_caption": "response"}},
{"ms_dataset_id": "AI-ModelScope/DISC-Law-SFT", "hf_dataset_id": "ShengbinYue/DISC-Law-SFT", "columns": {"input": "query", "output": "response"}},
{"ms_dataset_id": "AI-ModelScope/MathInstruct", "hf_dataset_id": "TIGER-Lab/MathInstruct", "columns": {"instruction": "query", "output": "response"}},
{"ms_dataset_id": "swift/pile-val-backup", "hf_dataset_id": "mit-han-lab/pile-val-backup", "split": ["validation"]},
{"ms_dataset_id": "AI-ModelScope/stack-exchange-paired", "hf_dataset_id": "lvwerra/stack-exchange-paired", "columns": {"question": "query", "response_j": "response", "response_k": "rejected_response"}},
{"ms_dataset_id": "AI-ModelScope/sharegpt_gpt4", "subsets": ["default", "V3_format", "zh_38K_format"]},
{"ms_dataset_id": "swift/sharegpt", "subsets": ["common-zh", "unknow-zh", "common-en"]},
{"ms_dataset_id": "swift/medical_zh", "subsets": [{"subset": "en", "columns": {"input": "query", "output": "response"}}, {"subset": "zh", "columns": {"instruction": "query", "output": "response"}}], "split": ["train", "validation", "test"]},
{"ms_dataset_id": "swift/swift-sft-mixture", "subsets": ["sharegpt", "firefly", "codefuse", "metamathqa"]},
{"ms_dataset_id": "ServiceNow-AI/R1-Distill-SFT", "hf_dataset_id": "ServiceNow-AI/R1-Distill-SFT", "subsets": [{"subset": "v0", "columns": {"problem": "query", "reannotated_assistant_content": "response"}}, {"subset": "v1", "columns": {"messages": "_", "reannotated_messages": "messages"}}]},
{"ms_dataset_id": "HumanLLMs/Human-Like-DPO-Dataset", "hf_dataset_id": "HumanLLMs/Human-Like-DPO-Dataset", "columns": {"prompt": "query", "chosen": "response", "rejected": "rejected_response"}},
{"ms_dataset_id": "AI-ModelScope/MATH-lighteval", "hf_dataset_id": "DigitalLearningGmbH/MATH-lighteval", "columns": {"problem": "query"}},
{"ms_dataset_id": "FreedomIntelligence/medical-o1-reasoning-SFT", "hf_dataset_id": "FreedomIntelligence/medical-o1-reasoning-SFT", "subsets": ["en", "zh"]},
{"ms_dataset_id": "open-r1/verifiable-coding-problems-python", "hf_dataset_id": "open-r1/verifiable-coding-problems-python", "columns": {"problem_statement": "query"}},
{"ms_dataset_id": "open-r1/verifiable-coding-problems-python_decontaminated", "hf_dataset_id": "open-r1/verifiable-coding-problems-python_decontaminated", "columns": {"problem_statement": "query"}},
{"ms_dataset_id": "iic/DocQA-RL-1.6K", "hf_dataset_id": "Tongyi-Zhiwen/DocQA-RL-1.6K", "columns": {"prompt": "messages"}}
])json";

std::vector<SwiftEntry> read_entries() {
  auto list = parse_json(kEntries);
  HONE_CHECK(list, "the list of known datasets: {}", list.error());
  std::vector<SwiftEntry> entries;
  for (const auto& object : *list) {
    auto entry = parse_swift_entry(object, "");
    HONE_CHECK(entry, "a known dataset: {}", entry.error());
    entries.push_back(std::move(*entry));
  }
  return entries;
}

bool has_files(const std::filesystem::path& folder, const std::string& subset, const std::string& split) {
  try {
    return !dataset_files(folder, subset, split).empty();
  } catch (const UserError&) {
    return false;
  }
}

class ChangedRows : public RowFormat {
 public:
  ChangedRows(std::shared_ptr<const RowFormat> format, KnownRows rows) : format_(std::move(format)), rows_(std::move(rows)) {}

  Result<Conversation> convert(Row row) const override {
    if (!rows_.change(row.fields, row.origin))
      return row_error(RowProblem::other, row.origin.str(), "ms-swift leaves such rows of this dataset out");
    return format_->convert(std::move(row));
  }

 private:
  std::shared_ptr<const RowFormat> format_;
  KnownRows rows_;
};

}  // namespace

bool KnownRows::describes(const std::vector<std::string>& present) const {
  static constexpr std::string_view kConversations[] = {"messages", "conversation", "conversations", "query", "instruction"};
  const auto is_present = [&](std::string_view name) { return std::ranges::count(present, name) > 0; };
  return columns.empty() ? std::ranges::none_of(kConversations, is_present) : std::ranges::all_of(columns, is_present);
}

std::shared_ptr<const RowFormat> changed_rows(std::shared_ptr<const RowFormat> format, KnownRows rows) {
  return std::make_shared<ChangedRows>(std::move(format), std::move(rows));
}

const SwiftEntry* find_known_dataset(const std::string& word) {
  static const std::vector<SwiftEntry> entries = read_entries();
  return find_swift_entry(entries, word);
}

SwiftEntry present_in(const SwiftEntry& entry, const std::filesystem::path& folder) {
  SwiftEntry present = entry;
  std::erase_if(present.subsets, [&](const SwiftSubset& subset) {
    const auto splits = subset.split.empty() ? present.split : subset.split;
    return std::ranges::none_of(splits, [&](const std::string& split) { return has_files(folder, subset.subset, split); });
  });
  std::erase_if(present.split, [&](const std::string& split) { return !has_files(folder, "", split); });
  if (present.split.empty()) present.split = {"train"};
  return present;
}

}  // namespace hone::data
