"""Output where a locale has no Greek letters: τ is written as tau, an en dash as a hyphen."""

import codecs
import sys
from io import TextIOWrapper

_NAME = "ccat.ascii"
SUBSTITUTES = {
    "α": "alpha",
    "β": "beta",
    "δ": "delta",
    "ε": "eps",
    "κ": "kappa",
    "λ": "lambda",
    "ρ": "rho",
    "τ": "tau",
    "∞": "inf",
    "≤": "<=",
    "≥": ">=",
    "±": "+/-",
    "−": "-",
    "×": "x",
    "·": "*",
    "½": "1/2",
    "₀": "0",
    "→": "->",
    "‖": "||",
    "–": "-",
    "…": "...",
    "“": '"',
    "”": '"',
    "’": "'",
    "†": "+",
    "‡": "++",
}


def substitute_everywhere() -> None:
    """Let stdout and stderr write a substitute, or a question mark, for what they cannot encode."""
    codecs.register_error(_NAME, _substituted)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=_NAME)


def fitting(text: str) -> str:
    """Return a text with substitutes for what stdout cannot encode."""
    codecs.register_error(_NAME, _substituted)
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, _NAME).decode(encoding)


def _substituted(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for characters that have no code, and where encoding goes on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(SUBSTITUTES.get(character, "?") for character in missing), error.end
