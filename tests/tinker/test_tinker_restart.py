"""A server that is killed loses nothing it has acknowledged, and its clients continue."""
import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing, suppress

import pytest
from serve_testing import BINARY
from test_tinker_training import ADAM
from tinker_testing import ALICE, MODEL, TinkerServer, datum, rows
from workers import free_port


def test_kill_in_the_middle_of_a_run(tokenizer, tmp_path):
    """The losses of a run whose server is killed twice are, to the last bit, those of one that ran through."""
    port = free_port()
    server = TinkerServer(tmp_path, "--port", port)
    data = [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]

    def client():
        return server.service().create_lora_training_client(base_model=MODEL, rank=8, seed=3).result()

    def step(run):
        forward, update = run.forward_backward(data, "cross_entropy"), run.optim_step(ADAM)
        return forward, update

    def finish(pair):
        pair[1].result()
        return pair[0].result().metrics["loss:sum"]

    whole = [finish(step(run)) for run in [client()] for _ in range(6)]
    run = client()
    losses = [finish(step(run)) for _ in range(2)]
    sampler = run.save_weights_and_get_sampling_client().result()
    saved = run.save_state("kept").result().path
    server.kill()
    server = TinkerServer(tmp_path, "--port", port)
    losses += [finish(step(run)) for _ in range(2)]
    waiting = run.forward_backward(data, "cross_entropy")
    waiting.result()  # gradients that no optimizer step has taken yet
    server.kill()
    with closing(sqlite3.connect(tmp_path / "state/state.sqlite")) as database, database:  # null was accepted once, as the default
        older = "UPDATE bodies SET body = CAST(json_set(CAST(body AS TEXT), '$.adam_params.beta2', NULL) AS BLOB) WHERE run = ?1 AND seq IN (SELECT seq FROM requests WHERE run = ?1 AND kind = 'optim_step')"
        assert database.execute(older, (run.model_id,)).rowcount > 0
    server = TinkerServer(tmp_path, "--port", port)
    update = run.optim_step(ADAM)
    update.result()
    losses += [waiting.result().metrics["loss:sum"], finish(step(run))]
    assert losses == whole
    from tinker import types
    assert len(sampler.sample(types.ModelInput.from_ints(rows(tokenizer)[0][0]), 1, types.SamplingParams(max_tokens=3)).result().sequences[0].tokens) > 0
    again = server.service().create_training_client_from_state_with_optimizer(saved).result()
    assert finish(step(again)) == pytest.approx(whole[2], rel=1e-6)
    assert server.stop() == 0


def test_a_request_that_ends_the_server_fails_in_the_end(tmp_path):
    """It is computed alone after the first time, and no longer after the third: the server is there for the others."""
    env = {"HONE_FAULT": "tinker.pass:kill:1+"}
    server = TinkerServer(tmp_path, env=env)
    session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.16.1"})[1]["session_id"]
    model = server.call("POST", "create_model", {"session_id": session, "model_seq_id": 0, "base_model": MODEL, "lora_config": {"rank": 2}})[1]["model_id"]
    data = [{"model_input": {"chunks": [{"type": "encoded_text", "tokens": [5, 6]}]}, "loss_fn_inputs": {"target_tokens": {"data": [6, 7], "dtype": "int64"}, "weights": {"data": [1.0, 1.0], "dtype": "float32"}}}]
    with suppress(OSError):  # it may be dead before it answers
        assert server.call("POST", "forward_backward", {"model_id": model, "seq_id": 1, "forward_backward_input": {"data": data, "loss_fn": "cross_entropy"}})[0] == 200
    assert server.process.wait(30) == -9
    for _ in range(2):  # each dies of it before or after it says that it serves
        assert subprocess.run(server.process.args, env={**os.environ, **env}, capture_output=True, timeout=60).returncode == -9
    server = TinkerServer(tmp_path, env=env)
    assert "the server ended while it computed request 1" in server.log()
    answer = server.call("POST", "retrieve_future", {"request_id": f"{model}:1"})[1]
    assert answer["category"] == "server" and "ended 3 times" in answer["error"]
    assert server.call("POST", "optim_step", {"model_id": model, "seq_id": 2, "adam_params": {}})[0] == 200
    assert "its gradients were dropped" in server.call("POST", "retrieve_future", {"request_id": f"{model}:2"})[1]["error"]
    assert server.stop() == 0


def test_the_page_runs_as_printed(tmp_path):
    """docs/tinker.md: its command, then its Python, in a folder of their own; the model learns the sentence."""
    import re
    import shlex
    import subprocess
    import sys

    from serve_testing import Server
    from tinker_testing import ROOT, SDK
    for page in ("tinker.md", "tinker.zh.md"):
        text = (ROOT / "docs" / page).read_text()
        command = shlex.split(re.search(r"```bash\nhone (serve-tinker .*)\n", text)[1])
        script = re.search(r"```python\n(.*?)```", text, re.S)[1]
        assert command[:3] == ["serve-tinker", "--model", MODEL] and "127.0.0.1:8000" in script
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "models").symlink_to(ROOT / "models")
    server = Server("--port", port := free_port(), "--tinker_dir", folder / "tinker", verb="serve-tinker", model=MODEL)
    try:
        done = subprocess.run([sys.executable, "-c", script.replace("127.0.0.1:8000", f"127.0.0.1:{port}")], cwd=folder, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(SDK)})
    finally:
        server.stop()
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [float(line.split()[1]) for line in done.stdout.splitlines()[:-1]]
    assert losses[-1] < losses[0] / 2 and "tinkerer" in done.stdout.splitlines()[-1]


def test_a_save_whose_completion_was_not_stored_needs_no_room(tmp_path):
    """It is executed again, and finds what it saved, although its tenant's files take by now what they may."""
    def result(seq):
        while (answer := server.call("POST", "retrieve_future", {"request_id": f"{model}:{seq}"})[1]).get("type") == "try_again":
            pass
        return answer

    server = TinkerServer(tmp_path)
    session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.16.1"})[1]["session_id"]
    model = server.call("POST", "create_model", {"session_id": session, "model_seq_id": 0, "base_model": MODEL, "lora_config": {"rank": 2}})[1]["model_id"]
    saves = [("save_weights", {"path": "kept"}), ("save_weights_for_sampler", {"path": "kept", "overwrite": True}), ("save_weights_for_sampler", {"sampling_session_seq_id": 0})]
    for seq, (kind, body) in enumerate(saves, 1):
        assert server.call("POST", kind, {"model_id": model, "seq_id": seq, **body})[0] == 200
    results = [result(seq) for seq in (1, 2, 3)]
    server.kill()
    files = sorted((tmp_path / "state").rglob("*.safetensors"))
    with closing(sqlite3.connect(tmp_path / "state/state.sqlite")) as database, database:
        database.execute("UPDATE runs SET executed = 0")
        for seq, (_, body) in enumerate(saves, 1):
            assert database.execute("UPDATE requests SET done = NULL, result = NULL WHERE seq = ?", (seq,)).rowcount == 1
            database.execute("INSERT INTO bodies(run, seq, body) VALUES(?, ?, ?)", (model, seq, json.dumps(body).encode()))
    server = TinkerServer(tmp_path, tenants=f"alice {ALICE} checkpoint_gb=0.00001\n")
    assert [result(seq) for seq in (1, 2, 3)] == results and "error" not in str(results)
    assert server.call("POST", "save_weights", {"model_id": model, "seq_id": 4, "path": "more"})[0] == 200
    assert "the limit of 1e-05 GB" in result(4)["error"]
    assert sorted((tmp_path / "state").rglob("*.safetensors")) == files
    assert server.stop() == 0


def test_a_folder_has_the_runs_of_one_model(tmp_path):
    """Another model would continue them on weights that they were not trained on. Told before a model is loaded, as damage is."""
    def refused(*words):
        done = subprocess.run([BINARY, "serve-tinker", "--model", MODEL, "--port", "0", "--tinker_dir", state, "--api_key", ALICE, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "training runs in memory" not in done.stderr, done.stderr
        return done.stderr

    state = tmp_path / "state"
    for name in ("first", MODEL):  # without runs the folder is free
        server = TinkerServer(tmp_path, *(() if name == MODEL else ("--served_model_name", name)))
        assert server.call("GET", "get_server_capabilities")[1]["supported_models"][0]["model_name"] == name
        if name == MODEL:
            session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.16.1"})[1]["session_id"]
            model = server.call("POST", "create_model", {"session_id": session, "model_seq_id": 0, "base_model": MODEL, "lora_config": {"rank": 2}})[1]["model_id"]
            assert server.call("POST", "save_weights", {"model_id": model, "seq_id": 1, "path": "kept"})[0] == 200
            assert "path" in server.call("POST", "retrieve_future", {"request_id": f"{model}:1"})[1]
        assert server.stop() == 0
    said = refused("--served_model_name", "another")
    assert f'{state} has training runs or checkpoints of "{MODEL}"; the model is "another"' in said and f"--served_model_name {MODEL}" in said
    shutil.rmtree(state / "checkpoints")
    server = TinkerServer(tmp_path)
    assert server.call("POST", "load_weights", {"model_id": model, "seq_id": 2, "path": f"tinker://{model}/weights/kept"})[0] == 200
    assert "not on the server any more" in server.call("POST", "retrieve_future", {"request_id": f"{model}:2"})[1]["error"]
    assert server.stop() == 0
    (state / "state.sqlite").write_bytes(b"no database" * 1000)
    said = refused()
    assert f"{state}/state.sqlite: SQLite: file is not a database" in said and "name another --tinker_dir" in said
