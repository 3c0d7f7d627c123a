"""Two servers with different base models behind one gateway: the published SDK trains on both, and a worker that dies is transparent to it."""
import json
import re
import shlex
import shutil
import socket
import subprocess
import time

import anthropic
import openai
import pytest
import tinker
from serve_testing import BINARY, Server
from test_tinker_abandoned import LONG, PROMPT, number, running, wait_until
from test_tinker_crowd import ADAM, supervised, train
from tinker import types
from tinker_testing import ALICE, BOB, MODEL, ROOT, TinkerServer, rows
from workers import free_port


class Gateway(TinkerServer):
    """`serve-tinker --worker_urls` with the keys of its workers."""

    def __init__(self, folder, *words):
        Server.__init__(self, "--api_keys", folder / "0/keys", "--worker_urls", f"@{folder / 'workers'}", *words, verb="serve-tinker", model=None)


class Cluster:
    """Two workers, the second with another base model, and a gateway to them. Each can be killed and started again at its own port."""

    def __init__(self, folder):
        self.folder, self.ports = folder, [free_port(), free_port()]
        other = folder / "other"
        shutil.copytree(ROOT / MODEL, other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "rope_theta": 500.0}))
        self.models = [MODEL, str(other)]
        (folder / "workers").write_text("# one a line\n" + "".join(f"http://127.0.0.1:{port}\n" for port in self.ports))
        self.workers = [self.start(0), self.start(1)]
        self.gateway = Gateway(folder)

    def start(self, number):
        return TinkerServer(self.folder / str(number), "--port", self.ports[number], "--verbose", "false", model=self.models[number])

    def until_alive(self, count):
        assert self.gateway.wait_for(lambda: sum(each["alive"] for each in self.gateway.call("GET", "status")[1]["workers"]) == count, 30)

    def stop(self):
        for server in (self.gateway, *self.workers):
            assert server.stop() == 0, server.log()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


def create(server, model, key=ALICE, **more):
    return server.service(key).create_lora_training_client(base_model=model, **{"rank": 4, "seed": 5, **more}).result()


def test_one_address_for_two_models(cluster, tokenizer, tmp_path):
    """In one session, with the numbers that each worker gives by itself; lists hold what both have."""
    gateway, data = cluster.gateway, supervised(tokenizer)
    service = gateway.service()
    assert {each.model_name for each in service.get_server_capabilities().supported_models} == set(cluster.models)
    clients = [service.create_lora_training_client(base_model=model, rank=4, seed=5).result() for model in cluster.models]
    assert len({client.model_id.split(":")[0] for client in clients}) == 1
    losses = [train(client, data, 2) for client in clients]
    assert losses == [train(create(worker, model), data, 2) for worker, model in zip(cluster.workers, cluster.models)] and losses[0] != losses[1]
    paths = [client.save_weights_for_sampler("one").result().path for client in clients]
    states = [client.save_state("one").result().path for client in clients]
    prompt, greedy = types.ModelInput.from_ints(rows(tokenizer)[0][0]), types.SamplingParams(max_tokens=4, temperature=0)
    for client, model, path, state in zip(clients, cluster.models, paths, states):
        sampler = client.save_weights_and_get_sampling_client().result()
        named = service.create_sampling_client(model_path=path).result()
        assert named.get_base_model() == model and client.get_info().model_data.model_name == model
        assert sampler.sample(prompt, 1, greedy).result().sequences[0].tokens == named.sample(prompt, 1, greedy).result().sequences[0].tokens
        service.create_sampling_client(base_model=model).result().compute_logprobs(prompt).result()
        resumed = service.create_training_client_from_state_with_optimizer(state).result()
        assert train(resumed, data, 1) == pytest.approx(train(client, data, 1), rel=1e-6)
        files = gateway.archive(path, tmp_path / path.split("/")[2])
        assert sorted(file.name for file in files.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    rest = service.create_rest_client()
    runs = rest.list_training_runs(limit=3, offset=0).result()
    assert len(runs.training_runs) == 3 and runs.cursor.total_count >= 4
    assert {each.base_model for each in rest.list_training_runs(limit=1000).result().training_runs} == set(cluster.models)
    times = [each.last_request_time for each in rest.list_training_runs(limit=1000).result().training_runs]
    assert times == sorted(times, reverse=True)
    assert {*paths, *states} <= {each.tinker_path for each in rest.list_user_checkpoints(limit=100).result().checkpoints}
    session = rest.get_session(clients[0].model_id.split(":")[0]).result()
    assert {client.model_id for client in clients} <= set(session.training_run_ids) and len(session.sampler_ids) >= 6
    assert clients[0].model_id.split(":")[0] in rest.list_sessions(limit=100).result().sessions
    rest.set_checkpoint_ttl_from_tinker_path(states[1], 3600).result()
    rest.delete_checkpoint_from_tinker_path(states[0]).result()
    assert rest.list_checkpoints(clients[0].model_id).result().checkpoints[0].tinker_path == paths[0]


def test_chats_through_the_gateway(cluster):
    client, worker = openai.OpenAI(base_url=cluster.gateway.url + "/v1", api_key=ALICE, max_retries=0), openai.OpenAI(base_url=cluster.workers[1].url + "/v1", api_key=ALICE)
    ask = dict(model=cluster.models[1], messages=[{"role": "user", "content": "Who are you?"}], max_tokens=8, temperature=0)
    told = worker.chat.completions.create(**ask).choices[0].message.content
    assert client.chat.completions.create(**ask).choices[0].message.content == told
    assert "".join(part.choices[0].delta.content or "" for part in client.chat.completions.create(**ask, stream=True)) == told
    assert set(cluster.models) <= {model.id for model in client.models.list()}
    message = anthropic.Anthropic(base_url=cluster.gateway.url, api_key=ALICE, max_retries=0).messages.create(model=MODEL, max_tokens=4, messages=ask["messages"])
    assert message.usage.output_tokens > 0
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="another", prompt="x", max_tokens=1)


def test_tenants_and_forged_ids(cluster, tokenizer):
    """The gateway lets nobody in whom the workers would not, and shows nobody what is another's."""
    gateway = cluster.gateway
    client = create(gateway, cluster.models[1])
    train(client, supervised(tokenizer), 1)
    path, session = client.save_weights_for_sampler("mine").result().path, client.model_id.split(":")[0]
    for key in ("", "tml-wrong-0123456789"):
        for method, name in (("POST", "client/config"), ("GET", "training_runs"), ("GET", "status"), ("POST", "create_session")):
            assert gateway.call(method, name, {} if method == "POST" else None, key=key)[0] == 401
    assert gateway.call("GET", "healthz", key="")[0] == 200
    forged = f"{'0' * 24}:train:0"
    for method, name, body in (("POST", "get_info", {"model_id": client.model_id}), ("POST", "retrieve_future", {"request_id": f"{client.model_id}:1"}), ("GET", f"training_runs/{client.model_id}", None),
                               ("POST", "weights_info", {"tinker_path": path}), ("POST", "session_heartbeat", {"session_id": session}), ("GET", f"sessions/{session}", None),
                               ("POST", "create_model", {"session_id": session, "model_seq_id": 9, "base_model": MODEL}), ("GET", path.replace("tinker://", "training_runs/").replace("/sampler", "/checkpoints/sampler") + "/archive", None),
                               ("POST", "create_sampling_session", {"session_id": session, "sampling_session_seq_id": 9, "model_path": path})):
        assert gateway.call(method, name, body, key=BOB)[0] == 404, name
    for name, body in (("get_info", {"model_id": forged}), ("retrieve_future", {"request_id": f"{forged}:1"}), ("create_model", {"session_id": "0" * 24, "model_seq_id": 0, "base_model": MODEL}),
                       ("optim_step", {"model_id": "../../x", "seq_id": 1}), ("weights_info", {"tinker_path": "tinker://a/weights/b"})):
        assert gateway.call("POST", name, body)[0] == 404, name
    assert [gateway.call("POST", "retrieve_future", {"request_id": each})[0] for each in ("direct:sample:0", "nobody:sample:0:1")] == [410, 410]
    for body in (b"{", b"[]", {"request_id": 5}, {}):
        assert gateway.call("POST", "retrieve_future", body)[0] == 400
    assert gateway.call("GET", "archives/7-0000", key="")[0] == gateway.call("GET", "archives/x", key="")[0] == 404
    assert [gateway.call("POST", "create_session", {"session_id": each})[0] for each in (session, "../x")] == [200, 200]  # a client's wish counts for nothing
    assert cluster.workers[0].call("POST", "create_session", {"session_id": session}, key=BOB)[0] == 422
    assert gateway.call("GET", "training_runs", key=BOB)[1]["training_runs"] == []
    gateway.service().create_rest_client().publish_checkpoint_from_tinker_path(path).result()
    assert gateway.service(BOB).create_sampling_client(model_path=path).result().get_base_model() == cluster.models[1]
    with pytest.raises(tinker.BadRequestError, match="the workers have"):
        create(gateway, "another/model")


def test_numbers_of_all_workers(cluster):
    text = cluster.gateway.request("GET", "/metrics", headers={"X-API-Key": ALICE})[2]
    for worker in (0, 1):
        assert f'hone_tinker_gateway_worker_up{{worker="{worker}"}} 1\n' in text and f'hone_tinker_passes_total{{worker="{worker}"}} ' in text
    families = re.findall(r"^# TYPE (\S+) ", text, re.M)
    assert len(families) == len(set(families)) > 10
    within = ""
    for line in text.splitlines():  # a family's samples stand together, each with its worker
        within = line.split()[2] if line.startswith("#") else within
        assert line.startswith("#") or (line.startswith(within) and re.fullmatch(r'\w+\{worker="[01]".*\} \S+', line)), line
    status = cluster.gateway.call("GET", "status")[1]
    assert [each["models"] for each in status["workers"]] == [[model] for model in cluster.models] and status["tenant"]["runs"] == sum(each.call("GET", "status")[1]["tenant"]["runs"] for each in cluster.workers)
    assert cluster.gateway.request("GET", "/")[0] == 200


def test_a_worker_that_is_killed_and_returns(cluster, tokenizer):
    """Steps of its runs wait for it, to the same losses; the other worker's continue; a session begun without it is known to it afterwards."""
    data = supervised(tokenizer)
    whole = train(create(cluster.gateway, cluster.models[1], seed=11), data, 5)
    here, there = create(cluster.gateway, cluster.models[0]), create(cluster.gateway, cluster.models[1], seed=11)
    done = train(there, data, 2)
    under_way = [(there.forward_backward(data, "cross_entropy"), there.optim_step(ADAM)) for _ in range(2)]
    cluster.workers[1].kill()
    assert train(here, data, 2)[1] > 0
    cluster.until_alive(1)
    meanwhile = cluster.gateway.service()
    first = meanwhile.create_lora_training_client(base_model=cluster.models[0], rank=2).result()
    listed = cluster.gateway.call("GET", "training_runs")[1]
    assert listed["unreachable_models"] == [cluster.models[1]] and 'worker_up{worker="1"} 0' in cluster.gateway.request("GET", "/metrics", headers={"X-API-Key": ALICE})[2]
    under_way.append((there.forward_backward(data, "cross_entropy"), there.optim_step(ADAM)))  # sent while nobody is there
    time.sleep(0.5)
    cluster.workers[1] = cluster.start(1)
    losses = done + [(forward.result().metrics["loss:sum"], update.result())[0] for forward, update in under_way]
    assert losses == whole
    second = meanwhile.create_lora_training_client(base_model=cluster.models[1], rank=2).result()
    assert first.model_id.split(":")[0] == second.model_id.split(":")[0] and train(second, data, 1)[0] > 0


def test_a_gateway_that_is_killed_and_returns(cluster, tokenizer):
    """It keeps nothing, so that nothing is lost with it."""
    data = supervised(tokenizer)
    client = create(cluster.gateway, cluster.models[1], seed=11)
    whole = train(create(cluster.gateway, cluster.models[1], seed=11), data, 3)
    losses = train(client, data, 1)
    port = cluster.gateway.port
    cluster.gateway.kill()
    cluster.gateway = Gateway(cluster.folder, "--port", port)
    assert losses + train(client, data, 2) == whole


def test_a_worker_that_is_added_and_removed(cluster):
    urls = cluster.folder / "workers"
    before = urls.read_text()
    third = TinkerServer(cluster.folder / "third", "--served_model_name", "third/model")
    try:
        urls.write_text(before + third.url + "\n")
        assert cluster.gateway.wait_for(lambda: any(each["models"] == ["third/model"] for each in cluster.gateway.call("GET", "status")[1]["workers"]))
        assert create(cluster.gateway, "third/model").model_id
        urls.write_text(before + "nothing\n")
        assert cluster.gateway.wait_for(lambda: "the workers stay as they were" in cluster.gateway.log())
        urls.write_text(before)
        assert cluster.gateway.wait_for(lambda: len(cluster.gateway.call("GET", "status")[1]["workers"]) == 2)
    finally:
        urls.write_text(before)
        third.stop()


def test_many_polls_through_the_gateway(cluster):
    """They are held while their result is not there, and answered when it is; the gateway stays responsive."""
    client = create(cluster.gateway, MODEL)
    future = cluster.gateway.call("POST", "optim_step", {"model_id": client.model_id, "seq_id": 2, "adam_params": {}})[1]["request_id"]
    body = json.dumps({"request_id": future}).encode()
    poll = f"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {ALICE}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    waiting = [socket.create_connection(cluster.gateway.address, 30) for _ in range(500)]
    for connection in waiting:
        connection.sendall(poll)
    assert cluster.gateway.wait_for(lambda: cluster.gateway.call("GET", "status")[1]["server"]["polls_open"] >= len(waiting))
    assert cluster.gateway.call("POST", "optim_step", {"model_id": client.model_id, "seq_id": 1, "adam_params": {}})[0] == 200
    for connection in waiting:
        connection.settimeout(30)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        connection.close()


def test_a_cancel_reaches_the_worker(cluster):
    """By the SDK, for both models, with a session and without; another tenant's cancel does nothing, and training is not cancelled."""
    gateway = cluster.gateway

    def cancelled(worker):
        return number(cluster.workers[worker], "samples_cancelled_total")

    def cancel(request_id, key=ALICE):
        return gateway.call("POST", "cancel_future", {"request_id": request_id}, key=key)[0]
    for worker, model in enumerate(cluster.models):
        before = cancelled(worker)
        sampler = gateway.service().create_sampling_client(base_model=model).result()
        future = sampler.sample(types.ModelInput.from_ints(PROMPT), 64, types.SamplingParams(**LONG))
        wait_until(lambda: running(cluster.workers[worker]) > 0)
        assert future.cancel()
        wait_until(lambda: cancelled(worker) == before + 1 and running(cluster.workers[worker]) == 0)
        assert len(sampler.sample(types.ModelInput.from_ints(PROMPT), 1, types.SamplingParams(max_tokens=2)).result().sequences) == 1
    before = cancelled(0)
    body = {"base_model": MODEL, "num_samples": 64, "prompt": {"chunks": [{"type": "encoded_text", "tokens": PROMPT}]}, "sampling_params": LONG}
    direct = gateway.call("POST", "asample", body)[1]["request_id"]
    wait_until(lambda: running(cluster.workers[0]) > 0)
    assert cancel(direct, BOB) == 200 and cancelled(0) == before and running(cluster.workers[0]) > 0
    assert cancel(direct) == 200
    wait_until(lambda: cancelled(0) == before + 1 and running(cluster.workers[0]) == 0)
    status, answer = gateway.call("POST", "retrieve_future", {"request_id": direct})
    assert cancel(direct) == 200 and (status, answer) == cluster.workers[0].call("POST", "retrieve_future", {"request_id": direct}) and "cancelled" in json.dumps(answer), answer
    client = create(gateway, MODEL)
    assert cancel(f"{client.model_id}:1") == 400 and gateway.call("POST", "cancel_future", {})[0] == 400


@pytest.mark.parametrize("words, why", [(["--worker_urls", "http://127.0.0.1:1"], "give the gateway the keys"), (["--worker_urls", "nowhere", "--api_key", ALICE], "not an address"),
                                        (["--worker_urls", "http://127.0.0.1:1", "--api_key", ALICE, "--model", MODEL], "a gateway has no model")])
def test_a_wrong_command_line_is_told(words, why):
    done = subprocess.run([BINARY, "serve-tinker", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and why in done.stderr


@pytest.mark.parametrize("page", ["tinker.md", "tinker.zh.md"])
def test_the_pages_commands(page):
    """The workers and the gateway as printed, with the addresses that the gateway is told."""
    blocks = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    (lines,) = [block.splitlines() for block in blocks if "--worker_urls" in block]
    for line in lines:
        assert subprocess.run([BINARY, "check-args", "--", *shlex.split(line)], capture_output=True).returncode == 0, line
    ports = [re.search(r"--port (\d+)", line)[1] for line in lines]
    assert re.findall(r"http://127.0.0.1:(\d+)", lines[-1]) == ports[:-1] and len({re.search(r"--tinker_dir (\S+)|$", line)[0] for line in lines[:-1]}) == 2
