"""What `hone download` rejects: other hosts, names that leave their folder, tokens for other hosts; and its messages if a hub rejects a request."""
import socket

import pytest
from hub_testing import SMALL, path_of, refused


def test_the_token_does_not_go_to_another_host(hub, download, use_hf):
    hub.add("models", "org/private", {"model.safetensors": bytes(range(256)) * 64}, private="secret")
    variable = "HF_TOKEN" if use_hf else "MODELSCOPE_API_TOKEN"
    path_of(download("org/private", env={variable: "secret"}))
    for request in hub.requests:
        sent = [request["headers"].get(name, "") for name in ("authorization", "cookie")]
        assert any("secret" in value for value in sent) != request["cdn"], request
    assert any(request["cdn"] for request in hub.requests)


def test_token_from_the_command_line_and_from_the_file(hub, download, tmp_path, use_hf):
    hub.add("models", "org/private", SMALL, private="secret")
    path_of(download("org/private", "--hub_token", "secret", "--local_dir", tmp_path / "one"))
    if use_hf:
        (tmp_path / "hf").mkdir(exist_ok=True)
        (tmp_path / "hf/token").write_text("secret\n")
        path_of(download("org/private"))


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"])
def test_redirects_lead_to_http_alone(small, hub, download, target, figure):
    hub.misbehave("model.safetensors", ("redirect", target))
    refused(download("org/small"), 1, "not an http or https address")
    figure("redirects to file, ftp and gopher refused")


def test_redirects_have_an_end(small, hub, download):
    hub.misbehave("model.safetensors", *[("redirect", f"{hub.url}/org/small/resolve/{small.commit}/model.safetensors")] * 20)
    refused(download("org/small"), 1, "redirects without end")


def test_unknown_private_gated_and_revisions(small, hub, download, use_hf):
    refused(download("org/none"), 2, "org/none", "no such model", "--use_hf")
    hub.add("models", "org/private", SMALL, private="secret")
    variable = "HF_TOKEN" if use_hf else "MODELSCOPE_API_TOKEN"
    refused(download("org/private"), 2, "keeps it private", variable)
    refused(download("org/private", "--hub_token", "wrong"), 2, "does not accept the token")
    hub.add("models", "org/gated", SMALL, gated="secret")
    refused(download("org/gated"), 2, "accepted its terms", variable, hub.url)
    refused(download("org/small", "--revision", "v9"), 2, 'no revision "v9"')
    refused(download("org/small", "--revision", "../x"), 2, "not a branch, tag or commit")
    refused(download("../small"), 2, "owner/name")


@pytest.mark.parametrize("name", ["../../evil.json", "/tmp/evil.json", "a/../../evil.json", ".git/hooks/post-checkout", "a\\..\\evil"])
def test_names_that_would_leave_the_folder(hub, download, tmp_path, name, figure):
    repo = hub.add("models", "org/evil", {"config.json": b"{}", "x": b"evil"})
    repo.listed_names["x"] = name
    refused(download("org/evil"), 1, "the hub lists a file named")
    assert not [f for f in tmp_path.rglob("*") if f.is_file() and f.read_bytes() == b"evil"]
    figure("5 names that leave the folder refused")


def test_missing_space_is_reported_before_the_first_byte(hub, download):
    repo = hub.add("models", "org/huge", {"config.json": b"{}", "model.safetensors": b"x" * 5000})
    repo.listed_sizes["model.safetensors"] = 1 << 49
    refused(download("org/huge"), 8, "512.0 TiB are needed", "free")
    assert not hub.bodies_sent("config.json")


def test_offline_and_unreachable(download, hub):
    refused(download("org/small", env={"HF_HUB_OFFLINE": "1"}), 2, "HF_HUB_OFFLINE")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        refused(download("org/small", env={"HF_ENDPOINT": address, "MODELSCOPE_ENDPOINT": address}), 1, "not in the caches", "cannot be reached", "pass a folder", "--use_hf")
