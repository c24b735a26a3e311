"""rule: Snowflake's numeric format models: how a number is printed, and which texts are numbers.

A model is a row of elements: places of digits (`0 9 X`), `. D` and `, G`, signs (`S MI`), `$`, `B`,
`%`, exponents (`EE` to `EEEEE`), text-minimal numbers (`TM TM9 TME`), literals, and the modifiers
`FM` and `FX`. `printed` follows a model element by element; `pattern` is the regular expression of
the texts that a model reads, for Python's and for Arrow's engine alike. Source: Snowflake's page
"SQL format models".
"""

from __future__ import annotations

import decimal
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

ElementName: TypeAlias = Literal[
    "digit",
    "zero",
    "hexadecimal",
    "group",
    "point",
    "dollar",
    "percent",
    "sign",
    "minus",
    "blank",
    "exponent",
    "minimal",
    "literal",
    "gap",
]

MODEL_LENGTH_MAX: Final = 256
DIGITS: Final = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_UP)
"""Enough digits for the greatest and the least FLOAT, and for half of its last place."""


class BadModel(ValueError):
    """A text is no format model; the message is Snowflake's reason."""


class UnsupportedModel(ValueError):
    """A model has an element where Boathouse does not read it; the message names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatElement:
    """One element. text: as the model spells it, a literal without its quotes.

    fills: the fill mode holds, so that blanks stand for what is not printed.
    """

    name: ElementName
    text: str
    fills: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatModel:
    """The elements of one format. is_exact: texts are read only as the model prints them."""

    elements: tuple[FormatElement, ...]
    is_exact: bool = False

    @property
    def places(self) -> tuple[int, ...]:
        """Where in `elements` a digit or the point stands."""
        return tuple(
            index for index, element in enumerate(self.elements) if element.name in IN_NUMBER
        )

    @property
    def is_hexadecimal(self) -> bool:
        return self.has("hexadecimal")

    @property
    def has_sign(self) -> bool:
        return self.has("sign", "minus")

    def has(self, *names: ElementName) -> bool:
        return any(element.name in names for element in self.elements)

    @property
    def whole(self) -> tuple[FormatElement, ...]:
        """The places of digits before the point."""
        return self._digits(before=True)

    @property
    def fraction(self) -> tuple[FormatElement, ...]:
        """The places of digits after the point."""
        return self._digits(before=False)

    def _digits(self, *, before: bool) -> tuple[FormatElement, ...]:
        point = next(
            (index for index, each in enumerate(self.elements) if each.name == "point"),
            len(self.elements),
        )
        side = self.elements[:point] if before else self.elements[point:]
        return tuple(element for element in side if element.name in PLACES)


PLACES: Final = ("digit", "zero", "hexadecimal")
IN_NUMBER: Final = (*PLACES, "point", "minimal")
FLOATING: Final = ("dollar", "sign")
"""What is printed immediately before the first digit, if the model has it before the digits."""
ONCE: Final[dict[ElementName, str]] = {
    "point": "point",
    "sign": "sign",
    "minus": "sign",
    "exponent": "exponent",
    "minimal": "minimal",
    "dollar": "dollar",
    "percent": "percent",
    "blank": "blank",
}
"""The elements of which a model has one, and what they exclude: those of the same word."""


# Reading models

TOKEN = re.compile(
    r"""(?P<literal>"(?:[^"]|"")*"|[ \-/:();=])
    |(?P<fill>FM)|(?P<exact>FX)
    |(?P<exponent>E{2,5}(?!E))|(?P<minimal>TM[9E]?)
    |(?P<minus>MI)|(?P<sign>S)
    |(?P<digit>9)|(?P<zero>0)|(?P<hexadecimal>X)
    |(?P<group>[,G])|(?P<point>[.D])|(?P<dollar>\$)|(?P<percent>%)|(?P<blank>B)|(?P<gap>_)
    |(?P<keyword>[A-Z0-9][A-Z0-9_$%]*)
    |(?P<other>.)""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def output_model(text: str) -> FormatModel:
    """Return the model by which numbers are printed; raises BadModel and UnsupportedModel."""
    return _model(text, is_input=False)


def input_models(text: str) -> tuple[FormatModel, ...]:
    """Return the models by which a text is read, separated by `|`; raises as `output_model`."""
    return tuple(_model(part, is_input=True) for part in _alternatives(text))


def _alternatives(text: str) -> list[str]:
    """Return the parts between the bars of a model; a bar in quotes separates nothing."""
    parts, quoted = [""], False
    for character in text:
        quoted ^= character == '"'
        if character == "|" and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _model(text: str, *, is_input: bool) -> FormatModel:
    if is_input and text.upper() == "AUTO":
        text = "TM"
    if "TM9(" in text.upper():
        raise UnsupportedModel("TM9 with parameters")
    elements: list[FormatElement] = []
    fills, is_exact, taken = True, False, dict[str, str]()
    for match in TOKEN.finditer(text):
        name, spelled = str(match.lastgroup), match.group()
        if name == "fill":
            fills = not fills
            continue
        if name == "exact":
            if is_input and elements:
                raise UnsupportedModel("FX after other elements")
            is_exact = not is_exact
            continue
        element = _element(text, name, spelled, fills)
        _check_repeats(element, taken)
        if taken.get("exponent") and element.name in (*IN_NUMBER, "group"):
            raise BadModel(f"digit position after an exponent format element: '{text}'")
        elements.append(element)
    model = FormatModel(elements=tuple(elements), is_exact=is_exact)
    _check_whole(text, model, is_input=is_input)
    return model


def _element(text: str, name: str, spelled: str, fills: bool) -> FormatElement:
    if name == "keyword":
        raise BadModel(f"invalid numeric format keyword: '{spelled}'")
    if name == "other":
        if spelled == '"':
            raise BadModel(f"missing closing \" in the literal: '{text}'")
        raise BadModel(f"invalid character in the format string: '{spelled}'")
    if name == "literal" and spelled.startswith('"'):
        spelled = spelled[1:-1].replace('""', '"')
    return FormatElement(name=name, text=spelled, fills=fills)  # type: ignore[arg-type]  # a group's name


def _check_repeats(element: FormatElement, taken: dict[str, str]) -> None:
    """Raise BadModel for a second element of those that stand once."""
    family = ONCE.get(element.name)
    if family is None:
        return
    earlier = taken.setdefault(family, "")
    if earlier:
        same = earlier == element.text.upper()
        reason = "occurs more than once" if same else "conflicts with preceding element(s)"
        raise BadModel(f"format element {reason}: '{element.text}'")
    taken[family] = element.text.upper()


def _check_whole(text: str, model: FormatModel, *, is_input: bool) -> None:
    """Raise BadModel for elements that exclude each other, and for a model without digits."""
    if model.is_hexadecimal:
        if model.has("digit", "minimal"):
            raise BadModel(f"cannot mix hexadecimal and decimal format elements: '{text}'")
        for name, what in HEXADECIMAL_LACKS.items():
            if model.has(name):
                raise BadModel(f"hexadecimal {what} are not supported: '{text}'")
    if model.has("minimal") and model.has("digit", "zero", "point"):
        raise BadModel(f"cannot mix TM and digit-based numeric format elements: '{text}'")
    if model.has(*PLACES, "minimal"):
        return
    if is_input and not model.elements:
        raise BadModel("missing required input format element(s)")
    if is_input or (not model.elements and text) or model.has(*ONCE):
        raise BadModel(f"no digit format elements in a numeric format: '{text}'")


HEXADECIMAL_LACKS: Final[dict[ElementName, str]] = {
    "exponent": "exponents",
    "group": "digit group separators",
    "point": "fractions",
}


# Printing


def printed(model: FormatModel, number: decimal.Decimal, *, is_real: bool = False) -> str:
    """Return a number as a model prints it. is_real: the number is a FLOAT, by its digits.

    What has more digits than the model has places is `#` in each place.
    """
    if model.has("percent") and number.is_finite():
        number = DIGITS.multiply(number, decimal.Decimal(100))
    if model.has("minimal"):
        return _printed_minimal(model, number, is_real=is_real)
    return _printed_fixed(model, number)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Digits:
    """What a model's places hold, most significant first; "" where a place is not printed."""

    whole: tuple[str, ...]
    fraction: tuple[str, ...]
    exponent: str
    is_negative: bool


def _printed_fixed(model: FormatModel, number: decimal.Decimal) -> str:
    digits = _hexadecimal(model, number) if model.is_hexadecimal else _decimal(model, number)
    first_place = next(iter(model.places), len(model.elements))
    before_digits = floating(model, is_negative=digits.is_negative)
    wholes, fractions = iter(digits.whole), iter(digits.fraction)
    remaining = len(digits.whole)
    cells: list[str] = []
    has_begun = after_point = False
    for index, element in enumerate(model.elements):
        cell = ""
        blank = " " if element.fills else ""
        if element.name in PLACES:
            cell = next(fractions if after_point else wholes)
            if not after_point:
                remaining -= 1
            if cell and not has_begun:
                cells.append(before_digits)
                has_begun = True
            cell = cell or blank
        elif element.name == "group":
            cell = "," if has_begun else blank
        elif element.name == "point":
            after_point, cell = True, "."
        elif element.name == "exponent":
            is_padded = len(element.text) == 2 and element.fills
            cell = digits.exponent.ljust(5) if is_padded else digits.exponent
        elif element.name in FLOATING and index < first_place:
            pass  # part of what floats
        else:
            cell = mark(element, is_negative=digits.is_negative)
        if element.name == "point" and not has_begun:
            cells.append(before_digits)
            has_begun = True
        cells.append(cell)
        if element.name in PLACES and not remaining and not has_begun and not digits.fraction:
            cells.append(before_digits)
            has_begun = True
    return "".join(cells)


def floating(model: FormatModel, *, is_negative: bool) -> str:
    """Return what stands immediately before the first printed digit: a sign, `$`."""
    first_place = next(iter(model.places), len(model.elements))
    parts = [
        mark(element, is_negative=is_negative)
        for element in model.elements[:first_place]
        if element.name in FLOATING
    ]
    if not model.has_sign and not model.is_hexadecimal:
        fills = first_place >= len(model.elements) or model.elements[first_place].fills
        parts.insert(0, "-" if is_negative else " " if fills else "")
    return "".join(parts)


def mark(element: FormatElement, *, is_negative: bool) -> str:
    """Return an element that prints no digit, where it stands."""
    match element.name:
        case "literal" | "percent" | "dollar":
            return element.text
        case "sign":
            return "-" if is_negative else "+"
        case "minus":
            return "-" if is_negative else " " if element.fills else ""
    return ""  # B and _ print nothing


def _decimal(model: FormatModel, number: decimal.Decimal) -> _Digits:
    whole, fraction = model.whole, model.fraction
    if not number.is_finite():
        return _overflow(model, is_negative=number.is_signed() and not number.is_nan())
    exponent = ""
    if model.has("exponent"):
        number, exponent = _normalised(model, number)
    rounded = number.quantize(decimal.Decimal(1).scaleb(-len(fraction)), context=DIGITS)
    text = f"{rounded.copy_abs():f}"
    before, _, after = text.partition(".")
    before = before.lstrip("0")
    if len(before) > len(whole):
        return _overflow(model, is_negative=rounded < 0, exponent=exponent)
    if not before and whole and not model.has("blank"):
        before = "0"
    if before or not model.has("blank"):
        before = before.rjust(kept(whole), "0")
    after = after.rstrip("0").ljust(kept(fraction[::-1]), "0")
    return _Digits(
        whole=("",) * (len(whole) - len(before)) + tuple(before),
        fraction=tuple(after) + ("",) * (len(fraction) - len(after)),
        exponent=exponent,
        is_negative=rounded < 0,
    )


def kept(places: tuple[FormatElement, ...]) -> int:
    """Return how many places are printed in any case: from the first `0` to the point."""
    return next(
        (len(places) - index for index, place in enumerate(places) if place.name == "zero"), 0
    )


def _normalised(model: FormatModel, number: decimal.Decimal) -> tuple[decimal.Decimal, str]:
    """Return a number without its exponent, a digit in each place before the point; and that."""
    places, digits = len(model.whole), len(model.fraction)
    power = number.adjusted() - places + 1 if number else 0
    unit = decimal.Decimal(1).scaleb(-digits)
    mantissa = number.scaleb(-power, context=DIGITS)
    if mantissa.quantize(unit, context=DIGITS).copy_abs() >= decimal.Decimal(10) ** places:
        power += 1
        mantissa = number.scaleb(-power, context=DIGITS)
    spelled = next(each.text for each in model.elements if each.name == "exponent")
    if len(spelled) == 2:
        return mantissa, f"{spelled[0]}{power}"
    width = len(spelled) - 2
    shown = str(abs(power)).rjust(width, "0")
    if len(shown) > width:
        shown = "#" * width
    return mantissa, f"{spelled[0]}{'-' if power < 0 else '+'}{shown}"


def _hexadecimal(model: FormatModel, number: decimal.Decimal) -> _Digits:
    places = model.whole
    if not number.is_finite():
        return _overflow(model, is_negative=number.is_signed() and not number.is_nan())
    value = int(number.quantize(decimal.Decimal(1), context=DIGITS))
    is_negative, span = value < 0, 16 ** len(places)
    if model.has_sign:
        value = abs(value)
    elif is_negative:
        value = value + span if -value <= span // 2 else span
    if value >= span:
        return _overflow(model, is_negative=is_negative)
    text = f"{value:x}"
    text = "" if value == 0 and model.has("blank") else text.rjust(kept(places), "0")
    shown = [""] * (len(places) - len(text)) + list(text)
    for index, digit in enumerate(shown):
        following = next(
            (each for each in places[index:] if each.name == "hexadecimal"), places[-1]
        )
        shown[index] = digit if following.text == "x" else digit.upper()
    return _Digits(whole=tuple(shown), fraction=(), exponent="", is_negative=is_negative)


def _overflow(model: FormatModel, *, is_negative: bool, exponent: str = "") -> _Digits:
    return _Digits(
        whole=("#",) * len(model.whole),
        fraction=("#",) * len(model.fraction),
        exponent=exponent,
        is_negative=is_negative,
    )


POSITIONAL_DIGITS_MAX: Final = 38
"""The most digits of a FLOAT in front of the point, or behind it, without an exponent."""


def _printed_minimal(model: FormatModel, number: decimal.Decimal, *, is_real: bool) -> str:
    (place,) = model.places
    is_negative = number.is_signed() and number != 0
    cells = []
    for index, element in enumerate(model.elements):
        if index == place:
            digits = _minimal(element, number.copy_abs(), is_real=is_real)
            if number == 0 and model.has("blank"):
                digits = " " if element.fills else ""
            cells.append(floating(model, is_negative=is_negative).lstrip(" ") + digits)
        elif index > place or element.name not in FLOATING:
            cells.append(mark(element, is_negative=is_negative))
    return "".join(cells)


def _minimal(element: FormatElement, size: decimal.Decimal, *, is_real: bool) -> str:
    if not size.is_finite():
        return "NaN" if size.is_nan() else "inf"
    _, digits, _ = size.normalize(DIGITS).as_tuple()
    letter = "E" if element.text[0] == "T" else "e"
    power = size.adjusted() if size else 0
    mantissa = "".join(map(str, digits))
    point = "." if len(mantissa) > 1 else ""
    scientific = f"{mantissa[0]}{point}{mantissa[1:]}{letter}{power}"
    form = element.text.upper()
    if form == "TME":
        return scientific
    if not is_real:
        positional = f"{size:f}"
        if not element.fills and "." in positional:
            positional = positional.rstrip("0").rstrip(".")
        return positional
    positional = f"{size.normalize(DIGITS):f}"
    if power >= POSITIONAL_DIGITS_MAX:
        return scientific
    if form == "TM9":
        return positional if power >= -POSITIONAL_DIGITS_MAX else "0"
    return min(positional, scientific, key=len)


# Reading texts


def pattern(model: FormatModel) -> str:
    """Return the regular expression of the texts that a model reads, blanks around them included.

    Its groups: `sign` before or after the digits, `whole`, `fraction`, `exponent`, `hexadecimal`
    and `number`, each at most once. Raises UnsupportedModel.
    """
    places = model.places
    before, after = model.elements[: places[0]], model.elements[places[-1] + 1 :]
    pieces = [WIDE_BLANKS]
    for each in before:
        if each.name not in FLOATING:
            pieces += _read_mark(each, after=False)
    if not model.has_sign:
        sign = [] if model.is_hexadecimal else ["(?P<sign>[-+]?)"]
        pieces += [ANY_BLANKS, *sign, ANY_BLANKS]
    for each in before:
        if each.name in FLOATING:
            pieces += _read_mark(each, after=False)
    pieces += _read_digits(model)
    for each in after:
        pieces += _read_mark(each, after=True)
    return f"(?i)^{''.join(_merged([*pieces, WIDE_BLANKS]))}$"


BLANKS: Final = " \t\n\r\f\v"
WIDE_BLANKS: Final = r"[ \t\n\r\f\v]*"
ANY_BLANKS: Final = " *"
SOME_BLANKS: Final = " +"


def _merged(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of a pattern; neighbouring runs of blanks are one, which matches the same.

    Python's engine tries all ways to share a text's blanks among neighbouring runs.
    """
    runs = (WIDE_BLANKS, ANY_BLANKS, SOME_BLANKS)
    for is_blank, group in itertools.groupby(pieces, runs.__contains__):
        if not is_blank:
            yield from group
            continue
        run = list(group)
        least = run.count(SOME_BLANKS)
        exactly = f" {{{least}}}" if least else ""
        if run[0] == WIDE_BLANKS:
            yield WIDE_BLANKS + exactly
        elif run[-1] == WIDE_BLANKS:
            yield exactly + WIDE_BLANKS
        else:
            yield f" {{{least},}}" if least else ANY_BLANKS


def _read_mark(element: FormatElement, *, after: bool) -> list[str]:
    """Return the pieces of the pattern of an element outside the digits."""
    match element.name:
        case "literal":
            return [
                SOME_BLANKS if part.isspace() else re.escape(part)
                for part in re.split("( +)", element.text)
                if part
            ]
        case "sign":
            sign = "(?P<sign>[-+])"
            return [ANY_BLANKS, sign] if after else [sign, ANY_BLANKS]
        case "minus":
            sign = "(?P<sign>[-+]?)"
            return [ANY_BLANKS, sign] if after else [ANY_BLANKS, sign, ANY_BLANKS]
        case "gap":
            return [ANY_BLANKS]
        case "exponent":
            return ["[Ee](?P<exponent>[-+]?[0-9]{1,3})", ANY_BLANKS]
        case "dollar":
            return [r"\$"]
        case "percent":
            return ["%"]
    return []  # B


def _read_digits(model: FormatModel) -> list[str]:
    core = model.elements[model.places[0] : model.places[-1] + 1]
    if any(element.name not in (*IN_NUMBER, "group", "gap", "blank") for element in core):
        raise UnsupportedModel("marks between the digits of a number that is read")
    if model.has("minimal"):
        form = next(each.text for each in core if each.name == "minimal").upper()
        exponent = {"TM": "(?:[Ee][-+]?[0-9]{1,3})?", "TM9": "", "TME": "[Ee][-+]?[0-9]{1,3}"}
        return [rf"(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){exponent[form]})"]
    whole, fraction = model.whole, model.fraction
    least = max(kept(whole), 0 if model.has("blank") else 1)
    if model.is_hexadecimal:
        return [f"(?P<hexadecimal>[0-9A-Fa-f]{{{least},{len(whole)}}})"]
    parts = [f"(?P<whole>{'|'.join(_read_whole(core, least))})"]
    if model.has("point"):
        low = kept(fraction[::-1])
        parts.append(rf"(?:\.(?P<fraction>[0-9]{{{low},{len(fraction)}}}))" + "?" * (not low))
    return [*parts, ANY_BLANKS]


def _read_whole(core: tuple[FormatElement, ...], least: int) -> Iterator[str]:
    """Yield what the digits before the point may be: without separators, or with all of them."""
    sizes, after_point = [0], False
    for element in core:
        if element.name == "point":
            after_point = True
        elif element.name == "group" and after_point:
            raise UnsupportedModel("group separators in the fraction of a number that is read")
        elif element.name == "group":
            sizes.append(0)
        elif element.name in PLACES and not after_point:
            sizes[-1] += 1
    digits = sum(sizes)
    yield f"[0-9]{{{min(least, digits)},{digits}}}"
    for index in range(len(sizes) - 2, -1, -1):
        rest = sizes[index + 1 :]
        low = max(least - sum(rest), 1)
        if low <= sizes[index]:
            tail = "".join(f",[0-9]{{{size}}}" for size in rest)
            yield f"[0-9]{{{low},{sizes[index]}}}{tail}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatReader:
    """A model with its compiled pattern."""

    model: FormatModel
    pattern: str
    compiled: re.Pattern[str]

    def number(self, text: str) -> decimal.Decimal | None:
        """Return the number that a text is by the model, or None."""
        shortened = self._with_few_blanks(text)
        match = self.compiled.match(shortened)
        if match is None or match.end() < len(shortened):
            return None
        number = _number(match.groupdict())
        if self.model.has("percent"):
            number = DIGITS.divide(number, decimal.Decimal(100))
        if self.model.is_exact and not self.model.has("minimal"):
            same = printed(self.model, number).casefold() == text.casefold()
            return number if same else None
        return number

    def _with_few_blanks(self, text: str) -> str:
        """Return a text with fewer blanks, which reads the same: one more than the model requires.

        A sign or digits that may be absent stand between two runs of blanks, and Python's engine
        tries all ways to share a text's blanks among them.
        """
        head = text.lstrip(BLANKS)
        body = head.rstrip(BLANKS)
        leading, trailing = text[: len(text) - len(head)], head[len(body) :]
        before = len(leading) - len(leading.rstrip(" "))
        after = len(trailing) - len(trailing.lstrip(" "))
        if not body:
            before = max(before, len(leading) - len(leading.lstrip(" ")))
        text = f"{' ' * before}{body}{' ' * after}"
        few = " " * (1 + sum(each.text.count(" ") for each in self.model.elements))
        return re.sub(f"{few} +", few, text) if few + " " in text else text


def _number(groups: dict[str, str | None]) -> decimal.Decimal:
    sign = groups.get("sign") or ""
    if groups.get("hexadecimal") is not None:
        return decimal.Decimal(f"{sign}{int(groups['hexadecimal'] or '0', 16)}")
    text = groups.get("number")
    if text is None:
        whole = (groups.get("whole") or "").replace(",", "") or "0"
        text = f"{whole}.{groups.get('fraction') or ''}E{groups.get('exponent') or 0}"
    return decimal.Decimal(sign + text)


def readers(text: str) -> tuple[FormatReader, ...]:
    """Return what reads texts by a model; raises BadModel and UnsupportedModel."""
    models = input_models(text)
    patterns = map(pattern, models)
    return tuple(
        FormatReader(model=model, pattern=spelled, compiled=re.compile(spelled))
        for model, spelled in zip(models, patterns, strict=True)
    )
