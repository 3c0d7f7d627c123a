"""Task files, hone's results of them and lm-evaluation-harness's own."""
import contextlib
import json
import os
import random
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"
WORDS = "river stone window garden bread silver morning engine paper cloud table forest bridge candle winter music".split()


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def choice_rows(rng, count):
    rows = []
    for _ in range(count):
        options = rng.sample(WORDS, 3) + ["两个 words"]
        rows.append({"question": f"Which word follows {rng.choice(WORDS)}? ", "choices": options, "answer": rng.randrange(4), "flag": rng.randrange(2)})
    return rows


def qa_rows(rng, count):
    rows = []
    for _ in range(count):
        a, b = rng.randrange(50), rng.randrange(50)
        rows.append({"question": f"What is {a} plus {b}?", "answer": f"Together {a + b}.\n#### {a + b}", "text": " ".join(rng.choices(WORDS, k=rng.randrange(4, 30)))})
    return rows


TASKS = {
    "drawn_choices": """
task: drawn_choices
training_split: train
test_split: test
output_type: multiple_choice
description: "Words about {{question.split()[-1]}}\\n\\n"
doc_to_text: "Question: {{question.strip()}}\\n{% for c in choices %}- {{c}}\\n{% endfor %}Answer:"
doc_to_choice: choices
doc_to_target: answer
num_fewshot: 3
metric_list:
  - metric: acc
  - metric: acc_norm
  - metric: acc_bytes
  - metric: acc_mutual_info
  - metric: exact_match
metadata: {version: 1.5}
""",
    "first_letters": """
task: first_letters
test_split: test
fewshot_split: train
fewshot_config: {sampler: first_n}
output_type: multiple_choice
doc_to_text: "{{question}}A. {{choices[0]}} B. {{choices[1]}} C. {{choices[2]}} D. {{choices[3]}}\\n"
doc_to_choice: "{{['A', 'B', 'C', 'D']}}"
doc_to_target: "{{['A', 'B', 'C', 'D'][answer]}}"
target_delimiter: ""
num_fewshot: 2
metric_list:
  - metric: acc
  - metric: brier_score
""",
    "yes_or_no": """
task: yes_or_no
test_split: test
output_type: multiple_choice
doc_to_text: "Is {{question.split()[3]}} red?"
doc_to_choice: ["no", "yes"]
doc_to_target: flag
metric_list:
  - metric: acc
  - metric: f1
  - metric: mcc
metadata: {version: 0}
""",
    "sums": """
task: sums
dataset: qa
test_split: test
fewshot_split: test
output_type: generate_until
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: "{{answer}}"
num_fewshot: 2
generation_kwargs: {until: ["Question:", "\\n\\n"], do_sample: false, max_gen_toks: 40}
metric_list:
  - metric: exact_match
    ignore_case: true
    ignore_punctuation: false
    regexes_to_ignore: [",", "\\\\$", "(?s).*#### ", "\\\\.$"]
filter_list:
  - name: strict-match
    filter: [{function: regex, regex_pattern: "#### (\\\\-?[0-9\\\\.\\\\,]+)"}, {function: take_first}]
  - name: flexible-extract
    filter: [{function: regex, group_select: -1, regex_pattern: "(-?[$0-9.,]{2,})|(-?[0-9]+)"}, {function: take_first}]
  - name: words
    filter: [{function: lowercase}, {function: remove_whitespace}, {function: take_first}]
""",
    "next_words": """
task: next_words
dataset: qa
test_split: test
output_type: loglikelihood
doc_to_text: "{{text.split(' ')[:-1] | join(' ')}}"
doc_to_target: "{{' ' + text.split(' ')[-1]}}"
metric_list:
  - metric: acc
  - metric: perplexity
""",
    "whole_texts": """
task: whole_texts
dataset: qa
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list:
  - metric: word_perplexity
  - metric: byte_perplexity
  - metric: bits_per_byte
""",
}
GROUP = """
group: both_choices
task: [drawn_choices, first_letters]
aggregate_metric_list:
  - {metric: acc, weight_by_size: true}
"""


def write_tasks(folder, rows=30):
    """The task files of TASKS over rows of their own."""
    rng = random.Random(3)
    for name, make in (("choices", choice_rows), ("qa", qa_rows)):
        write_rows(folder / f"{name}_train.jsonl", make(rng, 12))
        write_rows(folder / f"{name}_test.jsonl", make(rng, rows))
    for name, text in TASKS.items():
        kind = "qa" if "dataset: qa" in text else "choices"
        files = f"dataset_path: json\ndataset_kwargs:\n  data_files: {{train: {folder}/{kind}_train.jsonl, test: {folder}/{kind}_test.jsonl}}\n"
        (folder / f"{name}.yaml").write_text(files + text.replace("dataset: qa\n", ""))
    (folder / "both.yaml").write_text(GROUP)
    return folder


def lm_eval(model, folder, output, runs, packages=None):
    """What lm-evaluation-harness finds in each run, as dicts; `packages` are variables of its environment."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / ".venv/lm_eval"), HF_HOME=str(output.parent / "hf"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                       TOKENIZERS_PARALLELISM="false", LMEVAL_LOG_LEVEL="ERROR")
    environment.update(packages or {})
    done = subprocess.run([sys.executable, str(Path(__file__).with_name("lm_eval_oracle.py")), str(model), str(folder), str(output), json.dumps(runs)],
                          capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(output.read_text())


@contextlib.contextmanager
def answering_server(answer):
    """A server on loopback that answers every POST with JSON, `answer(path, body, seen)`; `seen` holds the path, key and body of each request."""
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.server.seen.append((self.path, self.headers["Authorization"], body))
            written = json.dumps(answer(self.path, body, self.server.seen)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def results_of(output):
    """The report that hone wrote below this folder, with its samples by task."""
    folders = sorted(output.iterdir())
    report = json.loads((folders[-1] / "results.json").read_text())
    report["samples"] = {file.stem.removeprefix("samples_"): [json.loads(line) for line in file.read_text().splitlines()] for file in folders[-1].glob("samples_*.jsonl")}
    return report
