#!/usr/bin/env python3
"""Writes src/elementary/tables.h, what the elementary functions look up and their polynomials, from numbers of 300 bits.

  pip install mpmath; tools/elementary.py
"""
import pathlib
import struct

from mpmath import mp, mpf

mp.prec = 300
ROOT = pathlib.Path(__file__).resolve().parent.parent
PARTS = 128  # of an octave, for the exponential and the logarithm
ANGLES = 64  # parts of the slope's range from 0 to 1, for the arc tangent
WORDS = 20   # of 2/pi: 1 280 bits are enough for the largest number


def short(x, bits):
    """The nearest number of so many bits."""
    e = int(mp.floor(mp.log(abs(x), 2))) + 1 - bits
    return mp.nint(x / mpf(2) ** e) * mpf(2) ** e


def exp_rows():
    """2^(j/n) and what its double lacks, relative to it."""
    for j in range(PARTS):
        v = mpf(2) ** (mpf(j) / PARTS)
        yield float(v), (v - float(v)) / float(v)


def log_rows():
    """Of each part of [.6875, 1.375) a center of nine bits, its inverse, and its logarithm: 42 bits behind the point, with which whole multiples of
    the first part of log 2 add up exactly, and the rest."""
    for j in range(PARTS):
        low, high = (struct.unpack("<d", struct.pack("<Q", 0x3fe6000000000000 + ((j + k) << 45)))[0] for k in (0, 1))
        c = mpf(1) if low <= 1 <= high else short((mpf(low) + mpf(high)) / 2, 9)
        head = mp.nint(mp.log(c) * mpf(2) ** 42) / mpf(2) ** 42
        yield c, 1 / c, head, mp.log(c) - head


def angle_rows():
    """atan(j/n) in two parts."""
    for j in range(ANGLES + 1):
        v = mp.atan(mpf(j) / ANGLES)
        yield float(v), v - float(v)


def polynomial(f, low, high, count):
    """Coefficients of the polynomial that meets f at Chebyshev's points of [low, high]: its largest error is next to the least that there is."""
    points = [low + (high - low) / 2 * (1 + mp.cos(mp.pi * (2 * i + 1) / (2 * count))) for i in range(count)]
    rows = mp.matrix(count, count)
    for i, z in enumerate(points):
        for k in range(count):
            rows[i, k] = z ** k
    return mp.lu_solve(rows, mp.matrix([f(z) for z in points]))


def two_over_pi():
    with mp.workprec(64 * (WORDS + 4)):
        v = 2 / mp.pi
        for _ in range(WORDS):
            v *= mpf(2) ** 64
            word = int(mp.floor(v))
            v -= word
            yield word


def table(comment, name, rows):
    rows = [[float.hex(float(v)) for v in r] for r in rows]
    lines = "".join("    {" + ", ".join(r) + "},\n" for r in rows)
    return f"// {comment}\nstatic const double {name}[{len(rows)}][{len(rows[0])}] = {{\n{lines}}};\n\n"


def column(comment, name, values, kind="double"):
    lines = "".join(f"    {v},\n" for v in values)
    return f"// {comment}\nstatic const {kind} {name}[{len(values)}] = {{\n{lines}}};\n\n"


def main():
    top = (mp.pi / 4) ** 2 * mpf("1.0001")  # what is left of an angle may be a little more than pi/4
    root = mp.sqrt
    shapes = {
        "log_terms": ("(log(1 + x) - x) / x^2 in powers of x, -1/256 <= x <= 1/128.", lambda x: (mp.log1p(x) - x) / x ** 2, -mpf(1) / 256, mpf(1) / 128, 5),
        "sine_terms": ("(sin x / x - 1) / x^2 in powers of x^2, |x| <= pi/4.", lambda z: (mp.sin(root(z)) / root(z) - 1) / z, 0, top, 6),
        "cosine_terms": ("(cos x - 1 + x^2/2) / x^4 in powers of x^2, |x| <= pi/4.", lambda z: (mp.cos(root(z)) - 1 + z / 2) / z ** 2, 0, top, 6),
        "arc_terms": ("(atan x / x - 1) / x^2 in powers of x^2, |x| <= 1/16.", lambda z: (mp.atan(root(z)) / root(z) - 1) / z, 0, mpf(1) / 255, 6),
        "arcsine_terms": ("(asin x / x - 1) / x^2 in powers of x^2, |x| <= 1/2.", lambda z: (mp.asin(root(z)) / root(z) - 1) / z, 0, mpf(1) / 4, 14),
    }

    text = "// Made by tools/elementary.py.\n#ifndef PB_ELEMENTARY_TABLES_H\n#define PB_ELEMENTARY_TABLES_H\n\n#include <stdint.h>\n\n"
    text += table("2^(j/128), and what it lacks, relative to it.", "exp_table", exp_rows())
    text += table("Center of a part of [.6875, 1.375), its inverse, its logarithm in two parts.", "log_table", log_rows())
    text += table("atan(j/64) in two parts.", "angle_table", angle_rows())
    for name, (comment, f, low, high, count) in shapes.items():
        text += column(comment, name, [float.hex(float(c)) for c in polynomial(f, low, high, count)])
    text += column("2/pi: 64 bits a word, the first behind the point.", "two_over_pi", [f"UINT64_C(0x{w:016x})" for w in two_over_pi()], "uint64_t")
    (ROOT / "src" / "elementary" / "tables.h").write_text(text + "#endif\n")


if __name__ == "__main__":
    main()
