"""Structured output validated by jsonschema and re, for random schemas and expressions."""
import datetime
import json
import random
import re
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

FORMATS = jsonschema.FormatChecker(["date", "email", "ipv4", "ipv6", "uuid"])
FORMATS.checks("date-time", ValueError)(lambda text: datetime.datetime.fromisoformat(text).tzinfo is not None)
FORMATS.checks("time", ValueError)(lambda text: datetime.time.fromisoformat(text).tzinfo is not None)


def accepts(schema, value):
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS).is_valid(value)


def written(server, held, seed, max_tokens=700, **more):
    """(text, whether it came to its end) under a hot temperature, so that every corner of what is allowed is visited."""
    status, _, body = server.post("/v1/completions", {"prompt": "Answer:", "structured_outputs": held, "temperature": 2.5, "seed": seed, "max_tokens": max_tokens, **more})
    if status == 400:
        return None, json.loads(body)["error"]["message"]
    assert status == 200, body
    choice = json.loads(body)["choices"][0]
    return choice["text"], choice["finish_reason"] == "stop"


class Schemas:
    """Schemas nobody thought of, of bounded size so that answers end."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def word(self):
        return "".join(self.rng.choice("abcé \"\\/中") for _ in range(self.rng.randint(1, 4)))

    def value(self):
        return self.rng.choice([None, True, False, 0, -3, 2.5, "", self.word(), [1, "x"], {"k": self.word()}])

    def string(self):
        low = self.rng.randint(0, 5)
        return self.rng.choice([{"type": "string", "minLength": low, "maxLength": low + self.rng.randint(0, 8)}, {"type": "string", "maxLength": 6},
                                {"type": "string", "pattern": self.rng.choice([r"^[a-c]{2,5}$", r"^.{1,4}$", r"^\d{3}-\w{2}$", r"^[^x]{1,5}$", r"^(\"|\\){2}$"])},
                                {"type": "string", "format": self.rng.choice(["date", "time", "date-time", "uuid", "ipv4", "ipv6", "email"])},
                                {"minLength": 2, "maxLength": 4}, {"type": "string", "pattern": "^[a-z]{3}$", "minLength": 2, "maxLength": 5}])

    def number(self):
        low = self.rng.choice([-1000.5, -7, -1, 0, 0.25, 3, 99.9])
        high = low + self.rng.choice([0.5, 1, 2.25, 10, 12345])
        kind = self.rng.choice(["integer", "number"])
        bounds = {self.rng.choice(["minimum", "exclusiveMinimum"]): low, self.rng.choice(["maximum", "exclusiveMaximum"]): high}
        if self.rng.random() < 0.3:
            bounds.pop(self.rng.choice(list(bounds)))
        return {"type": kind, **bounds}

    def array(self, depth):
        if self.rng.random() < 0.3:
            more = self.rng.choice([{}, {"items": False}, {"items": {"type": "null"}, "maxItems": 4}, {"minItems": 1}, {"minItems": 4, "maxItems": 5, "items": {"type": "boolean"}}])
            return {"type": "array", "prefixItems": [self.schema(depth - 1) for _ in range(self.rng.randint(1, 3))], **more}
        low = self.rng.randint(0, 2)
        return {"type": "array", "items": self.schema(depth - 1), "minItems": low, "maxItems": low + self.rng.randint(0, 2)}

    def object(self, depth):
        names = list({self.word() for _ in range(self.rng.randint(1, 4))})
        schema = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}, "required": [n for n in names if self.rng.random() < 0.6]}
        return {**schema, "additionalProperties": False} if self.rng.random() < 0.5 else schema

    def joined(self, depth):
        one, other = self.object(depth - 1), self.object(depth - 1)
        one.pop("additionalProperties", None), other.pop("additionalProperties", None)
        pick = self.rng.randrange(4)
        if pick == 0:
            return {"allOf": [one, other]}
        if pick == 1:
            return {**one, "anyOf": [{"required": [name]} for name in one["properties"]]}
        if pick == 2:
            return {"$ref": "#/$defs/it", "description": "a note", "$defs": {"it": one}} if depth == 3 else one
        return {"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 5}}, "required": ["a", "b"], "additionalProperties": {"type": "boolean"}, "type": "object"}

    def listed(self):
        """Values, and what else is asked of them."""
        values = [self.rng.choice([None, True, 0, 1, 4, 5.0, -3, 2.5, "", "a", "abc", "2024-02-29", self.word(), [1, "x"], [1], {"k": self.word()}, {"k": 3}, {}]) for _ in range(6)]
        more = [{"minimum": 1}, {"maximum": 4}, {"exclusiveMinimum": 0}, {"minLength": 1}, {"maxLength": 2}, {"pattern": "b"}, {"pattern": "^a"}, {"format": "date"},
                {"required": ["k"]}, {"properties": {"k": {"type": "string"}}}, {"additionalProperties": False}, {"items": {"type": "integer"}}, {"maxItems": 1},
                {"type": ["string", "integer"]}, {"anyOf": [{"minimum": 2}, {"type": "string"}]}, {"enum": values[:4]}, {"oneOf": [{"type": "integer"}, {"type": "null"}]}]
        both = {**self.rng.choice(more), **self.rng.choice(more)}
        return {**both, "enum": [value for value in values if value in both["enum"]]} if "enum" in both else {"enum": values, **both}

    def schema(self, depth):
        kinds = [self.string, self.number, lambda: {"const": self.value()}, lambda: {"enum": [self.value() for _ in range(3)]}, lambda: {"type": ["null", "boolean"]},
                 lambda: {"type": "string", "enum": ["a", "b", 3]}, self.listed]
        if depth > 0:
            kinds += [lambda: self.array(depth), lambda: self.object(depth), lambda: self.object(depth), lambda: self.joined(depth),
                      lambda: {"anyOf": [self.schema(depth - 1), self.schema(depth - 1)]}]
        return self.rng.choice(kinds)()


def test_json_schemas(server):
    def judge(seed):
        schema = Schemas(seed).schema(3)
        text, ended = written(server, {"json": schema}, seed)
        if text is None:
            return ("refused", schema, ended)
        if not ended:
            return ("cut", schema, text)
        try:
            jsonschema.Draft202012Validator(schema, format_checker=FORMATS).validate(json.loads(text))
        except (jsonschema.ValidationError, json.JSONDecodeError) as problem:
            return ("wrong", schema, f"{text!r}: {problem}")
        return ("good", schema, text)

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(judge, range(160)))
    wrong = [s for s in seen if s[0] == "wrong"]
    assert not wrong, "\n".join(f"{json.dumps(s[1])}\n  {s[2][:400]}" for s in wrong[:5])
    good = sum(s[0] == "good" for s in seen)
    assert good > 110, "\n".join(f"{s[0]} {json.dumps(s[1])[:200]}: {str(s[2])[:200]}" for s in seen if s[0] != "good")
    refused = [s for s in seen if s[0] == "refused"]
    assert all("nothing" in s[2] or "disagree" in s[2] for s in refused), refused[:3]


def test_listed_values_are_those_that_the_rest_of_the_schema_accepts(server):
    """Each value of a list alone: written when jsonschema accepts it, refused when not."""
    def judge(seed):
        schema = Schemas(seed).listed()
        value = random.Random(seed).choice(schema["enum"])
        text, why = written(server, {"json": {"allOf": [schema, {"const": value}]}}, seed)
        right = text is not None and json.loads(text) == value if accepts(schema, value) else text is None and "nothing" in why
        return right, accepts(schema, value), f"{json.dumps(schema)} and {value!r}: {text!r} {why}"

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(judge, range(120)))
    assert all(right for right, _, _ in seen), [case for right, _, case in seen if not right][:5]
    assert 20 < sum(accepted for _, accepted, _ in seen) < 100


class Expressions:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def atom(self, depth):
        simple = ["a", "b", "é", "中", r"\.", r"\d", r"\w", r"\s", ".", "[a-f]", "[^a-f]", r"[\d_-]", r"[^\s\"]", r"\x41", r"\u00e9", r"\S", r"\W", "[]x]", r"\-"]
        if depth > 0 and self.rng.random() < 0.35:
            return self.rng.choice(["({})", "(?:{})", "(?P<n%d>{})" % self.rng.randrange(10 ** 6)]).format(self.choice(depth - 1))
        return self.rng.choice(simple)

    def choice(self, depth):
        return "|".join(self.sequence(depth) for _ in range(self.rng.choice([1, 1, 2, 3])))

    def sequence(self, depth):
        return "".join(self.atom(depth) + self.rng.choice(["", "", "?", "{2}", "{0,3}", "{1,2}", "{,2}", "??", "{3}?"]) for _ in range(self.rng.randint(1, 4)))


def test_regular_expressions(server):
    def judge(seed):
        expression = ("^{}$" if seed % 3 == 0 else "{}").format("(" + Expressions(seed).choice(2) + ")")
        text, ended = written(server, {"regex": expression}, seed)
        if text is None:
            return ("refused", expression, ended)
        return ("good" if not ended or re.fullmatch(expression, text) else "wrong", expression, text)

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(judge, range(120)))
    wrong = [s for s in seen if s[0] == "wrong"]
    assert not wrong, wrong[:5]
    assert sum(s[0] == "good" for s in seen) > 110, [s for s in seen if s[0] == "refused"][:5]


def test_choices(server):
    choices = ["yes", "no", "no way", "中文", 'a "quote"', "line\nbreak"]
    output = {written(server, {"choice": choices}, seed)[0] for seed in range(24)}
    assert output <= set(choices) and len(output) > 3


@pytest.mark.parametrize("schema, word", [
    ({"type": "object", "minProperties": 2}, "minProperties"), ({"type": "string", "pattern": "a+", "maxLength": 3}, "lengths"),
    ({"type": "string", "minLength": 1e9}, "at most"), ({"type": "integer", "minimum": 5, "maximum": 4}, "nothing"), ({"not": {"type": "string"}}, "not"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "disagree"), ({"$ref": "http://127.0.0.1/x"}, "inside the schema"),
    ({"type": 5}, '"type" is 5; expected the name of a type'), ({"type": "object", "required": [5]}, "type must be string, but is number")])
def test_what_cannot_be_followed_is_refused_by_name(server, schema, word):
    text, message = written(server, {"json": schema}, 0)
    assert text is None and word in message and "json.exception" not in message


@pytest.mark.parametrize("fields, where", [({"guided_regex": "("}, "guided_regex"), ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex"),
                                           ({"guided_json": {"type": 5}}, "guided_json"), ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
                                           ({"guided_json": {"description": "x" * (2 << 20)}}, "guided_json")])
def test_a_refused_shape_names_its_field(server, fields, where):
    status, _, body = server.post("/v1/completions", {"prompt": "a", **fields})
    assert status == 400 and json.loads(body)["error"]["param"] == where


def test_held_json_spends_little_on_blanks(server):
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}}}
    for seed in range(4):
        reply = server.chat(tools=[tool], tool_choice="required", max_tokens=200, temperature=1, seed=seed, logprobs=True)["choices"][0]
        text = "".join(entry["token"] for entry in reply["logprobs"]["content"])
        assert reply["finish_reason"] == "tool_calls" and " " * 9 not in text and ": \n" not in text and ":\n" not in text


def test_bad_words_are_banned_with_and_without_a_blank(server):
    def ids(text):
        return json.loads(server.post("/tokenize", {"prompt": text})[2])["tokens"]

    def output(token, **fields):
        """The answer's tokens when one of them is pushed."""
        entries = server.chat("Say it.", logprobs=True, max_tokens=12, logit_bias={str(token): 100}, **fields)["choices"][0]["logprobs"]["content"]
        return [entry["token"] for entry in entries]

    word = next(word for word in ("a", "the", "is", "in", "x") if len(ids(word)) == len(ids(" " + word)) == 1)
    for spelling in (word, " " + word):
        assert spelling in output(ids(spelling)[0]) and spelling not in output(ids(spelling)[0], bad_words=[word])


@pytest.mark.parametrize("held, words", [
    ({"json": {"$ref": "#", "type": "object"}}, "lead back"), ({"json": {"allOf": [{"$ref": "#"}]}}, "lead back"), ({"regex": "a" + "*" * 60_000}, "multiple repeat"),
    ({"json": {"type": "string", "pattern": "a" + "*" * 200_000}}, "at most"), ({"json": {"type": "string", "pattern": "a**"}}, "multiple repeat"),
    ({"json": {"dependencies": {"a": ["b"]}}}, "dependencies"), ({"json": {"const": "x", "enum": ["y"]}}, "nothing"), ({"regex": "{2}"}, "nothing to repeat"),
    ({"regex": "(?=a)b"}, "has look-around, a flag or a condition, which are not supported: (? at byte 1"), ({"regex": "\\x4"}, "has a missing hexadecimal digit"),
    ({"regex": "\\q"}, "has \\q, which is not supported, at byte 2"),
    ({"json": {"oneOf": [{"type": "object", "required": [f"p{i}"]} for i in range(200)]}}, "oneOf"),
    ({"json": {"const": "x" * 100_000, "anyOf": [{"const": 1}] * 10_000}}, "nothing"),
    ({"json": {"properties": {f"p{i}": {"type": "string", "pattern": f"{i}" + ".?" * 2000} for i in range(100)}}}, "too large")])
def test_shapes_made_to_hurt_are_refused(server, held, words):
    text, message = written(server, held, 0)
    assert text is None and words in message
    assert server.get("/health")[0] == 200


def test_large_shapes_are_followed(server):
    for schema in [{"type": "integer", "minimum": 1e19, "maximum": 2e19}, {"oneOf": [{"const": i} for i in range(2000)]}, {"type": "string", "maxLength": 20_000, "pattern": None},
                   {"type": "object", "properties": {f"p{i}": {"type": "string", "maxLength": 2} for i in range(60)}}]:
        schema = {key: value for key, value in schema.items() if value is not None}
        text, ended = written(server, {"json": schema}, 1)
        assert text is not None and (not ended or accepts(schema, json.loads(text)))


def nested(levels, inmost, by_reference):
    def level(inside):
        return {"type": "object", "properties": {"a": inside}, "required": ["a"], "additionalProperties": False}

    if by_reference:
        names = {f"level{i}": level({"$ref": f"#/$defs/level{i + 1}"}) for i in range(levels)}
        return {"$ref": "#/$defs/level0", "$defs": {**names, f"level{levels}": inmost}}
    for _ in range(levels):
        inmost = level(inmost)
    return inmost


@pytest.mark.parametrize("by_reference", [False, True])
def test_shapes_nest_as_deep_as_they_say(server, by_reference):
    tree = {"type": "object", "properties": {"more": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}}, "required": ["more"], "additionalProperties": False}
    for inmost in ({"type": "integer", "maximum": 9, "minimum": 0}, {"$ref": "#/$defs/tree"}):
        schema = nested(20, inmost, by_reference)
        schema["$defs"] = {**schema.get("$defs", {}), "tree": tree}
        text, ended = written(server, {"json": schema}, 1)
        assert text is not None and (not ended or accepts(schema, json.loads(text))), ended
        assert text.count('"a"') == 20, text


def test_a_costly_schema_does_not_affect_other_requests(server):
    """Texts that lead to ever more places and states: such a request comes to an end, whichever, and the others to theirs."""
    def heavy(expression):
        return server.post("/v1/completions", {"prompt": "Answer:", "structured_outputs": {"regex": expression}, "temperature": 2.0, "max_tokens": 120}, timeout=120)[0]

    with ThreadPoolExecutor(6) as pool:
        shapes = pool.map(heavy, ["([ -~]{0,90}){0,1000}", "[ -~]*[a-m][ -~]{9000}", "(([ -~]{0,40}){0,40}){0,1000}"])
        others = pool.map(lambda seed: written(server, {"choice": ["yes", "no"]}, seed, min_tokens=40), range(6))
        assert {text for text, ended in others if ended} <= {"yes", "no"}
        assert all(status in (200, 400, 500) for status in shapes)
    assert server.get("/health")[0] == 200


def test_the_shape_goes_before_the_least_length(server):
    for fields in [{"top_k": 5}, {"temperature": 0}, {"top_p": 0.5}]:
        text, ended = written(server, {"choice": ["yes", "no"]}, 3, min_tokens=50, **fields)
        assert text in ("yes", "no") and ended


def test_a_temperature_next_to_zero_is_zero(server):
    def answer(temperature):
        return json.loads(server.post("/v1/completions", {"prompt": "The sun", "temperature": temperature, "max_tokens": 12, "seed": 5})[2])["choices"][0]["text"]

    assert answer(1e-50) == answer(1e-9) == answer(0)
