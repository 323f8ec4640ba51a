"""From the text of a selection to the selection, by recursive descent.

    union         intersection ("or" | ",") intersection …
    intersection  complement "and" complement …
    complement    "not" … traversal
    traversal     [[N] "+"] operand ["+" [N]]      N layers, or all; `1+a+2` is `1+a or a+2`
    operand       "*" | "(" union ")" | function "(" union ")" | filter ":" value | key
    function      "roots" | "sinks"
    filter        "key" | "tag" | "owner" | "group" | "kind"; a tag may say "=" value, and but for
                  a key the value <null> means assets of which nothing of the kind was said

The older `*a` and `a*` mean `+a` and `a+`, with a plain key only. Chains are loops, so they may be
of any length; what nests is limited, because it takes a stack here and again when it is resolved.
"""

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.sdk.selection.filters import (
    NULL,
    AllAssets,
    Group,
    Key,
    OfKind,
    Owner,
    Selector,
    Tag,
    wildcard,
)
from servo.sdk.selection.operators import (
    Downstream,
    Roots,
    Sinks,
    Upstream,
    all_of,
    any_of,
    none_of,
)
from servo.sdk.selection.tokens import Token, TokenKind, tokenize, wrong

MAX_NESTING = 50
_MAX_DIGITS = 6
_OPERATORS = {"and", "or", "not"}
_OPERAND = 'expected an asset, a filter like group:name, "*", "not" or "("'
_PARTITION = "name a partition with --partition"
_AFTER = 'expected "and", "or", "," or the end'


def parse_selection(text: str) -> Selector:
    """The selection that `text` describes; `Invalid` with a caret at the first error."""
    if not text.strip():
        raise Invalid("the selection is empty", remedy='name an asset, or write "*" for all')
    return _Parser(text).whole()


class _Parser:
    """A position in the text; each method parses one rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._nesting = 0

    def whole(self) -> Selector:
        chosen = self._union()
        if self._here.kind is not TokenKind.END:
            raise self._unexpected(_AFTER)
        return chosen

    def _union(self) -> Selector:
        operands = [self._intersection()]
        while self._accept_word("or") or self._accept(TokenKind.COMMA):
            operands.append(self._intersection())
        return any_of(operands)

    def _intersection(self) -> Selector:
        operands = [self._complement()]
        while self._accept_word("and"):
            operands.append(self._complement())
        return all_of(operands)

    def _complement(self) -> Selector:
        negated = False
        while self._accept_word("not"):
            negated = not negated
        chosen = self._traversal()
        return none_of(chosen) if negated else chosen

    # --- traversals: no layers is (), all of them (None,), two of them (2,) -----------------------

    def _traversal(self) -> Selector:
        up = self._layers_up()
        plain = self._at_plain_key()
        chosen = self._operand()
        down = self._layers_down(starred=plain)
        ways: list[Selector] = [Upstream(chosen, depth) for depth in up]
        ways += [Downstream(chosen, depth) for depth in down]
        return any_of(ways) if ways else chosen

    def _layers_up(self) -> tuple[int | None, ...]:
        first, second, third = (self._ahead(steps) for steps in range(3))
        if _is_number(first) and second.kind is TokenKind.PLUS and _starts_operand(third):
            self._at += 2
            return (self._number(first),)
        plain = _is_name(second) and third.kind not in {TokenKind.COLON, TokenKind.OPEN}
        if first.kind is TokenKind.STAR and first.touches(second) and plain:
            self._at += 1
            return (None,)
        return (None,) if self._accept_plus() else ()

    def _layers_down(self, *, starred: bool) -> tuple[int | None, ...]:
        if starred and self._here.kind is TokenKind.STAR and self._before.touches(self._here):
            self._at += 1
            return (None,)
        if not self._accept_plus():
            return ()
        if not _is_number(self._here):
            return (None,)
        self._at += 1
        return (self._number(self._before),)

    def _accept_plus(self) -> bool:
        found = self._accept(TokenKind.PLUS)
        if found and self._here.kind is TokenKind.PLUS:
            raise self._unexpected('for two layers expected "2+" before, or "+2" after')
        return found

    def _number(self, token: Token) -> int:
        if len(token.text) > _MAX_DIGITS:
            raise self._wrong(token, "too many layers", "expected a smaller number, or none")
        return int(token.text)

    # --- operands ---------------------------------------------------------------------------------

    def _at_plain_key(self) -> bool:
        return _is_name(self._here) and self._ahead(1).kind not in {TokenKind.COLON, TokenKind.OPEN}

    def _operand(self) -> Selector:
        token = self._here
        if token.kind is TokenKind.OPEN:
            return self._nested()
        if self._accept(TokenKind.STAR):
            return AllAssets()
        if not _is_name(token):
            raise self._unexpected(_OPERAND)
        if self._at_plain_key():
            return self._plain_key()
        return self._function() if self._ahead(1).kind is TokenKind.OPEN else self._filter()

    def _plain_key(self) -> Selector:
        name, star, following = (self._ahead(steps) for steps in range(3))
        inside = name.text.endswith(("/", ".")) or (star.touches(following) and _is_name(following))
        if star.kind is TokenKind.STAR and name.touches(star) and inside:
            raise self._wrong(star, "a wildcard in a plain key", "expected key: before the name")
        self._at += 1
        return self._key(name, name.pieces or (name.text,))

    def _nested(self) -> Selector:
        opened = self._here
        if self._nesting == MAX_NESTING:
            raise self._wrong(opened, f"nested {MAX_NESTING} deep", "expected fewer parentheses")
        self._at += 1
        self._nesting += 1
        chosen = self._union()
        self._nesting -= 1
        if self._here.kind is TokenKind.END:
            raise self._wrong(opened, 'this "(" is never closed', 'expected ")" after it')
        if not self._accept(TokenKind.CLOSE):
            raise self._unexpected('expected "and", "or", "," or ")"')
        return chosen

    def _function(self) -> Selector:
        name = self._here
        if name.text not in {"roots", "sinks"}:
            raise self._wrong(name, f"no function {name.text}", "expected roots(…) or sinks(…)")
        self._at += 1
        chosen = self._nested()
        return Roots(chosen) if name.text == "roots" else Sinks(chosen)

    def _filter(self) -> Selector:
        name = self._here
        self._at += 2
        match name.text:
            case "key":
                return self._key_filter()
            case "tag":
                return self._tag_filter()
            case "owner":
                return Owner(self._value_or_none())
            case "group":
                return Group(self._value_or_none())
            case "kind":
                return OfKind(self._value_or_none())
            case unknown:
                known = "expected key:, tag:, owner:, group: or kind:"
                raise self._wrong(name, f"no filter {unknown}", f"{known}; {_PARTITION}")

    def _key_filter(self) -> Selector:
        token = self._here
        if self._accept(TokenKind.QUOTED):
            return self._key(token, token.pieces)
        return self._key(token, tuple(self._run(TokenKind.WORD, TokenKind.STAR).split("*")))

    def _tag_filter(self) -> Selector:
        name = self._value_or_none()
        if name is None:
            return Tag(None)
        return Tag(name, value=self._value() if self._accept(TokenKind.EQUAL) else None)

    def _key(self, token: Token, pieces: tuple[str, ...]) -> Selector:
        if len(pieces) > 1:
            return wildcard(pieces)
        try:
            return Key(AssetKey.parse("".join(pieces)))
        except Invalid as error:
            remedy = _PARTITION if token.text.endswith("]") else error.remedy
            raise self._wrong(token, error.message, remedy) from None

    def _value_or_none(self) -> str | None:
        """A name, or None for `<null>`; in quotes it is a name."""
        if self._here.kind is TokenKind.WORD and self._here.text == NULL:
            self._at += 1
            return None
        return self._value()

    def _value(self) -> str:
        token = self._here
        if self._accept(TokenKind.QUOTED):
            return "*".join(token.pieces)  # only keys have wildcards
        return self._run(TokenKind.WORD, TokenKind.COLON)

    def _run(self, *kinds: TokenKind) -> str:
        """The text of adjacent tokens of these kinds."""
        first = self._here
        while self._here.kind in kinds and (
            self._here is first or self._before.touches(self._here)
        ):
            self._at += 1
        if self._here is first or first.kind is TokenKind.COLON:
            raise self._wrong(first, _found(first), "expected a name, perhaps in quotes")
        return self._text[first.start : self._before.end]

    # --- tokens -----------------------------------------------------------------------------------

    @property
    def _here(self) -> Token:
        return self._tokens[self._at]

    @property
    def _before(self) -> Token:
        return self._tokens[self._at - 1]

    def _ahead(self, steps: int) -> Token:
        return self._tokens[min(self._at + steps, len(self._tokens) - 1)]

    def _accept(self, kind: TokenKind) -> bool:
        found = self._here.kind is kind
        self._at += found
        return found

    def _accept_word(self, word: str) -> bool:
        found = self._here.kind is TokenKind.WORD and self._here.text.lower() == word
        self._at += found
        return found

    def _unexpected(self, remedy: str) -> Invalid:
        return self._wrong(self._here, _found(self._here), remedy)

    def _wrong(self, token: Token, problem: str, remedy: str) -> Invalid:
        return wrong(self._text, token.start, problem, remedy)


def _found(token: Token) -> str:
    return "the text ends" if token.kind is TokenKind.END else f"unexpected {token.text}"


def _is_number(token: Token) -> bool:
    return token.kind is TokenKind.WORD and token.text.isascii() and token.text.isdigit()


def _is_name(token: Token) -> bool:
    is_operator = token.kind is TokenKind.WORD and token.text.lower() in _OPERATORS
    return token.kind in {TokenKind.WORD, TokenKind.QUOTED} and not is_operator


def _starts_operand(token: Token) -> bool:
    return _is_name(token) or token.kind in {TokenKind.OPEN, TokenKind.STAR}
