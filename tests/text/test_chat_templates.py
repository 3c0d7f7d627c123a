"""Chat templates rendered by hone equal transformers' own rendering, byte for byte; what one refuses the other refuses."""
import os
import pathlib
import warnings

import pytest

import conversations
import template_snippets
from jinja_peer import HoneRenderer, differences, render_with_transformers

SHARED = pathlib.Path(os.environ.get("HONE_SHARED", "../shared")) / "data" / "templates"
CASES = pathlib.Path(__file__).parent.parent / "cases" / "jinja"
HOSTILE = pathlib.Path(__file__).parent.parent / "hostile" / "template"
BINARY = os.environ.get("HONE_BIN", "build/bin/hone")
CONVERSATIONS = 60
SNIPPETS = 4000

warnings.simplefilter("ignore")


@pytest.fixture(scope="module")
def renderer():
    if not pathlib.Path(BINARY).exists():
        pytest.fail(f"{BINARY} is not built; make test builds it")
    renderer = HoneRenderer(BINARY)
    yield renderer
    renderer.close()


def assert_equal(renderer, template, requests):
    compared = 0
    for request in requests:
        theirs = render_with_transformers(template, request)
        found = differences(renderer.render(template, request), theirs)
        assert found is None, f"{request}\n{found}"
        compared += theirs[0] == "text"
    return compared


@pytest.mark.parametrize("path", sorted(SHARED.glob("*.jinja")) or [None], ids=lambda path: path.stem if path else "absent")
def test_published_templates(renderer, path):
    if path is None:
        pytest.skip(f"no templates in {SHARED}; set HONE_SHARED to the folder that holds data/templates")
    requests = [conversations.request(seed) for seed in range(CONVERSATIONS)]
    assert assert_equal(renderer, path.read_text(), requests) > 0


@pytest.mark.parametrize("path", sorted(CASES.glob("*.jinja")), ids=lambda path: path.stem)
def test_own_templates(renderer, path):
    requests = [{**conversations.request(seed), "vars": {**template_snippets.VARIABLES, "bos_token": "<s>"}} for seed in range(20)]
    assert assert_equal(renderer, path.read_text(), requests) == len(requests)


def shows_an_address(result):
    marks = (" object at 0x", "<built-in", "<function", "<class", "<method", "<bound")
    return result[0] == "text" and any(mark in result[1] for mark in marks)


def test_random_snippets(renderer):
    rendered, wrong = 0, []
    for seed in range(SNIPPETS):
        template = template_snippets.template(seed)
        request = {"vars": template_snippets.VARIABLES}
        theirs = render_with_transformers(template, request)
        if shows_an_address(theirs):
            continue
        found = differences(renderer.render(template, request), theirs)
        if found:
            wrong.append(f"seed {seed}: {template!r}\n{found}")
        rendered += theirs[0] == "text"
    assert rendered > SNIPPETS / 5
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:5])


def test_errors_name_the_line(renderer):
    for template, line, cause in [
        ("a\n{{ x.y.z }}", 2, "'x' is undefined"),
        ("{% if a %}\n\n{% endfor %}", 3, "endfor"),
        ("\n\n{{ raise_exception('no system role') }}", 3, "no system role"),
        ("{{ 1 + 'a' }}", 1, "unsupported operand"),
        ("x\n{{ 'a'|nosuch }}", 2, "No filter named 'nosuch'"),
        ("{% set l = [] %}\n{{ l.append(1) }}", 2, "unsafe"),
    ]:
        kind, message = renderer.render(template, {})[:2]
        assert kind == "error" and message.startswith(f"line {line}: ") and cause in message, message


@pytest.mark.parametrize("path", sorted(HOSTILE.glob("*.jinja")), ids=lambda path: path.stem)
def test_hostile_templates_are_refused(renderer, path):
    result = renderer.render(path.read_text(), {"messages": [{"role": "user", "content": "x"}]})
    assert result[0] == "error", result[1][:200]
    assert renderer.render("{{ 1 }}", {}) == ("text", "1", [])
