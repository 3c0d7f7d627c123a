"""The chat page with images and audio in a real browser: dropped, pasted and selected, sent, shown, and restored after a reload."""
import base64
import shutil
import sys

import pytest
from PIL import Image
from vision_models import ROOT

sys.path[:0] = [str(ROOT / "tests" / "serve"), str(ROOT / "tests" / "audio")]
import audio_files  # noqa: E402
from omni_models import write_omni_model  # noqa: E402
from serve_testing import Server  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# A file handed over as a browser does.
GIVE = """([kind, selector, data, type, name]) => {
  const transfer = new DataTransfer(), settings = { bubbles: true, cancelable: true };
  transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name, { type }));
  document.querySelector(selector).dispatchEvent(kind === "paste" ? new ClipboardEvent("paste", { clipboardData: transfer, ...settings }) : new DragEvent("drop", { dataTransfer: transfer, ...settings }));
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    import playwright.sync_api as playwright

    assert CHROMIUM, "Chromium is not installed; make setup-tests"
    server = Server("--torch_dtype", "float32", "--served_model_name", "omni", "--max_new_tokens", "6", model=write_omni_model(tmp_path_factory.mktemp("page"), "qwen2_5_omni"))
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda line: line.type == "error" and page.problems.append(line.text))
        page.goto(server.url)
        page.wait_for_selector("#model option", state="attached")
        yield page
        browser.close()
    server.stop()


def sent(page, act):
    with page.expect_request("**/v1/chat/completions") as asked:
        act()
    page.wait_for_selector(".turn.assistant:last-child .tools button")
    return [part["type"] for part in asked.value.post_data_json["messages"][0]["content"]]


def test_pictures_and_sound(page, tmp_path):
    Image.new("RGB", (120, 80), (220, 30, 30)).save(tmp_path / "red.png")
    encoded = base64.b64encode((tmp_path / "red.png").read_bytes()).decode()
    sound = audio_files.write(tmp_path / "tone.wav", audio_files.chirp(1.0, 16000), 16000)
    page.evaluate(GIVE, ["drop", "#messages", encoded, "image/png", "dropped.png"])
    page.wait_for_selector("#attached img[src]")
    page.evaluate(GIVE, ["paste", "#composer", encoded, "image/png", "pasted.png"])
    page.wait_for_selector("#attached .medium:nth-child(2) img[src]")
    page.set_input_files("#files", sound)
    page.wait_for_selector("#attached audio[src]")
    page.click("#attached .medium:nth-child(2) button")
    page.evaluate(GIVE, ["drop", "#messages", encoded, "application/zip", "archive.zip"])  # nothing that the model takes
    page.wait_for_selector("#notice:has-text('archive.zip was not added')")
    page.fill("#composer", "What is this?")
    assert sent(page, lambda: page.keyboard.press("Enter")) == ["image_url", "input_audio", "text"]
    assert page.locator(".turn .problem").count() == 0 and page.locator("#attached").is_hidden()
    page.wait_for_function("() => { const list = document.getElementById('messages'); return list.scrollHeight - list.scrollTop - list.clientHeight < 2; }")  # pictures have their height by now
    page.reload()
    page.click(".entry .open")
    page.wait_for_selector(".turn.user img[src]")
    assert page.locator(".turn.user img").evaluate("(node) => node.naturalWidth") == 120
    page.hover(".turn.user")
    page.click(".turn.user .tools button:nth-child(2)")
    page.fill(".turn textarea", "And now?")
    assert sent(page, lambda: page.click(".choices .main")) == ["image_url", "input_audio", "text"]
    assert page.problems == []


def test_what_is_deleted_leaves_the_browser(page):
    count = "() => new Promise((done) => { const open = indexedDB.open('hone', 1); open.onsuccess = () => { const all = open.result.transaction('media').objectStore('media').count(); all.onsuccess = () => done(all.result); }; })"
    assert page.evaluate(count) >= 2
    page.on("dialog", lambda dialog: dialog.accept())
    page.click("#clear-all")
    page.wait_for_selector(".empty")
    page.wait_for_function(f"() => ({count})().then((left) => left <= 1)")  # a picture that was taken out before it was sent
