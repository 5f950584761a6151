"""A small reader of C sources: tokens, functions and statements, as far as questions of style need them.

Not a compiler: nothing is expanded. Names may be macros of the number type, `NUM(name)(...)` and `LANE(name)(...)`. Of `#if` branches
all tokens are read, and braces are counted from the same depth in each.
"""
import bisect
import dataclasses
import re

TOKEN = re.compile(r"""
  (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
| (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|[uUL]?'(?:\\.|[^'\\\n])*')
| (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
| (?P<name>[A-Za-z_]\w*)
| (?P<op>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|[^\s\w])
| (?P<space>\\\n|\s+)
""", re.X | re.S)
DIRECTIVE = re.compile(r"[ \t]*#")
KEYWORDS = set("""auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
return short signed sizeof static struct switch typedef union unsigned void volatile while _Bool _Complex _Noreturn _Static_assert bool true
false NULL __asm__ __attribute__ __real__ __imag__""".split())
TYPES = set("char double enum float int long short signed struct union unsigned void _Bool bool const static volatile register _Complex "
            "extern typedef _Static_assert".split())
ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
ASSERTIONS = {"PB_ASSERT", "PB_VALIDATE", "assert", "_Static_assert", "static_assert", "B2_ASSERT", "B2_VALIDATE"}
CLOSES = {"(": ")", "[": "]", "{": "}"}


@dataclasses.dataclass(slots=True)
class Token:
    kind: str  # name, number, string, op
    text: str
    line: int

    def __repr__(self):
        return self.text


@dataclasses.dataclass
class Function:
    name: str
    first: int  # lines of its first token,
    open: int  # its opening brace,
    last: int  # and its closing one
    arguments: int
    body: list  # tokens between the braces

    @property
    def lines(self):
        return self.last - self.first + 1


@dataclasses.dataclass
class Statement:
    kind: str  # simple, block, if, for, while, do, switch, macro (a loop that is one)
    tokens: list  # of a simple one; of others the header between parentheses
    parts: list  # statements inside

    def walk(self):
        yield self
        for part in self.parts:
            yield from part.walk()


class Source:
    """One file: `lines`, `tokens` (without comments and directives), `comments` [(first line, last line, text)], `directives`
    [(line, text)], `functions`."""

    def __init__(self, text):
        self.lines = text.split("\n")
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        self.tokens, self.comments, self.directives = [], [], []
        self._read(text)
        self.code_lines = {t.line for t in self.tokens} | {n for first, count, _ in self.directives for n in range(first, first + count)}
        self.functions = []
        self._find_functions()

    # ---- tokens -----------------------------------------------------------------------------------------------------
    def _read(self, text):
        starts = [0] + [m.end() for m in re.finditer("\n", text)]
        line_of = lambda at: bisect.bisect_right(starts, at)
        at, fresh = 0, True  # fresh: nothing but space on this line so far
        while at < len(text):
            if fresh and (found := DIRECTIVE.match(text, at)):
                at = self._read_directive(text, at, line_of)
                continue
            found = TOKEN.match(text, at)
            if not found:  # a stray quote
                at += 1
                continue
            kind, word = found.lastgroup, found.group()
            if kind == "comment":
                self.comments.append((line_of(at), line_of(found.end() - 1), word))
            elif kind != "space":
                self.tokens.append(Token(kind, word, line_of(at)))
            fresh = kind == "space" and "\n" in word or fresh and kind in ("space", "comment")
            at = found.end()

    def _read_directive(self, text, at, line_of):
        """A directive with its continued lines; comments in it are kept as comments."""
        begin, end = at, at
        while end < len(text) and text[end] != "\n":
            if text.startswith("/*", end):
                stop = text.find("*/", end)
                stop = len(text) if stop < 0 else stop + 2
                self.comments.append((line_of(end), line_of(stop - 1), text[end:stop]))
                end = stop
            elif text.startswith("//", end):
                stop = text.find("\n", end)
                stop = len(text) if stop < 0 else stop
                self.comments.append((line_of(end), line_of(stop - 1), text[end:stop]))
                end = stop
            elif text.startswith("\\\n", end):
                end += 2
            elif text[end] == '"' and (found := re.compile(r'"(?:\\.|[^"\\\n])*"', re.S).match(text, end)):
                end = found.end()
            else:
                end += 1
        words = text[begin:end]
        self.directives.append((line_of(begin), words.count("\n") + 1, words.strip()))
        self.tokens.append(Token("directive", re.sub(r"\s+", " ", words.strip()), line_of(begin)))
        return end

    # ---- functions --------------------------------------------------------------------------------------------------
    def _find_functions(self):
        tokens, at, pending, conditions = self.tokens, 0, [], []
        while at < len(tokens):
            token = tokens[at]
            if token.kind == "directive":
                pending = [] if not _open_group(pending) else pending
            elif token.text == "{":
                close = matching(tokens, at)
                name, arguments = _signature(pending)
                if name:
                    body = [t for t in tokens[at + 1:close] if t.kind != "directive"]
                    last = tokens[min(close, len(tokens) - 1)].line
                    self.functions.append(Function(name, pending[0].line, token.line, last, arguments, body))
                    pending = []
                elif [t.text for t in pending] == ["extern", '"C"']:
                    pending = []
                    at += 1
                    continue
                else:
                    pending.append(Token("op", "{}", token.line))
                at = close
            elif token.text in (";", "}"):
                pending = []
            else:
                pending.append(token)
            at += 1
        self.tokens = [t for t in tokens if t.kind != "directive"]


def _open_group(tokens):
    return sum((t.text in "([") - (t.text in ")]") for t in tokens if t.kind == "op") > 0


def matching(tokens, at):
    """Index of the bracket that closes the one at `at`. Each branch of an #if begins at the depth the first one began at."""
    depth, saved = 0, []
    for i in range(at, len(tokens)):
        token = tokens[i]
        if token.kind == "directive":
            word = re.match(r"# ?(\w*)", token.text)[1]
            if word in ("if", "ifdef", "ifndef"):
                saved.append(depth)
            elif word in ("else", "elif") and saved:
                depth = saved[-1]
            elif word == "endif" and saved:
                saved.pop()
        elif token.kind == "op":
            if token.text in "([{":
                depth += 1
            elif token.text in ")]}":
                depth -= 1
                if depth == 0:
                    return i
    return len(tokens)


def opening(tokens, at):
    """Index of the parenthesis that the one at `at` closes."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (tokens[i].text == ")") - (tokens[i].text == "(")
        if depth == 0:
            return i
    return 0


def split(tokens, separator):
    """Parts between separators outside of all brackets."""
    parts, depth = [[]], 0
    for token in tokens:
        if token.kind == "op":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0 and token.text == separator and token.kind == "op":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _signature(pending):
    """(name, number of arguments) where `pending` before a brace is the head of a function; else (None, 0)."""
    while pending and pending[-1].text == ")":  # trailing attributes
        begin = opening(pending, len(pending) - 1)
        if begin and pending[begin - 1].text in ("__attribute__", "PB_PRINTF"):
            pending = pending[:begin - 1]
        else:
            break
    if not pending or pending[-1].text != ")" or any(t.text == "=" for t in split(pending, ";")[0] if t.text == "="):
        return None, 0
    begin = opening(pending, len(pending) - 1)
    before = pending[:begin]
    if not before:
        return None, 0
    if before[-1].kind == "name":
        name, head = before[-1].text, before[:-1]
    elif before[-1].text == ")":
        inner = opening(before, len(before) - 1)
        name = " ".join(t.text for t in before[inner + 1:-1])
        head = before[:max(inner - 1, 0)]
    else:
        return None, 0
    if name in KEYWORDS or (head and head[-1].text in ("struct", "union", "enum")) or not head:
        return None, 0  # struct LANE(name) {
    arguments = pending[begin + 1:-1]
    if not arguments or [t.text for t in arguments] == ["void"]:
        return name, 0
    return name, len(split(arguments, ","))


# ---- statements -----------------------------------------------------------------------------------------------------
def statements(body):
    """The statements of a function's body."""
    found, at = [], 0
    while at < len(body):
        statement, at = _statement(body, at)
        if statement:
            found.append(statement)
    return found


def _statement(body, at):
    token = body[at]
    if token.text == ";":
        return None, at + 1
    if token.text == "{":
        close = matching(body, at)
        return Statement("block", [], statements(body[at + 1:close])), close + 1
    if token.text == "else":
        return None, at + 1
    if token.text == "do":
        inner, at = _one(body, at + 1)
        return Statement("do", [], inner), at  # its while (...) follows as a loop without body
    if token.text in ("if", "for", "while", "switch") and at + 1 < len(body) and body[at + 1].text == "(":
        close = matching(body, at + 1)
        inner, after = _one(body, close + 1)
        return Statement(token.text, body[at + 2:close], inner), after
    if token.text in ("case", "default"):
        return None, _after_label(body, at)
    if token.kind == "name" and at + 1 < len(body) and body[at + 1].text == ":" and token.text not in KEYWORDS:
        return None, at + 2
    return _simple(body, at)


def _one(body, at):
    if at >= len(body):
        return [], at
    if body[at].text in ("case", "default"):
        at = _after_label(body, at)
        return _one(body, at)
    statement, at = _statement(body, at)
    return ([statement] if statement else []), at


def _after_label(body, at):
    depth = 0
    for i in range(at, len(body)):
        depth += (body[i].text == "?")
        if body[i].text == ":":
            if depth == 0:
                return i + 1
            depth -= 1
    return len(body)


def _simple(body, at):
    """Up to its semicolon. A brace after a name and parentheses at its very beginning is the block of a loop macro."""
    begin = at
    while at < len(body):
        text = body[at].text
        if text in CLOSES:
            close = matching(body, at)
            loops = text == "(" and at == begin + 1 and body[begin].text not in KEYWORDS and close + 1 < len(body) and body[close + 1].text == "{"
            at = close + 1
            if loops:
                inner, after = _one(body, at)
                return Statement("macro", body[begin + 2:close], inner), after
        elif text == ";":
            return Statement("simple", body[begin:at], []), at + 1
        elif text == "}":
            break
        else:
            at += 1
    return Statement("simple", body[begin:at], []), at + 1


def is_declaration(tokens):
    """Does a simple statement declare? `type name`, `type *name`, `NUM(type) name`, or a word of the language for types."""
    if not tokens or tokens[0].kind != "name":
        return False
    if tokens[0].text in TYPES:
        return True
    if tokens[0].text in KEYWORDS:
        return False
    at = 1
    if tokens[0].text in ("NUM", "LANE") and len(tokens) > 1 and tokens[1].text == "(":
        at = matching(tokens, 1) + 1
    stars = 0
    while at < len(tokens) and tokens[at].text in ("*", "const", "restrict", "volatile"):
        stars += tokens[at].text == "*"
        at += 1
    if at < len(tokens) and tokens[at].text == "(" and at + 1 < len(tokens) and tokens[at + 1].text == "*" and not stars:
        close = matching(tokens, at)  # type (*name)(arguments)
        return close + 1 < len(tokens) and tokens[close + 1].text in "(["
    if at >= len(tokens) or tokens[at].kind != "name" or tokens[at].text in KEYWORDS:
        return False
    return not stars or at + 1 >= len(tokens) or tokens[at + 1].text in ("=", ",", "[", "(") or len(tokens) == at + 1
