"""`hone download` from a loopback hub that truncates, corrupts and stalls."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest
from hub_server import git_sha1, sha256
from hub_testing import SMALL, content_of, path_of, refused

LARGE, RANGE = 20 << 20, 8 << 20


def partial_files(folder):
    return [f for f in folder.rglob("*") if f.is_file() and "/.hone/" in str(f)]


def test_whole_repository(small, download, hub):
    assert content_of(path_of(download("org/small"))) == small.files
    asked = len(hub.requests)
    assert content_of(path_of(download("org/small"))) == small.files
    assert all(r["file"] is None for r in hub.requests[asked:]), "files that are here were asked for again"


def test_a_large_file_comes_in_ranges_side_by_side(hub, download, content):
    hub.add("models", "org/large", {"model.safetensors": content})
    assert content_of(path_of(download("org/large"))) == {"model.safetensors": content}
    assert len({r["headers"].get("range") for r in hub.bodies_sent("model.safetensors")}) == 3


def test_resumes_after_a_cut(hub, download, content):
    hub.add("models", "org/large", {"model.safetensors": content})
    hub.misbehave("model.safetensors", ("cut", 1 << 20), ("cut", 2 << 20))
    assert content_of(path_of(download("org/large")))["model.safetensors"] == content
    lengths = [int(r["headers"]["range"].split("=")[1].split("-")[1]) - int(r["headers"]["range"].split("=")[1].split("-")[0]) + 1
               for r in hub.bodies_sent("model.safetensors")]
    assert sum(lengths) < LARGE + 2 * RANGE, "what had arrived was fetched again"
    resumed = [r for r in hub.bodies_sent("model.safetensors") if int(r["headers"]["range"].split("=")[1].split("-")[0]) % RANGE]
    assert len(resumed) == 2 and all("if-range" in r["headers"] for r in resumed)


def bytes_noted(folder):
    """What the journals of partial files say has arrived."""
    journals = [json.loads(f.read_text()) for f in partial_files(folder) if f.suffix == ".json"]
    return sum(done for journal in journals for _, _, done in journal["pieces"])


def start(hone, hub, cache, use_hf, *words):
    environment = {**os.environ, "NO_COLOR": "1", **hub.environment(cache, use_hf)}
    return subprocess.Popen([hone.path, "download", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_resumes_after_the_program_ended(hone, hub, download, content, tmp_path, use_hf, how):
    hub.add("models", "org/large", {"model.safetensors": content})
    hub.misbehave("model.safetensors", None, *[("slow", 4000)] * 2)  # would take minutes: it is under way when it is stopped
    process = start(hone, hub, tmp_path, use_hf, "org/large")
    while process.poll() is None and not bytes_noted(tmp_path):
        time.sleep(0.05)
    process.send_signal(how)
    out, err = process.communicate(timeout=300)
    assert process.returncode == (130 if how == signal.SIGINT else -9), err
    assert how == signal.SIGKILL or "it resumes the download" in err
    hub.faults.clear()
    asked = len(hub.requests)
    assert content_of(path_of(download("org/large")))["model.safetensors"] == content
    again = sum(int(r["headers"]["range"].split("-")[1]) - int(r["headers"]["range"].split("=")[1].split("-")[0]) + 1
                for r in hub.requests[asked:] if r["file"] and not r["redirected"])
    assert again < LARGE, "nothing of the first run was used"
    assert not partial_files(tmp_path)


def test_a_server_without_ranges(hub, download, content):
    hub.add("models", "org/large", {"model.safetensors": content})
    hub.misbehave("model.safetensors", *["no ranges"] * 4)
    assert content_of(path_of(download("org/large")))["model.safetensors"] == content


def test_a_file_that_changes_while_it_is_fetched(hub, download, content):
    hub.add("models", "org/large", {"model.safetensors": content})
    hub.misbehave("model.safetensors", ("cut", 1 << 20), ("etag", '"another"'))
    assert content_of(path_of(download("org/large")))["model.safetensors"] == content


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_wrong_bytes_are_fetched_again_and_never_kept(small, hub, download, tmp_path, name):
    hub.misbehave(name, *["wrong"] * 3)
    refused(download("org/small"), 3, name, "checksum")
    assert not [f for f in tmp_path.rglob("*") if f.is_file() and f.name in (name, git_sha1(small.files[name]), sha256(small.files[name]))]
    hub.misbehave(name, "wrong")
    assert content_of(path_of(download("org/small"))) == small.files


@pytest.mark.parametrize("fault, word", [(("resized", 5), "lists"), (("resized", -5), "lists"), ("endless", "more of it than")])
def test_a_server_that_has_another_length(small, hub, download, fault, word):
    hub.misbehave("model.safetensors", fault)
    hub.misbehave("model.safetensors", *[fault] * 3)
    refused(download("org/small"), 3, "model.safetensors", word)
    hub.misbehave("model.safetensors", fault)
    assert content_of(path_of(download("org/small"))) == small.files


@pytest.mark.parametrize("status", [429, 503])
def test_waits_as_long_as_the_server_requests(small, hub, download, status):
    hub.misbehave("listing", (status, 0), (status, None))
    hub.misbehave("config.json", ("status", (status, "1")))
    began = time.time()
    done = download("org/small")
    assert content_of(path_of(done)) == small.files
    assert time.time() - began >= 1 and "trying again in 1.0 s" in done.stderr


def test_gives_up_on_a_server_that_stays_broken(small, hub, download):
    hub.misbehave("config.json", *[("status", (503, "0"))] * 6)
    refused(download("org/small"), 1, "503", "run the same command again")


def test_a_server_that_hangs(small, hub, download):
    hub.misbehave("config.json", ("hang", 5))
    done = download("org/small", env={"HF_HUB_DOWNLOAD_TIMEOUT": "1", "MODELSCOPE_DOWNLOAD_TIMEOUT": "1"})
    assert content_of(path_of(done)) == small.files
    assert "trying again" in done.stderr


def test_a_slow_server_is_waited_for(small, hub, download):
    hub.misbehave("model.safetensors", ("slow", 120))
    done = download("org/small", env={"HF_HUB_DOWNLOAD_TIMEOUT": "5", "MODELSCOPE_DOWNLOAD_TIMEOUT": "5"})
    assert content_of(path_of(done)) == small.files
    assert "trying again" not in done.stderr


def test_a_full_disk_keeps_what_arrived(small, download, tmp_path):
    refused(download("org/small", env={"HONE_FAULT": "hub.write:enospc"}), 8, "No space left", "make room")
    assert content_of(path_of(download("org/small"))) == small.files


def test_two_at_once_fetch_once(hone, hub, tmp_path, use_hf, content):
    hub.add("models", "org/large", {"model.safetensors": content})
    gate = threading.Event()
    hub.misbehave("model.safetensors", ("gate", gate))
    first = start(hone, hub, tmp_path, use_hf, "org/large")
    while first.poll() is None and not partial_files(tmp_path):
        time.sleep(0.02)
    second = start(hone, hub, tmp_path, use_hf, "org/large")
    assert "another process is fetching it" in second.stderr.readline()
    gate.set()
    results = [process.communicate(timeout=300) for process in (first, second)]
    assert first.returncode == second.returncode == 0, results
    assert results[0][0] == results[1][0]
    assert len(hub.bodies_sent("model.safetensors")) == 3


def test_patterns_and_local_dir(hub, download, tmp_path):
    files = {**SMALL, "model.safetensors": b"s", "pytorch_model.bin": b"b", "model.gguf": b"g", "onnx/model.onnx": b"o"}
    hub.add("models", "org/many", files)
    assert set(content_of(path_of(download("org/many")))) == {*SMALL, "model.safetensors"}
    chosen = path_of(download("org/many", "--include", "*.bin", "sub/", "--local_dir", tmp_path / "plain"))
    note = {".hone/downloaded": b"org/many\n"}  # says that what is here came from a hub
    assert content_of(chosen) == {"pytorch_model.bin": b"b", "sub/names.txt": SMALL["sub/names.txt"], **note}
    assert set(content_of(path_of(download("org/many", "--exclude", "*.safetensors", "*.gguf", "onnx/*", "--local_dir", tmp_path / "rest")))) == {*SMALL, "pytorch_model.bin", *note}
    refused(download("org/many", "--include", "*.xyz"), 2, "none of its")


def test_a_long_listing_comes_in_pages(hub, download):
    files = {f"part-{i:04}.jsonl": b"%d" % i for i in range(450)}
    hub.add("datasets", "org/rows", files)
    hub.page = 100
    assert content_of(path_of(download("org/rows", "--dataset", "true"))) == files


def test_changed_files_alone_are_fetched_again(small, hub, download):
    path_of(download("org/small"))
    small.files["config.json"] = b'{"a": 2}'
    small.commit = "ab" * 20
    small.branches = {"main": small.commit, "master": small.commit, small.commit: small.commit}
    asked = len(hub.requests)
    assert content_of(path_of(download("org/small"))) == small.files
    assert {r["file"] for r in hub.requests[asked:]} == {None, "config.json"}
