"""Regular expressions, which clients write into configs: taken and refused as by Java's own `Pattern`.

Told apart are only patterns that Java refuses for what it finds in tables of Unicode, for how deep they are,
or for how it would match a look-behind. What matches is no question here.
"""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from java_regexes import REFUSED, TAKEN, TAKEN_HERE_ONLY

from kraftd.controller.configs.client_metrics_rules import check_client_metrics_configs
from kraftd.controller.configs.java_patterns import pattern_complaint
from kraftd.controller.refused import RefusedError
from tests.interop.peer import HERE, Kafka

PATTERNS = 20_000
"""Of each seed."""

TAKEN_HERE = (
    "Look-behind group does not have an obvious maximum length",
    "Unknown character property name",
    "Unknown Unicode property",
    "Unknown character name",
    "Stack overflow",
)
NAMED = ("Illegal character range",)
"""Where a character of a name may begin or end one."""

ATOMS = (
    *(
        "a",
        "b",
        "-",
        "&",
        "^",
        "]",
        "}",
        "{",
        ",",
        "1",
        "#",
        " ",
        "\n",
        "é",
        "😀",
        "\0",
        ".",
        "$",
        "\\",
        ":",
        "<",
        ">",
    ),
    *(
        "\\d",
        "\\W",
        "\\h",
        "\\v",
        "\\R",
        "\\X",
        "\\b",
        "\\b{g}",
        "\\A",
        "\\G",
        "\\z",
        "\\t",
        "\\e",
        "\\cA",
        "\\y",
        "\\-",
    ),
    *(
        "\\07",
        "\\0377",
        "\\0",
        "\\x41",
        "\\x{1F600}",
        "\\x{",
        "\\u0041",
        "\\ud83d",
        "\\ude00",
        "\\1",
        "\\12",
        "\\k<n>",
    ),
    *(
        "\\pL",
        "\\p{Lu}",
        "\\P{IsLatin}",
        "\\p{InGreek}",
        "\\p{alpha}",
        "\\p{script=Latin}",
        "\\p{gc=L}",
        "\\p{Foo}",
    ),
    *(
        "\\N{SPACE}",
        "\\N{LATIN SMALL LETTER A}",
        "\\Q",
        "\\E",
        "\\Q.\\E",
        "\\Q1]\\E",
        "(?i)",
        "(?x)",
        "(?-x)",
        "(?xd)",
    ),
    *("(?U)", "(?c)", "&&", "[", "(", ")", "|", "*", "(?", "[^"),
)
GROUPS = (
    "(",
    "(?:",
    "(?=",
    "(?!",
    "(?<=",
    "(?<!",
    "(?>",
    "(?<n>",
    "(?<m>",
    "(?i:",
    "(?x:",
    "(?x-i:",
    "(?P<n>",
)
QUANTIFIERS = (
    "?",
    "*",
    "+",
    "{2}",
    "{2,}",
    "{2,3}",
    "{3,2}",
    "{2147483647}",
    "{2147483648}",
    "{ 1}",
    "{1 }",
    "{,1}",
)
BOUNDS = (
    "a",
    "z",
    "A",
    "0",
    "\\x41",
    "\\ud83d\\ude00",
    "\\v",
    "\\d",
    "\\t",
    "-",
    "^",
    "&",
    "é",
    "\\u00e9",
    " ",
)
LISTS = (
    *(
        "",
        " ",
        ",",
        "client_id=a",
        " client_id = a ",
        "client_id",
        "client_id=",
        "client_id==",
        "=a",
        "=",
        "who=a",
    ),
    *(
        "client_id=a=",
        "client_id=a==",
        "client_id==a",
        "client_id=a=b",
        "client_id=a,client_id=a",
        "client_id=a,",
    ),
    *(
        "client_id=a, client_source_port=1",
        "client_id=a,,client_id=b",
        "client_id=a ,\t\nclient_id=b",
        "CLIENT_ID=a",
    ),
    *(
        "client_id=a{1,2}",
        "client_id=a{1}",
        "client_id=(?<n>x)",
        "client_id=(?P<n>x)",
        "client_id=(?=a)",
        "client_id=[",
    ),
    *(
        "client_id=\\\u3000",
        "\u3000client_id=a",
        "client_id\u3000=a",
        "client_id\v=a",
        "client_id=a\\ ",
        "client_id=\0",
    ),
    *(
        "client_id=\\\x1c",
        "\x1cclient_id=a",
        "client_id=a,\x1cclient_id=b",
        "client_id=a,\x1c",
        "\x1c",
        "client_id=\\\x85",
    ),
    *(
        "client_software_name=a",
        "client_software_version=1",
        "client_instance_id=b",
        "client_source_address=1.*",
    ),
)


class Patterns:
    """Random patterns: what a grammar makes, and often some of it hurt."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def next(self) -> str:
        text = self.pattern(3)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            at = self.random.randrange(len(text) + 1)
            text = text[:at] + self.random.choice(("", *ATOMS)) + text[at + self.random.randrange(3) :]
        return text

    def pattern(self, depth: int) -> str:
        parts = []
        for _ in range(self.random.randrange(5)):
            choice = self.random.random()
            if choice < 0.25 and depth:
                parts.append(self.random.choice(GROUPS) + self.pattern(depth - 1) + ")")
            elif choice < 0.5:
                parts.append(self.character_class(depth))
            elif choice < 0.55:
                parts.append("|")
            else:
                parts.append(self.random.choice(ATOMS))
            if self.random.random() < 0.3:
                parts.append(self.random.choice(QUANTIFIERS) + self.random.choice(("", "", "?", "+")))
        return "".join(parts)

    def character_class(self, depth: int) -> str:
        parts = []
        for _ in range(self.random.randrange(1, 5)):
            choice = self.random.random()
            if choice < 0.2 and depth:
                parts.append(self.character_class(depth - 1))
            elif choice < 0.4:
                parts.append(f"{self.random.choice(BOUNDS)}-{self.random.choice(BOUNDS)}")
            elif choice < 0.55:
                parts.append("&&")
            else:
                parts.append(self.random.choice(BOUNDS + ATOMS[:-10]))
        return self.random.choice(("[", "[", "[^")) + "".join(parts) + "]"


def answers(kafka: Kafka, tmp_path: Path, kind: str, texts: list[str]) -> list[str]:
    file = tmp_path / "asked"
    file.write_text("".join(f"{kind} {text.encode().hex()}\n" for text in texts), encoding="utf-8")
    return kafka.run(HERE / "Patterns.java", file).removesuffix("\n").split("\n")


def test_the_known_answers_are_javas(kafka: Kafka, tmp_path: Path) -> None:
    texts = [*TAKEN, *REFUSED, *TAKEN_HERE_ONLY]
    told = dict(zip(texts, answers(kafka, tmp_path, "pattern", texts), strict=True))
    assert {text: told[text] for text in TAKEN if told[text] != "yes"} == {}
    assert [text for text in [*REFUSED, *TAKEN_HERE_ONLY] if told[text] == "yes"] == []


@pytest.mark.parametrize("seed", range(3))
def test_patterns_are_taken_as_java_takes_them(kafka: Kafka, tmp_path: Path, seed: int) -> None:
    patterns = Patterns(seed)
    texts = [patterns.next() for _ in range(PATTERNS)]
    seen: Counter[str] = Counter()
    for text, theirs in zip(texts, answers(kafka, tmp_path, "pattern", texts), strict=True):
        ours = pattern_complaint(text)
        seen[theirs.partition(" '")[0]] += 1
        is_excused = ours is None and theirs.startswith((*TAKEN_HERE, *(NAMED if "\\N{" in text else ())))
        assert is_excused or (ours is None) == (theirs == "yes"), f"{text!a}: Java {theirs}, kraftd {ours}"
    assert seen["yes"] > PATTERNS / 10
    assert len(seen) > 20


def test_lists_of_matches_are_taken_as_kafka_takes_them(kafka: Kafka, tmp_path: Path) -> None:
    theirs = dict(zip(LISTS, answers(kafka, tmp_path, "match", list(LISTS)), strict=True))
    assert {text: told == "yes" for text, told in theirs.items()} == {text: is_taken(text) for text in LISTS}


def is_taken(text: str) -> bool:
    try:
        check_client_metrics_configs({}, {}, {"match": text})
    except RefusedError:
        return False
    return True
