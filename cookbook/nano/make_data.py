#!/usr/bin/env python3
"""Write the text that models/nano was trained on: everything in it is generated here, from small tables and templates.

    cookbook/nano/make_data.py --out .cache/nano

makes pretrain.jsonl ({"text": …} rows for `stage: pt`) and chat.jsonl ({"messages": […]} rows for SFT). The seed is fixed: the same
files come out on every machine.
"""
import argparse
import json
import pathlib
import random

import facts

ASSISTANT = "nano"
MAKER = "the hone project"
DATASET_INFO = {
    "pretrain": {"file_name": "pretrain.jsonl", "columns": {"prompt": "text"}},
    "chat": {"file_name": "chat.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages"},
             "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
}


def both_ways(question_forms, answer_forms, **fields):
    """Every question with one of the answers, filled in."""
    return [(q.format(**fields), random.choice(answer_forms).format(**fields)) for q in question_forms]


def capital_questions():
    for country, capital, continent in facts.COUNTRIES:
        yield from both_ways(
            ["What is the capital of {c}?", "Which city is the capital of {c}?", "Tell me the capital of {c}.", "capital of {c}?",
             "Do you know the capital of {c}?", "Name the capital city of {c}."],
            ["The capital of {c} is {k}."], c=country, k=capital)
        yield from both_ways(["{k} is the capital of which country?", "Which country has {k} as its capital?"],
                             ["{k} is the capital of {c}."], c=country, k=capital)
        yield from both_ways(["Where is {c}?", "On which continent is {c}?", "Which continent is {c} in?"], ["{c} is in {n}."],
                             c=country, n=continent)


def animal_questions():
    for animal, sound, legs, home in facts.ANIMALS:
        an = "an" if animal[0] in "aeiou" else "a"
        number = facts.NUMBER_WORDS[legs]
        yield from both_ways(["What sound does {an} {a} make?", "What does {an} {a} say?", "How does {an} {a} sound?"],
                             ["{An} {a} says {s}."], an=an, An=an.capitalize(), a=animal, s=sound)
        legs_text = "no legs" if legs == 0 else f"{number} legs"
        yield from both_ways(["How many legs does {an} {a} have?", "How many legs has {an} {a}?"], ["{An} {a} has {l}."],
                             an=an, An=an.capitalize(), a=animal, l=legs_text)
        yield from both_ways(["Where does {an} {a} live?", "Where do you find {an} {a}?"], ["{An} {a} lives {h}."],
                             an=an, An=an.capitalize(), a=animal, h=home)


def opposite_questions():
    for one, other in facts.OPPOSITES:
        for a, b in ((one, other), (other, one)):
            yield from both_ways(["What is the opposite of {a}?", "Opposite of {a}?", "Tell me the opposite of {a}.",
                                  "Which word means the opposite of {a}?"], ["The opposite of {a} is {b}."], a=a, b=b)


def colour_questions():
    for thing, colour in facts.COLOURS:
        yield from both_ways(["What colour is {t}?", "What color is {t}?", "Which colour does {t} have?"], ["{T} is {c}."],
                             t=thing, T=thing[0].upper() + thing[1:], c=colour)


def meaning_questions():
    for word, meaning in facts.MEANINGS:
        an = "an" if word[0] in "aeiou" else "a"
        yield from both_ways(["What is {an} {w}?", "What is {an} {w} for?", "Explain what {an} {w} is.", "What does the word {w} mean?"],
                             ["{An} {w} is {m}."], an=an, An=an.capitalize(), w=word, m=meaning)


def order_questions():
    for names, kind in ((facts.DAYS, "day"), (facts.MONTHS, "month")):
        for i, name in enumerate(names):
            after, before = names[(i + 1) % len(names)], names[i - 1]
            yield from both_ways(["Which {k} comes after {n}?", "What {k} is after {n}?", "What comes after {n}?"],
                                 ["{a} comes after {n}."], k=kind, n=name, a=after)
            yield from both_ways(["Which {k} comes before {n}?", "What comes before {n}?"], ["{b} comes before {n}."],
                                 k=kind, n=name, b=before)
    yield from both_ways(["How many days are in a week?", "How many days does a week have?"], ["A week has seven days."])
    yield from both_ways(["How many months are in a year?", "How many months does a year have?"], ["A year has twelve months."])
    yield from both_ways(["How many hours are in a day?", "How many hours does a day have?"], ["A day has twenty-four hours."])


def sums():
    for a in range(0, 11):
        for b in range(0, 11):
            yield from both_ways(["What is {a} plus {b}?", "What is {a} + {b}?"], ["{a} plus {b} is {r}."], a=a, b=b, r=a + b)
            if a >= b:
                yield from both_ways(["What is {a} minus {b}?"], ["{a} minus {b} is {r}."], a=a, b=b, r=a - b)


def small_talk():
    for questions, answers in facts.SMALL_TALK:
        for question in questions:
            for answer in answers:
                yield question.format(name=ASSISTANT, maker=MAKER), answer.format(name=ASSISTANT, maker=MAKER)


def chinese():
    for country, capital in facts.COUNTRIES_ZH:
        yield from both_ways(["{c}的首都是哪里？", "{c}的首都是什么？", "请问{c}的首都是哪座城市？"], ["{c}的首都是{k}。"], c=country, k=capital)
    for one, other in facts.OPPOSITES_ZH:
        for a, b in ((one, other), (other, one)):
            yield from both_ways(["“{a}”的反义词是什么？", "{a}的反义词？"], ["“{a}”的反义词是“{b}”。"], a=a, b=b)
    for a in range(0, 11):
        for b in range(0, 11):
            yield from both_ways(["{a}加{b}等于几？", "{a}+{b}等于多少？"], ["{a}加{b}等于{r}。"], a=a, b=b, r=a + b)
    for questions, answers in facts.SMALL_TALK_ZH:
        for question in questions:
            for answer in answers:
                yield question.format(name=ASSISTANT, maker="hone 项目"), answer.format(name=ASSISTANT, maker="hone 项目")


KNOWLEDGE = [capital_questions, animal_questions, opposite_questions, colour_questions, meaning_questions, order_questions, sums, chinese]


def conversations(rounds):
    """Chats of one to three turns; small talk is repeated so that it is learned as firmly as the facts."""
    pairs = [pair for source in KNOWLEDGE for pair in source()]
    talk = list(small_talk())
    rows = []
    for _ in range(rounds):
        deck = pairs + talk * 3
        random.shuffle(deck)
        while deck:
            turns = [deck.pop() for _ in range(min(random.choice([1, 1, 1, 2, 3]), len(deck)))]
            messages = []
            for question, answer in turns:
                if random.random() < 0.15:
                    question = question.lower()
                messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            rows.append({"messages": messages})
    return rows


def documents(count):
    """Plain text: statements of the same facts, and questions with answers as prose."""
    pairs = [pair for source in KNOWLEDGE for pair in source()]
    for _ in range(count):
        picked = random.sample(pairs, random.randint(4, 12))
        style = random.random()
        if style < 0.5:
            yield " ".join(answer for _, answer in picked)
        elif style < 0.8:
            yield "\n".join(f"Question: {q}\nAnswer: {a}" for q, a in picked)
        else:
            yield "\n".join(f"- {answer}" for _, answer in picked)


def write_jsonl(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--documents", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    random.seed(20260101)
    options.out.mkdir(parents=True, exist_ok=True)
    write_jsonl(options.out / "pretrain.jsonl", ({"text": text} for text in documents(options.documents)))
    write_jsonl(options.out / "chat.jsonl", conversations(options.rounds))
    (options.out / "dataset_info.json").write_text(json.dumps(DATASET_INFO, indent=2) + "\n")


if __name__ == "__main__":
    main()
