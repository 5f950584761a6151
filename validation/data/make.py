#!/usr/bin/env python3
"""Makes the recordings of this folder from the repositories that published them, and checks them.

  validation/data/make.py                       every file is as manifest.json says, and none is missing or unknown
  validation/data/make.py --source NAME=PATH    makes the files of a source again, from a clone of its repository that has the commit below;
                                                PATH is the clone or a git directory. Several times for several sources

README.md says what the files hold. Files are read out of the commit (git show), so what is checked out does not matter. A file that comes
out with other bytes than it had is named: the same source makes the same bytes.
"""
import argparse
import csv
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import zipfile
from typing import Callable, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = os.path.join(HERE, "manifest.json")
SOURCES = {
    "double_pendulum": {"address": "https://github.com/dfki-ric-underactuated-lab/double_pendulum",
                        "commit": "1e8544e67f3da72a51ee52fbbb278e131ce2a43f", "licence": "BSD-3-Clause"},
    "simple_pendulum": {"address": "https://github.com/dfki-ric-underactuated-lab/torque_limited_simple_pendulum",
                        "commit": "ed17ea2d32a35ad944944ca03ef57693e2986732", "licence": "BSD-3-Clause"},
    "dojo": {"address": "https://github.com/dojo-sim/Dojo.jl", "commit": "be7b5183965e2408a176c162b2d08bf9a810de5e", "licence": "MIT"},
    "dair_pll": {"address": "https://github.com/DAIRLab/dair_pll", "commit": "523d372d8c2b50ea5ce77082d4f08879c753d963",
                 "licence": "BSD-3-Clause"},
    # where dojo's tosses are from: its licence alone
    "contact_nets": {"address": "https://github.com/DAIRLab/contact-nets", "commit": "c3dc21c94577ff4ed99123f0b00bfe57bb2d1d90", "licence": "BSD-3-Clause"},
}
HALF_EDGE = .0524  # m: what dojo's lengths are in, half the edge of the cube (assets/contactnets_cube.urdf of dair_pll)
JOINTS = ("shoulder", "elbow")


class Column(NamedTuple):
    """A column of ours: its title, decimals that are kept, and the source's column by name or number, or a function of its row."""
    title: str
    decimals: int
    of: "str | int | Callable[[list], float]"


class Recording(NamedTuple):
    """A file of ours: its name, where it comes from (several files of the source have as many rows), its columns, and which rows are kept."""
    file: str
    source: str
    paths: tuple
    columns: tuple
    every: int = 1


def two(title, decimals, of):
    return tuple(Column(f"{joint}{title}", decimals, f"{of}{k + 1}") for k, joint in enumerate(JOINTS))


TIME = Column("time [s]", 5, "time")
COMMANDS, TORQUES = two("_command [N m]", 4, "tau_con"), two("_torque [N m]", 3, "tau_meas")
ACROBOT = (TIME, *two(" [rad]", 4, "pos_meas"), *two("_rate [rad/s]", 2, "vel_meas"), *COMMANDS, *TORQUES)
PENDUBOT = (TIME, *two(" [rad]", 4, "pos_meas"), *COMMANDS, *TORQUES)
SECOND_DAY = (TIME, *two(" [rad]", 4, "pos"), *two("_rate [rad/s]", 2, "vel"), *two("_command [N m]", 4, "tau"))
SWINGS = {"acrobot_A0": [11], "pendubot_C0": [12, 13]}  # fast, with feedback: all rows


def double_pendulums():
    records = "data/experiment_records/"
    for name, folder, columns, runs in (("acrobot_A0", "design_A.0/20220815", ACROBOT, (0, 1, 2, 3, 4, 5, 11, 12, 13)),
                                        ("pendubot_C0", "design_C.0/20220914", PENDUBOT, (0, 1, 2, 3, 4, 5, 6, 12, 13))):
        for run in runs:
            yield Recording(f"{name}/run_{run:02}.csv", "double_pendulum", (f"{records}{folder}/sys_id/trajectory_{run:02}.csv",), columns,
                            1 if run in SWINGS[name] else 2)
    for run, at in enumerate(("055032", "055640", "060143")):
        yield Recording(f"acrobot_A0_second_day/run_{run:02}.csv", "double_pendulum",
                        (f"{records}design_A.0/20220812/sys_id/20220812-{at}-PM_measured.csv",), SECOND_DAY, 1 if at == "060143" else 2)


def simple_pendulums():
    measured = (TIME, Column("hinge [rad]", 4, "position"), Column("hinge_rate [rad/s]", 2, "velocity"), Column("hinge_torque [N m]", 3, "torque"))
    command = Column("hinge_command [N m]", 4, "1:torque")
    for name, folder, end, commanded in (("ddp", "ddp", "", False), ("direct_collocation", "direct_collocation", "", False),
                                         ("energy_shaping", "energy_shaping", "", True), ("energy_shaping_1kg", "energy_shaping", "_1kg", True),
                                         ("ilqr", "ilqr", "", True), ("sac", "sac", "", True),
                                         ("system_identification", "pd/system_identification", "", False)):
        paths = tuple(f"results/control_method_{folder}/data_{kind}{end}.csv" for kind in ("measured", "desired"))
        yield Recording(f"pendulum/{name}.csv", "simple_pendulum", paths if commanded else paths[:1], measured + (command,) * commanded)


def tosses():
    axes = ("x", "y", "z")
    titles = ([f"{a} [m]" for a in axes], [f"q{a} [1]" for a in "wxyz"], [f"v{a} [m/s]" for a in axes], [f"w{a} [rad/s]" for a in axes])

    def columns(time, first, scale):
        parts = zip(titles, first, (5, 5, 4, 4), (scale, 1, scale, 1))
        return (Column("time [s]", 5, lambda row: row[-1] * time),
                *(Column(title, decimals, lambda row, at=at + k, by=by: row[at] * by)
                  for words, at, decimals, by in parts for k, title in enumerate(words)))

    for toss in range(60):
        yield Recording(f"cube/toss_{toss:02}.csv", "dojo", (f"examples/system_identification/data/experiment/tosses_csv/{toss}.csv",),
                        columns(1 / 148, (0, 3, 7, 10), HALF_EDGE))
    for toss in range(20):
        yield Recording(f"cube_dair_pll/toss_{toss:02}.csv", "dair_pll", (f"assets/contactnets_cube/{toss}.pt",),
                        columns(.0068, (4, 0, 10, 7), 1))


def recordings():
    return [*double_pendulums(), *simple_pendulums(), *tosses()]


def tensor(data):
    """Rows of a PyTorch file of one tensor of doubles, 13 in a row."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        storage = next(name for name in archive.namelist() if name.split("/")[-2:-1] == ["data"])
        numbers = archive.read(storage)
    return [list(row) for row in struct.iter_unpack("<13d", numbers)]


def rows_of(path, data):
    """({name: column}, rows) of a file of a source; the row's number is behind its numbers."""
    if path.endswith(".pt"):
        names, rows = {}, tensor(data)
    else:
        lines = list(csv.reader(io.StringIO(data.decode())))
        named = not lines[0][0].lstrip("-")[:1].isdigit()
        names = {name: k for k, name in enumerate(lines[0])} if named else {}
        rows = [[float(field) for field in line] for line in lines[named:]]
    return names, [row + [k] for k, row in enumerate(rows)]


def number(value, decimals):
    text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def text_of(recording, files):
    """A recording as CSV, of the source's files."""
    read = [rows_of(path, data) for path, data in zip(recording.paths, files)]

    def value(column, k):
        if callable(column.of):
            return column.of(read[0][1][k])
        which, _, name = column.of.rpartition(":")
        names, rows = read[int(which or 0)]
        return rows[k][names[name]]

    out = io.StringIO()
    out.write(",".join(column.title for column in recording.columns) + "\n")
    for k in range(0, len(read[0][1]), recording.every):
        out.write(",".join(number(value(column, k), column.decimals) for column in recording.columns) + "\n")
    return out.getvalue()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def show(path, commit, file):
    found = subprocess.run(["git", "-C", path, "show", f"{commit}:{file}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if found.returncode:
        sys.exit(f"{path}: no {file} in commit {commit}: {found.stderr.decode().strip()}")
    return found.stdout


def make(source, path):
    """The source's rows of the manifest; files and licence are written."""
    commit, rows = SOURCES[source]["commit"], []
    licence = show(path, commit, "LICENSE")
    for recording in (r for r in recordings() if r.source == source):
        files = [show(path, commit, file) for file in recording.paths]
        data = text_of(recording, files).encode()
        target = os.path.join(HERE, recording.file)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        write(target, data)
        rows.append({"file": recording.file, "sha256": sha256(data), "rows": data.count(b"\n") - 1, "source": source,
                     "from": {file: sha256(content) for file, content in zip(recording.paths, files)}})
    name = f"licences/{source}.txt"
    os.makedirs(os.path.join(HERE, "licences"), exist_ok=True)
    write(os.path.join(HERE, name), licence)
    return [*rows, {"file": name, "sha256": sha256(licence), "source": source, "from": {"LICENSE": sha256(licence)}}]


def write(target, data):
    if os.path.exists(target):
        with open(target, "rb") as f:
            if f.read() != data:
                print(f"{os.path.relpath(target, HERE)}: other bytes than before", file=sys.stderr)
    with open(target, "wb") as f:
        f.write(data)


def manifest(folder=HERE):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
        return json.load(f)


def keep(rows):
    """The manifest, a line a file."""
    rows = sorted(rows, key=lambda row: row["file"])
    lines = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    sources = ",\n".join(f"    {json.dumps(name)}: {json.dumps(told)}" for name, told in SOURCES.items())
    with open(MANIFEST, "w", encoding="utf-8") as f:
        f.write(f'{{\n  "sources": {{\n{sources}\n  }},\n  "files": [\n{lines}\n  ]\n}}\n')


def faults(folder=HERE):
    """What is not as the manifest of a folder says, a sentence each."""
    rows, found = {row["file"]: row for row in manifest(folder)["files"]}, []
    for name, row in rows.items():
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            found.append(f"{name}: missing")
            continue
        with open(path, "rb") as f:
            data = f.read()
        if sha256(data) != row["sha256"]:
            found.append(f"{name}: its SHA-256 is {sha256(data)}, the manifest says {row['sha256']}")
        elif "rows" in row and data.count(b"\n") - 1 != row["rows"]:
            found.append(f"{name}: has {data.count(10) - 1} rows, the manifest says {row['rows']}")
    there = {os.path.relpath(os.path.join(d, f), folder) for d, _, files in os.walk(folder) for f in files if f.endswith((".csv", ".txt"))}
    return found + [f"{name}: not in the manifest" for name in sorted(there - set(rows))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", action="append", default=[], metavar="NAME=PATH")
    made = dict(text.partition("=")[::2] for text in parser.parse_args().source)
    unknown = [name for name in made if name not in SOURCES]
    if unknown:
        parser.error(f"no source {', '.join(unknown)}; there are {', '.join(SOURCES)}")
    if made:
        kept = [row for row in manifest()["files"] if row["source"] not in made] if os.path.exists(MANIFEST) else []
        keep(kept + [row for name, path in made.items() for row in make(name, path)])
    found = faults()
    print("\n".join(found) or f"{len(manifest()['files'])} files are as the manifest says")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
