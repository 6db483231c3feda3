"""What users read first is short and in the field's words: README, limitations, tutorials, how-tos and help."""

import io
import re
import tokenize
from pathlib import Path

import pytest

from opplab.cli.reference import pages

ROOT = Path(__file__).parents[2]
MOST_WORDS = 30
FILES = [
    *(ROOT / name for name in ("README.md", "python/README.md", "LIMITATIONS.md", "CHANGELOG.md", "docs/index.md")),
    *sorted((ROOT / "docs/tutorials").glob("*.md")),
    *sorted((ROOT / "docs/howto").glob("*.md")),
]
RUST_WORDS = re.compile(r"//[^\n]*|r(#*)\".*?\"\1|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])'", re.DOTALL)
"""Comments and strings of Rust; characters only so that a quote among them begins no string."""
# Programs report, print and explain; people tell and say.
SPEECH = re.compile(r"\b(tell|tells|told|say|says|said)\b", re.IGNORECASE)


def words_of(text: str) -> str:
    """Give the words of a page: without code, markup and what tables are made of; a span of code is one word."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(r"^(```|:::+)\{?(toctree|grid|figure)?.*$(?s:.*?)^\1:*$", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^:+.*$|^#+ .*$", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>]*>", "", text)
    return re.sub(r"^\|?[ :|-]+\|$", "", text, flags=re.MULTILINE)


def sentences(text: str) -> list[str]:
    """Split words into sentences; a paragraph, an item of a list and a cell of a table end one."""
    found = []
    ends = r"\n\s*\n|^\s*(?:[-*]|\d+\.) | \| |^\| ?|^(?=\w+ {2,})"
    for part in re.split(ends, text, flags=re.MULTILINE):
        plain = " ".join(part.replace("e.g.", "eg").split())
        found += re.split(r"(?<=[.!?])(?:\*\*)?\s+", plain)
    return [one for one in found if one.strip("*| ")]


def _help() -> list[tuple[str, str]]:
    found = []
    for page in pages():
        found.append((page.name, page.text))
        found += [(f"{page.name} {option}", text) for option, text in page.options]
    return found


def _too_long(text: str) -> list[str]:
    return [one for one in sentences(words_of(text)) if len(one.split()) > MOST_WORDS]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_page_has_short_sentences_in_plain_words(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not _too_long(text)
    assert not SPEECH.findall(words_of(text))


def test_help_has_short_sentences_in_plain_words() -> None:
    found = _help()
    long = [f"{name}: {one}" for name, text in found for one in _too_long(text)]
    assert not long, "\n".join(long)
    speech = [f"{name}: {text}" for name, text in found if SPEECH.search(text)]
    assert not speech, "\n".join(speech)
    assert not [name for name, text in found if "\\b" in text or "\b" in text]


NAMES = ('"told"', '"said"')
"""Texts that are names: a word of messages, and a file of a test."""


def _speech_in(file: Path) -> list[str]:
    """Give the comments, docstrings and messages of a module that let a program speak; names of the code may."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) and token.string not in NAMES:
            # "the told exit latency": a mark that machine files hold.
            text = re.sub(r"\{[^{}]*\}|^ *said : callable$|told exit latency", "", token.string, flags=re.MULTILINE)
            lines = text.splitlines()
            found += [f"{file}:{token.start[0] + at}: {line}" for at, line in enumerate(lines) if SPEECH.search(line)]
    return found


def test_python_has_no_programs_that_speak() -> None:
    files = [file for folder in ("python/opplab", "lab", "tools") for file in sorted((ROOT / folder).rglob("*.py"))]
    found = [line for file in files for line in _speech_in(file)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("crate", sorted(file.parent.name for file in (ROOT / "crates").glob("*/Cargo.toml")))
def test_rust_has_no_programs_that_speak(crate: str) -> None:
    found = []
    for file in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
        source = file.read_text(encoding="utf-8")
        for token in RUST_WORDS.finditer(source):
            text = re.sub(r"`[^`]*`|\{[^{}]*\}", "", token.group())
            # "wake-share": a mark that machine files hold.
            if SPEECH.search(text) and text != '"told"' and "wake-share" not in text:
                found.append(f"{file.relative_to(ROOT)}:{source.count(chr(10), 0, token.start()) + 1}: {text}")
    assert not found, "\n".join(found)


def test_reference_pages_have_no_programs_that_speak() -> None:
    """Pages beside those with short sentences; what was tried stands in the journal as it was written."""
    files = [ROOT / "ARCHITECTURE.md", ROOT / "RELIABILITY.md", *(ROOT / "docs").glob("*.md")]
    assert not [file.name for file in files if SPEECH.search(words_of(file.read_text(encoding="utf-8")))]


def test_help_of_an_option_starts_with_what_it_is() -> None:
    """No headless help: not "Of the first run." but "Seed of the first run."."""
    odd = [f"{name}: {text}" for name, text in _help() if re.match(r"(Of|In|On|For|With|At|What|Which|How) ", text)]
    assert not odd, "\n".join(odd)


def test_every_link_has_words() -> None:
    """`[](page.md)` is empty wherever Markdown is shown by something else than the site."""
    files = [*ROOT.glob("*.md"), *(file for file in (ROOT / "docs").rglob("*.md") if "reference" not in file.parts)]
    assert not [file.name for file in files if re.search(r"(?<!!)\[\]\(", file.read_text(encoding="utf-8"))]


def test_limitations_fit_a_screen_or_two() -> None:
    assert len((ROOT / "LIMITATIONS.md").read_text(encoding="utf-8").splitlines()) <= 65


def test_sentences_are_told_apart() -> None:
    text = "One `a b c` two. Three, e.g. four!\n\n- item one\n- item two: [link text](x.md)\n\n| a cell | b |\n"
    assert sentences(words_of(text)) == [
        "One CODE two.",
        "Three, eg four!",
        "item one",
        "item two: link text",
        "a cell",
        "b |",
    ]
