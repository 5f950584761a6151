"""The program as make demo calls it, and how far the demo is: a line that is updated on a terminal, plain lines elsewhere."""
import csv
import json
import os
import re
import select
import shutil
import subprocess
import sys
import time

import npz

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "out")
SHOWN = re.compile(r"\r\x1b\[K(\w+: \d+ of \d+[^\r\n]*)")  # what the program shows on a terminal while it works
LEFT = re.compile(r"train: .*?, (\d+) s left")  # a search ends before its iterations are used up, a training does not


class Progress:
    """Of parts with the seconds that each took where it was measured: how long the rest will take follows from those that are done."""

    def __init__(self, parts, out=None):
        self.parts, self.out = dict(parts), out or sys.stdout
        self.live = self.out.isatty()
        self.begin = self.began = time.monotonic()
        self.done, self.part, self.line = {}, None, ""

    def pace(self):
        """Seconds here for one there."""
        done = sum(self.done.values())
        return done / sum(self.parts[p] for p in self.done) if done else 1.0

    def left(self, part_left=None):
        """Seconds; part_left: what a part's own command says of itself."""
        ahead = sum(s for p, s in self.parts.items() if p not in self.done and p != self.part) * self.pace()
        if self.part is None:
            return ahead
        gone = time.monotonic() - self.began
        own = max(self.parts[self.part] * self.pace() - gone, gone / 4)  # what is late already will be later
        return ahead + (own if part_left is None else part_left)

    def start(self, part):
        self.part, self.began = part, time.monotonic()
        if not self.live:
            self.say(f"{self.heading()}: begun, about {self.left():.0f} s left")
        else:
            self.show("")

    def end(self):
        self.done[self.part] = time.monotonic() - self.began
        self.say(f"{self.heading()}: {self.done[self.part]:.0f} s")
        self.part = None

    def heading(self):
        return f"[{len(self.done) + (self.part not in self.done)}/{len(self.parts)}] {self.part}"

    def say(self, text):
        """A line that stays."""
        self.out.write(("\r\x1b[K" if self.live and self.line else "") + text + "\n")
        self.out.flush()
        self.line = ""

    def show(self, note, part_left=None):
        """The line that is updated; nothing where there is no terminal."""
        if not self.live or self.part is None:
            return
        width = shutil.get_terminal_size().columns - 1
        self.line = f"{self.heading()}, about {self.left(part_left):.0f} s left" + (f": {note}" if note else "")
        self.out.write("\r\x1b[K" + self.line[:width])
        self.out.flush()


class Program:
    """The program, told of by a Progress (None: by nobody)."""

    def __init__(self, path, progress=None):
        self.path, self.progress = os.path.abspath(path), progress

    def say(self, text):
        if self.progress:
            self.progress.say(text)

    def follow(self, end, process):
        """What the program says behind its progress, and that shown with the time that it has left."""
        said, done = "", False
        while not done:
            done = process.poll() is not None
            if select.select([end], [], [], 0.2)[0]:
                try:
                    more = os.read(end, 1 << 16).decode(errors="replace")
                except OSError:  # a terminal that nobody writes to any more
                    break
                if not more:
                    break
                said += more
                done = False
            shown = SHOWN.findall(said)
            if self.progress:
                seconds = LEFT.match(shown[-1]) if shown else None
                self.progress.show(re.sub(r", \d+ s left", "", shown[-1]) if shown else "", int(seconds[1]) if seconds else None)
        return SHOWN.sub("", said).replace("\r\x1b[K", "").replace("\r", "")

    def __call__(self, *words):
        words = [str(w) for w in words]
        try:
            main, other = os.openpty()  # it shows progress on terminals
        except OSError:  # where there are none, as below some empty roots, it is silent
            main, other = os.pipe()
        try:
            process = subprocess.Popen([self.path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=other)
            os.close(other)
            said = self.follow(main, process)
        finally:
            os.close(main)
        if process.wait():
            sys.exit(f"\npullback {' '.join(words)}\n{said}")

    def optimize(self, folder, task):
        """Result of a task of folder; its file, trajectory and page lie beside it."""
        path = os.path.join(folder, task)
        self(  # what is said of it stands in its result
            "optimize", path + ".json", "--fresh", "-o", path + ".result.json", "--page", path + ".html")
        with open(path + ".result.json", encoding="utf-8") as f:
            result = json.load(f)
        result["trajectory"] = os.path.join(folder, result["trajectory_files"][0])
        return result

    def simulate(self, folder, model, name, *words):
        path = os.path.join(folder, name)
        self("simulate", os.path.join(folder, model), "-o", path, *words)
        return npz.read(path)

    def train(self, folder, task, *words):
        """(table of the training by columns, seconds); policy, table and page lie beside the task."""
        path, begin = os.path.join(folder, task), time.monotonic()
        self("train", path + ".json", "--fresh", "-o", path + ".npz", *words)
        seconds = time.monotonic() - begin
        with open(path + ".csv", newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        return {name: [(float(r["robot_steps"]), float(r[name])) for r in rows if r[name]] for name in rows[0]}, seconds

    def view(self, model, run, name):
        """The page of a motion, in out/."""
        page = os.path.join(OUT, name + ".html")
        self("view", model, run, "-o", page)
        return page

    def version(self):
        return subprocess.run([self.path, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def fresh(name):
    """Copy of an example's folder under out/."""
    folder = os.path.join(OUT, name)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "examples", name), folder)
    return folder
