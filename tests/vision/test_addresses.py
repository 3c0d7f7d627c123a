"""Images given by URL in rows and requests: fetched within limits, only from the internet unless allowed; for requests only from listed hosts."""
import io
import os
import subprocess
import sys

import openai
import pytest
from local_server import Handler, serving
from PIL import Image

from media_runs import HONE, write_rows
from vision_models import ROOT

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from serve_testing import Server  # noqa: E402


@pytest.fixture(scope="module")
def site():
    """Pictures, a redirect, an answer without end and one that says no, on loopback; and what was asked for."""
    picture, asked = io.BytesIO(), []
    Image.new("RGB", (70, 60), (20, 200, 30)).save(picture, "PNG")

    class Site(Handler):
        def do_GET(self):
            asked.append(self.path)
            if self.path.startswith("/moved"):
                self.reply(302, headers={"Location": "/green.png"})
            elif self.path.startswith("/away"):
                self.reply(302, headers={"Location": f"http://localhost:{self.server.server_port}/green.png"})
            elif self.path.startswith("/gone"):
                self.reply(404)
            else:
                self.reply(200, picture.getvalue() if self.path.startswith("/green") else bytes(3 << 20) if self.path.startswith("/large") else b"<html>")

    with serving(Site) as address:
        yield address, asked


def preview(tmp_path, model, paths, **variables):
    rows = [{"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": "green"}], "images": [path]} for path in paths]
    write_rows(tmp_path / "rows.jsonl", rows)
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and name not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    done = subprocess.run([HONE, "preview", "--model", model, "--dataset", tmp_path / "rows.jsonl", "--rows", "20"], capture_output=True, text=True,
                          env={**plain, "NO_COLOR": "1", "MODELSCOPE_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "cache"), **variables})
    return done.stdout + done.stderr


def test_addresses_in_rows(site, folders, tmp_path):
    address, asked = site
    model = folders("qwen2_5_vl")
    settings = {"SWIFT_ALLOW_INTERNAL_URL": "1", "SWIFT_MAX_DOWNLOAD_SIZE_MB": "1"}
    good = [f"{address}/green.png", f"{address}/moved.png"]
    for _ in range(2):  # the second time out of the cache
        output = preview(tmp_path, model, good, **settings)
        assert all(f"image {path}: 70 x 60 pixels" in output for path in good), output
        assert asked == ["/green.png", "/moved.png", "/green.png"]
    for name, reason in (("gone.png", "answers 404"), ("large.png", "more than 1048576 bytes"), ("page.png", "markup")):
        output = preview(tmp_path, model, [f"{address}/{name}"], **settings)
        assert name in output and reason in output, (reason, output)
    before = len(asked)
    output = preview(tmp_path, model, [f"{address.replace('127.0.0.1', 'localhost')}/green-name.png"])
    assert "of this machine or its network" in output and len(asked) == before, output


def asks(model, addresses, **variables):
    """What a server with these variables says of an image behind each address."""
    server = Server("--torch_dtype", "float32", "--served_model_name", "eyes", model=model, env={"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", **variables})
    replies = []
    try:
        client = openai.OpenAI(base_url=server.url + "/v1", api_key="none")
        for one in addresses:
            parts = [{"type": "image_url", "image_url": {"url": one}}, {"type": "text", "text": "Colour?"}]
            try:
                replies.append(client.chat.completions.create(model="eyes", max_tokens=4, messages=[{"role": "user", "content": parts}]).usage.prompt_tokens)
            except openai.BadRequestError as refused:
                replies.append(refused.message)
    finally:
        server.stop()
    return replies


def test_addresses_in_requests(site, folders):
    """Hosts that are not listed are not asked, nor those that a listed one leads to; nor addresses of this machine, unless the server is told so."""
    address, asked = site
    other = address.replace("127.0.0.1", "localhost")
    before = len(asked)
    fetched, moved, away, foreign, large = asks(folders("qwen2_5_vl"), [f"{address}/green.png", f"{address}/moved.png", f"{address}/away.png", f"{other}/green.png", f"{address}/large.png"],
                                                SWIFT_URL_ALLOWED_HOSTS="example.org, 127.0.0.1", SWIFT_ALLOW_INTERNAL_URL="1", SWIFT_MAX_DOWNLOAD_SIZE_MB="1")
    assert isinstance(fetched, int) and fetched == moved and asked[before:] == ["/green.png", "/moved.png", "/green.png", "/away.png", "/large.png"]
    for refused in (away, foreign, large):
        assert "was not fetched" in refused and "127.0.0.1" not in refused
    before = len(asked)
    inside, = asks(folders("qwen2_5_vl"), [f"{address}/green.png"], SWIFT_URL_ALLOWED_HOSTS="*")
    assert "was not fetched" in inside and len(asked) == before
