"""Media of requests: every form that clients write, downloads that no other request waits for, and what is refused."""
import base64
import concurrent.futures
import io
import json
import socket
import struct
import sys
import threading
import zlib

import openai
import pytest
import transformers
from local_server import Handler, serving
from PIL import Image

from vision_models import ROOT

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from serve_testing import Server  # noqa: E402


def picture(colour, kind="PNG", size=(70, 60)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, kind)
    return file.getvalue()


RED, BLUE = picture((220, 30, 30)), picture((30, 60, 220))
QUESTION = {"type": "text", "text": "Colour?"}


def base64_of(content):
    return base64.b64encode(content).decode()


def uri(content, kind="image/png"):
    return f"data:{kind};base64,{base64_of(content)}"


def url_part(url):
    return {"type": "image_url", "image_url": {"url": url}}


class Site:
    """Images on loopback: /held ones wait for `release`, /busy ones are refused at first, of /left ones it is noticed when the client goes away."""

    def __init__(self):
        self.asked, self.release, self.left, self.arrived = [], threading.Event(), threading.Event(), threading.Semaphore(0)
        site = self

        class Pages(Handler):
            def do_GET(self):
                site.asked.append(self.path)
                site.arrived.release()
                if self.path.startswith("/held"):
                    site.release.wait(60)
                if self.path.startswith("/left"):
                    self.connection.settimeout(30)
                    if self.connection.recv(1) == b"":
                        site.left.set()
                    return
                refuses = self.path.startswith("/busy") and site.asked.count(self.path) == 1
                self.reply(503) if refuses else self.reply(200, RED)

        self.pages = Pages


@pytest.fixture
def site():
    site = Site()
    with serving(site.pages) as site.address:
        yield site
        site.release.set()


@pytest.fixture
def start(folders):
    """start(**variables): a server of a tiny model, and OpenAI's client for it."""
    servers = []

    def started(*words, **variables):
        env = {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "SWIFT_URL_ALLOWED_HOSTS": "127.0.0.1", "SWIFT_ALLOW_INTERNAL_URL": "1", **variables}
        servers.append(Server("--torch_dtype", "float32", "--served_model_name", "eyes", *words, model=folders("qwen2_5_vl"), env=env))
        return servers[-1], openai.OpenAI(base_url=servers[-1].url + "/v1", api_key="none", max_retries=0, timeout=60)

    yield started
    for server in servers:
        server.stop()


def ask(client, *parts, role="user"):
    messages = [{"role": role, "content": [*parts, QUESTION]}]
    done = client.chat.completions.create(model="eyes", temperature=0, max_tokens=8, messages=messages if role == "user" else [*messages, {"role": "user", "content": "and?"}])
    return done.choices[0].message.content, done.usage.prompt_tokens


def logprobs(client, messages):
    done = client.chat.completions.create(model="eyes", temperature=0, max_tokens=8, logprobs=True, messages=messages)
    return [one.logprob for one in done.choices[0].logprobs.content]


def test_text_does_not_wait_for_downloads(site, start):
    """Nor do images that are in their request."""
    server, client = start(SWIFT_TIMEOUT="60")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        held = [pool.submit(ask, client, url_part(f"{site.address}/held{i}.png")) for i in range(6)]
        assert all(site.arrived.acquire(timeout=30) for _ in held)  # all at the same time
        assert ask(client)[1] < ask(client, url_part(uri(RED)))[1]
        assert not any(one.done() for one in held)
        site.release.set()
        assert {one.result() for one in held} == {ask(client, url_part(uri(RED)))}


def test_an_address_has_its_time_once(site, start):
    """A refusal is tried again, within the same time; a time-out is not. An address that a request names twice is asked once, frames of a video too."""
    server, client = start(SWIFT_TIMEOUT="1")
    assert ask(client, url_part(f"{site.address}/busy.png"))[1] > 10 and site.asked == ["/busy.png"] * 2
    one, video = f"{site.address}/one.png", lambda *frames: {"type": "video", "video": list(frames)}
    del site.asked[:]
    assert ask(client, url_part(one), url_part(one), video(one, one)) == ask(client, url_part(uri(RED)), url_part(uri(RED)), video(uri(RED), uri(RED)))
    assert site.asked == ["/one.png"]
    del site.asked[:]
    with pytest.raises(openai.BadRequestError, match="did not respond in time"):
        ask(client, url_part(f"{site.address}/held.png"))
    assert site.asked == ["/held.png"] and "timed out" in server.log()


def test_a_client_that_leaves_ends_its_downloads(site, start):
    server, client = start(SWIFT_TIMEOUT="60")
    content = [url_part(f"{site.address}/left.png"), url_part(f"{site.address}/never.png")]
    body = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    connection = socket.create_connection(server.address)
    connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    assert site.arrived.acquire(timeout=30)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset: nobody listens any more
    connection.close()
    assert site.left.wait(20)
    assert ask(client)[0] and site.asked == ["/left.png"]


def test_forms_of_parts(start):
    """Those of OpenAI, of ms-swift and of transformers; what the bytes are decides, not what they are called."""
    _, client = start()
    red, blue = (ask(client, url_part(uri(content))) for content in (RED, BLUE))
    assert red[0] != blue[0]
    for part in ({"type": "image", "image": base64_of(RED)}, {"type": "image", "image": uri(RED)}, {"type": "image", "url": uri(RED)}, {"type": "image", "base64": base64_of(RED)},
                 {"type": "image", "image": None, "base64": base64_of(RED)}, url_part(uri(RED, "application/octet-stream")), url_part(uri(RED, "video/mp4")), {"type": "input_image", "image_url": uri(RED)},
                 {"type": "image", "source": {"type": "base64", "media_type": "application/octet-stream", "data": base64_of(RED)}}):
        assert ask(client, part) == red, part
    frames = {"type": "video", "video": [uri(RED), uri(BLUE)]}
    assert ask(client, {"type": "video", "video": [base64_of(RED), base64_of(BLUE)]}) == ask(client, frames)
    for part, reason in (({"type": "image", "path": "/etc/passwd"}, r"content\[0\]\.path: this server opens no files; expected image, url or base64"),
                         ({"type": "image", "image": "/etc/passwd"}, r"content\[0\]\.image: .*opens no files"), ({"type": "image", "url": "file:///etc/passwd"}, r"content\[0\]\.url: expected data:image"),
                         ({"type": "image"}, "expected image, url or base64"), ({"type": "image", "base64": 5}, r"\.base64: expected a text"),
                         ({"type": "input_file", "file_id": "1"}, r'found "input_file"; expected text \(input_text\), image_url')):
        with pytest.raises(openai.BadRequestError, match=reason):
            ask(client, part)


def test_images_of_system_messages(start, folders):
    """Their tokens are where transformers' template puts the message; the answer depends on them, in both of OpenAI's interfaces."""
    server, client = start()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders("qwen2_5_vl"))
    messages = lambda content: [{"role": "system", "content": content}, {"role": "user", "content": "and?"}]
    status, _, body = server.post("/tokenize", {"messages": messages([url_part(uri(RED)), QUESTION])})
    assert status == 200, body
    pads = json.loads(body)["tokens"].count(tokenizer.convert_tokens_to_ids("<|image_pad|>"))
    text = tokenizer.apply_chat_template(messages("<|vision_start|>" + "<|image_pad|>" * pads + "<|vision_end|>Colour?"), tokenize=False, add_generation_prompt=True)
    assert pads > 0 and json.loads(body)["tokens"] == tokenizer(text).input_ids
    assert ask(client, url_part(uri(RED)), role="system") == ask(client, {"type": "image", "image": base64_of(RED)}, role="developer")
    assert logprobs(client, messages([url_part(uri(RED)), QUESTION])) != logprobs(client, messages([url_part(uri(BLUE)), QUESTION]))
    shown = {"role": "system", "content": [{"type": "input_image", "image_url": uri(RED)}, {"type": "input_text", "text": "Colour?"}]}
    response = client.responses.create(model="eyes", temperature=0, max_output_tokens=8, input=[shown, {"role": "user", "content": "and?"}])
    assert (response.output_text, response.usage.input_tokens) == ask(client, url_part(uri(RED)), role="system")


def test_responses_show_images_of_tools_and_name_what_they_refuse(start):
    _, client = start()
    called = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
    result = lambda content: {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_image", "image_url": uri(content)}]}
    create = lambda *items: client.responses.create(model="eyes", temperature=0, max_output_tokens=8, top_logprobs=1, input=[{"role": "user", "content": "look"}, *items])
    seen = lambda content: [one.logprob for one in create(called, result(content)).output[0].content[0].logprobs]
    assert seen(RED) != seen(BLUE)
    for part, reason in (({"type": "input_file", "file_data": "x"}, r'input\[1\]\.content\[0\]\.type: found "input_file"; expected text \(input_text\), image_url \(input_image, image\)'),
                         ({"type": "input_image", "file_id": "1"}, r"input\[1\]\.content\[0\]\.file_id: nothing is stored here to refer to; expected image_url with a data: URI"),
                         ({"type": "input_image"}, r"input\[1\]\.content\[0\]\.image_url: found null; expected data:image/…;base64,… or an http address")):
        with pytest.raises(openai.BadRequestError, match=reason):
            create({"role": "user", "content": [part]})


def large_png(side):
    """A valid file of some KB with side x side pixels."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(bytes((side // 8 + 1) * side))) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form", ["part", "list"])
def test_hostile_images(start, form):
    """Each is refused with its reason, and the server goes on."""
    server, client = start()

    def refusal(images):
        content = [url_part(one) for one in images] if form == "part" else "Colour?"
        body = {"messages": [{"role": "user", "content": content}], "max_tokens": 4, **({} if form == "part" else {"images": images})}
        status, _, text = server.post("/v1/chat/completions", body)
        return status, json.loads(text)["error"]["message"]

    jpeg = picture((9, 9, 9), "JPEG", (300, 200))
    for content, reason in ((b"", "0 bytes"), (RED[:-20], "truncated"), (jpeg[:300], "truncated"), (b"%PDF-1.7 " + bytes(100), "a PDF file; expected PNG"), (b"<svg/>" * 20, "markup"),
                            (large_png(20000), "400000000|a decompression bomb"), (bytes(4000), "unknown format"), (struct.pack(">I", 24) + b"ftypheic" + bytes(100), "HEIC")):
        status, message = refusal([uri(content)])
        assert status == 400 and any(one in message for one in reason.split("|")), (status, message)
    damaged = RED[:60] + bytes(len(RED) - 80) + RED[-20:]
    assert refusal([uri(damaged)])[0] == 400
    assert refusal([uri(RED)] * 10_000) == (400, {"part": "messages[0].content: more than 1024 parts", "list": "images: found a list of 10000 items; expected a list of 0 to 64 items"}[form])
    status, message = refusal([uri(RED)] * 65)
    assert status == 400 and "64" in message
    assert refusal(["data:image/png;base64,!!!"])[0] == refusal(["data:image/png,abc"])[0] == 400
    assert refusal(["data:image/png;base64," + "A" * (33 << 20)]) == (413, "the request's body is larger than 32000000 bytes")
    status, message = refusal(["data:image/png;base64," + "A" * (30 << 20)])
    assert status == 400 and "unknown format" in message
    assert ask(client, url_part(uri(RED)))[0]
