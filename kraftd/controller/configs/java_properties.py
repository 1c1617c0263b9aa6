"""Which names Java knows in `\\p{NAME}`, a set of characters in a regular expression.

`is_java_property` is asked by `java_patterns`. What a set holds is not here.

Follows: what Java 17 says of `Pattern`: classes of POSIX, general categories, those of `java.lang.Character`.
Differs: scripts, blocks and binary properties stand in tables of Unicode's. Any name of letters, digits,
blanks, `_` and `-` will do here, in `\\p{IsNAME}`, `\\p{InNAME}`, `\\p{script=NAME}` and `\\p{block=NAME}`.
"""

from typing import Final

_TABLE_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-")

_NAMES: Final = """
Alnum Alpha Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit
ASCII all
C Cc Cf Cn Co Cs
L L1 LC LD Ll Lm Lo Lt Lu
M Mc Me Mn
N Nd Nl No
P Pc Pd Pe Pf Pi Po Ps
S Sc Sk Sm So
Z Zl Zp Zs
javaAlphabetic javaDefined javaDigit javaISOControl javaIdentifierIgnorable javaIdeographic
javaJavaIdentifierPart javaJavaIdentifierStart javaLetter javaLetterOrDigit javaLowerCase javaMirrored
javaSpaceChar javaTitleCase javaUnicodeIdentifierPart javaUnicodeIdentifierStart javaUpperCase javaWhitespace
"""
"""The first line is POSIX's."""

_POSIX: Final = frozenset(_NAMES.splitlines()[1].upper().split())
_KNOWN: Final = frozenset(_NAMES.split())
_CATEGORY_KEYS: Final = frozenset({"gc", "general_category"})
_TABLE_KEYS: Final = frozenset({"sc", "script", "blk", "block"})


def is_java_property(name: str, *, is_unicode: bool) -> bool:
    """Whether Java knows a name, or may know it from its tables; with the flag U, POSIX's in any case."""
    key, is_pair, value = name.partition("=")
    if not is_pair:
        if name.startswith(("In", "Is")):
            return _is_table_name(name[2:])
        return name in _KNOWN or (is_unicode and name.upper() in _POSIX)
    if key.lower() in _CATEGORY_KEYS:
        return value in _KNOWN
    return key.lower() in _TABLE_KEYS and _is_table_name(value)


def _is_table_name(name: str) -> bool:
    return bool(name) and _TABLE_CHARACTERS.issuperset(name)
