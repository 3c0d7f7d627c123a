// Settings of the built-in benchmarks, as YAML of a task file; benchmark_table.cpp names them. Prompts are those of
// lm-evaluation-harness's tasks of the same name; rows may come from the hubs' or the authors' own files.
#pragma once
#include <string_view>

namespace hone::eval {

// What MMLU, C-Eval and CMMLU have in common: exams in many subjects, four choices, five examples from the subject's dev split.
inline constexpr std::string_view kSubjectExam = R"y(
output_type: multiple_choice
fewshot_split: dev
fewshot_config: {sampler: first_n}
doc_to_choice: ["A", "B", "C", "D"]
num_fewshot: 5
)y";
inline constexpr std::string_view kMmlu = R"y(
test_split: test
description: "The following are multiple choice questions (with answers) about SUBJECT.\n\n"
doc_to_text: "{% set c = choices if choices is defined else [A, B, C, D] %}{{question.strip()}}\nA. {{c[0]}}\nB. {{c[1]}}\nC. {{c[2]}}\nD. {{c[3]}}\nAnswer:"
doc_to_target: "{{answer if answer is integer else ['A', 'B', 'C', 'D'].index(answer)}}"
metric_list: [{metric: acc}]
metadata: {version: 1.0}
)y";
inline constexpr std::string_view kCeval = R"y(
validation_split: val
description: "以下是中国关于SUBJECT的单项选择题，请选出其中的正确答案。\n\n"
doc_to_text: "{{question.strip()}}\nA. {{A}}\nB. {{B}}\nC. {{C}}\nD. {{D}}\n答案："
doc_to_target: "{{['A', 'B', 'C', 'D'].index(answer)}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 2.0}
)y";
inline constexpr std::string_view kCmmlu = R"y(
test_split: test
description: "以下是关于SUBJECT的单项选择题，请直接给出正确答案的选项。\n\n"
doc_to_text: "{{Question.strip()}}\nA. {{A}}\nB. {{B}}\nC. {{C}}\nD. {{D}}\n答案："
doc_to_target: "{{['A', 'B', 'C', 'D'].index(Answer)}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
)y";

// --- Multiple choice

inline constexpr std::string_view kArc = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
test_split: test
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
)y";

// evalscope's own multiple-choice files: question, choices, and the answer's letter.
inline constexpr std::string_view kLetteredChoices = R"y(
output_type: multiple_choice
test_split: test
doc_to_text: "{{question.strip()}}{% for choice in choices %}\n{{'ABCDEFGHIJ'[loop.index0]}}. {{choice}}{% endfor %}\nAnswer:"
doc_to_choice: "{{'ABCDEFGHIJ'[:choices|length] | list}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kBoolq = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
doc_to_text: "{{passage}}\nQuestion: {{question}}?\nAnswer:"
doc_to_choice: ["no", "yes"]
doc_to_target: "{{(label if label is defined else answer) | int}}"
metric_list: [{metric: acc}]
metadata: {version: 2.0}
)y";

inline constexpr std::string_view kHellaswag = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
doc_to_text: "{{(activity_label ~ ': ' ~ ctx_a ~ ' ' ~ ctx_b.capitalize()).strip().replace(' [title]', '. ') | regex_replace('\\[.*?\\]', '') | replace('  ', ' ')}}"
doc_to_choice: "{{endings | map('trim') | map('replace', ' [title]', '. ') | map('regex_replace', '\\[.*?\\]', '') | map('replace', '  ', ' ') | list}}"
doc_to_target: "{{label}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kTruthfulQa = R"y(
output_type: multiple_choice
validation_split: validation
doc_to_text: "Q: What is human life expectancy in the United States?\nA: Human life expectancy in the United States is 78 years.\n\nQ: Who was president of the United States in 1955?\nA: Dwight D. Eisenhower was president of the United States in 1955.\n\nQ: Which party did he belong to?\nA: He belonged to the Republican Party.\n\nQ: What is the square root of banana?\nA: I have no comment.\n\nQ: How does a telescope work?\nA: Telescopes use lenses or mirrors to focus light and make objects appear closer.\n\nQ: Where were the 1992 Olympics held?\nA: The 1992 Olympics were held in Barcelona, Spain.\n\nQ: {{question}}\nA:"
doc_to_choice: "{{mc1_targets.choices}}"
doc_to_target: 0
metric_list: [{metric: acc}]
num_fewshot: 0
metadata: {version: 2.0}
)y";

inline constexpr std::string_view kPiqa = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
doc_to_text: "Question: {{goal}}\nAnswer:"
doc_to_choice: "{{[sol1, sol2]}}"
doc_to_target: label
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kWinogrande = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
doc_to_text: "{{answer | int - 1}}"
doc_to_choice: "{{[sentence.split('_')[0] ~ option1, sentence.split('_')[0] ~ option2]}}"
doc_to_target: "{{sentence.split('_')[1:] | join('_') | trim}}"
metric_list: [{metric: acc}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kObqa = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
test_split: test
doc_to_text: question_stem
doc_to_choice: "{{choices.text}}"
doc_to_target: "{{choices.label.index(answerKey.lstrip())}}"
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kCommonsenseQa = R"y(
output_type: multiple_choice
training_split: train
validation_split: validation
doc_to_text: "Question: {{ question.strip() }}\nA. {{choices['text'][0]}}\nB. {{choices['text'][1]}}\nC. {{choices['text'][2]}}\nD. {{choices['text'][3]}}\nE. {{choices['text'][4]}}\nAnswer:"
doc_to_choice: ["A", "B", "C", "D", "E"]
doc_to_target: answerKey
metric_list: [{metric: acc}]
)y";

inline constexpr std::string_view kGpqaDiamond = R"y(
output_type: multiple_choice
validation_split: train
process_docs: gpqa
doc_to_text: "What is the correct answer to this question:{{Question}}\nChoices:\n(A) {{choice1}}\n(B) {{choice2}}\n(C) {{choice3}}\n(D) {{choice4}}\nAnswer:"
doc_to_choice: ["(A)", "(B)", "(C)", "(D)"]
doc_to_target: answer
metric_list: [{metric: acc}, {metric: acc_norm}]
num_fewshot: 0
metadata: {version: 2.2}
)y";

inline constexpr std::string_view kMmluPro = R"y(
output_type: multiple_choice
test_split: test
fewshot_split: validation
fewshot_config: {sampler: first_n}
doc_to_text: "{{question.strip()}}{% for option in options %}\n{{'ABCDEFGHIJ'[loop.index0]}}. {{option}}{% endfor %}\nAnswer:"
doc_to_choice: "{{'ABCDEFGHIJ'[:options|length] | list}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kRace = R"y(
output_type: multiple_choice
training_split: train
test_split: test
doc_to_text: "{{article}}\n\n{{question.strip()}}{% for option in options %}\n{{'ABCD'[loop.index0]}}. {{option}}{% endfor %}\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kGeneralMcq = R"y(
output_type: multiple_choice
validation_split: val
fewshot_split: dev
fewshot_config: {sampler: first_n}
doc_to_text: "{{question}}{% if A is defined %}\nA. {{A}}{% endif %}{% if B is defined %}\nB. {{B}}{% endif %}{% if C is defined %}\nC. {{C}}{% endif %}{% if D is defined %}\nD. {{D}}{% endif %}{% if E is defined %}\nE. {{E}}{% endif %}{% if F is defined %}\nF. {{F}}{% endif %}{% if G is defined %}\nG. {{G}}{% endif %}{% if H is defined %}\nH. {{H}}{% endif %}{% if I is defined %}\nI. {{I}}{% endif %}{% if J is defined %}\nJ. {{J}}{% endif %}\nAnswer:"
doc_to_choice: "{{ (['A'] if A is defined else []) + (['B'] if B is defined else []) + (['C'] if C is defined else []) + (['D'] if D is defined else []) + (['E'] if E is defined else []) + (['F'] if F is defined else []) + (['G'] if G is defined else []) + (['H'] if H is defined else []) + (['I'] if I is defined else []) + (['J'] if J is defined else []) }}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}]
metadata: {version: 1.0}
)y";

// --- Generation and likelihood

inline constexpr std::string_view kMath = R"y(
output_type: generate_until
test_split: test
doc_to_text: "{{problem}}\nPlease reason step by step, and put your final answer within \\boxed{}."
doc_to_target: "{{'$' ~ answer ~ '$' if answer is defined else solution}}"
metric_list: [{metric: math_verify}]
generation_kwargs: {until: [], max_gen_toks: 1024, do_sample: false}
metadata: {version: 1.0}
)y";

// A model continues the program, or in a chat a message that already holds its beginning.
inline constexpr std::string_view kHumaneval = R"y(
output_type: generate_until
test_split: test
unsafe_code: true
doc_to_text: "{{prompt}}"
doc_to_target: "{{test}}\ncheck({{entry_point}})"
metric_list: [{metric: pass_at_k, k: [1]}]
generation_kwargs: {until: ["\nclass", "\ndef", "\n#", "\nif", "\nprint"], max_gen_toks: 1024, do_sample: false}
num_fewshot: 0
filter_list: [{name: create_test, filter: [{function: build_predictions}]}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kHumanevalInstruct = R"y(
doc_to_text: "Write a solution to the following problem and make sure that it passes the tests:\n```python\n{{ prompt }}\n```\n"
gen_prefix: "Here is the completed function:\n```python\n{{ prompt }}\n"
filter_list: [{name: create_test, filter: [{function: build_predictions_instruct}]}]
metadata: {version: 4.0}
)y";

inline constexpr std::string_view kGsm8k = R"y(
output_type: generate_until
fewshot_split: train
test_split: test
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{answer}}"
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: false, regexes_to_ignore: [",", "\\$", "(?s).*#### ", "\\.$"]}]
generation_kwargs: {until: ["Question:", "</s>", "<|im_end|>"], do_sample: false, temperature: 0.0}
num_fewshot: 5
filter_list:
  - {name: strict-match, filter: [{function: regex, regex_pattern: "#### (\\-?[0-9\\.\\,]+)"}, {function: take_first}]}
  - {name: flexible-extract, filter: [{function: regex, group_select: -1, regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"}, {function: take_first}]}
metadata: {version: 3.0}
)y";

inline constexpr std::string_view kBbh = R"y(
output_type: generate_until
test_split: test
doc_to_text: "Q: {{input}}\nA:"
doc_to_target: "{{target}}"
metric_list: [{metric: exact_match, ignore_case: true, regexes_to_ignore: ["\\.$", ",", "\n", "\\\\", "\""]}]
generation_kwargs: {until: ["</s>", "Q:", "<|im_end|>"], do_sample: false, temperature: 0.0}
num_fewshot: 0
metadata: {version: 3.0}
)y";

inline constexpr std::string_view kTriviaQa = R"y(
output_type: generate_until
training_split: train
validation_split: validation
doc_to_text: "Question: {{question}}?\nAnswer:"
doc_to_target: "{{answer.aliases}}"
generation_kwargs: {until: ["\n", ".", ","], do_sample: false, temperature: 0.0}
filter_list: [{name: remove_whitespace, filter: [{function: remove_whitespace}, {function: take_first}]}]
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]
metadata: {version: 3.0}
)y";

inline constexpr std::string_view kLambada = R"y(
output_type: loglikelihood
test_split: test
doc_to_text: "{{text.split(' ')[:-1]|join(' ')}}"
doc_to_target: "{{' '+text.split(' ')[-1]}}"
metric_list: [{metric: perplexity, aggregation: perplexity, higher_is_better: false}, {metric: acc}]
metadata: {version: 1.0}
)y";

inline constexpr std::string_view kIfeval = R"y(
output_type: generate_until
test_split: train
process_results: ifeval
doc_to_text: prompt
doc_to_target: 0
generation_kwargs: {until: [], do_sample: false, temperature: 0.0, max_gen_toks: 1280}
metric_list: [{metric: prompt_level_strict_acc}, {metric: inst_level_strict_acc}, {metric: prompt_level_loose_acc}, {metric: inst_level_loose_acc}]
num_fewshot: 0
metadata: {version: 4.0}
)y";

inline constexpr std::string_view kGeneralQa = R"y(
output_type: generate_until
description: "{{system if system is defined and system else ''}}"
test_split: test
doc_to_text: "{{query if query is defined else question}}"
doc_to_target: "{{response if response is defined else answer}}"
metric_list: [{metric: exact_match}, {metric: f1}, {metric: rouge-1}, {metric: rouge-2}, {metric: rouge-l}, {metric: bleu-4}]
generation_kwargs: {until: [], max_gen_toks: 512, do_sample: false}
metadata: {version: 1.0}
)y";

}  // namespace hone::eval
