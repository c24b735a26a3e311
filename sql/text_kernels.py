"""rule: kernels of texts and binary values: parts, places, patterns, digests and encodings."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import re2

from sql import kernelforms, limits, outcomes, searches, similarities, variants
from sql.kernelforms import Kernel, by_row, coded, per_value, text_kernel


def _text_length(_: re.Match[str]) -> Kernel:
    """The length of a resulting text, if a text can have it."""

    def function(lengths: Any) -> Any:
        _check_lengths(lengths)
        return lengths

    # Volatile as `_nonzero` is.
    return Kernel(
        function=function, arguments=(pa.int64(),), result=pa.int64(), volatility="volatile"
    )


def _repeat(_: re.Match[str]) -> Kernel:
    """A text so many times."""

    def function(texts: Any, counts: Any) -> Any:
        times = counts.cast(pa.float64(), safe=False)
        _check_lengths(pc.multiply(pc.utf8_length(texts), times))
        size_bytes = pc.sum(pc.multiply(pc.binary_length(texts), times)).as_py() or 0
        if size_bytes > limits.REPEATED_BYTES_MAX:
            raise ValueError("Resources exhausted: repeated texts")
        return pc.binary_repeat(texts, counts)

    return Kernel(
        function=function,
        arguments=(pa.string(), pa.int64()),
        result=pa.string(),
        volatility="volatile",
    )


def _check_lengths(lengths: Any) -> None:
    longest = pc.max(lengths).as_py()
    if longest is not None and longest > outcomes.TEXT_LENGTH_MAX:
        raise coded("100078", f"... of {int(longest)} characters")


def _place(_: re.Match[str]) -> Kernel:
    """Where SUBSTR starts: 0 is the first character, -1 the last; beyond any text when before."""

    def function(starts: Any, lengths: Any) -> Any:
        from_end = pc.add(pc.add(lengths, starts), 1)
        from_end = pc.if_else(pc.less(from_end, pa.scalar(1)), PLACE_BEYOND, from_end)
        positions = pc.if_else(
            pc.less(starts, pa.scalar(0)), from_end, pc.max_element_wise(starts, 1)
        )
        return pc.if_else(pc.is_valid(lengths), positions, pa.scalar(None, pa.int64()))

    return Kernel(function=function, arguments=(pa.int64(), pa.int64()), result=pa.int64())


PLACE_BEYOND = (1 << 31) - 1


def _initcap(_: re.Match[str]) -> Kernel:
    """Each word in lower case but for its first letter; delimiters part the words."""

    def capitalised(text: str, delimiters: str) -> str:
        characters, is_first = [], True
        for character in text:
            if character in delimiters:
                characters.append(character)
                is_first = True
            else:
                characters.append(character.upper() if is_first else character.lower())
                is_first = False
        return "".join(characters)

    def function(texts: Any, delimiters: Any) -> Any:
        return pa.array(
            [
                None if text is None or marks is None else capitalised(text, marks)
                for text, marks in zip(texts.to_pylist(), delimiters.to_pylist(), strict=True)
            ],
            pa.string(),
        )

    return Kernel(function=function, arguments=(pa.string(), pa.string()), result=pa.string())


def _split_part(_: re.Match[str]) -> Kernel:
    def part(text: str | None, delimiter: str | None, number: int | None) -> str | None:
        if text is None or delimiter is None or number is None:
            return None
        parts = text.split(delimiter) if delimiter else [text]
        index = number - 1 if number > 0 else number
        return parts[index] if -len(parts) <= index < len(parts) else ""

    def function(*columns: Any) -> Any:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([part(*row) for row in rows], pa.string())

    return Kernel(
        function=function, arguments=(pa.string(), pa.string(), pa.int64()), result=pa.string()
    )


def _strtok(_: re.Match[str]) -> Kernel:
    """The part of that number between characters that delimit; parts are never empty."""

    def part(text: str, delimiters: str, number: int) -> str | None:
        if number < 1:
            return None
        pieces = re.split(f"[{re.escape(delimiters)}]", text) if delimiters else [text]
        parts = [piece for piece in pieces if piece]
        return parts[number - 1] if number <= len(parts) else None

    return by_row(pa.string(), pa.string(), pa.int64(), result=pa.string())(part)


def _insert(_: re.Match[str]) -> Kernel:
    """A text in which so many characters from a place on are replaced by others."""

    def inserted(text: str, place: int, length: int, other: str) -> str:
        if not 1 <= place <= len(text) + 1 or length < 0:
            raise coded("100039", str(place if length >= 0 else length))
        return text[: place - 1] + other + text[place - 1 + length :]

    return by_row(pa.string(), pa.int64(), pa.int64(), pa.string(), result=pa.string())(inserted)


def _sha1(_: re.Match[str]) -> Kernel:
    def digest(text: str) -> str:
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    return by_row(pa.string(), result=pa.string())(digest)


def _sha1_binary(_: re.Match[str]) -> Kernel:
    def digest(text: str) -> bytes:
        return hashlib.sha1(text.encode(), usedforsecurity=False).digest()

    return by_row(pa.string(), result=pa.binary())(digest)


def _soundex(match: re.Match[str]) -> Kernel:
    """A letter and three digits for how an English text sounds; "" for one without letters.

    With p123 a second letter that has the digit of the first one keeps its digit.
    """
    keeps_second = match.group(1) is not None

    def code_of(text: str) -> str:
        letters = [letter for letter in text.upper() if "A" <= letter <= "Z"]
        if not letters:
            return ""
        digits = ""
        before = "" if keeps_second else SOUNDS.get(letters[0], "")
        for letter in letters[1:]:
            digit = SOUNDS.get(letter, "")
            if digit and digit != before:
                digits += digit
            if letter not in "HW":  # letters on both sides of these two count as neighbours
                before = digit
        return (letters[0] + digits + "000")[:4]

    return Kernel(
        function=lambda texts: per_value(texts, code_of, pa.string(), lenient=False),
        arguments=(pa.string(),),
        result=pa.string(),
    )


SOUNDS = {
    letter: str(number)
    for number, letters in enumerate(("BFPV", "CGJKQSXZ", "DT", "L", "MN", "R"), start=1)
    for letter in letters
}


def _base64_encode(match: re.Match[str]) -> Kernel:
    """Bytes in BASE64, in lines of so many characters; 0: in one line."""
    length, marks = int(match.group(1)), bytes.fromhex(match.group(2)).decode()
    own_marks = None if marks == "+/=" else str.maketrans("+/=", marks)

    def encoded(value: bytes) -> str:
        text = base64.b64encode(value).decode("ascii")
        if own_marks is not None:
            text = text.translate(own_marks)
        if not length:
            return text
        return "\n".join(text[at : at + length] for at in range(0, len(text), length))

    return by_row(pa.binary(), result=pa.string())(encoded)


def _base64_decode(match: re.Match[str]) -> Kernel:
    def parse(text: str) -> bytes:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            raise coded("100116", text) from None

    lenient = bool(match.group(1))
    return text_kernel(
        lambda array: per_value(array, parse, pa.binary(), lenient=lenient), pa.binary()
    )


def _compiled(pattern: str) -> Any:
    """Return a pattern compiled by RE2, which matches in time linear in the text.

    Raises ValueError if RE2 refuses the pattern, or if its program would exceed PATTERN_BYTES_MAX.
    """
    options = re2.Options()
    options.max_mem = limits.PATTERN_BYTES_MAX
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace").partition(":")[0]
        raise coded("100048", f"RE2|{reason}|{pattern}") from None


def _regexp(match: re.Match[str]) -> Kernel:
    """The text, or the place, of a match of that number from a place on; 0 is the whole match."""
    wanted, start, occurrence, group = match.group(1), *map(int, match.group(2, 3, 4))

    def result_of(text: str, pattern: Any) -> str | int | None:
        matches = pattern.finditer(text, min(start - 1, len(text)))
        if wanted == "all":
            following = itertools.islice(matches, occurrence - 1, None)
            return variants.dumps([_group_value(one, group) for one in following])
        one = next(itertools.islice(matches, occurrence - 1, None), None)
        if wanted == "substr":
            return None if one is None else one.group(group)
        if one is None:
            return 0
        place: int = one.start(group) if wanted == "instr" else one.end(group)
        return place + 1

    def function(texts: Any, patterns: Any) -> Any:
        results: list[str | int | None] = []
        spelled, pattern = None, None
        for text, wanted_pattern in zip(texts.to_pylist(), patterns.to_pylist(), strict=True):
            if wanted_pattern is not None and wanted_pattern != spelled:
                spelled, pattern = wanted_pattern, _compiled(wanted_pattern)
            is_null = text is None or wanted_pattern is None
            results.append(None if is_null else result_of(text, pattern))
        return pa.array(results, result)

    result = pa.string() if wanted in ("substr", "all") else pa.int64()
    return Kernel(
        function=function,
        arguments=(pa.string(), pa.string()),
        result=result,
        volatility="volatile",
    )


def _group_value(match: Any, group: int) -> str:
    text = match.group(group)
    return variants.UNDEFINED if text is None else variants.text_value(text)


def _search(match: re.Match[str]) -> Kernel:
    """Whether a text has one of the tokens of another one, or every one."""
    analyzer, every = match.group(1), match.group(2) == "and"

    def function(texts: Any, queries: Any) -> Any:
        wanted = searches.ANALYZERS[analyzer](queries[0].as_py()) if len(queries) else set()
        return per_value(
            texts,
            lambda text: searches.matches(text, wanted, analyzer, every=every),
            pa.bool_(),
            lenient=False,
        )

    return Kernel(function=function, arguments=(pa.string(), pa.string()), result=pa.bool_())


def _real_to_text(_: re.Match[str]) -> Kernel:
    return Kernel(
        function=lambda array: per_value(array, variants.plain_real, pa.string(), lenient=False),
        arguments=(pa.float64(),),
        result=pa.string(),
    )


def _to_binary(match: re.Match[str]) -> Kernel:
    def parse(text: str) -> bytes:
        if not HEX.fullmatch(text):
            raise coded("100115", text)
        return bytes.fromhex(text)

    lenient = bool(match.group(1))
    return text_kernel(
        lambda array: per_value(array, parse, pa.binary(), lenient=lenient), pa.binary()
    )


HEX = re.compile("([0-9A-Fa-f]{2})*")


def _utf8(match: re.Match[str]) -> Kernel:
    """Bytes as the text that they are in UTF-8."""

    def parse(value: bytes) -> str:
        try:
            return value.decode()
        except ValueError:
            raise coded("100144", f"0x{value.hex().upper()}") from None

    lenient = bool(match.group(1))
    return Kernel(
        function=lambda array: per_value(array, parse, pa.string(), lenient=lenient),
        arguments=(pa.binary(),),
        result=pa.string(),
        volatility="volatile",
    )


def _place_of_bytes(_: re.Match[str]) -> Kernel:
    """Where bytes stand in others, from a place on; 0 for nowhere."""

    def place(needle: bytes, value: bytes, start: int) -> int:
        return value.find(needle, start - 1) + 1

    return by_row(pa.binary(), pa.binary(), pa.int64(), result=pa.int64())(place)


def _regexp_replaced(match: re.Match[str]) -> Kernel:
    """A text with one of its matches from a place on replaced, or with all of them for 0."""
    position, occurrence = int(match[1]), int(match[2])

    def replaced(text: str, pattern: Any, replacement: str) -> str:
        matches = pattern.finditer(text, min(position - 1, len(text)))
        if occurrence:
            matches = itertools.islice(matches, occurrence - 1, occurrence)
        written: list[str] = []
        at = 0
        for one in matches:
            written += (text[at : one.start()], _expanded(replacement, one))
            at = one.end()
        return "".join((*written, text[at:]))

    def function(texts: Any, patterns: Any, replacements: Any) -> Any:
        spelled, pattern = None, None
        results = []
        columns = (texts.to_pylist(), patterns.to_pylist(), replacements.to_pylist())
        for text, wanted, replacement in zip(*columns, strict=True):
            if wanted is not None and wanted != spelled:
                spelled, pattern = wanted, _compiled(wanted)
            is_null = text is None or wanted is None or replacement is None
            results.append(None if is_null else replaced(text, pattern, replacement))
        return kernelforms.array_of(results, pa.string())

    text_type = pa.string()
    return Kernel(
        function=function,
        arguments=(text_type, text_type, text_type),
        result=text_type,
        volatility="volatile",
    )


def _expanded(replacement: str, match: Any) -> str:
    r"""Return a replacement with the groups of a match in the place of \0 to \9."""

    def group(reference: re.Match[str]) -> str:
        letter = reference[1]
        if not letter.isdecimal():
            return letter
        number = int(letter)
        return (match.group(number) or "") if number <= match.re.groups else ""

    return REFERENCE.sub(group, replacement)


REFERENCE = re.compile(r"\\(.)", re.DOTALL)


def _uuid_of_name(_: re.Match[str]) -> Kernel:
    """The UUID of version 5 of a name in a namespace."""

    def named(namespace: str, name: str) -> str:
        if not UUID.fullmatch(namespace):
            raise coded("100038", namespace)
        space = bytes.fromhex(namespace.replace("-", ""))
        digest = bytearray(hashlib.sha1(space + name.encode(), usedforsecurity=False).digest())
        digest[6] = digest[6] & 0x0F | 0x50  # version 5
        digest[8] = digest[8] & 0x3F | 0x80
        digits = digest[:16].hex()
        ends = (0, 8, 12, 16, 20, 32)
        return "-".join(digits[start:end] for start, end in itertools.pairwise(ends))

    return by_row(pa.string(), pa.string(), result=pa.string())(named)


UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _jaro_winkler(_: re.Match[str]) -> Kernel:
    """How similar two texts are, from 0 to 100, letters of both cases being the same."""
    return by_row(pa.string(), pa.string(), result=pa.int64())(
        lambda left, right: int(100 * similarities.jaro_winkler(left.lower(), right.lower()))
    )


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile("_place_of_bytes"), _place_of_bytes),
    (re.compile(r"_regexp_replace_(\d+)_(\d+)"), _regexp_replaced),
    (re.compile("_uuid_of_name"), _uuid_of_name),
    (re.compile("_jaro_winkler"), _jaro_winkler),
    (re.compile(r"_(try_)?to_binary"), _to_binary),
    (re.compile("_initcap"), _initcap),
    (re.compile("_text_length"), _text_length),
    (re.compile("_repeat"), _repeat),
    (re.compile("_place"), _place),
    (re.compile("_split_part"), _split_part),
    (re.compile("_real_to_text"), _real_to_text),
    (re.compile("_strtok"), _strtok),
    (re.compile("_insert"), _insert),
    (re.compile("_sha1"), _sha1),
    (re.compile("_sha1_binary"), _sha1_binary),
    (re.compile("_soundex(_p123)?"), _soundex),
    (re.compile("_base64_encode_([0-9]+)_([0-9a-f]{6})"), _base64_encode),
    (re.compile("_(try_)?base64_decode"), _base64_decode),
    (re.compile("_(try_)?utf8"), _utf8),
    (re.compile(f"_search_({'|'.join(searches.ANALYZERS)})_(and|or)"), _search),
    (re.compile(r"_regexp_(substr|instr|end|all)_(\d+)_(\d+)_(\d+)"), _regexp),
)
