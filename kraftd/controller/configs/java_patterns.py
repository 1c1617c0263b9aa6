"""Whether Java would take a text as a regular expression.

`pattern_complaint` says why `java.util.regex.Pattern.compile` refuses a pattern, or None: clients write such
patterns into configs, and Kafka's brokers compile them. It reads the text once, from left to right, with
stacks in place of recursion, so that the time it takes is that of the length. Nothing is compiled here.

Follows: `Pattern` of Java 17, also where that is lenient, as with `{2}` that repeats nothing.
Differs: look-behinds may have any length, where Java refuses those without an obvious maximum; that hangs on
how it would match. A character of a name in `\\N{NAME}` is taken for one, and may begin or end any range; of
properties see `java_properties`. How deep groups and classes may nest is up to the stack in Java, some
thousands in 1 MiB; here up to `_DEPTH_MAX`.
"""

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from kraftd.controller.configs.java_properties import is_java_property

_DEPTH_MAX: Final = 10_000
"""Groups or classes inside each other. Java's usual stack of 1 MiB ends before that."""

_NUMBER_MAX: Final = 0x7FFF_FFFF
_CODE_POINT_MAX: Final = 0x10_FFFF

_DIGITS: Final = frozenset("0123456789")
_OCTAL_DIGITS: Final = frozenset("01234567")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NAME_CHARACTERS: Final = _LETTERS | _DIGITS
_CHARACTER_NAME_CHARACTERS: Final = _NAME_CHARACTERS | frozenset(" _-()")

_END: Final = "\0\0\0\0"
"""Behind the pattern, as Java has it: whoever looks ahead needs no check."""

_QUANTIFIERS: Final = frozenset("?*+{")
_SKIPPED: Final = frozenset("\t\n\v\f\r #")
_TRIMMED: Final = "".join(map(chr, range(33)))
_LINE_ENDS: Final = frozenset("\0\n\r\x85\u2028\u2029")
_UNIX_LINE_ENDS: Final = frozenset("\0\n")
_CLASS_STOPS: Final = frozenset("[]&\\\0")
_AFTER_ITEM: Final = _SKIPPED | {"-"}
"""What may make a range of an item, or stand in between."""

_COMMENTS: Final = 1
_UNIX_LINES: Final = 2
_UNICODE_CLASSES: Final = 4
_FLAGS: Final[Mapping[str, int]] = {
    "x": _COMMENTS,
    "d": _UNIX_LINES,
    "U": _UNICODE_CLASSES,
    **dict.fromkeys("cimsu", 0),
}
"""What may stand in `(?…)`; only some change which patterns there are."""

_SETS: Final = frozenset("DHSVWdhsvw")
_SHORT_ESCAPES: Final = _SETS | frozenset("aefnrtABGRXZz123456789 !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
"""Outside of classes, nothing of what follows belongs to these. Digits take more, but it is all the same."""
_SHORT_CLASS_ESCAPES: Final = _SHORT_ESCAPES - frozenset("ABGRXZz123456789v")
_CONTROLS: Final[Mapping[str, int]] = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_NO_CODE: Final = -1
"""Of an escape that means a set of characters, as `\\d`."""
_SOME_CODE: Final = -2
"""Of a character that only Java knows by its name."""

_QUOTES: Final = {
    code: f"\\{chr(code)}" for code in range(128) if chr(code) not in _NAME_CHARACTERS
}  # letters and digits of a quote stay as they are


class _PatternError(Exception):
    """Java refuses the pattern; the text completes "the pattern …"."""


def pattern_complaint(pattern: str) -> str | None:
    """What is wrong with a pattern for Java, to stand behind "the pattern"; None if it takes it."""
    try:
        _Reader(_unquoted(pattern)).read()
    except _PatternError as error:
        return str(error)
    return None


def _unquoted(pattern: str) -> str:
    """The pattern with what stands between `\\Q` and `\\E` escaped, which Java does first."""
    if "\\Q" not in pattern:
        return pattern
    parts: list[str] = []
    done, at = 0, pattern.find("\\")
    while at >= 0:
        if pattern[at + 1 : at + 2] != "Q":
            at = pattern.find("\\", at + 2)
            continue
        end = pattern.find("\\E", at + 2)
        end = len(pattern) if end < 0 else end
        quoted = pattern[at + 2 : end].translate(_QUOTES)
        is_number = quoted[:1] in _DIGITS  # must not be read as more of an escape before the quote
        parts += pattern[done:at], "\\x3" if is_number else "", quoted
        done = end + 2
        at = pattern.find("\\", done)
    return "".join([*parts, pattern[done:]])


class _Reader:
    """One reading of a pattern. Methods take where to read and return where to go on."""

    __slots__ = ("_end", "_flags", "_groups", "_names", "_text")

    def __init__(self, pattern: str) -> None:
        self._text = pattern + _END
        self._end = len(pattern)
        self._flags = 0
        self._groups: list[int] = []  # the flags, to have them back at the end of each group
        self._names: set[str] = set()

    def read(self) -> None:
        """Read all of it.

        Raises:
            _PatternError: Java would refuse it.
        """
        text, end, at = self._text, self._end, 0
        while at < end:
            sign = text[at]
            if (read := _READERS.get(sign)) is None:
                at += 1
            elif sign == "\\" and text[at + 1] in _SHORT_ESCAPES:
                at += 2
            else:
                at = read(self, at)
                if self._flags & _COMMENTS:
                    at = self._past(at)
                continue
            if text[at] in _QUANTIFIERS or (text[at] in _SKIPPED and self._flags & _COMMENTS):
                at = self._past(self.quantified(at))
        if self._groups:
            raise _PatternError("has a group that is not closed")
        if at != end:
            raise _PatternError("ends with a backslash")

    def _past(self, at: int) -> int:
        """Where Java goes on reading: with the flag x, blanks and comments do not count."""
        text = self._text
        if text[at] not in _SKIPPED or not self._flags & _COMMENTS:
            return at
        ends = _UNIX_LINE_ENDS if self._flags & _UNIX_LINES else _LINE_ENDS
        while (sign := text[at]) in _SKIPPED:
            at += 1
            if sign == "#":
                while text[at] not in ends:
                    at += 1
        return at

    def quantified(self, at: int) -> int:
        """Read a quantifier, if there is one."""
        at = self._past(at)
        if self._text[at] not in _QUANTIFIERS:
            return at
        if self._text[at] == "{":
            at = self._counts(at + 1)
        at = self._past(at + 1)
        return at + 1 if self._text[at] in "?+" else at

    def _counts(self, at: int) -> int:
        """Read `n}`, `n,}` or `n,m}`: where the brace is."""
        if self._text[at] not in _DIGITS:
            raise _PatternError("has a { without a number behind it; a brace itself is \\{")
        low, at = self._number(at)
        high = low
        if self._text[at] == ",":
            at = self._past(at + 1)
            if self._text[at] == "}":
                return at
            high, at = self._number(at)
        if self._text[at] != "}":
            raise _PatternError("has a { without a } behind its numbers")
        if high < low:
            raise _PatternError(f"repeats at least {low} and at most {high} times")
        return at

    def _number(self, at: int) -> tuple[int, int]:
        text, number = self._text, 0
        while (digit := text[at]) in _DIGITS:
            number = 10 * number + int(digit)
            if number > _NUMBER_MAX:
                raise _PatternError(f"repeats more than {_NUMBER_MAX} times")
            at += 1
            if text[at] in _SKIPPED:
                at = self._past(at)
        return number, at

    def _enter(self, flags: int) -> None:
        if len(self._groups) >= _DEPTH_MAX:
            raise _PatternError(f"has more than {_DEPTH_MAX} groups inside each other")
        self._groups.append(flags)

    def opened(self, at: int) -> int:
        """Read the begin of a group, or flags."""
        text, at = self._text, self._past(at + 1)
        if text[at] != "?":
            self._enter(self._flags)
            return at
        sign = text[at + 1]
        if sign in ":>=!":
            self._enter(self._flags)
            return at + 2
        if sign == "<":
            return self._named_or_behind(self._past(at + 2))
        return self._flagged(self._past(at + 1))

    def _named_or_behind(self, at: int) -> int:
        if self._text[at] in "=!":
            self._enter(self._flags)
            return at + 1
        name, at = self._name(at)
        if name in self._names:
            raise _PatternError("has two groups of one name")
        self._names.add(name)
        self._enter(self._flags)
        return at

    def _name(self, at: int) -> tuple[str, int]:
        """Read the name of a group, and `>`."""
        text, name = self._text, []
        if text[at] not in _LETTERS:
            raise _PatternError("has a name of a group that does not begin with a letter from A to Z")
        while text[at] in _NAME_CHARACTERS:
            name.append(text[at])
            at = self._past(at + 1)
        if text[at] != ">":
            raise _PatternError("has a name of a group without > behind its letters and digits")
        return "".join(name), at + 1

    def _flagged(self, at: int) -> int:
        """Read `flags-flags)`, for the rest of this group, or `flags-flags:`, for a new one."""
        before, adds = self._flags, True
        while True:
            sign = self._text[at]
            if sign == "-" and adds:
                adds = False
            elif (flag := _FLAGS.get(sign)) is not None:
                self._flags = self._flags | flag if adds else self._flags & ~flag
            else:
                break
            at = self._past(at + 1)
        if sign == ":":
            self._enter(before)
        elif sign != ")":
            raise _PatternError("has a (? that begins no group of Java's")
        return at + 1

    def closed(self, at: int) -> int:
        """Read the end of a group."""
        if not self._groups:
            raise _PatternError("closes a group that is not open; a parenthesis itself is \\)")
        self._flags = self._groups.pop()
        at += 1
        return self.quantified(at) if self._text[at] in _QUANTIFIERS or self._flags & _COMMENTS else at

    def escaped(self, at: int) -> int:
        """Read an escape outside of classes."""
        sign = self._text[at + 1]
        if sign in "pP":
            return self.quantified(self._property(at + 1))
        if (read := _OUTSIDE.get(sign)) is not None:
            return self.quantified(read(self, at + 2))
        return self.quantified(self._code(at)[1])

    def _code(self, at: int, *, is_range: bool = False) -> tuple[int, int]:
        """Read an escape for one character or a set: its code, and where to go on."""
        sign = self._text[at + 1]
        at += 2
        if (read := _CODES.get(sign)) is not None:
            return read(self, self._past(at))
        if sign in _SETS:
            return 11 if is_range and sign == "v" else _NO_CODE, at  # \v was a character once
        if (code := _CONTROLS.get(sign)) is not None:
            return code, at
        if sign in _NAME_CHARACTERS:
            raise _PatternError(f"has \\{sign} where it means nothing")
        return ord(sign), at

    def word_bound(self, at: int) -> int:
        """Read what may follow `\\b`: `{g}`, else what follows belongs to others."""
        at = self._past(at)
        if self._text[at : at + 2] != "{g":
            return at
        at = self._past(at + 2)
        if self._text[at] != "}":
            raise _PatternError("has a \\b{g without a }")
        return at + 1

    def named_reference(self, at: int) -> int:
        """Read what follows `\\k`."""
        at = self._past(at)
        if self._text[at] != "<":
            raise _PatternError("has a \\k without a < behind it")
        name, at = self._name(self._past(at + 1))
        if name not in self._names:
            raise _PatternError("has a \\k with a name that no group before it has")
        return at

    def octal(self, at: int) -> tuple[int, int]:
        """Read what follows `\\0`: up to three digits, and no more than a byte."""
        text, code, count = self._text, 0, 0
        while text[at] in _OCTAL_DIGITS and (count < 2 or (count == 2 and code < 32)):
            code, count = 8 * code + int(text[at]), count + 1
            at = self._past(at + 1)
        if not count:
            raise _PatternError("has a \\0 without octal digits behind it")
        return code, at

    def control(self, at: int) -> tuple[int, int]:
        """Read what follows `\\c`."""
        if at >= self._end:
            raise _PatternError("ends with \\c")
        return ord(self._text[at]) ^ 64, at + 1

    def hexadecimal(self, at: int) -> tuple[int, int]:
        """Read what follows `\\x`: two digits, or any number of them in braces."""
        if self._text[at] != "{":
            return self._hex_digits(at, 2)
        text, code = self._text, 0
        at = self._past(at + 1)
        first = at
        while text[at] in _HEX_DIGITS:
            code = 16 * code + int(text[at], 16)
            if code > _CODE_POINT_MAX:
                raise _PatternError("has a \\x{…} that is beyond 10FFFF")
            at = self._past(at + 1)
        if at == first or text[at] != "}":
            raise _PatternError("has a \\x{…} that holds no hexadecimal number")
        return code, at + 1

    def unicode(self, at: int) -> tuple[int, int]:
        """Read what follows `\\u`; two of them may be one character."""
        high, at = self._hex_digits(at, 4)
        if not 0xD800 <= high < 0xDC00 or self._text[self._past(at)] != "\\":
            return high, at
        follows = self._past(self._past(at) + 1)
        if self._text[follows] != "u":
            return high, at
        low, end = self._hex_digits(self._past(follows + 1), 4)
        if not 0xDC00 <= low < 0xE000:
            return high, at
        return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00), end

    def _hex_digits(self, at: int, count: int) -> tuple[int, int]:
        digits, end = self._text[at : at + count], at + count
        if self._flags & _COMMENTS and not _HEX_DIGITS.issuperset(digits):  # there may be blanks among them
            digits, end = "", at
            for _ in range(count):
                end = self._past(end) + 1
                digits += self._text[end - 1]
        if not _HEX_DIGITS.issuperset(digits):
            raise _PatternError(f"has a \\{'x' if count == 2 else 'u'} without {count} hexadecimal digits")
        return int(digits, 16), end

    def named_character(self, at: int) -> tuple[int, int]:
        """Read what follows `\\N`."""
        end = self._text.find("}", at)
        name = self._text[at + 1 : end].strip(_TRIMMED)
        if self._text[at] != "{" or end < 0 or not name or not _CHARACTER_NAME_CHARACTERS.issuperset(name):
            raise _PatternError("has a \\N without the name of a character in braces")
        return _SOME_CODE, end + 1

    def _property(self, at: int) -> int:
        """Read `pL` or `p{…}`."""
        at = self._past(at + 1)
        if self._text[at] != "{":
            name, end = self._text[at], at
        else:
            at = self._past(at + 1)
            end = self._text.find("}", at)
            name = self._text[at:end] if end >= 0 else ""
        if not is_java_property(name, is_unicode=bool(self._flags & _UNICODE_CLASSES)):
            raise _PatternError("has a \\p or \\P without the name of a property")
        return end + 1

    def character_class(self, at: int) -> int:
        """Read `[…]`, with all that is nested in it.

        What stands right of `&&` is one more class inside, up to the bracket that closes both.
        """
        text = self._text
        outer: list[tuple[bool, bool]] = []
        has_bracket, is_right, is_filled = True, False, False
        at = self._class_begin(at + 1)
        while True:
            if not is_right and (after := self._simple_items(at)) != at:
                at, is_filled = self._past(after), True
            sign = text[at]
            if is_right and sign in "]&":
                if not is_filled:
                    raise _PatternError("has a && with nothing beside it")
                is_right = False
            elif is_right or sign == "[":
                if len(outer) >= _DEPTH_MAX:
                    raise _PatternError(f"has more than {_DEPTH_MAX} classes inside each other")
                outer.append((has_bracket, is_right))
                has_bracket, is_right, is_filled = sign == "[", False, False
                at = self._class_begin(at + 1 if has_bracket else at)
                continue
            if sign == "]" and is_filled:
                at = self._past(at + 1) if has_bracket else at
                if not outer:
                    return self.quantified(at)
                has_bracket, is_right = outer.pop()
            elif at >= self._end:
                raise _PatternError("has a [ that is not closed; a bracket itself is \\[")
            elif sign == "&" and text[self._past(at + 1)] == "&":
                at, is_right = self._past(self._past(at + 1) + 1), True
            else:
                at, is_filled = self._range(self._past(at + 1) - 1 if sign == "&" else at), True

    def _simple_items(self, at: int) -> int:
        """Pass by what means the same whatever is around it: most characters, ranges of them, and escapes."""
        text = self._text
        stops = _CLASS_STOPS | _SKIPPED if self._flags & _COMMENTS else _CLASS_STOPS
        while True:
            sign, follow = text[at], text[at + 1]
            if sign == "\\" and follow in _SHORT_CLASS_ESCAPES and text[at + 2] not in _AFTER_ITEM:
                at += 2
            elif sign == "&" != follow and follow not in _AFTER_ITEM:
                at += 1
            elif sign in stops:
                return at
            elif follow == "-":
                if text[at + 2] in stops or text[at + 2] < sign:
                    return at
                at += 3
            elif follow in _AFTER_ITEM and self._flags & _COMMENTS:
                return at
            else:
                at += 1

    def _class_begin(self, at: int) -> int:
        at = self._past(at)
        is_negated = self._text[at] == "^" and self._text[at - 1] == "["
        return self._past(at + 1) if is_negated else at

    def _range(self, at: int) -> int:
        """Read one character of a class, a range, or a set that an escape means."""
        text, at = self._text, self._past(at)
        if text[at] == "\\" and text[at + 1] in "pP":
            return self._past(self._property(at + 1))
        first, at = self._bound(at, is_range=text[at + 2] == "-")
        at = self._past(at)
        if text[at] != "-" or first == _NO_CODE or text[at + 1] in "[]":
            return at
        last, at = self._bound(self._past(at + 1), is_range=True)
        if last == _NO_CODE or first > last != _SOME_CODE:
            raise _PatternError("has a range in a class that ends before it begins")
        return self._past(at)

    def _bound(self, at: int, *, is_range: bool) -> tuple[int, int]:
        sign = self._text[at]
        return self._code(at, is_range=is_range) if sign == "\\" else (ord(sign), at + 1)


def _refuse_dangling(_reader: _Reader, _at: int) -> NoReturn:
    raise _PatternError("has a ?, * or + with nothing before it to repeat")


_READERS: Final[Mapping[str, Callable[[_Reader, int], int]]] = {
    "(": _Reader.opened,
    ")": _Reader.closed,
    "[": _Reader.character_class,
    "\\": _Reader.escaped,
    "{": lambda reader, at: reader.quantified(at),  # of nothing, which Java repeats as well
    "|": lambda _, at: at + 1,
    **dict.fromkeys("^$", lambda reader, at: reader.quantified(at + 1)),
    **dict.fromkeys("?*+", _refuse_dangling),
}
"""Who reads on at a character outside of classes. Others stand for themselves, or, as the dot, for a set."""

_OUTSIDE: Final[Mapping[str, Callable[[_Reader, int], int]]] = {
    "b": _Reader.word_bound,
    "k": _Reader.named_reference,
    **dict.fromkeys("ABGRXZz", lambda _, at: at),
    **dict.fromkeys("123456789", lambda _, at: at),  # more digits are taken one way or another
}
"""Who reads on behind an escape that is none inside of a class."""

_CODES: Final[Mapping[str, Callable[[_Reader, int], tuple[int, int]]]] = {
    "0": _Reader.octal,
    "N": _Reader.named_character,
    "c": _Reader.control,
    "u": _Reader.unicode,
    "x": _Reader.hexadecimal,
}
"""Who reads on behind an escape that names a character."""
