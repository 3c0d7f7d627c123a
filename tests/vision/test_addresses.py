"""Images that rows name by their addresses: fetched once, within limits, and from the internet alone unless told otherwise."""
import http.server
import io
import json
import os
import subprocess
import threading

import pytest
from PIL import Image

from vision_models import ROOT, write_vision_model

HONE = os.environ.get("HONE_BIN", str(ROOT / "build" / "bin" / "hone"))


@pytest.fixture(scope="module")
def site():
    """Pictures, a redirect, an answer without end and one that says no, on loopback; and what was asked for."""
    picture, asked = io.BytesIO(), []
    Image.new("RGB", (70, 60), (20, 200, 30)).save(picture, "PNG")

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path.startswith("/moved"):
                self.send_response(302)
                self.send_header("Location", "/green.png")
                self.end_headers()
            elif self.path.startswith("/gone"):
                self.send_error(404)
            else:
                body = picture.getvalue() if self.path.startswith("/green") else bytes(3 << 20) if self.path.startswith("/large") else b"<html>"
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()


def preview(tmp_path, model, paths, **variables):
    rows = [{"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": "green"}], "images": [path]} for path in paths]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy") and name not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    done = subprocess.run([HONE, "preview", "--model", model, "--dataset", tmp_path / "rows.jsonl", "--rows", "20"], capture_output=True, text=True,
                          env={**plain, "NO_COLOR": "1", "MODELSCOPE_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path / "cache"), **variables})
    return done.stdout + done.stderr


def test_addresses_in_rows(site, tmp_path):
    address, asked = site
    model = write_vision_model(tmp_path / "model", "qwen2_5_vl") if (tmp_path / "model").mkdir() is None else None
    settings = {"SWIFT_ALLOW_INTERNAL_URL": "1", "SWIFT_MAX_DOWNLOAD_SIZE_MB": "1"}
    good = [f"{address}/green.png", f"{address}/moved.png"]
    for _ in range(2):  # the second time out of the cache
        said = preview(tmp_path, model, good, **settings)
        assert all(f"image {path}: 70 x 60 pixels" in said for path in good), said
        assert asked == ["/green.png", "/moved.png", "/green.png"]
    for name, reason in (("gone.png", "answers 404"), ("large.png", "more than 1048576 bytes"), ("page.png", "markup")):
        said = preview(tmp_path, model, [f"{address}/{name}"], **settings)
        assert name in said and reason in said, (reason, said)
    before = len(asked)
    said = preview(tmp_path, model, [f"{address.replace('127.0.0.1', 'localhost')}/green-name.png"])
    assert "of this machine or its network" in said and len(asked) == before, said
