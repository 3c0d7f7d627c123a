"""Limits of a tenant, metrics, and the status page."""
import json
import re
import shutil
import subprocess

import pytest
import tinker
from serve_testing import BINARY
from tinker import types
from tinker_testing import ALICE, MODEL, TinkerServer, datum, rows

SMALL, LARGE, STALLED, BUSY, QUEUED = "tml-small-0123456789", "tml-large-0123456789", "tml-stalled-0123456789", "tml-busy-0123456789", "tml-queued-0123456789"


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    tenants = f"small {SMALL} max_rank=4 max_pending=2 tokens_per_minute=1 checkpoint_gb=0.00001\nlarge {LARGE} priority=3\nstalled {STALLED} pending_gb=0.0001\nbusy {BUSY} checkpoint_gb=0.0015\nqueued {QUEUED} max_pending=1 tokens_per_minute=20000\n"
    server = TinkerServer(tmp_path_factory.mktemp("limits"), tenants=tenants)
    yield server
    assert server.stop() == 0, server.log()


def test_each_tenant_has_its_own_limits(limited, tokenizer):
    with pytest.raises(tinker.BadRequestError, match="1 to 4"):
        limited.service(SMALL).create_lora_training_client(base_model=MODEL, rank=8).result()
    small, large = (limited.service(key).create_lora_training_client(base_model=MODEL, rank=4).result() for key in (SMALL, LARGE))
    tokens, targets = rows(tokenizer)[0]
    data = [datum(tokens, targets, weights=[1.0] * len(targets))] * 8
    large.forward_backward(data, "cross_entropy").result()
    small.forward_backward(data, "cross_entropy").result()  # beyond a minute's worth, which the next one waits for
    path = small.save_state("first").result().path
    with pytest.raises(tinker.RequestFailedError, match="the limit of 1e-05 GB"):
        small.save_state("second").result()
    prompt = {"chunks": [{"type": "encoded_text", "tokens": tokens}]}
    status, headers, text = limited.request("POST", "/api/v1/asample", {"base_model": MODEL, "prompt": prompt, "sampling_params": {"max_tokens": 1}}, headers={"X-API-Key": SMALL})
    assert status == 429 and 0 < int(headers["Retry-After"]) <= 60 and "1 tokens a minute" in text
    assert limited.call("POST", "asample", {"base_model": MODEL, "prompt": prompt, "sampling_params": {"max_tokens": 1}}, key=LARGE)[0] == 200
    steps = {"model_id": small.model_id, "adam_params": {}}
    answers = [limited.call("POST", "optim_step", {**steps, "seq_id": seq}, key=SMALL)[0] for seq in (90, 91, 92)]  # gaps before them: none can be done
    assert answers == [200, 200, 429]
    assert limited.call("POST", "optim_step", {**steps, "seq_id": 90}, key=SMALL)[0] == 200  # a retry needs no room
    assert path.startswith("tinker://")


def test_a_sample_that_finds_the_queue_full_costs_no_tokens(limited):
    def ask(samples):
        return limited.request("POST", "/api/v1/asample", {"base_model": MODEL, "prompt": {"chunks": [{"type": "encoded_text", "tokens": [5, 6, 7]}]}, "num_samples": samples, "sampling_params": {"max_tokens": 256}}, headers={"X-API-Key": QUEUED})

    status, _, text = ask(32)
    assert status == 200, text
    for _ in range(3):  # 25,600 tokens each: one of them would use up a minute's worth
        status, headers, refusal = ask(100)
        assert status == 429 and "queue of sampling requests is full" in refusal and int(headers["Retry-After"]) == 1, refusal
    while limited.call("POST", "retrieve_future", {"request_id": json.loads(text)["request_id"]}, key=QUEUED)[1].get("type") == "try_again":
        pass
    assert ask(1)[0] == 200


def test_unnamed_sampler_weights_count_and_make_room(limited):
    """A client may save some with every step: beyond the quota the oldest go, and what still has no room is refused."""
    def used():
        return limited.call("GET", "status", key=BUSY)[1]["tenant"]["checkpoint_bytes"]

    client = limited.service(BUSY).create_lora_training_client(base_model=MODEL, rank=4).result()
    first = client.save_weights_and_get_sampling_client().result()
    one = used()
    assert 0 < 5 * one < 1.5e6 < 6 * one  # the quota ends within the sixth
    for _ in range(9):
        newest = client.save_weights_and_get_sampling_client().result()
        assert round(used() / one) <= 6  # their sizes differ by the digits of their step
    prompt, params = types.ModelInput.from_ints([1, 2, 3]), types.SamplingParams(max_tokens=1)
    assert newest.sample(prompt, 1, params).result().sequences
    with pytest.raises(tinker.TinkerError):
        first.sample(prompt, 1, params).result()
    limited.service(BUSY).create_lora_training_client(base_model=MODEL, rank=4).result().save_weights_and_get_sampling_client().result()  # weights of another session make room
    assert round(used() / one) == 6
    client.save_state("state").result()
    full = used()
    with pytest.raises(tinker.RequestFailedError, match="the limit of 0.0015 GB"):
        client.save_weights_and_get_sampling_client().result()
    assert used() == full
    assert newest.sample(prompt, 1, params).result().sequences


def test_runs_in_memory_are_limited_in_bytes(tokenizer, tmp_path):
    """Runs that do not fit together take turns, with the losses of one alone; one that does not fit alone is refused. Snapshots of those that wait are a part of the tenant's files."""
    server = TinkerServer(tmp_path, "--max_resident_gb", 0.003)
    data = [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]

    def used():
        return server.call("GET", "status")[1]["tenant"]["checkpoint_bytes"]

    try:
        clients = [server.service().create_lora_training_client(base_model=MODEL, rank=4, seed=7).result() for _ in range(5)]
        futures = [[(client.forward_backward(data, "cross_entropy"), client.optim_step(types.AdamParams(learning_rate=2e-3))) for _ in range(3)] for client in clients]
        losses = [[(forward.result().metrics["loss:sum"], step.result())[0] for forward, step in each] for each in futures]
        assert all(each == pytest.approx(losses[0], rel=1e-5) and each[2] < each[0] for each in losses)
        text = server.request("GET", "/metrics", headers={"X-API-Key": ALICE})[2]
        assert 1 <= float(re.search(r"^hone_tinker_runs_resident (\S+)$", text, re.M)[1]) < 5
        large = server.service().create_lora_training_client(base_model=MODEL, rank=64).result()
        with pytest.raises(tinker.RequestFailedError, match="adapter of rank 64 takes .* this server has 2.9 MiB for all of them: lower the rank"):
            large.forward_backward(data, "cross_entropy").result()
        assert clients[0].forward_backward(data, "cross_entropy").result().metrics["loss:sum"] < losses[0][2]
        before = used()
        assert before > 0
        for client in clients:
            assert server.call("POST", "unload_model", {"model_id": client.model_id})[0] == 200
        assert used() == 0
    finally:
        assert server.stop() == 0, server.log()


def test_data_that_wait_are_limited_in_bytes(limited):
    """A run whose next request never comes stores no more than its tenant's share; other tenants are not affected."""
    for key, answers in ((STALLED, [200, 429, 200]), (LARGE, [200, 200, 200])):
        client = limited.service(key).create_lora_training_client(base_model=MODEL, rank=2).result()
        step = {"model_id": client.model_id, "adam_params": {"padding": "x" * 100_000}}
        assert [limited.call("POST", "optim_step", {**step, "seq_id": seq}, key=key)[0] for seq in (2, 3, 2)] == answers


def test_a_wrong_limit_is_told_before_the_model_is_loaded(tmp_path):
    keys = tmp_path / "keys"
    for line in ("alice tml-alice-0123456789 tokens=1", "alice tml-alice-0123456789 priority=-1", "alice tml-alice-0123456789 max_rank=x"):
        keys.write_text(line + "\n")
        done = subprocess.run([BINARY, "serve-tinker", "--model", MODEL, "--tinker_dir", tmp_path / "state", "--api_keys", keys], capture_output=True, text=True)
        assert done.returncode == 2 and f"line 1: {line.split()[2]} is not a limit" in done.stderr and "tokens_per_minute=" in done.stderr


def test_metrics_and_status(limited, tokenizer):
    client = limited.service(LARGE).create_lora_training_client(base_model=MODEL, rank=4).result()
    tokens, targets = rows(tokenizer)[0]
    client.forward_backward([datum(tokens, targets, weights=[1.0] * len(targets))], "cross_entropy").result()
    client.optim_step(types.AdamParams()).result()
    status, headers, text = limited.request("GET", "/metrics", headers={"X-API-Key": LARGE})
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    numbers = {name: float(value) for name, value in re.findall(r"^(hone_tinker_\w+) (\S+)$", text, re.M)}
    assert numbers["hone_tinker_optim_steps_total"] >= 1 and numbers["hone_tinker_tokens_total"] >= len(tokens) and numbers["hone_tinker_pass_seconds_total"] > 0
    assert 'path="/api/v1/optim_step",status="200"' in text and "# TYPE hone_tinker_passes_total counter" in text
    status, answer = limited.call("GET", "status", key=LARGE)
    assert status == 200 and answer["tenant"]["name"] == "large" and answer["tenant"]["priority"] == 3 and answer["server"]["base_model"] == MODEL
    assert client.model_id in [run["id"] for run in answer["runs"]]
    assert client.model_id not in str(limited.call("GET", "status", key=SMALL)[1])
    for path in ("/metrics", "/api/v1/status"):
        assert limited.request("GET", path)[0] == 401


def test_the_status_page(limited):
    import playwright.sync_api as playwright
    with playwright.sync_playwright() as driver:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        troubles = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(limited.url + "/")
        playwright.expect(page.locator("#status")).to_be_hidden()
        page.get_by_label("API key").fill("tml-wrong-0123456789")
        page.get_by_role("button", name="Show").click()
        playwright.expect(page.locator("#problem")).to_have_text("The server does not know this key.")
        page.get_by_label("API key").fill(LARGE)
        page.get_by_role("button", name="Show").click()
        playwright.expect(page.locator("#tenant-name")).to_have_text("Tenant large")
        playwright.expect(page.locator("#model")).to_contain_text(MODEL)
        assert page.locator("#server dd").count() >= 8 and page.locator("#runs tr").count() >= 1
        page.set_viewport_size({"width": 390, "height": 844})  # a phone's
        first = page.locator("#runs tr").first
        assert first.bounding_box()["height"] < 150 and page.evaluate("document.documentElement.scrollWidth") <= 390
        assert first.locator("td").nth(1).get_attribute("data-name") == "rank"
        page.get_by_role("button", name="Forget the key").click()
        playwright.expect(page.locator("#status")).to_be_hidden()
        browser.close()
        assert troubles == []
