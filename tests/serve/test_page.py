"""The chat page in a real browser: headless Chromium against the real server. Screenshots go to output/screenshots when HONE_SCREENSHOTS is set."""
import json
import os
import shutil

import pytest
from playwright.sync_api import expect

from serve_testing import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

SHOWCASE = """## Sorting

Two **good** ways, with `list.sort` in *place*:

1. Sort in place
2. Sort a copy
   - keeps the old list

```python
def sort(values):
    return sorted(values)  # <b>not bold</b>
```

| name | cost |
|---|---|
| merge | n log n |

> Measure first. See https://example.org/sort.

<img src=x onerror="window.pwned = true"> <script>window.pwned = true</script> [bad](javascript:alert(1))"""


@pytest.fixture(scope="module")
def browser():
    import playwright.sync_api as playwright

    assert CHROMIUM, "Chromium is not installed; make setup-tests"
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, server):
    contexts = []

    def open_page(url=server.url, **settings):
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda line: line.type == "error" and page.problems.append(line.text))
        page.goto(url)
        page.wait_for_selector("#model option", state="attached")
        return page

    yield open_page
    for context in contexts:
        context.close()


def screenshot(page, name):
    if folder := os.environ.get("HONE_SCREENSHOTS"):
        os.makedirs(folder, exist_ok=True)
        page.screenshot(path=os.path.join(folder, name + ".png"))


def say(page, text):
    page.fill("#composer", text)
    page.press("#composer", "Enter")


def wait_done(page):
    page.wait_for_selector("#stop", state="hidden")


def show(page, text, question="How do I sort a list?"):
    """Puts a conversation with a given answer on screen, as if a model had written it."""
    conversation = [{"id": "1", "title": question, "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": text, "thought": "The user wants to sort.", "note": "98 tokens, 41/s"}]}]
    page.evaluate("c => localStorage.setItem('hone.conversations', c)", json.dumps(conversation))
    page.reload()
    page.click("#history .open")


def test_an_answer_streams_in_and_stays(open_page, server):
    page = open_page()
    say(page, "Who are you?")
    wait_done(page)
    content = server.chat(max_tokens=512)["choices"][0]["message"]["content"]
    assert page.inner_text(".turn.assistant .text").strip() == content.strip()
    assert "tokens" in page.inner_text(".turn.assistant .count")
    page.reload()
    page.click("#history .open")
    assert page.inner_text(".turn.assistant .text").strip() == content.strip()
    assert not page.problems


def test_stop_regenerate_edit(open_page, serve, endless):
    server = serve("--verbose", "false", model=endless)
    page = open_page(server.url)
    without_end = lambda route: route.continue_(post_data=json.dumps({**route.request.post_data_json, "ignore_eos": True}))
    page.route("**/v1/chat/completions", without_end)
    say(page, "Tell me a story.")
    page.wait_for_selector(".turn.assistant .text > *:not(.waiting)")
    page.keyboard.press("Escape")
    wait_done(page)
    assert page.inner_text(".turn.assistant .count") == "stopped"
    assert server.wait_for(lambda: server.metric("hone_requests_live") == 0), "a stopped answer is not computed further"
    page.unroute("**/v1/chat/completions", without_end)
    page.click("#toggle-settings")
    page.fill("#max_tokens", "30")
    page.click("text=Regenerate")
    wait_done(page)
    assert page.locator(".turn").count() == 2 and "tokens" in page.inner_text(".turn.assistant .count")
    page.press("#composer", "ArrowUp")
    page.fill(".turn textarea", "Who are you?")
    page.press(".turn textarea", "Enter")
    wait_done(page)
    assert page.inner_text(".turn.user .body") == "Who are you?" and page.locator(".turn").count() == 2
    assert page.inner_text("#history .open") == "Who are you?", "the title follows the first message"
    assert not page.problems


def test_what_a_model_writes_is_shown_and_never_run(open_page):
    page = open_page()
    show(page, SHOWCASE)
    text = page.locator(".turn.assistant .text")
    assert text.locator("h2").inner_text() == "Sorting" and text.locator("strong").inner_text() == "good"
    assert text.locator("ol > li").count() == 2 and text.locator("ol ul li").count() == 1
    assert "# <b>not bold</b>" in text.locator("pre code").inner_text()
    assert text.locator("td").count() == 2 and text.locator("blockquote a").get_attribute("href") == "https://example.org/sort"
    assert text.locator("img, script, b").count() == 0 and text.locator("a").count() == 1
    assert page.evaluate("window.pwned") is None
    assert '<img src=x onerror="window.pwned = true">' in text.inner_text()


MARKS = r"""***both*** _slanted_ **bold *and slanted*** snake_case_name \*plain\* 2 * 3 &lt;b&gt; &amp; &eacute; **never closed

First line\
second  
third

![a picture](https://example.org/x.png) ![](https://example.org/y.png) [words](https://example.org/a_(b)) <https://example.org/z>

| left | mid | right |
|:--|:-:|--:|
| `a|b` | x \| y | **3** |
| short |

|one|
|-|
|cell|

1. First

   ```sh
   make  test
   ```
2. Second
   - inner
     still inner
3. Third

The year was
1984. It passed.

# C#"""


def test_marks_of_all_kinds(open_page):
    page = open_page(viewport={"width": 1200, "height": 1000})
    loaded = []
    page.on("request", lambda request: "example.org" in request.url and loaded.append(request.url))
    show(page, MARKS)
    screenshot(page, "marks")
    text = page.locator(".turn.assistant .text")
    html = text.locator("p").nth(0).inner_html()
    assert html == ('<em><strong>both</strong></em> <em>slanted</em> <strong>bold <em>and slanted</em></strong> snake_case_name *plain* 2 * 3 &lt;b&gt; &amp; é **never closed')
    assert text.locator("p").nth(1).inner_html() == "First line<br>second<br>third"
    links = [(a.inner_text(), a.get_attribute("href")) for a in text.locator("a").all()]
    assert links == [("a picture", "https://example.org/x.png"), ("https://example.org/y.png",) * 2, ("words", "https://example.org/a_(b)"), ("https://example.org/z",) * 2]
    assert text.locator("img").count() == 0 and not loaded, "nothing is loaded from where a model points"
    wide = text.locator("table").nth(0)
    assert wide.locator("tbody tr").nth(0).locator("td").all_inner_texts() == ["a|b", "x | y", "3"] and wide.locator("td code").inner_text() == "a|b"
    assert wide.locator("tbody tr").nth(1).locator("td").count() == 3
    assert [cell.evaluate("c => getComputedStyle(c).textAlign") for cell in wide.locator("th").all()] == ["left", "center", "right"]
    assert text.locator("table").nth(1).locator("td").inner_text() == "cell"
    steps = text.locator("ol")
    assert steps.count() == 1 and steps.locator("> li").count() == 3 and steps.locator("> li").nth(0).locator("pre").inner_text() == "make  test"
    assert steps.locator("ul li").inner_text() == "inner still inner"
    assert text.locator("p").last.inner_text() == "The year was 1984. It passed." and text.locator("h1").inner_text() == "C#"
    page.click("#toggle-theme")
    screenshot(page, "marks-dark")
    page.set_viewport_size({"width": 390, "height": 1000})
    page.wait_for_selector("#sidebar", state="hidden")
    screenshot(page, "marks-phone")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") and not page.problems


def kept(page):
    return page.evaluate("JSON.parse(localStorage.getItem('hone.conversations') ?? '[]')")


def test_maths_are_set_and_prices_are_not(open_page):
    page = open_page()
    show(page, r"Cost $O(n \log n)$, sum $$\sum_{i=1}^{n} i = \frac{n(n+1)}{2}$$ and \(x_1^2 \le \sqrt{y}\), \[\int_0^\infty e^{-x}\,dx\] for $5 or $6; $\begin{x} a_i * b_i * c$ `$x$`")
    text = page.locator(".turn.assistant .text")
    assert text.locator("math").count() == 4 and text.locator("math[display=block]").count() == 2
    assert text.locator("munderover").count() == 1 and text.locator("mfrac").count() == 1 and text.locator("msubsup").count() == 2
    assert [code.inner_text() for code in text.locator("code").all()] == [r"$\begin{x} a_i * b_i * c$", "$x$"], "what is not known stays as it was written"
    assert "for $5 or $6;" in text.inner_text() and not page.problems


def test_a_reload_keeps_what_was_written_so_far(open_page, serve, endless):
    page = open_page(serve("--verbose", "false", model=endless).url)
    page.route("**/v1/chat/completions", lambda route: route.continue_(post_data=json.dumps({**route.request.post_data_json, "ignore_eos": True})))
    say(page, "Tell me a story.")
    page.wait_for_selector(".turn.assistant .text > *:not(.waiting)")
    assert kept(page)[0]["messages"][0]["content"] == "Tell me a story.", "a question is kept once it is sent"
    page.reload()
    page.click("#history .open")
    assert page.inner_text(".turn.user .body") == "Tell me a story." and page.inner_text(".turn.assistant .text").strip()


def test_two_tabs_keep_both(open_page):
    one = open_page()
    two = one.context.new_page()
    two.goto(one.url)
    two.wait_for_selector("#model option", state="attached")
    for page, text in ((one, "First tab."), (two, "Second tab."), (one, "First again.")):
        say(page, text)
        wait_done(page)
    assert {c["title"]: len(c["messages"]) for c in kept(one)} == {"First tab.": 4, "Second tab.": 2}
    for page in (one, two):
        expect(page.locator("#history .entry")).to_have_count(2)
    two.click("text=First tab.")
    assert two.locator(".turn").count() == 4
    say(one, "And more.")
    wait_done(one)
    expect(two.locator(".turn")).to_have_count(6)
    one.hover("#history .entry:has-text('Second tab.')")
    one.click("#history .entry:has-text('Second tab.') .remove")
    expect(two.locator("#history .entry")).to_have_count(1)


@pytest.mark.parametrize("events, selector, words", [
    ('data: {"choices":[{"delta":{"content":"Half an"}}]}\n\n', ".problem", "ended early"),
    ('data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n', ".nothing", "The response is empty."),
    (': wait\r\n\r\ndata: {"choices":[{"delta":{"content":"Whole."},"finish_reason":"stop"}]}\r\n\r\n', ".text p", "Whole.")])
def test_how_an_answer_ended_is_shown(open_page, events, selector, words):
    page = open_page()
    page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=events))
    say(page, "Who are you?")
    wait_done(page)
    assert words in page.inner_text(".turn.assistant " + selector)
    assert ("Half an" in events) == ("Half an" in page.inner_text(".turn.assistant .text")) and not page.problems
    assert page.locator(".problem").count() == (selector == ".problem")


@pytest.mark.parametrize("content", ['[{"x":1}]', '{"a": 2}', "5", "nonsense", '[null, {"id": "1", "messages": [{"role": "user"}]}, {"id": "2", "messages": {}}]',
                                     '[{"id": "3", "title": 7, "messages": [{"role": "user", "content": "kept"}, {"role": "assistant", "content": "too", "thought": {}}]}]'])
def test_foreign_content_of_the_store_is_left_aside(open_page, content):
    page = open_page()
    page.evaluate("c => (localStorage.setItem('hone.conversations', c), localStorage.setItem('hone.settings', c))", content)
    page.reload()
    page.wait_for_selector("#model option", state="attached")
    assert page.locator("#history .entry").count() == ("kept" in content)
    say(page, "Who are you?")
    wait_done(page)
    assert page.locator(".turn").count() == 2 and kept(page)[0]["title"] == "Who are you?" and not page.problems


def test_a_full_store_costs_as_few_of_the_oldest_as_it_takes(open_page):
    page = open_page()
    page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body='data: {"choices":[{"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\n'))
    old = [{"id": str(i), "title": f"Old {i}", "messages": [{"role": "user", "content": "x" * 1_000_000}]} for i in range(4)]
    page.evaluate("([c, rest]) => (localStorage.setItem('hone.conversations', c), localStorage.setItem('rest', 'x'.repeat(rest)))", [json.dumps(old), 5 * 1024 * 1024 - 4_000_000 - 2_000])
    page.reload()
    page.wait_for_selector("#model option", state="attached")
    say(page, "word " * 2000)
    wait_done(page)
    assert [c["title"][:5] for c in kept(page)] == ["word ", "Old 0", "Old 1", "Old 2"] and page.locator("#history .entry").count() == 4
    assert "Old 3" in page.inner_text("#notice") and "Old 2" not in page.inner_text("#notice")
    page.click("#notice button")
    assert page.locator("#notice").is_hidden()
    page.evaluate("c => localStorage.setItem('hone.conversations', c)", "[]")
    page.evaluate("for (let n = 1 << 22; n >= 1; n >>= 1) try { for (;;) localStorage.setItem('rest', localStorage.getItem('rest') + 'x'.repeat(n)); } catch {}")
    say(page, "No room.")
    page.wait_for_selector("#notice:not([hidden])")
    assert "not saved" in page.inner_text("#notice") and not page.problems


def test_settings_reach_the_request(open_page):
    page = open_page()
    page.click("#toggle-settings")
    page.fill("#system", "Be brief.")
    page.fill("#max_tokens", "3")
    page.fill("#seed", "5")
    with page.expect_request("**/v1/chat/completions") as sent:
        say(page, "Who are you?")
    body = sent.value.post_data_json
    assert body["messages"][0] == {"role": "system", "content": "Be brief."} and (body["max_tokens"], body["seed"], body["model"]) == (3, 5, "nano")
    wait_done(page)
    assert "max tokens" in page.inner_text(".turn.assistant .count")


def test_errors_are_shown(open_page):
    page = open_page()
    say(page, "word " * 3000)
    page.wait_for_selector(".problem")
    assert "context" in page.inner_text(".problem")


def test_light_dark_and_phone(open_page):
    page = open_page(viewport={"width": 1200, "height": 800})
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    screenshot(page, "empty")
    show(page, SHOWCASE)
    screenshot(page, "light")
    page.click("#toggle-settings")
    screenshot(page, "settings")
    page.click("#toggle-theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    screenshot(page, "dark")
    phone = open_page(viewport={"width": 390, "height": 780}, color_scheme="dark", has_touch=True, is_mobile=True)
    assert phone.evaluate("document.documentElement.dataset.theme") == "dark"
    phone.evaluate("c => localStorage.setItem('hone.conversations', c)", page.evaluate("localStorage.getItem('hone.conversations')"))
    phone.reload()
    phone.click("#toggle-sidebar")
    phone.wait_for_timeout(300)
    screenshot(phone, "phone-list")
    phone.click("#history .open")
    phone.wait_for_timeout(300)
    screenshot(phone, "phone")
    assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out sideways"


def test_everything_is_reached_by_keyboard(open_page):
    page = open_page()
    seen = set()
    for _ in range(24):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id"))
    assert {"new-chat", "model", "toggle-theme", "toggle-settings", "messages", "composer"} <= seen


def words_on(page):
    """Every text and label that a person sees or hears, a model's name and the names of keys left out."""
    return page.evaluate("""() => {
      const texts = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let node; (node = walker.nextNode());) if (!node.parentElement.closest("kbd, option, noscript, .brand")) texts.push(node.data.trim());
      for (const name of ["title", "aria-label", "placeholder"]) for (const node of document.querySelectorAll(`[${name}]`)) texts.push(node.getAttribute(name));
      for (const node of document.querySelectorAll("*")) if (node.ariaLabel) texts.push(node.ariaLabel);
      return [...new Set(texts)].filter(Boolean);
    }""")


def test_the_page_in_chinese(open_page, serve):
    page = open_page(serve("--verbose", "false", "--lang", "zh", "--studio_title", '"Mine" & <b>yours</b>').url, locale="en-US", viewport={"width": 1200, "height": 800})
    assert page.title() == '"Mine" & <b>yours</b>' == page.inner_text(".brand span") and page.evaluate("document.documentElement.lang") == "zh"
    screenshot(page, "chinese-empty")
    page.click("#toggle-settings")
    page.fill("#max_tokens", "3")
    say(page, "你好")
    wait_done(page)
    screenshot(page, "chinese")
    answer = page.inner_text(".turn.assistant .text").strip()
    left = [words for words in words_on(page) if words != answer and not any("\u4e00" <= c <= "\u9fff" for c in words) and any(c.isalpha() for c in words)]
    assert not left, f"not in Chinese: {left}"
    assert "已达最大词元数" in page.inner_text(".turn.assistant .count") and not page.problems


def test_the_page_follows_the_browser_unless_set(open_page, serve, server):
    assert open_page(locale="zh-CN").inner_text("#new-chat").strip() == "新对话"
    english = open_page(locale="de-DE")
    assert english.inner_text("#new-chat").strip() == "New conversation" and english.title() == "nano – hone"
    told = open_page(serve("--verbose", "false", "--lang", "en").url, locale="zh-CN")
    assert told.inner_text("#new-chat").strip() == "New conversation"


def test_the_page_of_another_server(open_page, serve, server):
    relay = serve("--base_url", server.url + "/v1", "--verbose", "false", verb="app", model=None)
    page = open_page(relay.url)
    assert page.title() == "nano – hone"
    say(page, "Who are you?")
    wait_done(page)
    content = server.chat(max_tokens=512)["choices"][0]["message"]["content"]
    assert page.inner_text(".turn.assistant .text").strip() == content.strip() and "tokens" in page.inner_text(".turn.assistant .count")
    assert not page.problems
