"""Damaged tokenizer files: an error that names file and cause, exit code 3, and never a crash."""
import copy
import json
import os
import pathlib
import subprocess

import pytest

HONE = os.environ.get("HONE_BIN", str(pathlib.Path(__file__).parents[2] / "build" / "bin" / "hone"))
GOOD = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}


def changed(path, value):
    tree = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    place = tree
    for key in parents:
        place = place[key]
    place[last] = value
    return json.dumps(tree).encode()


def nested(part, depth):
    tree = None
    for _ in range(depth):
        tree = {"type": "Sequence", part: [tree] if tree else []}
    return tree


CASES = {
    "empty": (b"", "not valid JSON"),
    "not_json": (b"{\"model\": ", "not valid JSON"),
    "invalid_utf8": (b"{\"model\": \"\xff\"}", "not valid JSON"),
    "a_list": (b"[]", "no JSON object"),
    "no_model": (b"{}", "'model' is missing"),
    "model_is_text": (changed("model", "BPE"), "not an object"),
    "unknown_model": (changed("model.type", "Magic"), "unknown type 'Magic'"),
    "vocab_is_list": (changed("model.vocab", ["a"]), "'vocab'"),
    "negative_id": (changed("model.vocab", {"a": -1}), "id -1"),
    "huge_id": (changed("model.vocab", {"a": 1 << 40}), "id 1099511627776"),
    "beyond_64_bits": (changed("model.vocab", {"a": 1 << 70}), ""),
    "text_id": (changed("model.vocab", {"a": "0"}), "not an integer"),
    "double_id": (changed("model.vocab", {"a": 0, "b": 0}), "both 'a' and 'b'"),
    "unknown_merge": (changed("model.merges", ["a c"]), "names 'c'"),
    "unknown_result": (changed("model.merges", ["b a"]), "makes 'ba'"),
    "merge_of_one": (changed("model.merges", ["ab"]), "merge 0"),
    "merge_of_three": (changed("model.merges", [["a", "b", "c"]]), "merge 0"),
    "merges_missing": (changed("model.merges", None), "'merges'"),
    "flag_is_number": (changed("model.byte_fallback", 1), "byte_fallback"),
    "unigram_unk": (changed("model", {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 5}), "unk_id"),
    "unigram_entry": (changed("model", {"type": "Unigram", "vocab": [["a"]]}), "entry 0"),
    "normalizer_unknown": (changed("normalizer", {"type": "Upper"}), "unknown type 'Upper'"),
    "normalizer_number": (changed("normalizer", 7), "normalizer"),
    "charsmap_short": (changed("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAA="}), "truncated"),
    "charsmap_cut": (changed("normalizer", {"type": "Precompiled", "precompiled_charsmap": "////fwAAAAA="}), "truncated"),
    "charsmap_not_base64": (changed("normalizer", {"type": "Precompiled", "precompiled_charsmap": "!!"}), "base64"),
    "bad_regex": (changed("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": False}), "regular expression '(a'"),
    "bad_behavior": (changed("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Odd", "invert": False}), "behavior 'Odd'"),
    "length_zero": (changed("pre_tokenizer", {"type": "FixedLength", "length": 0}), "length"),
    "two_characters": (changed("pre_tokenizer", {"type": "CharDelimiterSplit", "delimiter": "ab"}), "single character"),
    "decoder_unknown": (changed("decoder", {"type": "Odd"}), "unknown type 'Odd'"),
    "template_unknown": (changed("post_processor", {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}], "special_tokens": {}}), "'x'"),
    "added_negative": (changed("added_tokens", [{"id": -3, "content": "x"}]), "id"),
    "added_without_content": (changed("added_tokens", [{"id": 3}]), "content"),
    "deep_parts": (changed("pre_tokenizer", nested("pretokenizers", 200)), "nested"),
    "deep_json": (b"[" * 100000, "not valid JSON"),
}


def tokenize(folder, text=b"ab"):
    return subprocess.run([HONE, "tokenize", "--model", str(folder)], input=text, capture_output=True, timeout=60)


@pytest.mark.parametrize("name", CASES)
def test_damaged_tokenizer_json(name, tmp_path, figure):
    content, cause = CASES[name]
    (tmp_path / "tokenizer.json").write_bytes(content)
    done = tokenize(tmp_path)
    message = done.stderr.decode()
    assert done.returncode == 3, (done.returncode, message)
    assert "tokenizer.json" in message and cause in message
    figure(f"{len(CASES)} damaged tokenizers")


def test_good_one_works(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps(GOOD))
    assert tokenize(tmp_path).stdout.decode().strip() == "2"


def test_catastrophic_regex_stops(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(changed("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}))
    done = tokenize(tmp_path, b"a" * 40 + b"b")
    assert done.returncode == 3 and "regular expression" in done.stderr.decode()


def test_damaged_sentencepiece(tmp_path):
    from .vocabularies import sentencepiece_file
    good = sentencepiece_file().read_bytes()
    for content in (b"", b"\xff" * 100, good[:1000], good[:-7], b"IQ== 0\nIg== 1\n"):
        (tmp_path / "tokenizer.model").write_bytes(content)
        done = tokenize(tmp_path)
        assert done.returncode == 3 and "tokenizer.model" in done.stderr.decode(), (content[:20], done.stderr)


def test_folder_without_vocabulary(tmp_path):
    done = tokenize(tmp_path)
    assert done.returncode == 3 and "has no tokenizer.json" in done.stderr.decode()
