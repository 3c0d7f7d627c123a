// ROUGE-1, -2, -L (F1) and BLEU-4 of generated text against its reference, in percent, as LLaMA-Factory reports them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hone::train {

struct TextScores {
  double rouge_1 = 0, rouge_2 = 0, rouge_l = 0, bleu_4 = 0;
};

// ROUGE counts words: runs of ASCII letters and digits; every other character is a word. For Chinese that is one word per
// character, while LLaMA-Factory uses jieba's dictionary; English agrees exactly. BLEU counts characters in both.
std::vector<std::string> rouge_words(std::string_view text);

TextScores score_text(std::string_view predicted, std::string_view reference);

}  // namespace hone::train
