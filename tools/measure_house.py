#!/usr/bin/env python3
"""Measures what the functions of C sources are like, and prints it beside the same measures of other engines.

  tools/measure_house.py                      src, io and cli beside tools/house_anchors.csv
  tools/measure_house.py --name X DIR...      other folders, in a column X
  tools/measure_house.py --markdown           as a table for docs

Reads C as tools/check_style.py does. Shares are of the lines between a function's braces, "/ 1000 lines" is of all lines of all files. Names are counted once a function. The anchors' columns were measured once, by another script, of
box2d, MuJoCo (src/engine), libCEED and SparseDiffEngine.
"""
import argparse
import csv
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import c_source  # noqa: E402
import check_style  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
ANCHORS = ROOT / "tools" / "house_anchors.csv"


def files_of(folders):
    return [f for folder in folders for f in ([folder] if folder.is_file() else sorted(folder.rglob("*.[ch]")))]


def quantile(sorted_values, part):
    return sorted_values[min(int(part * len(sorted_values)), len(sorted_values) - 1)]


def is_guard(source, text, line):
    """An include guard: #ifndef X as the first directive, with #define X after it; or C++'s part of a header."""
    first, second = source.directives[0], source.directives[1] if len(source.directives) > 1 else (0, 0, "")
    guards = text.startswith("#ifndef") and first[0] == line and second[2].startswith("#define " + text.split()[1])
    return guards or "__cplusplus" in text


def nested_lines(source):
    """Lines of code with two conditional expressions or more: what stands for nested ones in the anchors' column."""
    count = {}
    for token in source.tokens:
        if token.text == "?":
            count[token.line] = count.get(token.line, 0) + 1
    return sum(n > 1 for n in count.values())


def measure(folders):
    """{measure: value} of all C files below the folders, in the order of the table."""
    lengths, names, characters, code = [], [], 0, 0
    sums = dict.fromkeys(check_style.SUMS, 0)
    conditions = nested = 0
    for path in files_of(folders):
        found, _, source = check_style.measure(str(path), path.read_text(errors="replace"))
        for key, value in found.items():
            sums[key] += value
        nested += nested_lines(source)
        conditions += sum(text.startswith("#if") and not is_guard(source, text, line) for line, _, text in source.directives)
        only_comment = check_style.commented(source) - source.code_lines
        for function in source.functions:
            lengths.append(function.lines)
            names += check_style.names_of(function)
            lines = [source.lines[n - 1].strip() for n in range(function.open + 1, function.last) if n not in only_comment]
            code += sum(bool(line) for line in lines)
            characters += sum(map(len, lines))
    if not lengths:
        sys.exit("no functions in " + ", ".join(map(str, folders)))
    lengths.sort()
    thousand = sums["lines"] / 1000
    return {
        "functions": len(lengths),
        "lines of a function: median": round(statistics.median(lengths)),
        "lines of a function: 90 %": quantile(lengths, 0.9),
        "lines of a function: 99 %": quantile(lengths, 0.99),
        "lines of a function: longest": lengths[-1],
        "functions beyond 60 lines": sum(n > 60 for n in lengths),
        "functions beyond 100 lines": sum(n > 100 for n in lengths),
        "blank lines in bodies %": round(100 * sums["blank"] / max(sums["body"], 1), 1),
        "comment lines in bodies %": round(100 * sums["comment"] / max(sums["body"], 1), 1),
        "characters a line of code": round(characters / max(code, 1), 1),
        "comma operators / 1000 lines": round(sums["commas"] / thousand, 1),
        "lines with nested ?: / 1000": round(nested / thousand, 1),
        "names of 1 or 2 letters %": round(100 * sum(n <= 2 for n in names) / max(len(names), 1)),
        "median length of a name": round(statistics.median(names)),
        "assertions / 1000 lines": round(sums["asserts"] / thousand, 2),
        "#if / 1000 lines without guards": round(conditions / thousand, 1),
    }


def table(name, found):
    """Rows of text: the head, then a measure each, this project's column last."""
    with ANCHORS.open(newline="") as file:
        rows = list(csv.reader(file))
    head, anchors = rows[0], {row[0]: row[1:] for row in rows[1:]}
    return [[*head, name]] + [[key, *anchors.get(key, [""] * (len(head) - 1)), str(value)] for key, value in found.items()]


def print_table(rows, markdown):
    if markdown:
        rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
        print("\n".join("| " + " | ".join(row) + " |" for row in rows))
        return
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(w) if k == 0 else text.rjust(w) for k, (text, w) in enumerate(zip(row, widths))))


def main():
    parser = argparse.ArgumentParser(description="Measures of C functions beside those of other engines.")
    parser.add_argument("folders", nargs="*", type=pathlib.Path, help="default: src, io, cli")
    parser.add_argument("--name", default="Pullback", help="head of the column")
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    folders = asked.folders or [ROOT / top for top in check_style.GOAL_TOPS]
    print_table(table(asked.name, measure(folders)), asked.markdown)


if __name__ == "__main__":
    sys.exit(main())
