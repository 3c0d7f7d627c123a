#!/usr/bin/env python3
"""`hone eval` and lm-evaluation-harness on the same model, task files and cores.

    bench/eval.py [--model models/nano] [--rows 400] [--threads 2]

Six tasks: the formats of MMLU (five fixed examples, letters) and GSM8K (five fixed examples, worked answers), multiple choice with random examples per question, letters after two examples,
generated sums, last words. The metrics of both are compared first. Prints wall and CPU seconds of both for each task without start-up, and for all tasks with start-up, with ratios.
On a busy machine compare CPU seconds.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/eval"))
from eval_testing import choice_rows, lm_eval, results_of, write_rows, write_tasks  # noqa: E402

TASKS = ["mmlu_form", "gsm8k_form", "drawn_choices", "first_letters", "sums", "next_words"]
MMLU_FORM = """
task: mmlu_form
test_split: test
fewshot_split: dev
fewshot_config: {sampler: first_n}
output_type: multiple_choice
description: "The following are multiple choice questions (with answers) about words.\\n\\n"
doc_to_text: "{{question.strip()}}\\nA. {{choices[0]}}\\nB. {{choices[1]}}\\nC. {{choices[2]}}\\nD. {{choices[3]}}\\nAnswer:"
doc_to_choice: ["A", "B", "C", "D"]
doc_to_target: answer
num_fewshot: 5
metric_list: [{metric: acc}]
"""
GSM8K_FORM = """
task: gsm8k_form
test_split: test
fewshot_split: dev
fewshot_config: {sampler: first_n}
output_type: generate_until
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
num_fewshot: 5
generation_kwargs: {until: ["Question:", "</s>", "<|im_end|>"], do_sample: false, max_gen_toks: 24}
metric_list: [{metric: exact_match, ignore_case: true, regexes_to_ignore: [",", "\\\\$", "(?s).*#### ", "\\\\.$"]}]
filter_list:
  - {name: strict-match, filter: [{function: regex, regex_pattern: "#### (\\\\-?[0-9\\\\.\\\\,]+)"}, {function: take_first}]}
"""


def worked_sum(rng):
    a, b, c = (rng.randrange(2, 60) for _ in range(3))
    return {"question": f"A shop sells {a} loaves on Monday and {b} on Tuesday. On Wednesday it sells {c} more than on Monday. How many loaves does it sell in all?",
            "answer": f"On Wednesday it sells {a}+{c}={a + c} loaves.\nIn all it sells {a}+{b}+{a + c}={2 * a + b + c} loaves.\n#### {2 * a + b + c}"}


def write_all_tasks(folder, rows):
    folder.mkdir()
    write_tasks(folder, rows)
    rng = random.Random(11)
    for name, text, make in (("mmlu_form", MMLU_FORM, lambda count: choice_rows(rng, count)), ("gsm8k_form", GSM8K_FORM, lambda count: [worked_sum(rng) for _ in range(count)])):
        write_rows(folder / f"{name}_dev.jsonl", make(5))
        write_rows(folder / f"{name}_test.jsonl", make(rows))
        files = f"dataset_path: json\ndataset_kwargs:\n  data_files: {{dev: {folder}/{name}_dev.jsonl, test: {folder}/{name}_test.jsonl}}\n"
        (folder / f"{name}.yaml").write_text(files + text)


class Clock:
    """Seconds, and processor seconds of child processes, since it was made."""

    def __init__(self):
        self.began = self.now()

    @staticmethod
    def now():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), used.ru_utime + used.ru_stime

    def taken(self):
        return tuple(end - begin for begin, end in zip(self.began, self.now()))


def run_hone(options, folder, tasks, *more):
    command = [ROOT / "build/bin/hone", "eval", "--model", options.model, "--torch_dtype", "float32", "--include_path", folder / "tasks", "--eval_output_dir", folder / "ours", "--eval_dataset", *tasks, *more]
    clock = Clock()
    subprocess.run([str(argument) for argument in command], check=True, capture_output=True)
    return clock.taken()


def line(name, ours, theirs):
    return f"{name:16} {ours[0]:9.2f} {theirs[0]:9.2f} {theirs[0] / max(ours[0], 1e-3):7.1f} {ours[1]:12.2f} {theirs[1]:9.2f} {theirs[1] / max(ours[1], 1e-3):7.1f}"


def compare(found, wanted):
    for task in TASKS:
        for metric, value in wanted["results"][task].items():
            if "," in metric and "_stderr" not in metric and abs(found["results"][task][metric] - value) > 1e-3 * max(1, abs(value)):
                sys.exit(f"{task} {metric}: {found['results'][task][metric]} and {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models/nano"))
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_all_tasks(folder / "tasks", options.rows)
        whole = run_hone(options, folder, TASKS)
        found = results_of(folder / "ours")
        clock = Clock()
        runs = [{"tasks": [task]} for task in TASKS]
        theirs = lm_eval(options.model, folder / "tasks", folder / "theirs.json", runs)
        their_whole = clock.taken()
        compare(found, {"results": {task: run["results"][task] for task, run in zip(TASKS, theirs)}})
        start = run_hone(options, folder, ["next_words"], "--eval_limit", 1)
        print(f"{options.rows} rows each      seconds: hone   lm-eval   ratio   processor: hone   lm-eval   ratio")
        for task, run in zip(TASKS, theirs):
            ours = tuple(max(taken - began, 1e-3) for taken, began in zip(run_hone(options, folder, [task]), start))
            print(line(task, ours, (run["seconds"], run["processor_seconds"])), flush=True)
        print(line("all, with start", whole, their_whole))
        print(f"start of hone {start[0]:.2f} s, of lm-evaluation-harness {their_whole[0] - sum(run['seconds'] for run in theirs):.2f} s")


if __name__ == "__main__":
    main()
