"""The tool `calculate`: arithmetic with exact fractions, from a parsed expression and never run."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DecimalException, getcontext, localcontext
from fractions import Fraction
from functools import partial

from daemon.core.trust import Effect
from daemon.tools.base import ToolError
from daemon.tools.signature import tool

MAX_CHARS, MAX_BITS, MAX_PLACES = 400, 12_000, 100
MAX_DIGITS, SHOWN_DIGITS = 30, 15
CONTEXT = Context(prec=800, Emin=-3_600, Emax=3_600)
Number = Fraction | Decimal  # only a Fraction is exact
SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", ":": "/", "−": "-", "^": "**", "\0": "?"})
CONSTANTS = {"pi": Fraction(math.pi), "e": CONTEXT.exp(Decimal(1))}
GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)")
MODULE = re.compile(r"\b(?:math|Math|np)\.(?=[a-z])")
HELP = (
    "use numbers without thousands separators, + - * / // % **, parentheses, pi, e and sqrt, round,"
    " abs, min, max, floor, ceil, exp, log, log10, sin, cos, tan; 15% of 80 is 15/100*80"
)


@tool(effect=Effect.READ, parallel=True, public=True)
async def calculate(expression: str) -> str:
    """Calculate exactly, such as 3*(12.5+1)/100 or round(sqrt(2), 3)."""
    if len(expression) > MAX_CHARS:
        raise ToolError(f"expression: longer than {MAX_CHARS} characters; calculate it in parts")
    text = MODULE.sub("", expression.translate(SIGNS).strip().rstrip("= ?"))
    if grouped := GROUPED.search(text):
        raise ToolError(f"{grouped[0]} may be one number or two: write 1000, or 1, 000")
    try:
        tree = ast.parse(text, mode="eval").body
        with localcontext(CONTEXT):
            return f"{ast.unparse(tree)} {show_number(_settle(_work_out(tree, text)))}"
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ToolError(f"the expression cannot be read: {HELP}") from error
    except ZeroDivisionError as error:
        raise ToolError("the expression divides by zero") from error
    except (ValueError, OverflowError, DecimalException) as error:
        raise ToolError("the result is too large, or it is no real number") from error


def show_number(number: Number) -> str:
    """`= 39.25` where the decimals end soon, else `≈ 0.333333333333333`."""
    if isinstance(number, Decimal):
        return f"≈ {Context(prec=SHOWN_DIGITS).plus(number)}"
    if number.denominator == 1:
        return f"= {number.numerator}"
    places = _count_places(number.denominator)
    if places is not None:
        digits = str(abs(number.numerator) * 10**places // number.denominator).zfill(places + 1)
        if len(digits) <= MAX_DIGITS:
            sign, whole = "-" if number < 0 else "", digits[: len(digits) - places]
            return f"= {sign}{whole}.{digits[len(digits) - places :]}"
    context = Context(prec=SHOWN_DIGITS)
    return f"≈ {context.divide(Decimal(number.numerator), Decimal(number.denominator))}"


def _count_places(denominator: int) -> int | None:
    """The decimals of a fraction that ends; None for more than can be shown."""
    return next((n for n in range(MAX_DIGITS + 1) if 10**n % denominator == 0), None)


def _work_out(node: ast.expr, text: str) -> Number:
    """Raises SyntaxError for what is no arithmetic, and ValueError for what grows too large."""
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            number = Decimal(ast.get_source_segment(text, node) or "")
            if abs(number.adjusted()) > MAX_BITS:
                raise ValueError
            result = Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = -_work_out(operand, text)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            result = _work_out(operand, text)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            result = OPERATORS[type(sign)](_work_out(left, text), _work_out(right, text))
        case ast.Name(id=name) if name in CONSTANTS:
            result = CONSTANTS[name]
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in FUNCTIONS:
            try:
                result = FUNCTIONS[name](*(_work_out(one, text) for one in given))
            except TypeError as error:
                raise SyntaxError(name) from error
        case _:
            raise SyntaxError(HELP)
    if isinstance(result, Decimal):
        return result
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > MAX_BITS:
        raise ValueError
    return result


def _settle(number: Number) -> Number:
    """Exact where its decimals end soon, but for what rounding has left of them."""
    if isinstance(number, Fraction):
        return number
    digits = getcontext().prec // 2
    if number.adjusted() < -digits:
        return Fraction(0)
    short = Context(prec=digits).plus(number).normalize()
    return Fraction(short) if len(short.as_tuple().digits) <= digits // 2 else number


def _as_decimal(number: Number) -> Decimal:
    if isinstance(number, Decimal):
        return number
    return Decimal(number.numerator) / Decimal(number.denominator)


def _combine(sign: Callable[..., Number], left: Number, right: Number) -> Number:
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return sign(_as_decimal(left), _as_decimal(right))
    return sign(left, right)


def _divide(left: Number, right: Number) -> Number:
    return _combine(operator.truediv, left, _settle(right))


def _floor(number: Number) -> Fraction:
    return Fraction(math.floor(_settle(number)))


def _raise_power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Decimal) or isinstance(exponent, Decimal) or exponent.denominator != 1:
        return _as_decimal(base) ** _as_decimal(exponent)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and base and size * abs(exponent) > MAX_BITS:
        raise ValueError
    return base ** int(exponent % 2 if abs(base) == 1 else exponent)


def _round_half_up(number: Number, places: Number = Fraction(0)) -> Fraction:
    places = _settle(places)
    if places % 1 or abs(places) > MAX_PLACES:
        raise ValueError
    unit = Fraction(10) ** -int(places)
    rounded = _floor(_combine(operator.add, _divide(abs(number), unit), Fraction(1, 2))) * unit
    return rounded if number >= 0 else -rounded


def _take_log(number: Number, base: Number | None = None) -> Number:
    log = _as_decimal(number).ln()
    return log if base is None else _divide(log, _take_log(base))


def _by_float(function: Callable[[float], float]) -> Callable[[Number], Number]:
    return lambda number: Decimal(function(float(number)))


OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: partial(_combine, operator.add),
    ast.Sub: partial(_combine, operator.sub),
    ast.Mult: partial(_combine, operator.mul),
    ast.Div: _divide,
    ast.FloorDiv: lambda left, right: _floor(_divide(left, right)),
    ast.Mod: lambda left, right: _combine(
        lambda one, two: one - two * math.floor(_settle(one / two)), left, _settle(right)
    ),
    ast.Pow: _raise_power,
}
FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "sqrt": lambda number: _as_decimal(number).sqrt(),
    "round": _round_half_up,
    "abs": abs,
    "min": partial(min, key=_as_decimal),
    "max": partial(max, key=_as_decimal),
    "floor": _floor,
    "ceil": lambda number: -_floor(-number),
    "exp": lambda number: _as_decimal(number).exp(),
    "log": _take_log,
    "ln": lambda number: _as_decimal(number).ln(),
    "pow": _raise_power,
    "log10": lambda number: _as_decimal(number).log10(),
    **{name: _by_float(getattr(math, name)) for name in ("sin", "cos", "tan")},
}
