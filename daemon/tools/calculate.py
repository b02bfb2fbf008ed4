"""The tool `calculate`: arithmetic with exact fractions, from a parsed expression and never run."""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction

from daemon.core.trust import Effect
from daemon.tools.base import ToolError
from daemon.tools.signature import tool

MAX_CHARS, MAX_BITS, MAX_PLACES = 400, 12_000, 100
MAX_DIGITS, SHOWN_DIGITS, ROOT_DIGITS = 30, 15, 60
SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", ":": "/", "−": "-", "^": "**"})
CONSTANTS = {"pi": Fraction(math.pi), "e": Fraction(math.e)}
GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)")
HELP = (
    "use numbers without thousands separators, + - * / // % **, parentheses, pi, e and sqrt, round,"
    " abs, min, max, floor, ceil, exp, log, log10, sin, cos, tan; 15% of 80 is 15/100*80"
)


@tool(effect=Effect.READ, parallel=True, public=True)
async def calculate(expression: str) -> str:
    """Calculate exactly, such as 3*(12.5+1)/100 or round(sqrt(2), 3)."""
    if len(expression) > MAX_CHARS:
        raise ToolError(f"expression: longer than {MAX_CHARS} characters; calculate it in parts")
    text = expression.translate(SIGNS).strip().rstrip("= ?")
    if grouped := GROUPED.search(text):
        raise ToolError(f"{grouped[0]} may be one number or two: write 1000, or 1, 000")
    try:
        tree = ast.parse(text, mode="eval").body
        return f"{ast.unparse(tree)} {show_number(_work_out(tree, text))}"
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ToolError(f"the expression cannot be read: {HELP}") from error
    except ZeroDivisionError as error:
        raise ToolError("the expression divides by zero") from error
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise ToolError("the result is too large, or it is no real number") from error


def show_number(number: Fraction) -> str:
    """`= 39.25` where the decimals end soon, else `≈ 0.333333333333333`."""
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


def _work_out(node: ast.expr, text: str) -> Fraction:
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
    if max(result.numerator.bit_length(), result.denominator.bit_length()) > MAX_BITS:
        raise ValueError
    return result


def _raise_power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        root = _take_root(base) if exponent == Fraction(1, 2) else float(base) ** float(exponent)
        if isinstance(root, complex):
            raise ValueError
        return Fraction(root)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and base and size * abs(exponent) > MAX_BITS:
        raise ValueError
    return base ** int(exponent % 2 if abs(base) == 1 else exponent)


def _take_root(number: Fraction) -> Fraction:
    """Exact for the square of a fraction."""
    if number < 0:
        raise ValueError
    above, below = math.isqrt(number.numerator), math.isqrt(number.denominator)
    if Fraction(above, below) ** 2 == number:
        return Fraction(above, below)
    context = Context(prec=ROOT_DIGITS)
    quotient = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(context.sqrt(quotient))


def _round_half_up(number: Fraction, places: Fraction = Fraction(0)) -> Fraction:
    if places.denominator != 1 or abs(places) > MAX_PLACES:
        raise ValueError
    unit = Fraction(10) ** -int(places)
    rounded = math.floor(abs(number) / unit + Fraction(1, 2)) * unit
    return rounded if number >= 0 else -rounded


def _by_float(function: Callable[..., float]) -> Callable[..., Fraction]:
    return lambda *given: Fraction(function(*map(float, given)))


OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: operator.mod,
    ast.Pow: _raise_power,
}
FUNCTIONS: Mapping[str, Callable[..., Fraction]] = {
    "sqrt": _take_root,
    "round": _round_half_up,
    "abs": abs,
    "min": min,
    "max": max,
    "floor": lambda number: Fraction(math.floor(number)),
    "ceil": lambda number: Fraction(math.ceil(number)),
    **{
        name: _by_float(getattr(math, name))
        for name in ("exp", "log", "log10", "sin", "cos", "tan")
    },
}
