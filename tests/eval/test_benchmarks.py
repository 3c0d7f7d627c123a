"""The built-in benchmarks, LLaMA-Factory's evaluation, and a model on a server."""
import csv
import json

import pytest
import torch
import transformers
from eval_testing import NANO, answering_server, results_of, write_rows

LETTERS = "ABCD"


def write_csv(path, rows, header=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([header, *rows] if header else rows)


def questions(count, start=0):
    return [[f"What is {i} plus 1?", i, i + 1, "three, or\nso", i + 3, LETTERS[(i + start) % 4]] for i in range(count)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Small files in the form of each benchmark's own."""
    root = tmp_path_factory.mktemp("benchmarks")
    for subject in ("anatomy", "college_anatomy"):
        write_csv(root / f"mmlu/data/test/{subject}_test.csv", questions(5))
        write_csv(root / f"mmlu/data/val/{subject}_val.csv", questions(4))
        write_csv(root / f"mmlu/data/dev/{subject}_dev.csv", questions(3, 1))
        columns = ["id", "question", *LETTERS, "answer", "explanation"]
        write_csv(root / f"ceval/val/{subject}_val.csv", [[i, *row, ""] for i, row in enumerate(questions(4))], columns)
        write_csv(root / f"ceval/dev/{subject}_dev.csv", [[i, *row, "why"] for i, row in enumerate(questions(2))], columns)
        columns = ["", "Question", *LETTERS, "Answer"]
        write_csv(root / f"cmmlu/test/{subject}.csv", [[i, *row] for i, row in enumerate(questions(3))], columns)
        write_csv(root / f"cmmlu/dev/{subject}.csv", [[i, *row] for i, row in enumerate(questions(2))], columns)
    mapping = {"anatomy": {"name": "anatomy", "category": "STEM"}, "college_anatomy": {"name": "college anatomy", "category": "Other"}}
    for name in ("mmlu", "ceval", "cmmlu"):
        (root / name / "mapping.json").write_text(json.dumps(mapping))
    sums = [{"question": f"What is {i} plus 2?", "answer": f"It is {i + 2}.\n#### {i + 2}"} for i in range(7)]
    (root / "gsm8k").mkdir()
    write_rows(root / "gsm8k/test.jsonl", sums[:4])
    write_rows(root / "gsm8k/train.jsonl", sums[4:])
    (root / "bbh").mkdir()
    for name in ("navigate", "snarks"):
        (root / f"bbh/{name}.json").write_text(json.dumps({"canary": "x", "examples": [{"input": "Is 1 + 1 = 2?", "target": "Yes"}] * 3}))
    (root / "general_qa").mkdir()
    write_rows(root / "general_qa/own.jsonl", [{"query": "Who are you?", "response": "I am a small model."}, {"query": "Hello", "response": "Hello!"}])
    write_csv(root / "general_mcq/own_val.csv", [[0, "Which is a number?", "tea", "seven", "B"]], ["id", "question", "A", "B", "answer"])
    for part, right in (("ARC-Challenge", "B"), ("ARC-Easy", "2")):  # some of the authors' labels are numbers
        labels = list(LETTERS) if right == "B" else ["1", "2", "3", "4"]
        (root / "arc" / part).mkdir(parents=True)
        write_rows(root / "arc" / part / "test.jsonl", [{"question": "Which is hot?", "choices": {"text": ["ice", "fire", "snow", "rain"], "label": labels}, "answerKey": right}] * 3)
    return root


def args_for(folders, *names, **more):
    return json.dumps({name: {"local_path": str(folders / name), **more} for name in names})


def test_arc_by_opencompass_names(folders, tmp_path, swift):
    """The command of ms-swift's README, `--eval_backend OpenCompass --eval_dataset ARC_c`: one part, the other, and both."""
    scores = {}
    for name, settings in (("ARC_c", ["--eval_backend", "OpenCompass", "--infer_backend", "lmdeploy"]), ("ARC_e", []), ("arc", [])):
        done = swift("eval", "--model", NANO, "--eval_dataset", name, "--dataset_args", json.dumps({name: {"local_path": str(folders / "arc")}}), *settings,
                     "--eval_output_dir", tmp_path / name, "--result_path", tmp_path / "results.jsonl")
        assert done.returncode == 0, done.stderr
        assert ("OpenCompass" in done.stderr) == bool(settings) and "had no effect" not in done.stderr
        scores[name] = {task: result for task, result in results_of(tmp_path / name)["results"].items() if task != name}
    assert list(scores["ARC_c"]) == ["ARC_c_ARC-Challenge"] and list(scores["ARC_e"]) == ["ARC_e_ARC-Easy"] and len(scores["arc"]) == 2
    assert scores["ARC_c"]["ARC_c_ARC-Challenge"]["acc,none"] == scores["arc"]["arc_ARC-Challenge"]["acc,none"]
    done = swift("eval", "--model", NANO, "--eval_backend", "VLMEvalKit", "--eval_dataset", "MMMU_DEV_VAL")
    assert done.returncode == 2 and "benchmarks with images" in done.stderr


def test_known_benchmarks_run_over_their_own_files(folders, tmp_path, swift):
    names = ["mmlu", "ceval", "cmmlu", "gsm8k", "bbh", "general_qa", "general_mcq"]
    settings = json.dumps({**json.loads(args_for(folders, *names, few_shot_num=0)), "mmmlu": {}})
    done = swift("eval", "--model", NANO, "--eval_dataset", *names, "--eval_dataset_args", settings, "--eval_limit", 2,
                 "--eval_generation_config", '{"max_tokens": 8}', "--eval_output_dir", tmp_path / "out", "--result_path", tmp_path / "line.jsonl", "--log_samples", "true")
    assert done.returncode == 0 and "settings of mmmlu, which is not evaluated" in done.stderr, done.stderr
    report = results_of(tmp_path / "out")
    sizes = {name: entry["sample_len"] for name, entry in report["results"].items()}
    assert {name: sizes[name] for name in names if name in sizes} == {"mmlu": 4, "ceval": 4, "cmmlu": 4, "gsm8k": 2, "bbh": 4, "general_qa": 2, "general_mcq": 1}
    assert sizes["mmlu_anatomy"] == sizes["mmlu_college_anatomy"] == 2
    prompt = report["samples"]["mmlu_college_anatomy"][0]["prompt"]
    assert prompt == ("The following are multiple choice questions (with answers) about college anatomy.\n\n"
                      "What is 0 plus 1?\nA. 0\nB. 1\nC. three, or\nso\nD. 3\nAnswer:")
    assert set(report["results"]["general_qa_own"]) >= {"exact_match,none", "f1,none", "rouge-l,none", "bleu-4,none"}
    line = json.loads((tmp_path / "line.jsonl").read_text())
    assert set(line) == {"Native", "time", "model", "adapters", "result_path", "eval_output_dir", "eval_limit"}
    assert line["Native"]["mmlu"] == {"acc": report["results"]["mmlu"]["acc,none"]}


def test_examples_come_from_the_development_files(folders, tmp_path, hone):
    done = hone("eval", "--model", NANO, "--eval_dataset", "mmlu", "--eval_dataset_args", args_for(folders, "mmlu", subset_list=["anatomy"]), "--n_shot", 2, "--eval_limit", 1,
                "--eval_output_dir", tmp_path, "--log_samples", "true")
    assert done.returncode == 0, done.stderr
    prompt = results_of(tmp_path)["samples"]["mmlu_anatomy"][0]["prompt"]
    assert prompt.count("Answer:") == 3 and "Answer: B\n\n" in prompt and prompt.startswith("The following are multiple choice questions (with answers) about anatomy.")


@pytest.fixture
def server():
    message = {"role": "assistant", "content": "so it is 2.\n#### 2 Question: more"}
    with answering_server(lambda path, body, seen: {"choices": [{"message": message}]}) as server:
        yield server


def test_a_server_generates_instead(folders, tmp_path, swift, server):
    address = f"http://127.0.0.1:{server.server_port}/v1"
    words = ["--model", NANO, "--eval_url", address, "--eval_num_proc", 2, "--api_key", "secret", "--eval_output_dir", tmp_path / "out", "--result_path", tmp_path / "line.jsonl"]
    done = swift("eval", *words, "--eval_dataset", "gsm8k", "--eval_dataset_args", args_for(folders, "gsm8k", few_shot_num=1))
    assert done.returncode == 0, done.stderr
    assert results_of(tmp_path / "out")["results"]["gsm8k"]["exact_match,strict-match"] == 0.25
    path, key, body = server.seen[0]
    assert len(server.seen) == 4 and path == "/v1/chat/completions" and key == "Bearer secret"
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"] and body["stop"][0] == "Question:"
    done = swift("eval", *words, "--eval_dataset", "mmlu", "--eval_dataset_args", args_for(folders, "mmlu", few_shot_num=0))
    assert done.returncode == 2 and "no log-likelihoods" in done.stderr


def letters_by_transformers(prompts):
    """The most likely of the four letters after each chat."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(NANO)
    model = transformers.AutoModelForCausalLM.from_pretrained(NANO, dtype=torch.float32)
    letters = [tokenizer.encode(letter, add_special_tokens=False)[-1] for letter in LETTERS]
    found = []
    for messages in prompts:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        with torch.no_grad():
            logits = model(torch.tensor([tokenizer.encode(text, add_special_tokens=False)])).logits[0, -1]
        found.append(LETTERS[int(logits[letters].argmax())])
    return found


@pytest.mark.parametrize("task, count", [("mmlu_test", 5), ("ceval_validation", 4), ("cmmlu_test", 3)])
def test_llamafactory_evaluates_letters_in_a_chat(folders, tmp_path, factory, task, count):
    config = {"model_name_or_path": str(NANO), "task": task, "task_dir": str(folders), "lang": "en", "n_shot": 0, "batch_size": 4,
              "save_dir": str(tmp_path / "saved"), "infer_dtype": "float32"}
    (tmp_path / "eval.yaml").write_text("".join(f"{key}: {value}\n" for key, value in config.items()))
    done = factory("eval", tmp_path / "eval.yaml")
    assert done.returncode == 0, done.stderr
    subjects = {"anatomy": "anatomy", "college_anatomy": "college anatomy"}
    results, right = {}, []
    for subject, name in subjects.items():
        rows = questions(count)
        prompts = [[{"role": "user", "content": f"The following are multiple choice questions (with answers) about {name}.\n\n" + row[0]
                     + "".join(f"\n{letter}. {row[1 + i]}" for i, letter in enumerate(LETTERS)) + "\nAnswer:"}] for row in rows]
        answers = letters_by_transformers(prompts)
        results[subject] = {str(i): answer for i, answer in enumerate(answers)}
        right.append([answer == row[5] for answer, row in zip(answers, rows)])
    assert json.loads((tmp_path / "saved/results.json").read_text()) == results
    mean = lambda flags: 100 * sum(flags) / len(flags)
    table = "\n".join(f"{name:>15}: {value:.2f}" for name, value in (("Average", mean(sum(right, []))), ("STEM", mean(right[0])), ("Other", mean(right[1]))))
    assert done.stdout == table + "\n" and (tmp_path / "saved/results.log").read_text() == table
    again = factory("eval", tmp_path / "eval.yaml")
    assert again.returncode == 2 and "exists already" in again.stderr
    lost = factory("eval", tmp_path / "eval.yaml", f"save_dir={tmp_path}/eval.yaml/inside")
    assert lost.returncode == 2 and "cannot be created" in lost.stderr and "Processing" not in lost.stderr
