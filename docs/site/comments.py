#!/usr/bin/env python3
"""Doxygen's input filter: the plain comments of the headers as comments that Doxygen reads.   comments.py HEADER

What stands above a declaration is its comment, and what stands behind one (with the lines below that go on in the same column);
"// ---- title ----" begins a section; the first block of a file is that of the file. Indented lines are kept as they are.
"""
import re
import sys

SECTION = re.compile(r"// -{3,} ?(.*?)[ -]*$")


def escaped(text):
    """Text of which nothing is a command to Doxygen; names in backquotes as code."""
    text = re.sub(r"([\\@&<>#%])", r"\\\1", text).replace("*/", "* /").replace("/*", "/ *").replace('"', "&quot;")
    text = text.replace("file:", "file&zwj;:")  # no address
    return re.sub(r"`([^`]+)`", r"<tt>\1</tt>", text)


def words(lines):
    """A comment's lines: paragraphs, and what is indented verbatim."""
    out, indented = [], False
    for line in lines:
        kept = line.startswith("  ")
        if kept != indented and (kept or line.strip()):
            out += ["@verbatim"] if kept else ["@endverbatim"]
            indented = kept
        text = escaped(line.strip())
        out.append(line.replace("*/", "* /") if indented else re.sub(r"^([-+*]|\d+\.) ", r"&zwj;\1 ", text))
    return "\n".join(out + ["@endverbatim"] * indented)


def comment(line):
    """The column of a comment in a line and what it says; (-1, "") where there is none."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"', lambda text: "_" * len(text[0]), line)
    at = bare.find("//")
    return (at, line[at + 2:].removeprefix(" ").rstrip()) if at >= 0 else (-1, "")


def arguments(text):
    """What stands between the parentheses of a macro, by commas outside of strings."""
    return [a.strip() for a in re.findall(r'((?:"[^"]*"|[^",])+)', text)]


def expanded(text):
    """Lists that macros make of tables, #define X(...), TABLE(X), #undef X, written out: Doxygen does not follow them everywhere."""
    joined = re.sub(r"\\\n\s*", " ", text)
    tables = dict(re.findall(r"^#define (PB_\w+)\(X\) (.*)$", joined, re.M))

    def rows(found):
        names, body, inside = [n for n in arguments(found[1]) if n != "..."], found[2], found[3]
        for table, entries in tables.items():
            made = []
            for entry in re.findall(r'X\(((?:"[^"]*"|[^")])*)\)', entries):
                row = re.sub(r"\b(" + "|".join(names) + r")\b", lambda n, to=dict(zip(names, arguments(entry))): to[n[0]], body.replace("##", "\0"))
                made.append(row.replace("\0", "").strip())
            inside = inside.replace(f"{table}(X)", "\n".join(made))
        return inside
    return re.sub(r"^#define X\(([^)]*)\) (.*)\n((?:.*\n)*?)#undef X\n", rows, joined, flags=re.M)


class Filter:
    def __init__(self, text):
        self.lines, self.out, self.section, self.first = text.splitlines(), [], False, True

    def block(self, k):
        """The comment that begins at line k, alone on its lines: its texts, and the line behind it."""
        said = []
        while k < len(self.lines) and self.lines[k].lstrip().startswith("//"):
            if not self.lines[k].lstrip().startswith("// clang-format"):
                said.append(comment(self.lines[k])[1])
            k += 1
        return said, k

    def begin(self, title, said):
        self.end()
        self.out += [f"/** @name {escaped(title[:1].upper() + title[1:])}\n{words(said)}\n*/", "/** @{ */"]
        self.section = True

    def end(self):
        if self.section:
            self.out.append("/** @} */")
        self.section = False

    def above(self, k):
        """A block of its own, and the declaration below it, if there is one."""
        title = SECTION.match(self.lines[k])
        said, k = self.block(k)
        following = self.lines[k].strip() if k < len(self.lines) else ""
        if self.first:
            self.out.append(f"/** @file\n{words(said)}\n*/")
        elif title and not following:
            self.begin(title[1], said[1:])
        else:
            if title:
                self.begin(title[1], [])
                said = said[1:]
            if said and following and not following.startswith(("}", "#if", "#endif", "#undef")):
                self.declared(k, said)
        self.first = False
        return k

    def declared(self, k, said):
        """What is said of the declaration at line k; also behind the name of a struct."""
        at, more = comment(self.lines[k])
        if at > 0 and self.lines[k][:at].rstrip().endswith("{"):
            said, self.lines[k] = [*said, more], self.lines[k][:at]
        self.out.append(f"/** {words(said)}\n*/")

    def behind(self, k):
        """A declaration with its comment behind it, which goes on below in the same column."""
        at, text = comment(self.lines[k])
        code, said = self.lines[k][:at].rstrip(), [text]
        k += 1
        while k < len(self.lines) and self.lines[k][:at].isspace() and self.lines[k][at:at + 2] == "//":
            said.append(comment(self.lines[k])[1])
            k += 1
        before = code.endswith("{") or code.startswith("#")
        self.out += [f"/** {words(said)} */", code] if before else [f"{code} /**< {words(said)} */"]
        return k

    def text(self):
        k = 0
        while k < len(self.lines):
            at, _ = comment(self.lines[k])
            if at >= 0 and not self.lines[k][:at].strip():
                k = self.above(k)
            elif at > 0 and not self.lines[k].startswith("#end"):
                k = self.behind(k)
            else:
                if self.lines[k] == "#ifdef __cplusplus":  # the end of what C++ is told to call C
                    self.end()
                self.out.append(self.lines[k])
                k += 1
        return "\n".join(self.out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        print(Filter(expanded(f.read())).text(), end="")
