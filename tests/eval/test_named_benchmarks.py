"""Benchmarks by evalscope's names: prompts and metrics are those of lm-evaluation-harness's own tasks; filters and splits of --eval_dataset_args."""
import json
import math

import pytest
from eval_testing import NANO, ROOT, answering_server, lm_eval, results_of, write_rows

OWN_TASKS = ROOT / ".venv/lm_eval/lm_eval/tasks"
# evalscope's name: lm-evaluation-harness's task, its file, the evaluated split and rows
TASKS = {
    "hellaswag": ("hellaswag", "hellaswag/hellaswag.yaml", "validation",
                  [{"activity_label": "Baking", "ctx_a": "A cook [header] stirs [title] the  dough.", "ctx_b": "the COOK", "endings": [" bakes [step] bread. [title] Then rests.", "flies away.", "sings  loudly.", "sleeps."], "label": str(i)} for i in range(3)]),
    "truthful_qa": ("truthfulqa_mc1", "truthfulqa/truthfulqa_mc1.yaml", "validation",
                    [{"question": f"What is {i} plus {i}?", "mc1_targets": {"choices": [f"It is {2 * i}.", "It is blue.", "Nobody knows."], "labels": [1, 0, 0]}} for i in range(3)]),
    "trivia_qa": ("triviaqa", "triviaqa/default.yaml", "validation", [{"question": "What is the capital of France", "answer": {"aliases": ["paris!", "the capital of france is paris"]}}, {"question": "Who are you", "answer": {"aliases": ["x"]}}]),
    "piqa": ("piqa", "piqa/piqa.yaml", "validation", [{"goal": "Open a door", "sol1": "turn the handle", "sol2": "sing to it", "label": i % 2} for i in range(3)]),
    "winogrande": ("winogrande", "winogrande/default.yaml", "validation",
                   [{"sentence": f"The cup did not fit in the box because the _ was too {size}.", "option1": "cup", "option2": "box", "answer": key} for size, key in (("big", "1"), ("small", "2"), ("old_", "1"))]),
    "obqa": ("openbookqa", "openbookqa/openbookqa.yaml", "test", [{"question_stem": "Ice is", "choices": {"text": ["hot", "cold", "loud", "green"], "label": list("ABCD")}, "answerKey": key} for key in ("B", "A")]),
    "commonsense_qa": ("commonsense_qa", "commonsense_qa/default.yaml", "validation", [{"question": " Where is bread baked? ", "choices": {"text": ["oven", "river", "cloud", "book", "shoe"], "label": list("ABCDE")}, "answerKey": key} for key in "AC"]),
    "lambada": ("lambada_openai", "lambada/lambada_openai.yaml", "test", [{"text": "The capital of France is Paris."}, {"text": "The opposite of near is far."}]),
    "boolq": ("boolq", "super_glue/boolq/default.yaml", "validation", [{"passage": "Ice is frozen water.", "question": "is ice water", "label": i} for i in (1, 0)]),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory, hone):
    folder, output = tmp_path_factory.mktemp("named"), tmp_path_factory.mktemp("ours")
    for name, (task, file, split, rows) in TASKS.items():
        (folder / name).mkdir()
        write_rows(folder / name / f"{split}.jsonl", rows)
        (folder / f"{name}.yaml").write_text(f"include: {OWN_TASKS / file}\ntask: {task}\ndataset_path: json\ndataset_name: null\ntraining_split: null\n"
                                             f"dataset_kwargs:\n  data_files: {{{split}: {folder / name / split}.jsonl}}\n" + ("test_split: null\n" if split == "validation" else "validation_split: null\n"))
    theirs = lm_eval(NANO, folder, tmp_path_factory.mktemp("theirs") / "results.json", [{"tasks": [task for task, *_ in TASKS.values()]}])[0]
    settings = json.dumps({name: {"local_path": str(folder / name)} for name in TASKS})
    done = hone("eval", "--model", NANO, "--torch_dtype", "float32", "--eval_dataset", *TASKS, "--eval_dataset_args", settings, "--log_samples", "true", "--eval_output_dir", output)
    assert done.returncode == 0, done.stderr
    return results_of(output), theirs


@pytest.mark.parametrize("name", [*TASKS])
def test_prompts_and_metrics_are_lm_evaluation_harness_s(reports, name):
    ours, theirs = reports
    task = TASKS[name][0]
    others = theirs["samples"][task]
    assert len(ours["samples"][name]) == len(others) == len(TASKS[name][3])
    for row, other in zip(ours["samples"][name], others):
        assert row["prompt"] == other["arguments"]["gen_args_0"]["arg_0"] if isinstance(other["arguments"], dict) else other["arguments"][0][0]
    for metric, value in theirs["results"][task].items():
        if "," in metric and "_stderr" not in metric:
            assert math.isclose(ours["results"][name][metric], value, rel_tol=2e-4, abs_tol=1e-6), metric


def evaluated(swift, folder, name, settings, *more):
    done = swift("eval", "--model", NANO, "--eval_dataset", name, "--eval_dataset_args", json.dumps({name: settings}), "--eval_output_dir", folder / "out", "--result_path", folder / "line.jsonl",
                 "--log_samples", "true", *more, cwd=folder)
    return done, results_of(folder / "out") if done.returncode == 0 else None


def test_mathematics_by_name(swift, tmp_path):
    for split in ("test", "train"):
        write_rows(tmp_path / f"{split}.jsonl", [{"problem": "What is 1 + 1?", "solution": "It is \\boxed{2}."}, {"problem": "What is 2 + 2?", "answer": 4}])
    for name in ("aime25", "competition_math", "hmmt25"):
        done, report = evaluated(swift, tmp_path, name, {"local_path": str(tmp_path)}, "--eval_generation_config", '{"max_tokens": 4}')
        assert done.returncode == 0 and report["results"][name]["sample_len"] == 2 and "math_verify,none" in report["results"][name], done.stderr


def test_letters_of_up_to_ten_choices(swift, tmp_path):
    write_rows(tmp_path / "test.jsonl", [{"question": "Which is a number? ", "options": ["tea", "seven", *"cdefghi"][:count], "answer": "B", "category": "x"} for count in (9, 3)])
    done, report = evaluated(swift, tmp_path, "mmlu_pro", {"local_path": str(tmp_path)}, "--apply_chat_template", "false")
    assert done.returncode == 0, done.stderr
    assert [len(row["resps"]) for row in report["samples"]["mmlu_pro"]] == [9, 3] and report["samples"]["mmlu_pro"][1]["prompt"] == "Which is a number?\nA. tea\nB. seven\nC. c\nAnswer:"


def test_ms_swifts_example_with_filters_and_a_folder_of_the_same_name(swift, tmp_path):
    """The complex example of ms-swift's page on evaluation; the data's folder, in the current one, is called like the benchmark."""
    (tmp_path / "gsm8k").mkdir()
    write_rows(tmp_path / "gsm8k/test.jsonl", [{"question": "What is 1 plus 1?", "answer": "#### 2"}] * 3)
    common = ["--eval_backend", "Native", "--infer_backend", "transformers", "--eval_limit", 2, "--eval_generation_config", '{"max_tokens": 16, "temperature": 0}', "--extra_eval_args", '{"ignore_errors": true, "debug": true}']
    done, report = evaluated(swift, tmp_path, "gsm8k", {"local_path": "gsm8k", "few_shot_num": 0, "filters": {"remove_until": "</think>"}}, *common)
    assert done.returncode == 0 and report["results"]["gsm8k"]["sample_len"] == 2, done.stderr
    done, report = evaluated(swift, tmp_path, "gsm8k", {"local_path": "gsm8k", "few_shot_num": 0, "filters": {"extract": "(capital|number)"}}, *common)
    assert done.returncode == 0 and [*report["samples"]["gsm8k"][0]["filtered_resps"].values()] == [["[invalid]"]] * 2, done.stderr
    done, _ = evaluated(swift, tmp_path, "gsm8k", {"local_path": "gsm8k", "filters": {"upper": ""}}, *common)
    assert done.returncode == 2 and "gsm8k has the filter upper, which is not followed" in done.stderr
    (tmp_path / "mine").mkdir()
    done, _ = evaluated(swift, tmp_path, "mine", {})
    assert done.returncode == 2 and "the folder mine has no task file (.yaml)" in done.stderr


def test_what_a_model_thought_is_removed(swift, tmp_path):
    write_rows(tmp_path / "test.jsonl", [{"question": "What is 1 plus 1?", "answer": "#### 2"}])
    message = {"role": "assistant", "content": "Perhaps #### 3 </think>\n#### 2"}
    with answering_server(lambda path, body, seen: {"choices": [{"message": message}]}) as server:
        words = ["--eval_url", f"http://127.0.0.1:{server.server_port}/v1"]
        scores = [evaluated(swift, tmp_path, "gsm8k", {"local_path": str(tmp_path), "few_shot_num": 0, **more}, *words)[1]["results"]["gsm8k"]["exact_match,strict-match"] for more in ({}, {"filters": {"remove_until": "</think>"}})]
    assert scores == [0, 1]


def test_the_system_prompt_of_a_row(swift, tmp_path):
    write_rows(tmp_path / "own.jsonl", [{"system": "You are a poet.", "query": "Who are you?", "response": "A poet."}, {"query": "Hello", "response": "Hello!"}])
    done, report = evaluated(swift, tmp_path, "general_qa", {"local_path": str(tmp_path), "subset_list": ["own"]}, "--eval_generation_config", '{"max_tokens": 4}', "--apply_chat_template", "false")
    assert done.returncode == 0, done.stderr
    assert [row["prompt"] for row in report["samples"]["general_qa_own"]] == ["You are a poet.Who are you?", "Hello"]


def test_files_come_from_the_hub_that_is_asked(swift, tmp_path):
    """evalscope's copies on ModelScope, unless a cache has the dataset itself."""
    places = {"MODELSCOPE_ENDPOINT": "http://127.0.0.1:9", "MODELSCOPE_CACHE": tmp_path / "ms", "HF_HOME": tmp_path / "hf"}
    for words, dataset in (([], "AI-ModelScope/gsm8k"), (["--use_hf", "true"], "openai/gsm8k")):
        done = swift("eval", "--model", NANO, "--eval_dataset", "gsm8k", *words, env=places)
        assert done.returncode == 2 and f"error: {dataset}: not in the caches" in done.stderr, done.stderr
    snapshot = tmp_path / "hf/hub/datasets--openai--gsm8k/snapshots/1/main"
    snapshot.mkdir(parents=True)
    write_rows(snapshot / "test.jsonl", [{"question": "What is 1 plus 1?", "answer": "#### 2"}])
    (snapshot.parents[2] / "refs").mkdir()
    (snapshot.parents[2] / "refs/main").write_text("1")
    done = swift("eval", "--model", NANO, "--eval_dataset", "gsm8k", "--n_shot", 0, "--eval_generation_config", '{"max_tokens": 4}', "--eval_output_dir", tmp_path / "out", "--result_path", tmp_path / "line.jsonl", env=places)
    assert done.returncode == 0 and results_of(tmp_path / "out")["results"]["gsm8k"]["sample_len"] == 1, done.stderr
    done = swift("eval", "--model", NANO, "--eval_dataset", "humanevall")
    assert done.returncode == 2 and "did you mean humaneval; expected" in done.stderr
