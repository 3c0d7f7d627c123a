"""Tokenizer folders of every family, made from the vocabularies that PyPI packages carry or trained on the spot."""
import base64
import json
import pathlib
from importlib.resources import files

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SEPARATOR = "<|sep|>"


def alphabet():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return {b: chr(b) if b in keep else chr(next(extra)) for b in range(256)}


LETTERS = alphabet()
spell = lambda token: "".join(LETTERS[b] for b in token)


def read_tiktoken(path):
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in path.read_bytes().splitlines() if line)}


def all_splits(ranks):
    """Every way to cut a token into two others, in the order of ranks: how transformers converts tiktoken files."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        cuts = [(token[:i], token[i:]) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += sorted(cuts, key=lambda cut: (ranks[cut[0]], ranks[cut[1]]))
    return [(spell(a), spell(b)) for a, b in merges]


def last_merge(ranks):
    """One merge per token, the last one that byte pair encoding itself makes: how Qwen's own merges.txt was written."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [token[i:i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best, i = min((ranks.get(a + b, 1 << 60), i) for i, (a, b) in enumerate(zip(parts, parts[1:])))
            if best >= rank:
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append((spell(parts[0]), spell(parts[1])))
    return merges


def byte_level(ranks, merges, pattern, special, ignore_merges=False, offset=0, **extra):
    model = models.BPE({spell(token): rank + offset for token, rank in ranks.items()}, merges, ignore_merges=ignore_merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    return tokenizer


def qwen():
    ranks = read_tiktoken(files("dashscope") / "resources" / "qwen.tiktoken")
    tokenizer = byte_level(ranks, last_merge(ranks), QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", SEPARATOR])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("<think>", normalized=True)])
    return tokenizer


def llama3():
    ranks = read_tiktoken(files("llama_models") / "llama3" / "tokenizer.model")
    names = ["<|begin_of_text|>", "<|end_of_text|>"] + [f"<|reserved_special_token_{i}|>" for i in range(20)] + [SEPARATOR]
    tokenizer = byte_level(ranks, all_splits(ranks), LLAMA3, names, ignore_merges=True)
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B", special_tokens=[("<|begin_of_text|>", bos)])])
    return tokenizer


def llama4():
    ranks = read_tiktoken(files("llama_models") / "llama4" / "tokenizer.model")
    return byte_level(ranks, all_splits(ranks), CASED, ["<|begin_of_text|>", "<|eot|>", SEPARATOR], ignore_merges=True)


def mistral_tekken():
    data = json.loads((files("mistral_common") / "data" / "tekken_240911.json").read_text())
    limit = data["config"]["default_vocab_size"] - data["config"]["default_num_special_tokens"]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in data["vocab"][:limit]}
    return byte_level(ranks, all_splits(ranks), data["config"]["pattern"], ["<s>", "</s>", "[INST]", "[/INST]", SEPARATOR], ignore_merges=True)


def sentencepiece_file():
    return files("mistral_common") / "data" / "tokenizer.model.v1"


def mistral_sentencepiece():
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=str(sentencepiece_file()))
    vocab = {model.id_to_piece(i): i for i in range(model.get_piece_size())}
    merges = [(word[:i], word[i:]) for word in vocab for i in range(1, len(word)) if word[:i] in vocab and word[i:] in vocab]
    merges.sort(key=lambda cut: (vocab[cut[0] + cut[1]], len(cut[0])))
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>", SEPARATOR])
    return tokenizer


def training_text():
    import textwrap
    from . import texts
    lines = texts.ENGLISH + texts.PHRASES + texts.CODE + [textwrap.dedent(module.__doc__ or "") for module in (json, base64, pathlib, textwrap)]
    return lines * 3


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(training_text(), trainers.UnigramTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", SEPARATOR], unk_token="<unk>", show_progress=False))
    return tokenizer


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(training_text(), trainers.WordPieceTrainer(vocab_size=600, special_tokens=["[UNK]", "[CLS]", "[SEP]", SEPARATOR], show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", tokenizer.token_to_id("[SEP]")), ("[CLS]", tokenizer.token_to_id("[CLS]")))
    return tokenizer


FAMILIES = {make.__name__: make for make in (qwen, llama3, llama4, mistral_tekken, mistral_sentencepiece, unigram, word_piece)}


def save(tokenizer, folder, **config):
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
