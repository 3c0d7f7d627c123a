"""hone sample: which completions are kept, their format, and resuming."""
import base64
import json

import numpy as np
import pytest
from eval_testing import NANO, answering_server, write_rows
from workers import free_port


def rows(count=4):
    return [{"messages": [{"role": "user", "content": f"What is {i} plus 2?"}, {"role": "assistant", "content": f"It is \\boxed{{{i + 2}}}."}], "level": i} for i in range(count)]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_answers_become_rows(tmp_path, swift):
    write_rows(tmp_path / "rows.jsonl", rows())
    words = ["sample", "--model", NANO, "--dataset", tmp_path / "rows.jsonl", "--dataset_shuffle", "false", "--num_return_sequences", 3, "--max_new_tokens", 8, "--output_dir", tmp_path / "out",
             "--output_file", "samples.jsonl", "--num_sampling_batch_size", 2]
    done = swift(*words)
    assert done.returncode == 0, done.stderr
    found = lines(tmp_path / "out/samples.jsonl")
    assert [row["level"] for row in found] == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert [message["role"] for message in found[0]["messages"]] == ["user", "assistant"]
    assert len({row["id"] for row in found}) == 4 and len({row["messages"][1]["content"] for row in found[:3]}) > 1
    assert not (tmp_path / "out/ckpt_state.json").exists() and not (tmp_path / "out/samples.jsonl.resume").exists()
    again = swift(*words)
    assert again.returncode == 0 and "exists already" in again.stderr and "had no effect" not in again.stderr, again.stderr


def test_a_run_that_was_cut_off_resumes(tmp_path, swift):
    write_rows(tmp_path / "rows.jsonl", rows(6))
    words = ["sample", "--model", NANO, "--dataset", tmp_path / "rows.jsonl", "--num_return_sequences", 2, "--max_new_tokens", 6, "--output_file", "samples.jsonl"]
    assert swift(*words, "--output_dir", tmp_path / "whole").returncode == 0
    whole = (tmp_path / "whole/samples.jsonl").read_text()
    assert swift(*words, "--output_dir", tmp_path / "cut").returncode == 0
    part = "".join(line + "\n" for line in whole.splitlines()[:6])
    (tmp_path / "cut/samples.jsonl").unlink()
    (tmp_path / "cut/samples.jsonl.resume").write_text(part + '{"messages": [half of a li')
    (tmp_path / "cut/ckpt_state.json").write_text(json.dumps({"index": 2, "bytes": len(part.encode()), "file": "samples.jsonl"}))
    done = swift(*words, "--output_dir", tmp_path / "cut", "--resume", "true")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cut/samples.jsonl").read_text() == whole


ANSWERS = ["It is \\boxed{2}.", "Perhaps \\boxed{2}?", "no idea", "\\boxed{3}"]


def answer_of_teacher(path, body, seen):
    if path == "/score":
        return [float(len(text)) for text in body["completions"]]
    if body["model"] == "mute" and len(seen) % 2:
        return {"choices": [{"message": {"role": "assistant", "content": "", "reasoning_content": "all of the tokens"}}]}
    message = {"role": "assistant", "content": ANSWERS[0 if body["model"] == "parrot" else len([s for s in seen if s[0] != "/score"]) % 4 - 1]}
    return {"choices": [{"message": {**message, **({"reasoning_content": "hm"} if body["model"] == "thinker" else {})}}]}


@pytest.fixture
def teacher():
    with answering_server(answer_of_teacher) as server:
        yield server


def distill(swift, tmp_path, teacher, *words, model="teacher", count=4):
    write_rows(tmp_path / "rows.jsonl", rows(2))
    kwargs = json.dumps({"base_url": f"http://127.0.0.1:{teacher.server_port}/v1", "api_key": "key", "concurrency": 1})
    done = swift("sample", "--sampler_type", "distill", "--sampler_engine", "client", "--model", model, "--engine_kwargs", kwargs, "--dataset", tmp_path / "rows.jsonl", "--dataset_shuffle", "false",
                 "--num_return_sequences", count, "--output_dir", tmp_path / "out", "--output_file", "kept.jsonl", "--override_exist_file", "true", *words)
    assert done.returncode == 0, done.stderr
    return lines(tmp_path / "out/kept.jsonl")


def chosen_by_swift(orm, prm, kept, threshold=0.0):
    """ms-swift's rule over the scores of the answers and of the row's own answer: the best and the worst."""
    def normalized(values):
        values = np.array(values, float)
        low, high = values.min(), values.max()
        return np.full_like(values, 0.0 if low == 0 else min(1.0, low)) if low == high else (values - low) / (high - low + 1e-5)
    mask = (np.array(orm) > 0) & (np.array(prm) > threshold)
    order = np.argsort(normalized(prm) + 10 * normalized(orm), kind="stable")[::-1]
    return [i for i in order[:kept] if mask[i] and i != order[-1]], order[-1]


def test_the_best_by_both_rewards_are_kept(tmp_path, swift, teacher):
    judge = f"http://127.0.0.1:{teacher.server_port}/score"
    found = distill(swift, tmp_path, teacher, "--orm_model", "math", "--prm_model", judge, "--n_best_to_keep", 2, "--prm_threshold", 3)
    expected = []
    for row in rows(2):
        reference = row["messages"][1]["content"]
        answers = [*ANSWERS, reference]
        right = [float(f"boxed{{{row['level'] + 2}}}" in text) for text in answers]
        best, worst = chosen_by_swift(right, [len(text) for text in answers], 2, 3)
        expected += [(answers[i], answers[worst]) for i in best]
    assert [(row["messages"][-1]["content"], row["rejected_response"]) for row in found] == expected
    assert next(key for path, key, _ in teacher.seen if path == "/v1/chat/completions") == "Bearer key"


def test_a_server_that_does_not_answer_is_named_while_it_is_tried(tmp_path, swift):
    write_rows(tmp_path / "rows.jsonl", rows(2))
    address = f"http://127.0.0.1:{free_port()}/v1"
    done = swift("sample", "--sampler_type", "distill", "--model", "teacher", "--engine_kwargs", json.dumps({"base_url": address, "timeout": 1}), "--dataset", tmp_path / "rows.jsonl",
                 "--num_return_sequences", 2, "--output_dir", tmp_path / "out", "--output_file", "kept.jsonl")
    assert done.returncode == 1 and "check that the server is running" in done.stderr, done.stderr
    assert done.stderr.count(f"{address}/chat/completions: no response; trying again for about 1 s") == 1, done.stderr


def test_no_pair_has_equal_halves(tmp_path, swift, teacher):
    """More are to be kept than there are: the worst is only the other half, and equal texts are no pair."""
    judge = f"http://127.0.0.1:{teacher.server_port}/score"
    found = distill(swift, tmp_path, teacher, "--prm_model", judge, "--n_best_to_keep", 9)
    assert len(found) == 8 and all(row["rejected_response"] == "no idea" != row["messages"][-1]["content"] for row in found)
    found = distill(swift, tmp_path, teacher, "--prm_model", judge, "--n_best_to_keep", 9, model="parrot")
    assert [row.get("rejected_response") for row in found] == [None] * 4 + [ANSWERS[0]] + [None] * 3  # the second row's own answer differs


def test_a_bad_row_or_an_empty_answer_does_not_end_a_run(tmp_path, swift, teacher):
    good = rows(2)
    write_rows(tmp_path / "rows.jsonl", [good[0], {"messages": [{"role": "user", "content": "long " * 100}]}, good[1]])
    done = swift("sample", "--model", NANO, "--dataset", tmp_path / "rows.jsonl", "--dataset_shuffle", "false", "--num_return_sequences", 2, "--engine_kwargs", '{"max_model_len": 64}',
                 "--output_dir", tmp_path / "out", "--output_file", "long.jsonl")
    assert done.returncode == 3 and "skipped 1 of 3 rows" in done.stderr and "rows.jsonl:2: row too long" in done.stderr, done.stderr
    assert [row["messages"][0] for row in lines(tmp_path / "out/long.jsonl")] == [row["messages"][0] for row in good for _ in range(2)]
    assert len(distill(swift, tmp_path, teacher, model="mute")) == 4  # of 8


def test_engine_arguments(tmp_path, swift):
    write_rows(tmp_path / "rows.jsonl", rows(2))
    words = ["sample", "--model", NANO, "--dataset", tmp_path / "rows.jsonl", "--num_return_sequences", 2, "--output_dir", tmp_path / "out", "--output_file", "kept.jsonl", "--override_exist_file", "true"]
    for kwargs in ({"max_model_len": 64, "max_num_seqs": 1, "gpu_memory_utilization": 0.5}, {"session_len": 64, "max_batch_size": 1, "torch_dtype": "float32"}):
        done = swift(*words, "--seed", 3, "--engine_kwargs", json.dumps(kwargs))
        assert done.returncode == 0 and "had no effect" not in done.stderr, done.stderr
        assert ("torch_dtype is ignored" in done.stderr) == ("torch_dtype" in kwargs), done.stderr
        assert len(lines(tmp_path / "out/kept.jsonl")) == 4
    for name in ("max_model_len", "session_len"):
        done = swift(*words, "--engine_kwargs", json.dumps({name: 8}))
        assert done.returncode == 3 and "the model's context holds 8" in done.stderr, done.stderr
    for kwargs, message in (({"attn_impl": "sdpa"}, "--engine_kwargs requests attn_impl"), ({"max_model_len": "long"}, 'max_model_len is "long"'), ({"quant_policy": 3}, "quant_policy is 3"),
                            ([1], "--engine_kwargs is [1]")):
        done = swift(*words, "--engine_kwargs", json.dumps(kwargs))
        assert done.returncode == 2 and message in done.stderr, done.stderr


def test_thoughts_easy_rows_and_caches(tmp_path, swift, teacher):
    found = distill(swift, tmp_path, teacher, model="thinker", count=1)
    assert found[0]["messages"][-1]["content"] == f"<think>hm</think>\n\n<answer>{ANSWERS[0]}</answer>"
    found = distill(swift, tmp_path, teacher, "--orm_model", "math", "--easy_query_threshold", 0.5)
    assert found and all(row["level"] == 1 for row in found)  # half of the answers to the row of level 0 are right
    everything = distill(swift, tmp_path, teacher)
    asked = len(teacher.seen)
    (tmp_path / "out/kept.jsonl").rename(tmp_path / "cache.jsonl")
    assert distill(swift, tmp_path, teacher, "--cache_files", tmp_path / "cache.jsonl") == everything and len(teacher.seen) == asked


def test_media_are_sent_to_the_teacher(tmp_path, swift, teacher):
    picture, photo, tone = b"\x89PNG\r\n\x1a\nrest", b"\xff\xd8\xff\xe0rest", b"RIFF\x10\0\0\0WAVErest"  # their first bytes: nobody decodes them here
    (tmp_path / "p.png").write_bytes(picture)
    (tmp_path / "q.jpg").write_bytes(photo)
    (tmp_path / "t.wav").write_bytes(tone)
    encode = lambda data: base64.b64encode(data).decode()  # noqa: E731
    row = {"messages": [{"role": "system", "content": "Look."}, {"role": "user", "content": "Compare <image> and\n<audio>, <image>."}],
           "images": [str(tmp_path / "p.png"), f"data:image/unknown;base64,{encode(photo)}"], "audios": [str(tmp_path / "t.wav")], "videos": [[str(tmp_path / "p.png"), str(tmp_path / "q.jpg")]]}
    write_rows(tmp_path / "media.jsonl", [row, {"messages": [{"role": "user", "content": f"See <img>{tmp_path / 'q.jpg'}</img>"}]}])
    kwargs = json.dumps({"base_url": f"http://127.0.0.1:{teacher.server_port}/v1", "concurrency": 1})
    words = ["sample", "--sampler_type", "distill", "--model", "teacher", "--engine_kwargs", kwargs, "--dataset", tmp_path / "media.jsonl", "--dataset_shuffle", "false", "--num_return_sequences", 1,
             "--output_dir", tmp_path / "out", "--output_file", "kept.jsonl", "--override_exist_file", "true"]
    done = swift(*words)
    assert done.returncode == 0, done.stderr
    text = lambda words: {"type": "text", "text": words}  # noqa: E731
    png, jpeg = f"data:image/png;base64,{encode(picture)}", f"data:image/jpeg;base64,{encode(photo)}"
    image = lambda url: {"type": "image_url", "image_url": {"url": url}}  # noqa: E731
    first, second = (body["messages"] for _, _, body in teacher.seen)
    assert first == [{"role": "system", "content": "Look."}, {"role": "user", "content": [
        {"type": "video", "video": [png, jpeg]}, text("Compare "), image(png), text(" and\n"), {"type": "input_audio", "input_audio": {"data": encode(tone), "format": "wav"}}, text(", "), image(jpeg), text(".")]}]
    assert second == [{"role": "user", "content": [text("See "), image(jpeg)]}]
    kept = lines(tmp_path / "out/kept.jsonl")
    assert kept[0]["images"] == row["images"] and kept[0]["messages"][:2] == row["messages"] and kept[0]["messages"][2]["content"] == ANSWERS[0]
    for broken, message in (({"images": [str(tmp_path / "t.wav")]}, "its content is audio/wav; expected image/"), ({"images": [str(tmp_path / "no.png")]}, "no.png: no such file")):
        write_rows(tmp_path / "media.jsonl", [{**row, **broken}])
        done = swift(*words)
        assert done.returncode == 3 and "media.jsonl:1" in done.stderr and message in done.stderr, (done.returncode, done.stderr)


def test_mistakes_are_reported_first(tmp_path, swift):
    write_rows(tmp_path / "rows.jsonl", rows(1))
    words = ["sample", "--model", NANO, "--dataset", tmp_path / "rows.jsonl", "--output_dir", tmp_path / "out"]
    for more, message in ((["--resume", "true"], "--output_file"), (["--data_range", "2", "2"], "expected a part"), (["--orm_model", "nosuch"], "no reward called nosuch"),
                          (["--sampler_type", "distill"], "base_url"),
                          (["--sampler_type", "distill", "--engine_kwargs", '{"base_url": 5, "api_key": "sk-hidden"}'], "base_url: [json.exception.type_error.302] type must be string"), (["--sampler_type", "distill", "--engine_kwargs", '{"base_url": "http://127.0.0.1:9/v1", "concurrency": 0}'], "concurrency is 0"),
                          (["--sampler_type", "distill", "--engine_kwargs", '{"base_url": "http://127.0.0.1:9/v1", "max_model_len": 5}'], "--engine_kwargs has max_model_len"),
                          (["--output_file", tmp_path / "rows.jsonl/x.jsonl"], "name another one with --output_file"),
                          (["--output_file", tmp_path / "x.jsonl", "--output_dir", tmp_path / "rows.jsonl"], "name another one with --output_dir")):
        done = swift(*words, *more)
        assert done.returncode == 2 and message in done.stderr and "sk-hidden" not in done.stderr, done.stderr
