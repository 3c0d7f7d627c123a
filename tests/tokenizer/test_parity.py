"""Token ids and decoded text compared with the `tokenizers` package."""
import json
import os
import pathlib
import random
import subprocess

import pytest
from tokenizers import Tokenizer

from . import texts, vocabularies
from .vocabularies import FAMILIES, SEPARATOR, save

HONE = os.environ.get("HONE_BIN", str(pathlib.Path(__file__).parents[2] / "build" / "bin" / "hone"))
STRINGS = 20_000


def run(folder, data, *options):
    done = subprocess.run([HONE, "tokenize", "--model", str(folder), *options], input=data, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def encode_whole(folder, text):
    return [int(word) for word in run(folder, text.encode()).split()]


def encode_lines(folder, lines, *options):
    out = run(folder, "".join(line + "\n" for line in lines).encode(), "--lines", "true", "--format", "jsonl", *options)
    return [json.loads(line) for line in out.splitlines()]


def decode_lines(folder, ids, *options):
    data = "".join(json.dumps(row) + "\n" for row in ids).encode()
    return [json.loads(line) for line in run(folder, data, "--decode", "true", "--format", "jsonl", *options).split("\n") if line]


def first_difference(strings, expected, actual, separator):
    """The first string whose ids differ, for a message that helps."""
    def pieces(ids):
        out = [[]]
        for token in ids:
            out.append([]) if token == separator else out[-1].append(token)
        return out
    for text, want, got in zip(strings, pieces(expected), pieces(actual)):
        if want != got:
            return f"{text!r}\n  tokenizers {want}\n  hone       {got}"
    return "the numbers of pieces differ"


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    tokenizer = FAMILIES[request.param]()
    folder = save(tokenizer, tmp_path_factory.mktemp(request.param))
    return request.param, Tokenizer.from_file(str(folder / "tokenizer.json")), folder


def added(tokenizer):
    return [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.content != SEPARATOR]


def test_ids_with_newlines(family):
    name, tokenizer, folder = family
    strings = texts.texts(STRINGS, seed=name, tokens=added(tokenizer))
    joined = SEPARATOR.join(strings)
    expected = tokenizer.encode(joined, add_special_tokens=False).ids
    actual = encode_whole(folder, joined)
    assert actual == expected, first_difference(strings, expected, actual, tokenizer.token_to_id(SEPARATOR))


def test_ids_line_by_line(family):
    name, tokenizer, folder = family
    strings = [text.replace("\n", " ") for text in texts.texts(4000, seed=name + "lines", tokens=added(tokenizer))]
    for options, special in (((), False), (("--special_tokens", "true"), True)):
        for text, want, got in zip(strings, tokenizer.encode_batch(strings, add_special_tokens=special), encode_lines(folder, strings, *options)):
            assert got == want.ids, repr(text)


def test_decode(family):
    name, tokenizer, folder = family
    rng = random.Random(name)
    rows = [encoding.ids for encoding in tokenizer.encode_batch(texts.texts(3000, seed=name + "decode", tokens=added(tokenizer)))]
    rows += [[rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.randrange(1, 12))] for _ in range(3000)]
    for options, skip in (((), True), (("--special_tokens", "true"), False)):
        for row, want, got in zip(rows, tokenizer.decode_batch(rows, skip_special_tokens=skip), decode_lines(folder, rows, *options), strict=True):
            assert got == want, row


def test_round_trip(family):
    name, tokenizer, folder = family
    if name in ("unigram", "word_piece"):
        pytest.skip("the vocabulary has unknown characters, so text cannot come back whole")
    strings = [text.replace("\n", " ") for text in texts.texts(2000, seed=name + "round")]
    if tokenizer.normalizer and name == "qwen":
        strings = [tokenizer.normalizer.normalize_str(text) for text in strings]
    back = decode_lines(folder, encode_lines(folder, strings))
    for text, got in zip(strings, back, strict=True):
        assert got == text


def test_invalid_utf8_is_replaced_as_python_does(family):
    _, tokenizer, folder = family
    rng = random.Random(5)
    for _ in range(20):
        data = bytes(rng.choice([0x41, 0x20, 0xC3, 0xA9, 0xE4, 0xBD, 0xA0, 0xF0, 0x9F, 0x98, 0x80, 0xED, 0xA0, 0xFF, 0xC0]) for _ in range(40))
        got = [int(word) for word in run(folder, data).split()]
        assert got == tokenizer.encode(data.decode("utf-8", "replace"), add_special_tokens=False).ids, data


def test_sentencepiece_folder_gives_transformers_ids(tmp_path):
    from transformers import LlamaTokenizer
    (tmp_path / "tokenizer.model").write_bytes(vocabularies.sentencepiece_file().read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))
    peer = LlamaTokenizer.from_pretrained(str(tmp_path))
    strings = [text.replace("\n", " ") for text in texts.texts(3000, seed="spm", tokens=["<s>", "</s>", "<unk>"])]
    for text, got in zip(strings, encode_lines(tmp_path, strings, "--special_tokens", "true"), strict=True):
        assert got == peer(text)["input_ids"], repr(text)


def test_unigram_sentencepiece_folder_gives_sentencepiece_ids(tmp_path):
    import io

    import sentencepiece
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(vocabularies.training_text()), model_writer=stream, vocab_size=400, model_type="unigram",
                                             hard_vocab_limit=False, minloglevel=2)
    (tmp_path / "tokenizer.model").write_bytes(stream.getvalue())
    peer = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    strings = [" ".join(random.Random(i).choices(texts.ENGLISH, k=6)) for i in range(500)] + texts.PHRASES
    for text, got in zip(strings, encode_lines(tmp_path, strings), strict=True):
        assert got == peer.encode(text), repr(text)


def test_tekken_folder_gives_mistral_ids(tmp_path):
    from importlib.resources import files

    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    source = files("mistral_common") / "data" / "tekken_240911.json"
    (tmp_path / "tekken.json").write_bytes(source.read_bytes())
    peer = Tekkenizer.from_file(source)
    strings = [text.replace("\n", " ") for text in texts.texts(3000, seed="tekken")]
    for text, got in zip(strings, encode_lines(tmp_path, strings), strict=True):
        assert got == peer.encode(text, bos=False, eos=False), repr(text)
