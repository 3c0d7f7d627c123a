"""hone eval with lm-evaluation-harness's task files, compared with lm-evaluation-harness on the same model and files."""
import json
import math

import pytest
from eval_testing import NANO, TASKS, lm_eval, results_of, write_tasks

ALL = ["both_choices", "yes_or_no", "sums", "next_words", "whole_texts"]  # the group stands for its two tasks
CHAT = ["first_letters", "sums"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, hone):
    """[(hone's report, theirs)]: plain prompts, then chats."""
    folder = write_tasks(tmp_path_factory.mktemp("tasks"))
    theirs = lm_eval(NANO, folder, tmp_path_factory.mktemp("theirs") / "results.json",
                     [{"tasks": ALL}, {"tasks": CHAT, "apply_chat_template": True, "limit": 10}])
    reports = []
    for tasks, words in ((ALL, []), (CHAT, ["--apply_chat_template", "true", "--eval_limit", "10"])):
        output = tmp_path_factory.mktemp("ours")
        done = hone("eval", "--model", NANO, "--torch_dtype", "float32", "--include_path", folder, "--eval_dataset", *tasks, "--log_samples", "true",
                    "--eval_output_dir", output, *words)
        assert done.returncode == 0, done.stderr
        reports.append((results_of(output), done.stdout))
    return [(ours, table, other) for (ours, table), other in zip(reports, theirs)]


def close(a, b):
    return math.isclose(a, b, rel_tol=2e-4, abs_tol=1e-6)


@pytest.mark.parametrize("run", [0, 1])
def test_every_metric_is_theirs(runs, run):
    ours, table, theirs = runs[run]
    for task, metrics in theirs["results"].items():
        for name, value in metrics.items():
            if "," not in name or (name.split(",")[0].endswith("_stderr") and ours["results"][task].get(name) == "N/A"):
                continue  # errors of what is not a mean are drawn at random
            assert close(ours["results"][task][name], value), (task, name)
            if "_stderr" not in name:
                assert f"{ours['results'][task][name]:.4f}" in table, (task, name)
        assert ours["results"][task]["sample_len"] == metrics["sample_len"]
    for task, count in theirs["n-shot"].items():
        assert ours["n-shot"][task] == count, task
    for task, version in theirs["versions"].items():
        assert str(ours["versions"][task]) == str(version) or version in (None, "N/A"), task
    assert ours["n-samples"] == theirs["n-samples"]


@pytest.mark.parametrize("task", [*TASKS])
def test_prompts_and_likelihoods_are_theirs(runs, task):
    ours, _, theirs = runs[0]
    filters = {row["filter"] for row in theirs["samples"][task]}
    mine = ours["samples"][task]
    for number, filter_name in enumerate(sorted(filters)):
        others = [row for row in theirs["samples"][task] if row["filter"] == filter_name]
        assert len(mine) == len(others)
        for row, other in zip(mine, others):
            first = other["arguments"]["gen_args_0"]["arg_0"] if isinstance(other["arguments"], dict) else other["arguments"][0][0]
            if task != "whole_texts":
                assert row["prompt"] == first
            resps = [resp[0] for resp in other["resps"]][:len(row["resps"])]
            for mine_value, value in zip(row["resps"], resps):
                if isinstance(value, list) and len(value) == 2:
                    assert math.isclose(mine_value[0], float(value[0]), rel_tol=1e-4, abs_tol=1e-4)
                    assert mine_value[1] == (value[1] in (True, "True"))
                elif isinstance(mine_value, float):
                    assert math.isclose(mine_value, float(value), rel_tol=1e-4)
                else:
                    assert mine_value == value
            if "filtered_resps" in row:
                assert row["filtered_resps"][filter_name] == other["filtered_resps"]


REFUSED = {
    "process_docs: !function utils.clean": "process_docs needs Python: utils.clean",
    "doc_to_text: !function utils.text": 'doc_to_text is the Python function "utils.text"',
    "filter_list: [{name: x, filter: [{function: !function utils.F}]}]": "is the Python function",
    "metric_list: [{metric: !function utils.m}]": "does not name its metric",
    "metric_list: [{metric: chrf}]": "there is no metric chrf",
    "filter_list: [{name: x, filter: [{function: magic}]}]": "there is no filter magic",
    "doc_to_txt: a": "a task has no key doc_to_txt",
    "doc_to_text: '{{ nothing }}'": "'nothing' is undefined; columns: question, answer, text",
    "doc_to_text: '{{ question'": "doc_to_text",
    "generation_kwargs: {num_beams: 4}": "num_beams, which is not followed",
    "unsafe_code: true": "runs code",
    "num_fewshot: 40": "40 examples are requested",
    "fewshot_config: {sampler: magic}": "sampler is magic",
    "test_split: other": "data_files has no split other",
    "include: missing.yaml": "missing.yaml",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_not_plain_is_refused_by_name(tmp_path, hone, line):
    folder = write_tasks(tmp_path, rows=4)
    key = line.split(":")[0]
    text = "".join(row + "\n" for row in (folder / "sums.yaml").read_text().split("\n") if not row.startswith((key, "include")))
    if key in ("filter_list", "metric_list"):  # their own lines go, too
        text = "\n".join(row for row in text.split("\n") if not row.startswith(("metric_list", "filter_list", "  - ", "    ")))
    (folder / "odd.yaml").write_text(text + "\n" + line + "\n")
    done = hone("eval", "--model", NANO, "--eval_dataset", folder / "odd.yaml", "--eval_output_dir", tmp_path / "out")
    assert done.returncode in (2, 3), done.stderr
    assert REFUSED[line] in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_a_split_without_documents_is_named_by_its_file(tmp_path, hone):
    folder = write_tasks(tmp_path, rows=4)
    (folder / "qa_test.jsonl").write_text("")
    done = hone("eval", "--model", NANO, "--eval_dataset", folder / "next_words.yaml", "--eval_output_dir", tmp_path / "out")
    assert done.returncode == 3 and "qa_test.jsonl: the split test has no documents" in done.stderr


def test_a_document_that_does_not_fit_is_named(tmp_path, hone):
    folder = write_tasks(tmp_path, rows=4)
    (folder / "odd.yaml").write_text("task: odd\ndataset_path: json\ndataset_kwargs: {data_files: {test: odd.jsonl}}\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: 'q'\ndoc_to_choice: choices\ndoc_to_target: 0\nmetric_list: [{metric: acc}]\n")
    (folder / "odd.jsonl").write_text("".join(json.dumps({"choices": choices}) + "\n" for choices in (["a", "b"], [])))
    done = hone("eval", "--model", NANO, "--eval_dataset", folder / "odd.yaml", "--eval_output_dir", tmp_path / "out")
    assert done.returncode == 3 and "doc_to_choice: there are no choices (document 1)" in done.stderr, done.stderr


def test_answers_outside_the_choices_are_counted_in_one_warning(tmp_path, hone):
    folder = write_tasks(tmp_path, rows=4)
    (folder / "odd.yaml").write_text((folder / "yes_or_no.yaml").read_text().replace("doc_to_target: flag", "doc_to_target: 7"))
    done = hone("eval", "--model", NANO, "--eval_dataset", folder / "odd.yaml", "--eval_output_dir", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if "warning" in line]
    assert len(warnings) == 1 and "4 of 4 documents have an answer that is not one of their choices" in warnings[0] and "document 0 has 7 and 2 choices; check doc_to_target" in warnings[0]
    assert sum("(100%)" in line for line in done.stderr.splitlines()) == 1, done.stderr


def test_mistakes_are_told_before_the_model_is_loaded(tmp_path, hone):
    folder = write_tasks(tmp_path, rows=4)
    words = ["eval", "--model", NANO, "--eval_dataset", folder / "sums.yaml"]
    done = hone(*words, "--eval_output_dir", folder / "sums.yaml")
    assert done.returncode == 2 and "output folder" in done.stderr and "--eval_output_dir" in done.stderr and "Eval" not in done.stderr
    done = hone(*words, "--eval_generation_config", '{"temperature": "hot"}')
    assert done.returncode == 2 and 'temperature is "hot"' in done.stderr
    done = hone(*words, "--eval_generation_config", '{"do_sample": "false"}')
    assert done.returncode == 2 and 'do_sample is "false"' in done.stderr and "for do_sample true or false" in done.stderr
    done = hone(*words, "--vllm_max_model_len", 256, "--infer_backend", "pt", "--eval_limit", 1, "--eval_output_dir", tmp_path / "out")
    assert done.returncode == 0 and "had no effect" not in done.stderr, done.stderr


def test_unknown_names_list_what_is_there(hone):
    done = hone("eval", "--model", NANO, "--eval_dataset", "nosuch")
    assert done.returncode == 2 and "there is no benchmark nosuch" in done.stderr and "gsm8k" in done.stderr
    done = hone("eval", "--model", NANO, "--eval_dataset", "nosuch.yaml")
    assert done.returncode == 2 and "nosuch.yaml: there is no such file" in done.stderr
