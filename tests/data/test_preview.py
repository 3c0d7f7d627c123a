"""`hone preview`: the table of lengths, invalid rows, a truncated file, and the rows of every training command."""
import json
import pathlib
import re

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models/nano"


def preview(hone, path):
    done = hone("preview", "--model", MODEL, "--dataset", path)
    assert done.returncode == 0, done.stderr
    return done


def test_percentiles_are_lengths_that_enough_rows_do_not_exceed(hone, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"query": "q", "response": "a " * count}) + "\n" for count in (1, 40)))
    table = next(line.split() for line in preview(hone, rows).stdout.splitlines() if line.startswith("all "))
    least, _, p50, p95, most = table[1:6]
    assert p50 == least and p95 == most and int(least) < int(most)


def test_every_bad_row_is_counted_and_the_first_are_named(hone, tmp_path, figure):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"query": "q", "response": "a"}\n' + "broken\n" * 12)
    out = preview(hone, rows).stdout
    assert "rows scanned 13, usable 1, invalid 12" in out and out.count("rows.jsonl:2: broken JSON") == 1 and "(12 rows like this; next line 3, line 4, line 5, …)" in out
    figure("12 broken lines: counted 12, named once")


def test_rows_that_others_wrote_say_how_to_mend_them(hone, tmp_path):
    """As Excel saves in Chinese, and as print() shows a dict: one line for all of them, with their own words in it."""
    rows = [{"query": f"问题{n}" + "吗" * n, "response": "回答"} for n in range(8)]
    table, text, good = tmp_path / "rows.csv", tmp_path / "rows.jsonl", '{"query": "q", "response": "a"}\n'
    table.write_bytes("".join(["query,response\n", "q,a\n", *(f"{row['query']},{row['response']}\n" for row in rows)]).encode("gb18030"))
    out = preview(hone, table).stdout
    assert "usable 1, invalid 8" in out and "iconv -f GB18030 -t UTF-8" in out and "(8 rows like this" in out, out
    text.write_text(good + "".join(f"{row}\n" for row in rows))
    out = preview(hone, text).stdout
    assert "usable 1, invalid 8" in out and "{'query': '问题0" in out and "json.dumps" in out and "(8 rows like this" in out, out


def test_rows_of_a_bad_day(hone, tmp_path, figure):
    good = b'{"query": "q", "response": "a"}'
    bad = {b"broken": "broken JSON", b'{"query": "q", "response": ""}': "empty response", b'{"query": "' + b"x " * 5_000_000 + b'", "response": "a"}': "row too long",
           b'{"query": "\xff", "response": "a"}': "bad encoding", b'{"query": "q", "response": "a", "images": ["no.png"]}': "media",
           b'{"query": "q", "query": "r", "response": "a"}': "duplicate key", b"null": "wrong type", b'{"messages": []}': "missing columns"}
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b"\n".join([good, *bad, good]) + b"\n")
    out = preview(hone, rows).stdout
    assert f"rows scanned {len(bad) + 2}, usable 2, invalid {len(bad)}" in out
    for line, message in enumerate(bad.values(), 2):
        assert f"rows.jsonl:{line}: {message}" in out, out
    run = hone("sft", "--model", MODEL, "--dataset", rows, "--max_steps", "1", "--output_dir", tmp_path / "out", "--torch_dtype", "float32")
    assert run.returncode == 0 and "Num examples = 2" in run.stderr + run.stdout, run.stderr
    strict = hone("sft", "--model", MODEL, "--dataset", rows, "--max_steps", "1", "--output_dir", tmp_path / "strict", "--strict", "true")
    assert strict.returncode == 3 and "rows.jsonl:2" in strict.stderr, strict.stderr
    figure(f"{len(bad)} kinds of bad rows named by line and left out; --strict true ends with 3")


def test_rows_of_models_that_judge_are_shown_with_their_grades(hone, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"query": "q", "label": 1, "positive_messages": [[{"role": "assistant", "content": "yes"}]], "negative_messages": [[{"role": "assistant", "content": "no"}]]}) + "\n")

    def graded(*task):
        return [(row["text"], row.get("grades")) for row in shown(hone, "--model", MODEL, "--dataset", rows, "--task_type", *task)]

    (only, grades), = graded("seq_cls", "--num_labels", "2")
    assert "q<" in only and grades == [1]
    ranked = graded("reranker")
    assert [grades for _, grades in ranked] == [[1], [0]] and all("q<" in text for text, _ in ranked) and "no<" in ranked[1][0]
    anchor, positive, negative = graded("embedding")
    assert anchor[1] is None and "yes<" in positive[0] and "q" not in negative[0].split("\n")[1]
    done = hone("preview", "--model", MODEL, "--dataset", rows, "--task_type", "seq_cls")
    assert done.returncode == 2 and "--num_labels" in done.stderr


def test_an_unterminated_list_is_reported_as_truncated(hone, tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text('[{"query": "q", "response": "a"}')
    assert "rows.json: the list of rows is not closed" in preview(hone, rows).stderr
    rows.write_text('[{"query": "q", "response": "a"}]\n')
    assert "not closed" not in preview(hone, rows).stderr


# --- what every training command sees ---

PAIRS = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}], "rejected_response": "poor"}


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def shown(hone, *words, code=0, **kwargs):
    done = hone("preview", *words, "--format", "jsonl", **kwargs)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_both_halves_of_pairs_are_shown(hone, tmp_path):
    rows = written(tmp_path / "pairs.jsonl", PAIRS)
    chosen, rejected = shown(hone, "--rlhf_type", "dpo", "--model", MODEL, "--dataset", rows)
    assert (chosen["part"], rejected["part"]) == ("chosen", "rejected") and "good" in chosen["text"] and "poor" in rejected["text"]
    assert shown(hone, "swift", "rlhf", "--rlhf_type", "dpo", "--model", MODEL, "--dataset", rows) == [chosen, rejected]
    out = hone("preview", "rlhf", "--rlhf_type", "dpo", "--model", MODEL, "--dataset", rows).stdout
    assert "row 0 chosen" in out and "row 0 rejected" in out


def test_rows_of_kto_say_whether_they_are_good(hone, tmp_path):
    rows = written(tmp_path / "kto.jsonl", {"query": "q", "response": "a", "label": True}, {"query": "q", "response": "b", "label": False}, {"query": "q", "response": "c"})
    good, bad = shown(hone, "rlhf", "--rlhf_type", "kto", "--model", MODEL, "--dataset", rows)
    assert (good["part"], bad["part"]) == ("good", "bad")
    assert "usable 2, invalid 1" in hone("preview", "rlhf", "--rlhf_type", "kto", "--model", MODEL, "--dataset", rows).stdout


def test_prompts_of_grpo_end_at_the_generation_prompt(hone, tmp_path):
    rows = written(tmp_path / "prompts.jsonl", {"query": "what is one and one", "solution": "2"}, {"messages": PAIRS["messages"], "solution": "3"})
    first, second = shown(hone, "--rlhf_type", "grpo", "--model", MODEL, "--dataset", rows)
    assert first["part"] == "prompt" and set(first["labels"]) == {-100} and first["text"].endswith("assistant\n") and "good" not in second["text"]
    assert '"solution":"2"' in hone("preview", "--rlhf_type", "grpo", "--model", MODEL, "--dataset", rows).stdout


def test_a_file_of_llama_factory_is_previewed_as_it_would_run(hone, tmp_path):
    written(tmp_path / "pairs.jsonl", {"instruction": "q", "chosen": "good", "rejected": "poor"})
    (tmp_path / "dataset_info.json").write_text(json.dumps({"mine": {"file_name": "pairs.jsonl", "ranking": True, "columns": {"prompt": "instruction", "chosen": "chosen", "rejected": "rejected"}}}))
    run = tmp_path / "run.yaml"
    run.write_text(f"model_name_or_path: {MODEL}\nstage: dpo\ndo_train: true\ndataset: mine\ndataset_dir: {tmp_path}\ntemplate: chatml\ncutoff_len: 128\noutput_dir: {tmp_path / 'out'}\n")
    chosen, rejected = shown(hone, run)
    assert "good" in chosen["text"] and "poor" in rejected["text"] and not (tmp_path / "out").exists()
    assert shown(hone, "llamafactory-cli", "train", run) == [chosen, rejected]


def test_the_models_own_limit_holds_and_rows_beyond_it_are_unusable(hone, tmp_path):
    limit = json.loads((MODEL / "config.json").read_text())["max_position_embeddings"]
    rows = written(tmp_path / "rows.jsonl", {"query": "q", "response": "a"}, {"query": "q", "response": "word " * limit})
    out = hone("preview", "--model", MODEL, "--dataset", rows).stdout
    assert f"longer than max_length, {limit} tokens: 1 (dropped)" in out and "usable 1, invalid 1" in out
    done = hone("preview", "--model", MODEL, "--dataset", rows, "--max_length", "3")
    assert done.returncode == 3 and "no row of the dataset can be used" in done.stderr and "(2 rows like this; next line 2)" in done.stdout


def test_columns_that_could_be_the_answer_are_named_once(hone, tmp_path):
    rows = written(tmp_path / "rows.jsonl", *({"problem": "p", "solution": "s", "answer": "a"} for _ in range(12)))
    done = hone("preview", "--model", MODEL, "--dataset", rows)
    assert done.returncode == 3 and done.stdout.count("could each be the response") == 1 and """--columns '{"answer": "response"}'""" in done.stdout
    assert "12 rows like this" in done.stdout
    assert hone("preview", "--model", MODEL, "--dataset", rows, "--columns", '{"answer": "response"}').returncode == 0
    slip = hone("preview", "--model", MODEL, "--dataset", rows, "--columns", '{"answr": "response"}')
    assert 'no row has a column "answr"; did you mean "answer"' in slip.stderr
    table = tmp_path / "rows.csv"
    table.write_text("question;answer\nhi;hello\nhi, you;hello\n")
    done = hone("preview", "--model", MODEL, "--dataset", table)
    assert done.returncode == 3 and 'whose parts ";" separates; expected commas' in done.stdout and "2 rows like this" in done.stdout


def test_what_does_not_train_has_no_rows(hone):
    done = hone("preview", "infer", "--model", MODEL)
    assert done.returncode == 2 and "does not train" in done.stderr
    assert "needs --dataset" in hone("preview", "--model", MODEL).stderr


def test_what_other_programs_write_is_named(hone, tmp_path):
    """UTF-16, the marks of a Chinese keyboard, and a path that is nearly right."""
    rows = tmp_path / "rows.jsonl"
    for content, words in (('{"query": "q", "response": "a"}'.encode("utf-16"), "UTF-16; expected UTF-8"), ("{“query”：“q”}".encode(), "of a Latin keyboard")):
        rows.write_bytes(content + b"\n")
        done = hone("preview", "--model", MODEL, "--dataset", rows)
        assert done.returncode == 3 and words in done.stdout + done.stderr, done.stdout + done.stderr
    table = tmp_path / "rows.csv"
    for content, words in (("query,response\nq,a\n".encode("utf-16"), "UTF-16"), ("问题,回答\nq,a\n".encode("gbk"), "not UTF-8")):
        table.write_bytes(content)
        done = hone("preview", "--model", MODEL, "--dataset", table)
        assert done.returncode == 3 and words in done.stderr, done.stdout + done.stderr
    assert "rows.jsonl" in hone("preview", "--model", MODEL, "--dataset", tmp_path / "rows.json").stderr


def test_a_model_in_a_hubs_cache_keeps_its_name(hone, tmp_path):
    """The template is chosen by the model's name, which a cache writes in its own way."""
    plain, hf, ms = (tmp_path / path for path in ("Qwen2.5-0.5B-Instruct", "models--Qwen--Qwen2.5-0.5B-Instruct/snapshots/0123abcd", "Qwen/Qwen2___5-0___5B-Instruct"))
    for folder in (plain, hf, ms):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.symlink_to(MODEL)
    rows = written(tmp_path / "rows.jsonl", {"query": "q", "response": "a"})
    own, first, *others = (shown(hone, "--model", folder, "--dataset", rows) for folder in (MODEL, plain, hf, ms))
    assert own != first and all(other == first for other in others)


def test_texts_that_people_write_are_utf8(hone, tmp_path):
    rows = written(tmp_path / "rows.jsonl", {"query": "q", "response": "a"})
    prompt, run = tmp_path / "system.txt", tmp_path / "run.yaml"
    prompt.write_bytes("你是助手".encode("gbk"))
    run.write_bytes(f"model_name_or_path: {MODEL}\nstage: sft\ndataset: x\ndefault_system: 你是助手\n".encode("gbk"))
    for words in (["hone", "preview", "--model", MODEL, "--dataset", rows, "--system", prompt], ["llamafactory-cli", "train", run]):
        done = hone("preview", *words) if words[0] != "hone" else hone(*words[1:])
        assert done.returncode == 2 and "expected UTF-8" in done.stderr, done.stderr


def test_a_text_that_holds_the_end_of_a_turn_is_reported_once(hone, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "b"}]}) + "\n" for text in ("a", "x<|im_end|>y", "<|im_end|>")))
    open_text = hone("preview", "--model", MODEL, "--dataset", rows).stderr
    assert re.search(r"rows.jsonl:[23]: the text contains <\|im_end\|>", open_text) and open_text.count("end of a turn") == 1, open_text
    assert "--guard_special_tokens true keeps" in open_text
    assert "end of a turn" not in hone("preview", "--model", MODEL, "--dataset", rows, "--guard_special_tokens", "true").stderr
