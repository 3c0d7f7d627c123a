"""What hone downloads is found by huggingface_hub and modelscope-hub, and what they download is found by hone."""
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import git_sha1, sha256
from hub_testing import SMALL, content_of, path_of

WEIGHTS = bytes(range(256)) * 64
FILES = {**SMALL, "model.safetensors": WEIGHTS, "again/model.safetensors": WEIGHTS}


def ask_python(code, environment):
    """What a fresh interpreter prints: both libraries read their settings when they are imported."""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip().splitlines()[-1]


HF = "from huggingface_hub import snapshot_download as d; print(d('org/one', repo_type='{kind}', local_files_only={local}{more}))"
MS = "from modelscope_hub.compat import snapshot_download as d; print(d('org/one', repo_type='{kind}', local_files_only={local}{more}))"


def peer(use_hf, kind="model", local=True, more=""):
    return (HF if use_hf else MS).format(kind=kind, local=local, more=more)


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_the_peer_finds_what_hone_downloaded(hub, download, tmp_path, use_hf, kind):
    hub.add(kind + "s", "org/one", FILES)
    ours = path_of(download("org/one", "--dataset", str(kind == "dataset").lower()))
    theirs = ask_python(peer(use_hf, kind), hub.environment(tmp_path, use_hf))
    assert Path(theirs).resolve() == ours.resolve()
    assert content_of(Path(theirs)) == FILES


@pytest.mark.parametrize("kind", ["model", "dataset"])
def test_hone_finds_what_the_peer_downloaded(hub, download, tmp_path, use_hf, kind):
    hub.add(kind + "s", "org/one", FILES)
    theirs = Path(ask_python(peer(use_hf, kind, local=False), hub.environment(tmp_path, use_hf)))
    asked = len(hub.requests)
    ours = path_of(download("org/one", "--dataset", str(kind == "dataset").lower()))
    assert ours.resolve() == theirs.resolve()
    assert content_of(ours) == FILES
    assert all(request["file"] is None for request in hub.requests[asked:]), "fetched again what the peer had fetched"


def test_the_peer_has_nothing_left_to_fetch(hub, download, tmp_path, use_hf):
    hub.add("models", "org/one", FILES)
    path_of(download("org/one"))
    asked = len(hub.requests)
    ask_python(peer(use_hf, local=False), hub.environment(tmp_path, use_hf))
    assert not [request for request in hub.requests[asked:] if request["file"] and request["method"] == "GET"]


@pytest.mark.parametrize("use_hf", [True])
def test_hugging_face_layout(hub, download, tmp_path):
    repo = hub.add("models", "org/one", FILES)
    done = download("org/one")
    root = tmp_path / "hf/hub/models--org--one"
    assert path_of(done) == root / "snapshots" / repo.commit
    assert (root / "refs/main").read_text() == repo.commit
    assert {f.name for f in (root / "blobs").iterdir()} == {sha256(WEIGHTS), *(git_sha1(content) for content in SMALL.values())}
    assert os.readlink(root / "snapshots" / repo.commit / "sub/names.txt") == f"../../../blobs/{git_sha1(SMALL['sub/names.txt'])}"
    assert os.readlink(root / "snapshots" / repo.commit / "config.json") == f"../../blobs/{git_sha1(SMALL['config.json'])}"
    scan = "from huggingface_hub import scan_cache_dir as s; r = s(); print(len(r.repos), len(r.warnings), r.size_on_disk)"
    size = len(WEIGHTS) + sum(map(len, SMALL.values()))
    assert ask_python(scan, hub.environment(tmp_path, True)) == f"1 0 {size}"


@pytest.mark.parametrize("use_hf", [True])
def test_transformers_loads_what_hone_downloaded(hub, download, tmp_path):
    hub.add_folder("models", "org/one", Path(__file__).resolve().parents[2] / "models/nano")
    path_of(download("org/one"))
    code = "from transformers import AutoModelForCausalLM as M, AutoTokenizer as T; T.from_pretrained('org/one'); print(M.from_pretrained('org/one').num_parameters())"
    asked = len(hub.requests)
    assert int(ask_python(code, {**hub.environment(tmp_path, True), "HF_HUB_OFFLINE": "1"})) > 1_000_000
    assert len(hub.requests) == asked


@pytest.mark.parametrize("use_hf", [False])
def test_modelscope_layouts_of_the_past_are_kept_up_to_date(hub, download, tmp_path):
    hub.add("models", "org/one.5", FILES)
    old = tmp_path / "ms/hub/models/org/one___5"
    old.mkdir(parents=True)
    (old / "config.json").write_text("an older one")
    done = download("org/one.5")
    assert path_of(done) == old
    assert content_of(old) == FILES


def test_revisions(hub, download, tmp_path, use_hf):
    repo = hub.add("models", "org/one", FILES)
    repo.branches["v1.0"] = repo.commit
    ours = path_of(download("org/one", "--revision", "v1.0"))
    assert Path(ask_python(peer(use_hf, more=", revision='v1.0'"), hub.environment(tmp_path, use_hf))).resolve() == ours.resolve()
