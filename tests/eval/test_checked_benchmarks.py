"""Benchmarks whose scores are computed by programs: gpqa's shuffled choices, ifeval's instructions, humaneval's tests. lm-evaluation-harness's own functions are the reference."""
import csv
import json
import math
import os
import subprocess
import sys

import pytest
from eval_testing import NANO, ROOT, answering_server, lm_eval, results_of, write_rows

OWN_TASKS = ROOT / ".venv/lm_eval/lm_eval/tasks"
# Stand-ins for modules that these tasks import: a language detector, and evaluate, which would download code_eval.
MODULES = {
    "langdetect.py": """
class LangDetectException(Exception):
    pass
class DetectorFactory:
    seed = None
def detect(text):
    if not any(map(str.isalpha, text)):
        raise LangDetectException("no letters")
    return "en" if "the" in text.lower() else "zh-cn" if "的" in text else "fr"
""",
    "immutabledict.py": "immutabledict = dict\n",
    "evaluate/__init__.py": """
import subprocess, sys
from math import comb
class Metric:
    def compute(self, references, predictions, k):
        ran = [[subprocess.run([sys.executable, "-c", f"exec({program + chr(10) + tests!r}, {{}}); print('end')"], capture_output=True).stdout == b"end\\n" for program in programs] for programs, tests in zip(predictions, references)]
        found = [{f"pass@{each}": 1 - comb(len(one) - sum(one), each) / comb(len(one), each) for each in k} for one in ran]
        return {name: sum(one[name] for one in found) / len(found) for name in found[0]}, ran
def load(name):
    return Metric()
""",
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Environments of Python with these modules and a sentence splitter that knows one abbreviation."""
    folder = tmp_path_factory.mktemp("packages")
    for name, text in MODULES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    punkt = folder / "data/tokenizers/punkt_tab/english"
    punkt.mkdir(parents=True)
    for name, text in {"collocations.tab": "", "sent_starters.txt": "", "abbrev_types.txt": "dr\n", "ortho_context.tab": ""}.items():
        (punkt / name).write_text(text)
    return {"PYTHONPATH": f"{folder}:{ROOT / '.venv/lm_eval'}", "NLTK_DATA": str(folder / "data")}


def asked_of_lm_eval(packages, code, value):
    done = subprocess.run([sys.executable, "-c", f"import json, sys\nvalue = json.load(sys.stdin)\n{code}"], input=json.dumps(value), capture_output=True, text=True, env={**os.environ, **packages})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_gpqas_choices_are_shuffled_as_theirs(hone, tmp_path):
    rows = [{"Question": f"What is {i} plus {i}?\nThink, \"well\".", "Correct Answer": f" {2 * i} [title] yes", "Incorrect Answer 1": "blue  sky", "Incorrect Answer 2": "red", "Incorrect Answer 3": f"{i} apples\n"} for i in range(6)]
    for name in ("gpqa_diamond", "gpqa_main"):  # the hub's folder has all parts
        with open(tmp_path / f"{name}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows if name == "gpqa_diamond" else rows[:1])
    (tmp_path / "task.yaml").write_text(f"include: {OWN_TASKS}/gpqa/zeroshot/_gpqa_zeroshot_yaml\ntask: gpqa_diamond_zeroshot\ndataset_path: csv\ndataset_name: null\ndataset_kwargs:\n  data_files: {{train: {tmp_path}/gpqa_diamond.csv}}\n")
    theirs = lm_eval(NANO, tmp_path, tmp_path / "theirs.json", [{"tasks": ["gpqa_diamond_zeroshot"]}])[0]
    done = hone("eval", "--model", NANO, "--torch_dtype", "float32", "--eval_dataset", "gpqa_diamond", "--eval_dataset_args", json.dumps({"gpqa_diamond": {"local_path": str(tmp_path)}}), "--log_samples", "true", "--eval_output_dir", tmp_path / "ours")
    assert done.returncode == 0, done.stderr
    ours = results_of(tmp_path / "ours")
    for row, other in zip(ours["samples"]["gpqa_diamond"], theirs["samples"]["gpqa_diamond_zeroshot"], strict=True):
        assert row["prompt"] == other["arguments"][0][0] and row["target"] == other["target"]
    for metric in ("acc,none", "acc_norm,none", "acc_stderr,none"):
        assert math.isclose(ours["results"]["gpqa_diamond"][metric], theirs["results"]["gpqa_diamond_zeroshot"][metric], rel_tol=2e-4)


# Instructions with their arguments, and answers of which some follow them.
INSTRUCTIONS = [
    ("keywords:existence", {"keywords": ["river", "st.ne"]}, ["The RIVER has a stone.", "A river."]),
    ("keywords:frequency", {"keyword": " the ", "frequency": 2, "relation": "at least"}, ["The theme of the day", "one"]),
    ("keywords:frequency", {"keyword": "cat", "frequency": 2, "relation": "less than"}, ["cat Cat", "cat"]),
    ("keywords:forbidden_words", {"forbidden_words": ["bad", "worse"]}, ["badly", "Not BAD!"]),
    ("keywords:letter_frequency", {"letter": "E", "let_frequency": 3, "let_relation": "at least"}, ["Eve e", "Eve"]),
    ("language:response_language", {"language": "en"}, ["the sky", "le ciel", "123 !"]),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, ["Dr. Who is here. He waits.", "Dr. Who is here."]),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, ["one\n***\ntwo", "***\none\n***\ntwo\n***", "one *** *** two", "one"]),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, ["two words", "it's é-three"]),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Well"}, ["Hi\n\n'well, yes", "Hi\n\nwellness", "\n\nwell\n\nyes", "well"]),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, ["[a] and [b]", "[a\n]"]),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, ["Bye\np. s. more", "ps more"]),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, ["P. P. S more", "P.S. more"]),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, ["* one\n - two", "* one\n** two", "- one\n- two\n* three"]),
    ("detectable_format:constrained_response", {}, ["Well. My answer is no.", "no"]),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, ["*one* and **two**", "*one* ** **", "*one* *two*"]),
    ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 2}, ["SECTION 1 a SECTION 2 b", "Section 1\nSection 2"]),
    ("detectable_format:json_format", {}, ["```json\n{\"a\": [1]}\n```", "{'a': 1}"]),
    ("detectable_format:title", {}, ["<<a title>> text", "<< >>", "title"]),
    ("combination:two_responses", {}, ["one ****** two", "one ****** one ", "one ******  ****** two"]),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say Hello"}, ["say hello: hello", "hello"]),
    ("startend:end_checker", {"end_phrase": "The End. "}, ["it is \"the end.\"", "the end. yes"]),
    ("startend:quotation", {}, [' "quoted" ', '"', "no"]),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"}, ["IT'S here", "It IS. NOT", "No"]),
    ("change_case:english_capital", {}, ["THE SKY", "THE sky", "LE CIEL", "123"]),
    ("change_case:english_lowercase", {}, ["the sky", "The sky", "le ciel"]),
    ("punctuation:no_comma", {}, ["none", "a, b"]),
]


def instruction_documents():
    """Each answer alone, with lines around it that loose scores leave out, and with a second instruction."""
    documents = []
    for name, arguments, answers in INSTRUCTIONS:
        for answer in answers:
            for given in (answer, f"Sure, here it is:\n{answer}\nI hope, it helps", f"*{answer}*"):
                ids = [name, "punctuation:no_comma"] if len(documents) % 2 else [name]
                key = len(documents)
                documents.append(({"key": key, "prompt": f"Question {key}", "instruction_id_list": ids, "kwargs": [{**arguments, "unused": None}, {}][:len(ids)]}, given))
    documents.append(({"key": len(documents), "prompt": f"Question {len(documents)}", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}, ""))
    return documents


def evaluated(swift, folder, name, answers, *more, env=None):
    """An evaluation in which a server gives the answers by the last word of the question."""
    def answer(path, body, seen):
        given = answers[int(body["messages"][0]["content"].split("Question ")[1].split()[0])]
        return {"choices": [{"message": {"role": "assistant", "content": given}}]}

    with answering_server(answer) as server:
        done = swift("eval", "--model", NANO, "--eval_url", f"http://127.0.0.1:{server.server_port}/v1", "--eval_dataset", name, "--eval_dataset_args", json.dumps({name: {"local_path": str(folder / "data")}}),
                     "--eval_output_dir", folder / "out", "--result_path", folder / "line.jsonl", "--log_samples", "true", *more, env=env)
        return done, server.seen


def test_instructions_are_checked_as_theirs(swift, tmp_path, packages):
    documents = instruction_documents()
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data/ifeval_input_data.jsonl", [document for document, _ in documents])
    theirs = asked_of_lm_eval(packages, "from lm_eval.tasks.ifeval.utils import process_results\nprint(json.dumps([process_results(document, [answer]) for document, answer in value]))", documents)
    done, _ = evaluated(swift, tmp_path, "ifeval", [answer for _, answer in documents], "--plugin_python", sys.executable, env=packages)
    assert done.returncode == 0, done.stderr
    report = results_of(tmp_path / "out")
    for row, other in zip(report["samples"]["ifeval"], theirs, strict=True):
        for metric, value in other.items():
            assert row[metric] == (sum(value) if isinstance(value, list) else value), (metric, row)
    for metric in theirs[0]:
        flat = [each for row in theirs for each in (row[metric] if isinstance(row[metric], list) else [row[metric]])]
        found = report["results"]["ifeval"][f"{metric},none"]
        assert 0.2 < found < 0.9 and found == pytest.approx(sum(flat) / len(flat)), metric


def test_instructions_that_need_python_are_left_out_without_it(swift, tmp_path, packages):
    documents = [{"key": i, "prompt": f"Question {i}", "instruction_id_list": [name], "kwargs": [{"language": "en"}]} for i, name in enumerate(["punctuation:no_comma", "language:response_language", "detectable_format:title"])]
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data/train.jsonl", documents)
    done, seen = evaluated(swift, tmp_path, "ifeval", ["no commas"] * 3)
    assert done.returncode == 0 and len(seen) == 2 and results_of(tmp_path / "out")["results"]["ifeval"]["prompt_level_strict_acc,none"] == 0.5, done.stderr
    assert "ifeval: 1 of 3 documents are left out, since they need Python's langdetect and nltk" in done.stderr
    done, seen = evaluated(swift, tmp_path, "ifeval", [""] * 3, "--plugin_python", sys.executable, env={**packages, "NLTK_DATA": str(tmp_path)})
    assert done.returncode == 2 and not seen and "punkt_tab" in done.stderr and "pip install langdetect nltk" in done.stderr
    write_rows(tmp_path / "data/train.jsonl", [{**documents[0], "instruction_id_list": ["punctuation:none"]}])
    done, seen = evaluated(swift, tmp_path, "ifeval", [""])
    assert done.returncode == 3 and not seen and "the document 0 of ifeval: there is no instruction punctuation:none" in done.stderr


PROBLEM = {"prompt": "def add(a, b):\n    \"\"\"Question 0 : adds.\"\"\"\n", "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n", "entry_point": "add", "task_id": "0", "canonical_solution": ""}


def test_programs_pass_as_theirs(swift, tmp_path, packages):
    (tmp_path / "data").mkdir()
    documents = [{**PROBLEM, "task_id": str(i), "prompt": PROBLEM["prompt"].replace("Question 0", f"Question {i}")} for i in range(5)]
    answers = ["    return a + b\n```\nThat is all.", "    return a - b\n```", "    return a +", "    import sys\n    sys.exit(0)\n```", "    while True: pass"]
    write_rows(tmp_path / "data/test.jsonl", documents)
    code = "from lm_eval.tasks.humaneval.utils import build_predictions_instruct, pass_at_k\nprint(json.dumps([pass_at_k([d['test'] + chr(10) + 'check(' + d['entry_point'] + ')'], build_predictions_instruct([[r]], [d]), k=[1]) for d, r in value]))"
    theirs = asked_of_lm_eval(packages, code, list(zip(documents, answers))[:4])  # their stand-in has no time limit
    done, _ = evaluated(swift, tmp_path, "humaneval", answers)
    assert done.returncode == 2 and "humaneval runs programs that a model wrote" in done.stderr and "--code_sandbox bubblewrap" in done.stderr
    done, seen = evaluated(swift, tmp_path, "humaneval", answers, "--code_sandbox", "bubblewrap", "--code_timeout", 3)
    assert done.returncode == 0, done.stderr
    report = results_of(tmp_path / "out")
    assert [row["pass@1"] for row in report["samples"]["humaneval"]] == [row["pass@1"] for row in theirs] + [0] == [1, 0, 0, 0, 0]
    assert report["results"]["humaneval"]["pass@1,create_test"] == pytest.approx(0.2)
    assert seen[0][2]["messages"][-1]["content"].startswith("Here is the completed function:\n```python\ndef add")


def test_pass_at_k_of_several_samples(swift, tmp_path):
    (tmp_path / "data").mkdir()
    write_rows(tmp_path / "data/test.jsonl", [PROBLEM])
    (tmp_path / "task.yaml").write_text(f"""
task: programs
dataset_path: {tmp_path / "data"}
test_split: test
unsafe_code: true
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{test}}}}\\ncheck({{{{entry_point}}}})"
metric_list: [{{metric: pass_at_k, k: [1, 2]}}]
filter_list: [{{name: create_test, filter: [{{function: build_predictions}}]}}]
repeats: 4
""")
    given = iter(["    return a + b"] + ["    return a"] * 3)
    with answering_server(lambda path, body, seen: {"choices": [{"message": {"role": "assistant", "content": next(given)}}]}) as server:
        done = swift("eval", "--model", NANO, "--eval_url", f"http://127.0.0.1:{server.server_port}/v1", "--eval_num_proc", 1, "--eval_dataset", tmp_path / "task.yaml", "--code_sandbox", "bubblewrap", "--eval_output_dir", tmp_path / "out", "--result_path", tmp_path / "line.jsonl")
    assert done.returncode == 0, done.stderr
    found = results_of(tmp_path / "out")["results"]["programs"]
    assert found["pass@1,create_test"] == pytest.approx(1 / 4) and found["pass@2,create_test"] == pytest.approx(1 / 2)
    done = swift("eval", "--model", NANO, "--eval_dataset", tmp_path / "task.yaml", "--code_sandbox", "bubblewrap", "--eval_generation_config", '{"n": 1}')
    assert done.returncode == 2 and "pass@2 needs 2 completions, and 1 is sampled" in done.stderr


def test_continued_programs_are_theirs(hone, tmp_path, packages):
    """nano's own continuations: prompts, completions and scores; one problem is solved by its prompt, as long as the continuation is a comment."""
    (tmp_path / "data").mkdir()
    rows = [PROBLEM, {**PROBLEM, "prompt": "def add(a, b):\n    return a + b\n# It adds."}]
    write_rows(tmp_path / "data/test.jsonl", rows)
    (tmp_path / "task.yaml").write_text(f"include: {OWN_TASKS}/humaneval/humaneval.yaml\ntask: humaneval\ndataset_path: json\ndataset_kwargs:\n  data_files: {{test: {tmp_path}/data/test.jsonl}}\n")
    theirs = lm_eval(NANO, tmp_path, tmp_path / "theirs.json", [{"tasks": ["humaneval"], "confirm_run_unsafe_code": True, "gen_kwargs": "max_gen_toks=64"}], packages)[0]
    done = hone("eval", "--model", NANO, "--torch_dtype", "float32", "--eval_dataset", "humaneval", "--eval_dataset_args", json.dumps({"humaneval": {"local_path": str(tmp_path / "data")}}), "--log_samples", "true", "--code_sandbox", "bubblewrap",
                "--eval_generation_config", '{"max_tokens": 64}', "--eval_output_dir", tmp_path / "ours")
    assert done.returncode == 0, done.stderr
    ours = results_of(tmp_path / "ours")
    for row, other in zip(ours["samples"]["humaneval"], theirs["samples"]["humaneval"], strict=True):
        assert row["resps"] == other["resps"][0] and row["filtered_resps"]["create_test"] == other["filtered_resps"][0]
    assert ours["results"]["humaneval"]["pass@1,create_test"] == theirs["results"]["humaneval"]["pass@1,create_test"]
