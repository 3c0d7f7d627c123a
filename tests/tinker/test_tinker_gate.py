"""Who is let in, what they see of each other, and what bad requests are answered."""
import contextlib
import io
import json
import socket
import subprocess
import tarfile
import time
import urllib.request
from pathlib import Path

import pytest
import tinker
from tinker import types
from serve_testing import BINARY
from tinker_testing import ALICE, BOB, MODEL, datum, resident_bytes, rows


@pytest.fixture(scope="module")
def run(server, tokenizer):
    """Alice's run with one step and two checkpoints."""
    client = server.service().create_lora_training_client(base_model=MODEL, rank=4, user_metadata={"renderer": "plain"}).result()
    tokens, targets = rows(tokenizer)[0]
    client.forward_backward([datum(tokens, targets, weights=[1.0] * len(targets))], "cross_entropy").result()
    client.optim_step(types.AdamParams()).result()
    return {"client": client, "id": client.model_id, "state": client.save_state("first").result().path, "sampler": client.save_weights_for_sampler("first").result().path}


def forward_backward_bytes(model_id, seq, rest=b""):
    name = model_id.encode()
    return b"\x0a" + bytes([len(name)]) + name + b"\x10" + bytes([seq]) + rest


def test_without_the_key_nothing_is_answered(server):
    for key in ("", "tml-wrong-0123456789", ALICE + "x"):
        for method, path in (("POST", "client/config"), ("POST", "create_session"), ("GET", "training_runs"), ("POST", "asample"), ("GET", "nothing")):
            assert server.call(method, path, {} if method == "POST" else None, key=key)[0] == 401
    assert server.call("GET", "healthz", key="")[0] == 200
    with pytest.raises(tinker.AuthenticationError):
        server.service("tml-wrong-0123456789").create_lora_training_client(base_model=MODEL).result()


def test_tenants_see_only_their_own(server, run):
    model, state, sampler = run["id"], run["state"], run["sampler"]
    session = model.split(":")[0]
    for method, path, body in (("POST", "get_info", {"model_id": model}), ("POST", "optim_step", {"model_id": model, "seq_id": 9, "adam_params": {}}), ("POST", "retrieve_future", {"request_id": f"{model}:1"}),
                               ("GET", f"training_runs/{model}", None), ("GET", f"training_runs/{model}/checkpoints", None), ("POST", "weights_info", {"tinker_path": state}), ("POST", "session_heartbeat", {"session_id": session}),
                               ("POST", "create_model", {"session_id": session, "model_seq_id": 7, "base_model": MODEL}), ("DELETE", f"training_runs/{model}/checkpoints/weights/first", None),
                               ("POST", "asample", {"model_path": sampler, "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5]}]}, "sampling_params": {}}),
                               ("GET", f"training_runs/{model}/checkpoints/sampler_weights/first/archive", None), ("PUT", f"training_runs/{model}/checkpoints/weights/first/ttl", {"ttl_seconds": 1})):
        status, answer = server.call(method, path, body, key=BOB)
        assert status == 404, (path, answer)
    status, _ = server.call("POST", "forward_backward", forward_backward_bytes(model, 9), key=BOB, headers={"Content-Type": "application/x-protobuf"})
    assert status == 404
    assert server.call("GET", "training_runs", key=BOB)[1]["training_runs"] == [] or all(each["model_owner"] == "bob" for each in server.call("GET", "training_runs", key=BOB)[1]["training_runs"])
    thief = server.service(BOB).create_lora_training_client(base_model=MODEL, rank=4).result()
    with pytest.raises(tinker.RequestFailedError, match="there is no checkpoint"):
        thief.load_state(state).result()


def test_lists_publishing_and_expiry(server, run):
    rest = server.service().create_rest_client()
    known = rest.get_training_run(run["id"]).result()
    assert (known.base_model, known.lora_rank, known.model_owner, known.user_metadata) == (MODEL, 4, "alice", {"renderer": "plain"})
    assert {each.tinker_path for each in rest.list_checkpoints(run["id"]).result().checkpoints} == {run["state"], run["sampler"]}
    assert run["id"] in [each.training_run_id for each in rest.list_training_runs(limit=1000).result().training_runs]
    assert run["id"] in rest.get_session(run["id"].split(":")[0]).result().training_run_ids
    assert rest.get_weights_info_by_tinker_path(run["state"]).result().lora_rank == 4
    assert run["client"].get_info().model_data.model_name == MODEL
    assert [each.model_name for each in server.service().get_server_capabilities().supported_models] == [MODEL]
    bob = server.service(BOB)
    rest.publish_checkpoint_from_tinker_path(run["sampler"]).result()
    assert bob.create_sampling_client(model_path=run["sampler"]).result().get_base_model() == MODEL
    rest.unpublish_checkpoint_from_tinker_path(run["sampler"]).result()
    with pytest.raises(tinker.NotFoundError):
        bob.create_sampling_client(model_path=run["sampler"]).result()
    short = run["client"].save_state("short", ttl_seconds=3600).result().path
    assert server.call("PUT", short.replace("tinker://", "training_runs/").replace("/weights", "/checkpoints/weights") + "/ttl", {"ttl_seconds": 1})[0] == 200
    time.sleep(1.2)
    assert short not in [each.tinker_path for each in rest.list_checkpoints(run["id"]).result().checkpoints]
    extra = run["client"].save_state("extra").result().path
    with pytest.raises(tinker.RequestFailedError, match="overwrite"):
        run["client"].save_state("extra").result()
    assert run["client"].save_state("extra", overwrite=True).result().path == extra
    rest.delete_checkpoint_from_tinker_path(extra).result()
    assert extra not in [each.tinker_path for each in rest.list_user_checkpoints().result().checkpoints]


def test_bad_requests_fail_and_do_not_stall(server, run, tokenizer):
    """What is wrong is a failed future that says so; the requests after it run."""
    client = server.service().create_lora_training_client(base_model=MODEL, rank=2).result()
    tokens, targets = rows(tokenizer)[0]
    good = [datum(tokens, targets, weights=[1.0] * len(targets))]
    for bad, config, why in (([datum(tokens, targets)], None, 'needs "weights"'), ([datum(tokens, targets[:-1], weights=[1.0] * (len(targets) - 1))], None, "target_tokens has"),
                             ([datum(tokens, [4000] * len(targets), weights=[1.0] * len(targets))], None, "token 4000"), ([datum([3] * 1025, [3] * 1025, weights=[1.0] * 1025)], None, "the context holds 1024"),
                             ([datum(tokens, [target + 0.5 for target in targets], weights=[1.0] * len(targets))], None, "expected token ids"), (good, {"beta": 1.0}, "not a setting of cross_entropy"), ([datum(tokens, targets, weights=[float("nan")] * len(targets))], None, "the loss is NaN")):
        with pytest.raises(tinker.RequestFailedError, match=why):
            client.forward_backward(bad, "cross_entropy", config).result()
        with pytest.raises(tinker.RequestFailedError, match="its gradients were dropped"):
            client.optim_step(types.AdamParams()).result()
    with pytest.raises(tinker.RequestFailedError, match="expected one of cross_entropy"):
        client.forward(good, "hinge").result()
    for params, why in (({"beta1": 1.0}, "beta1 is 1.0"), ({"beta2": 1.0}, "beta2 is 1.0"), ({"learning_rate": float("nan")}, "learning_rate is null"), ({"learning_rate": -1.0}, "learning_rate is -1.0")):
        client.forward_backward(good, "cross_entropy").result()
        with pytest.raises(tinker.RequestFailedError, match=why):
            client.optim_step(types.AdamParams(**params)).result()
    with pytest.raises(tinker.RequestFailedError, match="ttl_seconds is 0; expected 1 to"):
        client.save_state("soon", ttl_seconds=0).result()
    with pytest.raises(tinker.RequestFailedError, match="letters, digits"):
        client.save_state("../../up").result()
    client.forward_backward(good, "cross_entropy").result()
    assert client.optim_step(types.AdamParams()).result().metrics["grad_norm"] > 0
    with pytest.raises(tinker.BadRequestError, match="this server has"):
        server.service().create_lora_training_client(base_model="another/model").result()
    with pytest.raises(tinker.BadRequestError, match="1 to 256"):
        server.service().create_lora_training_client(base_model=MODEL, rank=100000).result()


def test_a_wrong_command_line_leaves_no_folder(server, tmp_path):
    """Nothing is written before the model is found; a folder that cannot be written or belongs to another server is named with its option."""
    taken = server.process.args[server.process.args.index("--tinker_dir") + 1]
    for words, why in ((["--tinker_dir", tmp_path / "a"], "--model is required"), (["--tinker_dir", tmp_path / "a", "--model", tmp_path / "none"], "no such folder"),
                       (["--tinker_dir", "/proc/a", "--model", MODEL], "name another one with --tinker_dir"), (["--tinker_dir", taken, "--model", MODEL], "name another --tinker_dir")):
        done = subprocess.run([BINARY, "serve-tinker", "--port", "0", *map(str, words)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and why in done.stderr, done.stderr
    assert not (tmp_path / "a").exists()


def test_damaged_bytes_are_errors(server, run):
    protobuf = {"Content-Type": "application/x-protobuf"}
    assert server.call("POST", "forward_backward", b"\xff" * 40, headers=protobuf)[0] == 400
    assert server.call("POST", "forward_backward", {"model_id": run["id"]})[0] == 400
    assert server.call("POST", "optim_step", b"{")[0] == 400
    assert server.call("POST", "optim_step", b"[" * 100_000)[0] == 400
    assert server.call("POST", "optim_step", {"model_id": run["id"], "seq_id": "one"})[0] == 400
    assert server.call("POST", "copy_weights", {})[1]["error"]["message"] == "POST /api/v1/copy_weights is not supported by this server"
    assert server.call("POST", "retrieve_future", {"request_id": "nobody:sample:0:1"})[0] == 410
    assert server.call("POST", "retrieve_future", {"request_id": "x" * 1000})[0] == 404
    assert server.call("POST", "create_session", b"x" * (33 << 20))[0] == 413
    # Shapes and indices that point beyond their data, in requests of a run of their own.
    client = server.service().create_lora_training_client(base_model=MODEL, rank=2).result()
    huge = b"\x1a" + bytes([1 << 4 | 2]) + b"\x12\x10\x0a\x01x\x12\x0b\x22\x09" + b"\xff" * 8 + b"\x01"
    for seq, rest in ((1, huge), (2, b"\x1a\x04\x0a\x02\x0a\x07"), (3, b"\x22\x05ppo\x00\x00")):
        status, answer = server.call("POST", "forward_backward", forward_backward_bytes(client.model_id, seq, rest), headers=protobuf)
        assert status == 200 or status == 400, answer
        if status == 200:
            future = server.call("POST", "retrieve_future", {"request_id": answer["request_id"]})[1]
            assert future["category"] == "user", future
    # A few bytes that stand for a tensor of 2 GB, one of them or many, and positions with more targets than are computed at once.
    def length(part):
        return bytes([len(part)]) if len(part) < 128 else bytes([len(part) & 127 | 128, len(part) >> 7])

    def wide(count, values, targets):
        shape = b"\x22" + length(packed := b"\x01" + bytes([values & 127 | 128, values >> 7 & 127 | 128, values >> 14 & 127 | 128, values >> 21 & 127 | 128, values >> 28])) + packed
        sparse = b"\x12" + length(csr := b"\x0a\x08" + bytes(8) + b"\x12\x10" + bytes(8) + b"\x01" + bytes(7) + b"\x1a\x08" + bytes(8)) + csr
        tensor = sparse + b"\x18\x02" + shape
        inputs = b"".join(b"\x12" + length(entry := b"\x0a" + length(name) + name + b"\x12" + length(tensor) + tensor) + entry for name in targets)
        return (b"\x1a" + length(datum := b"\x0a\x08\x0a\x06\x0a\x04\x05\x00\x00\x00" + inputs) + datum) * count + b"\x22\x0dcross_entropy"
    for seq, (rest, why) in enumerate(((wide(1, 1 << 28, [b"target_tokens"]), "with their zeros"), (wide(200, 1 << 20, [b"target_tokens", b"weights"]), "with their zeros"),
                                       (wide(1, 1 << 20, [b"target_tokens", b"weights"]), "give each position fewer")), 4):
        answer = server.call("POST", "forward_backward", forward_backward_bytes(client.model_id, seq, rest), headers=protobuf)[1]
        future = server.call("POST", "retrieve_future", {"request_id": answer["request_id"]})[1]
        assert future["category"] == "user" and why in future["error"], future
    repeated = {"model_id": client.model_id, "seq_id": 40, "adam_params": {"learning_rate": 1.0}}
    assert server.call("POST", "optim_step", repeated)[0] == server.call("POST", "optim_step", repeated)[0] == 200
    assert server.call("POST", "optim_step", {**repeated, "adam_params": {"learning_rate": 2.0}})[0] == 422


def raw(server, method, path, headers, body=b""):
    """What a hand-written request is answered; the connection is closed after it."""
    with socket.create_connection(server.address, 10) as connection:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sendall(f"{method} /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode() + body)
        connection.settimeout(10)
        return connection.recv(4096).decode(errors="replace").split("\r\n")[0]


def test_bodies_are_refused_by_their_size_before_they_are_sent(server):
    size = {"Content-Type": "application/x-protobuf", "Content-Length": 2 << 30}
    assert " 413 " in raw(server, "POST", "forward_backward", {"X-API-Key": ALICE, **size})
    assert " 413 " in raw(server, "POST", "forward_backward", size)


def test_endless_and_ambiguous_bodies_are_refused(server):
    """A chunked body is counted as it comes; a length in addition to chunks, two lengths and packed bodies are no requests of this protocol."""
    chunked = {"X-API-Key": ALICE, "Transfer-Encoding": "chunked"}
    with socket.create_connection(server.address, 10) as connection:
        connection.sendall(f"POST /api/v1/forward_backward HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {ALICE}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        before, piece = resident_bytes(server), b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(200):  # megabytes; the server takes 32, and lets the others pass for a moment
                connection.sendall(piece)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
        assert resident_bytes(server) - before < 100e6
    assert " 400 " in raw(server, "POST", "create_session", {**chunked, "Content-Length": 2}, b"2\r\n{}\r\n0\r\n\r\n")
    assert " 400 " in raw(server, "POST", "create_session", {"X-API-Key": ALICE, "Content-Length": "2, 3"}, b"{} ")
    assert " 400 " in raw(server, "POST", "create_session", {"X-API-Key": ALICE, "Content-Length": -1})
    packed = {"X-API-Key": ALICE, "Content-Type": "application/x-protobuf", "Content-Encoding": "zstd", "Content-Length": 4}
    assert " 4" in raw(server, "POST", "forward_backward", packed, b"\x28\xb5\x2f\xfd")
    assert server.call("GET", "healthz")[0] == 200


def test_numbers_and_names_at_their_ends(server, run):
    """Each is refused with its name, or taken for what it says; none stops the server or reaches another tenant."""
    session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.38.0"})[1]["session_id"]
    made = {"session_id": session, "base_model": MODEL, "lora_config": {"rank": 2}}
    for number in (-1, 2**63, 1.5, "0", None, [0], True):
        status, answer = server.call("POST", "create_model", {**made, "model_seq_id": number})
        assert status == 400 and "model_seq_id" in answer["error"]["message"], (number, answer)
    status, answer = server.call("POST", "create_model", {**made, "model_seq_id": 2**63 - 1, "user_metadata": {"deep": [[[[{}]]]], "nul": "\0", "fox": "🦊" * 1000}})
    assert status == 200
    model = answer["model_id"]
    again = server.call("POST", "create_model", {**made, "model_seq_id": 2**63 - 1, "lora_config": {"rank": 4}})
    assert again[1] == answer and server.call("POST", "get_info", {"model_id": model})[1]["lora_rank"] == 2  # a repeated request changes nothing
    for seq in (0, -1, 2**63, 1e300):
        assert server.call("POST", "optim_step", {"model_id": model, "seq_id": seq, "adam_params": {}})[0] == 400
    for seq in ("-1", "-2", "+1", "1e3", "9" * 30, " 1", ""):
        assert server.call("POST", "retrieve_future", {"request_id": f"{model}:{seq}"})[0] == 404
    assert server.call("GET", f"training_runs/{model}")[1]["user_metadata"]["nul"] == "\0"
    for query in ("limit=-1", "offset=x", "limit=1e9"):
        assert server.call("GET", f"training_runs?{query}")[0] == 400
    assert server.call("GET", "training_runs?limit=99999999999999999&offset=9223372036854775807")[1]["training_runs"] == []
    where = run["state"].replace("tinker://", "training_runs/").replace("/weights", "/checkpoints/weights")
    for seconds in (0, -5, 2**62, 1e99, "soon"):
        status, answer = server.call("PUT", f"{where}/ttl", {"ttl_seconds": seconds})
        assert status == 400 and "ttl_seconds" in answer["error"]["message"]
    assert server.call("PUT", f"{where}/ttl", {"ttl_seconds": None})[0] == 200
    for forged in ("..%2f..", "first%00", "first%2f..%2fother", "%F0%9F%A6%8A"):
        assert server.call("DELETE", where.removesuffix("first") + forged)[0] in (400, 404)
    prompt = {"chunks": [{"type": "encoded_text", "tokens": [5]}]}
    for asked in ({"num_samples": 0}, {"num_samples": 2**40}, {"sampling_params": {"max_tokens": -1}}, {"sampling_params": {"temperature": -1}}, {"sampling_params": {"top_p": 7}}, {"sampling_params": {"stop": [{}]}}, {"sampling_params": {"stop": [2**32 + 5]}}, {"sampling_params": {"stop": [-1]}},
                  {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [2**40]}]}}, {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [-1]}]}}, {"prompt": {"chunks": [{"type": "encoded_text", "tokens": [5] * 5000}]}},
                  {"prompt": {"chunks": []}}, {"topk_prompt_logprobs": 2**40}):
        status, answer = server.call("POST", "asample", {"base_model": MODEL, "prompt": prompt, "sampling_params": {"max_tokens": 1}, **asked})
        if status == 200:
            status, answer = server.call("POST", "retrieve_future", {"request_id": answer["request_id"]}, headers={"Accept": "application/json"})
            assert answer.get("category") == "user", (asked, answer)
        else:
            assert status == 400, (asked, answer)


def test_a_run_that_begins_with_a_checkpoint(server, run):
    """load_weights with a session creates the run, once; one whose weights cannot be loaded is never trained."""
    session = server.call("POST", "create_session", {"tags": [], "sdk_version": "0.38.0"})[1]["session_id"]

    def load(number, key=ALICE, **more):
        return server.call("POST", "load_weights", {"session_id": session, "model_seq_id": number, "path": run["state"], "optimizer": True, **more}, key=key)

    def result(answer):
        return server.call("POST", "retrieve_future", {"request_id": answer["request_id"]}, headers={"Accept": "application/json"})[1]
    status, answer = load(0)
    assert status == 200 and result(answer)["model_id"] == f"{session}:train:0"
    assert server.call("POST", "get_info", {"model_id": answer["model_id"]})[1]["lora_rank"] == 4  # the checkpoint's
    assert load(0) == (200, answer)
    assert load(0, optimizer=False)[0] == 422
    for wrong, said in (({"path": run["state"] + "x"}, "no checkpoint"), ({"base_model": "another/model"}, "base_model"), ({"optimizer_config": {"type": "muon"}}, "muon"), ({"weights_access_token": "x"}, "weights_access_token"), ({"model_seq_id": -1}, "model_seq_id")):
        status, answer = load(1, **wrong)
        assert status in (400, 404) and said in answer["error"]["message"], (wrong, answer)
    assert load(1, key=BOB)[0] == 404
    status, answer = load(2, path=run["sampler"])  # which has no optimizer state
    assert status == 200 and "weights alone" in result(answer)["error"]
    status, answer = server.call("POST", "optim_step", {"model_id": f"{session}:train:2", "seq_id": 1, "adam_params": {}})
    assert status == 400 and "unloaded" in answer["error"]["message"]
    status, answer = server.call("POST", "save_weights_for_sampler", {"model_id": f"{session}:train:0", "seq_id": 1, "sampling_session_seq_id": 0, "kind": "inflight"})
    assert status == 400 and "inflight" in answer["error"]["message"]


def test_what_ends_leaves_no_files(server, tokenizer):
    """An unloaded run and an ended session leave no files; an archive is sent in pieces, also while its checkpoint is deleted."""
    folder = Path(server.process.args[server.process.args.index("--tinker_dir") + 1])
    before = {kind: set((folder / kind).glob("*")) for kind in ("runs", "samplers")}
    service = server.service()
    client = service.create_lora_training_client(base_model=MODEL, rank=64).result()
    tokens, targets = rows(tokenizer)[0]
    client.forward_backward([datum(tokens, targets, weights=[1.0] * len(targets))], "cross_entropy").result()
    client.optim_step(types.AdamParams()).result()
    client.save_weights_and_get_sampling_client().result()
    state, kept = client.save_state("loaded").result().path, client.save_weights_for_sampler("kept").result().path
    other = server.service().create_lora_training_client(base_model=MODEL, rank=64).result()
    other.load_state(state).result()  # takes a snapshot
    assert all(set((folder / kind).glob("*")) > before[kind] for kind in before)
    assert server.call("POST", "unload_model", {"model_id": other.model_id})[0] == 200
    assert server.call("POST", f"sessions/{client.model_id.split(':')[0]}/finish", {})[0] == 200
    assert server.wait_for(lambda: all(set((folder / kind).glob("*")) <= before[kind] for kind in before), 10)
    with urllib.request.urlopen(server.archive_address(kept)) as archive:
        head = archive.read(1000)
        server.service().create_rest_client().delete_checkpoint_from_tinker_path(kept).result()
        with tarfile.open(fileobj=io.BytesIO(head + archive.read())) as tar:
            assert sorted(tar.getnames()) == ["adapter_config.json", "adapter_model.safetensors"]
            assert tar.getmember("adapter_model.safetensors").size > 3 << 20  # several pieces


def test_forged_ids_find_nothing(server, run):
    for forged in ("", "x", "../../etc/passwd", run["id"] + "\0", run["id"] + "/..", "' OR 1=1 --", run["id"].upper(), "🦊" * 100):
        for path, body in (("get_info", {"model_id": forged}), ("retrieve_future", {"request_id": f"{forged}:1"}), ("optim_step", {"model_id": forged, "seq_id": 1, "adam_params": {}}),
                           ("create_model", {"session_id": forged, "model_seq_id": 0, "base_model": MODEL}), ("weights_info", {"tinker_path": f"tinker://{forged}/weights/first"}),
                           ("create_sampling_session", {"session_id": forged, "sampling_session_seq_id": 0, "base_model": MODEL})):
            status, answer = server.call("POST", path, body)
            assert status in (400, 404), (path, forged, answer)
    for path in ("%2e%2e/state.sqlite", "..%2Fstate.sqlite", "0" * 24):
        assert server.call("GET", f"archives/{path}", key="")[0] in (401, 404)


def test_clients_that_vanish_leave_nothing_behind(server, tokenizer):
    """Half a body, a poll nobody waits for, an answer nobody reads: the others are served as before."""
    client = server.service(BOB).create_lora_training_client(base_model=MODEL, rank=2).result()
    assert server.call("POST", "optim_step", {"model_id": client.model_id, "seq_id": 7, "adam_params": {}}, key=BOB)[0] == 200  # waits for those before it
    gone = []
    for _ in range(50):
        half = socket.create_connection(server.address, 10)
        half.sendall(f"POST /api/v1/forward_backward HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {BOB}\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100000\r\n\r\n".encode() + b"\x0a" * 50)
        body = json.dumps({"request_id": f"{client.model_id}:7"}).encode()
        poll = socket.create_connection(server.address, 10)
        poll.sendall(f"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {BOB}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        gone += [half, poll]
    for connection in gone:
        connection.close()
    tokens, targets = rows(tokenizer)[0]
    client.forward_backward([datum(tokens, targets, weights=[1.0] * len(targets))], "cross_entropy").result(timeout=30)
    assert client.optim_step(types.AdamParams()).result(timeout=30).metrics["grad_norm"] > 0
