"""Generated strings that a tokenizer must agree on: every Unicode plane, scripts, code, long runs, things that look like tokens."""
import random

ENGLISH = ("The quick brown fox jumps over the lazy dog. It's what we'd expect, isn't it? They'll say WE'VE seen 12,345.67 of them; "
           "don't you think so? HTTPServer getURL camelCase snake_case x86_64 3rd 2nd I'M YOU'RE o'clock rock'n'roll").split(" ")
CODE = ["def f(x):\n\treturn x**2", "for (int i = 0; i < n; ++i) {", "    if a != b:\n        pass\n", "<div class=\"a\">&nbsp;</div>", "#include <vector>",
        "SELECT * FROM t WHERE a='b';", "\r\n\r\n", "// comment\n", "https://example.com/a/b?c=d&e=%20f", "a->b[0]::c", "\t\t\t", "   \n   \n", "{}[]()", "==="]
PHRASES = ["你好世界", "今天天气很好，我们去公园吧。", "机器学习模型的训练需要大量数据", "日本語のテキスト、カタカナとひらがな", "한국어 문장입니다", "السلام عليكم ورحمة الله",
           "مرحبا بالعالم ١٢٣", "สวัสดีชาวโลก ภาษาไทย", "नमस्ते दुनिया", "Привет, мир! Как дела?", "Γειά σου Κόσμε", "שלום עולם", "Tiếng Việt có dấu", "naïve façade Ångström",
           "ﬁne ﬂow Ⅳ ½ ㎏ ℃", "ǅ ǈ ſ ẞ İ ı", "'ſ 'S 'LL 'Ve", "e\u0301 a\u0308\u0323 o\u0323\u0308", "\u1112\u1161\u11ab \uac00\u11a8", "\u0915\u094d\u0937"]
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪🇫🇷", "1️⃣", "😀😃😄", "❤️‍🔥", "🧑🏿‍🚀"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u2003", "\u200b", "\u2028", "\u180e", "\ufeff", "\x85", "\x0b", "\x00", "\x1f", "\x7f"]


def code_point(rng):
    """Any scalar value, with the crowded and the tricky ranges seen more often."""
    kind = rng.random()
    if kind < .2:
        return chr(rng.randrange(0x20, 0x7f))
    if kind < .5:
        low, high = rng.choice([(0x80, 0x250), (0x250, 0x700), (0x300, 0x370), (0x600, 0x700), (0x900, 0xe80), (0xe00, 0xe80), (0x1100, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2c00),
                                (0x3000, 0x3400), (0x4e00, 0xa000), (0xac00, 0xd7a4), (0xf900, 0xfb00), (0xfb00, 0x10000), (0x1f000, 0x1fb00), (0x1d400, 0x1d800), (0x10000, 0x12000)])
        return chr(rng.randrange(low, high))
    value = rng.randrange(0x110000)
    return chr(value) if not 0xd800 <= value < 0xe000 else "\ufffd"


def one_text(rng, tokens):
    out = []
    for _ in range(rng.randrange(1, 9)):
        kind = rng.random()
        if kind < .30:
            out.append(" ".join(rng.choice(ENGLISH) for _ in range(rng.randrange(1, 8))))
        elif kind < .42:
            out.append(rng.choice(PHRASES))
        elif kind < .52:
            out.append(rng.choice(CODE))
        elif kind < .60:
            out.append(rng.choice(SPACES) * rng.randrange(1, 4))
        elif kind < .66:
            out.append(rng.choice(EMOJI))
        elif kind < .71:
            out.append(rng.choice(["a", "A", " ", "\n", "1", "-", "的", "é", "😀", "\u0301", "ab"]) * rng.randrange(2, 70))
        elif kind < .76:
            out.append(str(rng.randrange(10 ** rng.randrange(1, 12))))
        elif kind < .80 and tokens:
            out.append(rng.choice(["", " ", "  ", "a", "\n"]) + rng.choice(tokens) + rng.choice(["", " ", "  ", "b", "\t"]))
        elif kind < .84:
            out.append("".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") for _ in range(rng.randrange(1, 6))))
        else:
            out.append("".join(code_point(rng) for _ in range(rng.randrange(1, 12))))
        if rng.random() < .5:
            out.append(" ")
    return "".join(out)


def texts(count, seed, tokens=()):
    rng = random.Random(seed)
    return [one_text(rng, tokens) for _ in range(count)]
