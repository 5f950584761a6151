#!/usr/bin/env python3
"""docs/parity.md: what the program and the C library can do, and its name in Python.

Of every command and option of the program and every public function there is a row in python/parity.csv, by name or with a * at an
end, that names what does it in the package or says why nothing does. What has no row, or a row for nothing, is an error.
  tools/parity.py BUILD [--check]   writes docs/parity.md; --check: says whether it is up to date
"""
import csv
import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE, PAGE = ROOT / "python" / "parity.csv", ROOT / "docs" / "parity.md"
TITLES = {"command": "Commands", "option": "Options", "function": "Functions of C"}


def of_the_program(build):
    """Names of all commands and of all options."""
    text = lambda *words: subprocess.run([build / "pullback", *words, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  (\w+) ", text().split("Commands:")[1].split("Options:")[0], re.M)
    options = {name for command in commands for name in re.findall(r"^  (?:-\w, |    )?(--[\w-]+)", text(command), re.M)}
    return commands, sorted(options)


def there_is(build):
    commands, options = of_the_program(build)
    functions = sorted(re.findall(r"^(pb\w+) = _declare\(", (build / "pullback_abi.py").read_text(), re.M))
    return {"command": commands, "option": options, "function": functions}


def rows():
    with open(TABLE, encoding="utf-8") as f:
        return list(csv.DictReader(f))


def lay_out(found, table):
    """(kind, pattern, names, Python, reason) of each row that something falls under, the first that fits; and what is wrong."""
    wrong, out = [], []
    taken = {id(row): [] for row in table}
    for kind, names in found.items():
        mine = [row for row in table if row["kind"] == kind]
        for name in names:
            row = next((r for r in mine if r["name"] == name), None) or next((r for r in mine if fnmatch.fnmatchcase(name, r["name"])), None)
            if row is None:
                wrong.append(f"{kind} {name}: no row in {TABLE.relative_to(ROOT)}")
            else:
                taken[id(row)].append(name)
    for row in table:
        if bool(row["python"]) == bool(row["reason"]):
            wrong.append(f"{row['kind']} {row['name']}: expected a name in Python or a reason why there is none")
        if not taken[id(row)]:
            wrong.append(f"{row['kind']} {row['name']}: there is nothing of this name")
        out.append((row, taken[id(row)]))
    return out, wrong


def page(laid):
    lines = ["# What there is in Python", "", "Every command and option of the program and every public function of C, with what does it in the "
             "package, or why nothing does. Made by `tools/parity.py` out of `python/parity.csv`.", ""]
    for kind, title in TITLES.items():
        lines += [f"## {title}", "", "| here | in Python |", "|---|---|"]
        for row, names in laid:
            if row["kind"] == kind:
                what = row["name"] if len(names) == 1 else f"{row['name']} ({len(names)})"
                lines.append(f"| `{what}` | {', '.join(f'`{p.strip()}`' for p in row['python'].split(', ')) if row['python'] else row['reason']} |")
        lines.append("")
    return "\n".join(lines)


def main():
    build = pathlib.Path(sys.argv[1])
    laid, wrong = lay_out(there_is(build), rows())
    text = page(laid)
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        wrong.append(f"{PAGE.relative_to(ROOT)}: not up to date; tools/parity.py {build} writes it")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
