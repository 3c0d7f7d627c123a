"""Every normalizer, pre-tokenizer, decoder and added-token option, each in a small tokenizer of its own, against the `tokenizers` package."""
import random

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P, processors

from . import texts
from .test_parity import decode_lines, encode_lines
from .vocabularies import save

BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
NORMALIZERS = {
    "nfc": N.NFC(), "nfd": N.NFD(), "nfkc": N.NFKC(), "nfkd": N.NFKD(), "lowercase": N.Lowercase(), "nmt": N.Nmt(), "strip_accents": N.Sequence([N.NFD(), N.StripAccents()]),
    "strip": N.Strip(), "strip_left": N.Strip(right=False), "strip_right": N.Strip(left=False), "prepend": N.Prepend("▁"), "byte_level": N.ByteLevel(),
    "replace": N.Replace("a", "bb"), "replace_regex": N.Replace(Regex(r"\s{2,}|[[:punct:]]"), " "),
    "bert": N.BertNormalizer(), "bert_cased": N.BertNormalizer(lowercase=False), "bert_plain": N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
}
PRE_TOKENIZERS = {
    "bert": P.BertPreTokenizer(), "whitespace": P.Whitespace(), "whitespace_split": P.WhitespaceSplit(), "digits": P.Digits(), "digits_single": P.Digits(individual_digits=True),
    "scripts": P.UnicodeScripts(), "delimiter": P.CharDelimiterSplit("e"), "fixed": P.FixedLength(3), "byte_level": P.ByteLevel(), "byte_level_plain": P.ByteLevel(add_prefix_space=False),
    "byte_level_whole": P.ByteLevel(use_regex=False), "metaspace": P.Metaspace(), "metaspace_first": P.Metaspace(prepend_scheme="first"), "metaspace_never": P.Metaspace(prepend_scheme="never"),
    "metaspace_whole": P.Metaspace(split=False), "sequence": P.Sequence([P.WhitespaceSplit(), P.Punctuation(), P.Digits(individual_digits=True)]),
    **{f"punctuation_{b}": P.Punctuation(b) for b in BEHAVIORS},
    **{f"split_{b}_{invert}": P.Split(Regex(r"\w+|[^\w\s]"), b, invert) for b in BEHAVIORS for invert in (False, True)},
    **{f"split_text_{b}": P.Split("e", b) for b in BEHAVIORS},
    **{f"regex_{i}": P.Split(Regex(r), "isolated") for i, r in enumerate([r"\p{Han}+", r"[\p{L}&&[^\p{Latin}]]+", r"\p{N}{1,3}+", r"(?i:the|QUICK)\b", r"[^\S\n]+$", r"\h+", r"[[a-f]\d]+", r"\P{L}+", r"(?<=a)b*"])},
}
DECODERS = {
    "byte_level": D.ByteLevel(), "byte_fallback": D.ByteFallback(), "fuse": D.Fuse(), "bpe": D.BPEDecoder("e"), "word_piece": D.WordPiece("a"), "word_piece_raw": D.WordPiece("a", cleanup=False),
    "metaspace": D.Metaspace(), "metaspace_never": D.Metaspace(prepend_scheme="never"), "ctc": D.CTC("a", "b"), "replace": D.Replace("a", "--"), "replace_regex": D.Replace(Regex("[a-e]"), "-"),
    "strip": D.Sequence([D.Fuse(), D.Strip("a", 2, 0)]), "sequence": D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]),
}


def characters(extra=()):
    """A BPE vocabulary of single characters with <unk>: the ids show every split and every changed character."""
    chosen = sorted({c for text in texts.texts(1500, seed="alphabet") for c in text} | set("▁ĠĊ") | {chr(c) for c in range(0x100, 0x144)})
    tokens = ["<unk>", *chosen, *extra]
    return {token: i for i, token in enumerate(tokens)}


def check(tokenizer, folder, count=1500):
    save(tokenizer, folder)
    strings = [text.replace("\n", " ") for text in texts.texts(count, seed=folder.name, tokens=["<x>", "word"])]
    for text, want, got in zip(strings, tokenizer.encode_batch(strings), encode_lines(folder, strings, "--special_tokens", "true"), strict=True):
        assert got == want.ids, repr(text)


def tokenizer_of(pieces_matter):
    vocab = characters()
    if not pieces_matter:
        return Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    # A suffix on the last character of each piece makes the ends of pieces visible in the ids.
    vocab |= {token + "</w>": len(vocab) + i for i, token in enumerate(list(vocab))}
    return Tokenizer(models.BPE(vocab, [], unk_token="<unk>", end_of_word_suffix="</w>"))


@pytest.mark.parametrize("name", NORMALIZERS)
def test_normalizer(name, tmp_path):
    tokenizer = tokenizer_of(False)
    tokenizer.normalizer = NORMALIZERS[name]
    check(tokenizer, tmp_path)


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pre_tokenizer(name, tmp_path):
    tokenizer = tokenizer_of(True)
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[name]
    check(tokenizer, tmp_path)


@pytest.mark.parametrize("name", DECODERS)
def test_decoder(name, tmp_path):
    vocab = characters([f"<0x{b:02X}>" for b in range(256)] + ["▁the", " .", "do not", "</w>", "abab"])
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.decoder = DECODERS[name]
    save(tokenizer, tmp_path)
    rng = random.Random(name)
    low, high = vocab["<0x00>"], len(vocab)
    rows = [[rng.choice([rng.randrange(high), rng.randrange(low, high), vocab["a"], vocab["▁"], vocab["e"]]) for _ in range(rng.randrange(1, 10))] for _ in range(1500)]
    rows += [[low + b for b in text.encode()] + [vocab["a"]] for text in texts.PHRASES]
    for row, want, got in zip(rows, tokenizer.decode_batch(rows), decode_lines(tmp_path, rows), strict=True):
        assert got == want, row


@pytest.mark.parametrize("flags", [dict(single_word=True), dict(lstrip=True), dict(rstrip=True), dict(lstrip=True, rstrip=True), dict(normalized=True), dict(normalized=False), dict(special=True)], ids=str)
def test_added_token(flags, tmp_path):
    tokenizer = tokenizer_of(False)
    tokenizer.normalizer = N.Lowercase()
    tokenizer.add_tokens([AddedToken("<x>", **flags), AddedToken("WORD", **flags), AddedToken("wor", **flags)])
    check(tokenizer, tmp_path)


@pytest.mark.parametrize("options", [dict(fuse_unk=True), dict(fuse_unk=False), dict(byte_fallback=True), dict(continuing_subword_prefix="##")], ids=str)
def test_bpe_option(options, tmp_path):
    tokens = ["<unk>", *"abcdeht ", "##h", "##e", "##t", "the", "th", "he"] + ([f"<0x{b:02X}>" for b in range(256)] if "byte_fallback" in options else [])
    merges = [("t", "##h"), ("th", "##e")] if "continuing_subword_prefix" in options else [("t", "h"), ("th", "e"), ("h", "e")]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>", **options))
    tokenizer.pre_tokenizer = P.WhitespaceSplit()
    tokenizer.post_processor = processors.RobertaProcessing(("e", 5), ("a", 1))
    check(tokenizer, tmp_path)
