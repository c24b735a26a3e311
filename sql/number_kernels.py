"""rule: kernels of numeric format models (`sql.numberformats`): numbers as texts, texts as numbers.

A NUMBER is printed, and a text read, by Arrow's functions for all rows of a batch where the model
is of digits, separators, a sign and `$`; other models are followed once per distinct value.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sql import errors, kernelforms, numberformats
from sql.kernelforms import Kernel, coded, per_value, text_kernel
from sql.numberformats import FormatElement, FormatModel, FormatReader


def _printed(match: re.Match[str]) -> Kernel:
    """TO_CHAR of a NUMBER by a model."""
    precision, scale = int(match.group(1)), int(match.group(2))
    model = numberformats.output_model(_spelled(match.group(3)))
    number = pa.decimal128(precision, scale)

    def function(numbers: Any) -> Any:
        if is_plain(model, precision, scale):
            return printed_plain(model, numbers)
        return per_value(
            numbers, lambda value: numberformats.printed(model, value), pa.string(), lenient=False
        )

    return Kernel(function=function, arguments=(number,), result=pa.string())


def _printed_real(match: re.Match[str]) -> Kernel:
    """TO_CHAR of a FLOAT by a model: of the fewest digits that are this FLOAT."""
    model = numberformats.output_model(_spelled(match.group(1)))

    def text(value: float) -> str:
        return numberformats.printed(model, decimal.Decimal(repr(value)), is_real=True)

    return Kernel(
        function=lambda reals: per_value(reals, text, pa.string(), lenient=False),
        arguments=(pa.float64(),),
        result=pa.string(),
    )


def _spelled(digits: str) -> str:
    return bytes.fromhex(digits).decode()


WIDEST = 76
"""The most digits of Arrow's widest decimals."""


def is_plain(model: FormatModel, precision: int, scale: int) -> bool:
    """Return whether `printed_plain` prints numbers of such a type by a model."""
    places = model.places
    if not places or model.is_hexadecimal or model.has("exponent", "minimal", "percent", "blank"):
        return False
    core = model.elements[places[0] : places[-1] + 1]
    outer = (*model.elements[: places[0]], *model.elements[places[-1] + 1 :])
    if any(each.name == "group" for each in outer):
        return False
    if any(each.name not in (*numberformats.IN_NUMBER, "group") for each in core):
        return False
    point = next((at for at, each in enumerate(core) if each.name == "point"), len(core))
    if any(each.name == "group" for each in core[point:]) or not model.whole:
        return False
    if len({each.fills for each in core}) > 1:
        return False
    digits = len(model.fraction)
    return precision - scale + 2 * digits + 3 <= WIDEST


def printed_plain(model: FormatModel, numbers: Any) -> Any:
    """Return NUMBERs as texts by a model of digits, separators, a sign and `$`."""
    whole, fraction = model.whole, model.fraction
    digits, fills = len(fraction), whole[0].fills
    units = _units(numbers, digits)
    is_negative = pc.less(units, pa.scalar(decimal.Decimal(0), units.type))
    text = pc.utf8_lpad(pc.abs(units).cast(pa.string()), digits + 1, "0")
    before: Any = pc.utf8_slice_codeunits(text, 0, -digits) if digits else text
    before = pc.utf8_lpad(pc.utf8_ltrim(before, "0"), len(whole), "0")
    is_over = pc.greater(pc.utf8_length(before), pa.scalar(len(whole)))
    before = _separated(model, pc.if_else(is_over, "#" * len(whole), before))
    floating = [numberformats.floating(model, is_negative=negative) for negative in (True, False)]
    printed = _joined(pc.if_else(is_negative, *floating), before)
    if fills:
        printed = pc.utf8_lpad(printed, len(_spans(model)) + len(floating[0]), " ")
    if model.has("point"):
        printed = _joined(printed, pa.scalar("."))
    if digits:
        after = pc.utf8_rtrim(pc.utf8_slice_codeunits(text, -digits), "0")
        after = pc.utf8_rpad(after, numberformats.kept(fraction[::-1]), "0")
        after = pc.if_else(is_over, "#" * digits, after)
        printed = _joined(printed, pc.utf8_rpad(after, digits, " ") if fills else after)
    first, last = model.places[0], model.places[-1]
    outer = [
        pc.if_else(is_negative, *(_marks(elements, is_negative=each) for each in (True, False)))
        for elements in (
            [each for each in model.elements[:first] if each.name not in numberformats.FLOATING],
            model.elements[last + 1 :],
        )
    ]
    return _joined(outer[0], printed, outer[1])


def _units(numbers: Any, digits: int) -> Any:
    """Return numbers, rounded to so many digits after the point, in units of the last."""
    precision, scale = numbers.type.precision, numbers.type.scale
    exact: Any = numbers.cast(pa.decimal256(precision + 1, scale))
    rounded: Any = pc.round(exact, digits, "half_towards_infinity")
    rounded = rounded.cast(pa.decimal256(precision - scale + 1 + digits, digits))
    unit = pa.scalar(decimal.Decimal(10**digits), pa.decimal256(digits + 1, 0))
    units: Any = pc.multiply(rounded, unit)
    return units.cast(pa.decimal256(units.type.precision, 0))


def _spans(model: FormatModel) -> str:
    """Return the places before the point: `0`, `9` and `,`."""
    marks = {"zero": "0", "digit": "9", "group": ","}
    point = next(
        (at for at, each in enumerate(model.elements) if each.name == "point"), len(model.elements)
    )
    return "".join(marks.get(each.name, "") for each in model.elements[:point])


def _separated(model: FormatModel, digits: Any) -> Any:
    """Return as many digits as a model has places, with separators, without zeros in front."""
    parts, at = [], 0
    for group in _spans(model).split(","):
        parts.append(pc.utf8_slice_codeunits(digits, at, at + len(group)))
        at += len(group)
    join: Any = pc.binary_join_element_wise
    separated = join(*parts, ",") if len(parts) > 1 else digits
    spans = _spans(model)
    kept = len(spans) - (spans.index("0") if "0" in spans else spans.rindex("9"))
    trimmed: Any = pc.utf8_ltrim(separated, "0,")
    return pc.if_else(
        pc.less(pc.utf8_length(trimmed), pa.scalar(kept)),
        pc.utf8_slice_codeunits(separated, len(spans) - kept, len(spans)),
        trimmed,
    )


def _marks(elements: Iterable[FormatElement], *, is_negative: bool) -> str:
    return "".join(numberformats.mark(each, is_negative=is_negative) for each in elements)


def _joined(*parts: Any) -> Any:
    join: Any = pc.binary_join_element_wise
    return join(*parts, "")


def _number_of_text(match: re.Match[str]) -> Kernel:
    """TO_NUMBER of a text by models, one after the other."""
    lenient, text = bool(match.group(1)), _spelled(match.group(4))
    precision, scale = int(match.group(2)), int(match.group(3))
    result = pa.decimal128(precision, scale)
    readers = numberformats.readers(text)

    def read(value: str) -> decimal.Decimal:
        for reader in readers:
            number = reader.number(value)
            if number is not None:
                return kernelforms.fit_fixed(number, precision, scale)
        raise coded("100140", f"{value[:SHOWN_MAX]}{errors.BETWEEN}{text}")

    def function(texts: Any) -> Any:
        if all(reads_plain(reader) for reader in readers):
            numbers = read_plain(readers, texts, precision, scale)
            if numbers is not None:
                return numbers
        return per_value(texts, read, result, lenient=lenient)

    return text_kernel(function, result)


def _real_of_text(match: re.Match[str]) -> Kernel:
    """A text by a model as a FLOAT, which may have more digits than a NUMBER has."""
    text = _spelled(match.group(1))
    readers = numberformats.readers(text)

    def read(value: str) -> float:
        for reader in readers:
            number = reader.number(value)
            if number is not None:
                return float(number)
        raise coded("100140", f"{value[:SHOWN_MAX]}{errors.BETWEEN}{text}")

    return text_kernel(
        lambda texts: per_value(texts, read, pa.float64(), lenient=False), pa.float64()
    )


SHOWN_MAX = 100
"""Of a text that is no number, so many characters stand in the error."""


def reads_plain(reader: FormatReader) -> bool:
    """Return whether `read_plain` reads texts by a model."""
    model = reader.model
    return not (
        model.is_exact or model.is_hexadecimal or model.has("exponent", "minimal", "percent")
    )


def read_plain(readers: Iterable[FormatReader], texts: Any, precision: int, scale: int) -> Any:
    """Return texts of digits and separators as numbers; None if one is none, or does not fit."""
    spelled: list[Any] = []
    for reader in readers:
        parts: Any = pc.extract_regex(texts, reader.pattern)
        names = {field.name for field in parts.type}
        whole = pc.replace_substring(pc.struct_field(parts, "whole"), ",", "")
        sign = pc.struct_field(parts, "sign") if "sign" in names else pa.scalar("")
        pieces = [sign, pa.scalar("0"), whole]
        if "fraction" in names:
            pieces += [pa.scalar("."), pc.struct_field(parts, "fraction")]
        spelled.append(_joined(*pieces))
    numbers = pc.coalesce(*spelled)
    if numbers.null_count > texts.null_count:
        return None
    try:
        exact: Any = pc.cast(numbers, pa.decimal256(WIDEST, WIDEST // 2))
        rounded: Any = pc.round(exact, scale, "half_towards_infinity")
        return rounded.cast(pa.decimal128(precision, scale))
    except pa.ArrowInvalid:
        return None  # each value by its own: the fault names one


FAMILIES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Kernel]], ...] = (
    (re.compile("_number_text_([0-9]+)_([0-9]+)_([0-9a-f]*)"), _printed),
    (re.compile("_number_text_real_([0-9a-f]*)"), _printed_real),
    (re.compile("_real_of_text_([0-9a-f]*)"), _real_of_text),
    (re.compile("_(try_)?number_of_text_([0-9]+)_([0-9]+)_([0-9a-f]*)"), _number_of_text),
)
