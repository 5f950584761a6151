"""A browser without a screen, one process for many pages, spoken to through the pipe of its DevTools protocol."""
import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import struct
import subprocess
import tempfile
import time
import zlib

import numpy as np


class Browser:
    def __init__(self, width=800, height=600):
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        assert program, "no browser: make setup"
        self.folder = tempfile.TemporaryDirectory(prefix="pullback-browser-", ignore_cleanup_errors=True)
        down, up = os.pipe(), os.pipe()

        def ends():  # it reads from 3 and writes to 4, whatever numbers the pipes have here
            high = [fcntl.fcntl(end, fcntl.F_DUPFD, 100) for end in (down[0], up[1])]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        options = ["--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--hide-scrollbars", "--disable-gpu-watchdog",
                   f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", "--no-first-run", "about:blank"]
        self.process = subprocess.Popen([program, *options], pass_fds=(3, 4), preexec_fn=ends, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(down[0])
        os.close(up[1])
        self.to, self.out, self.rest, self.number = down[1], up[0], b"", 0
        self.size, self.session, self.events = (width, height), None, []
        self.open_page()

    def close(self):
        for end in (self.to, self.out):
            os.close(end)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def message(self, timeout):
        while b"\0" not in self.rest:
            if not select.select([self.out], [], [], timeout)[0]:
                raise TimeoutError("the browser says nothing")
            more = os.read(self.out, 1 << 20)
            assert more, "the browser has ended"
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def call(self, method, timeout=120, session=True, **parameters):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if session and self.session:
            asked["sessionId"] = self.session
        os.write(self.to, json.dumps(asked).encode() + b"\0")
        while True:
            said = self.message(timeout)
            if said.get("id") == self.number:
                assert "error" not in said, f"{method}: {said['error']}"
                return said["result"]
            self.events.append(said)

    def open_page(self):
        target = self.call("Target.createTarget", url="about:blank", session=False)["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True, session=False)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def open(self, path, timeout=120, query=""):
        """Load a file, with what a query says behind its name; its errors and what it asked the network for are collected anew."""
        self.events = []
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri() + query)
        until = time.monotonic() + timeout
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            assert time.monotonic() < until, f"{path}: not loaded in {timeout} s"
            self.events.append(self.message(timeout))

    def run(self, code, timeout=120):
        """Value of an expression; a promise is waited for."""
        done = self.call("Runtime.evaluate", timeout, expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"].get("exception", done["exceptionDetails"])
        return done["result"].get("value")

    def errors(self):
        self.run("1")
        out = []
        for e in self.events:
            p = e.get("params", {})
            if e.get("method") == "Runtime.exceptionThrown":
                out.append(p["exceptionDetails"].get("exception", {}).get("description", str(p)))
            if e.get("method") == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert"):
                out.append(str([a.get("value") for a in p["args"]]))
            if e.get("method") == "Log.entryAdded" and p["entry"]["level"] == "error":
                out.append(p["entry"]["text"])
        return out

    def requests(self):
        """Addresses that the page asked for, itself left out."""
        found = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [u for u in found[1:] if not u.startswith(("data:", "blob:"))]

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def shot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
        return path


# ---- pixels ---------------------------------------------------------------------------------------------------------------
def png(path):
    """Red, green and blue of an 8-bit PNG file, as (rows, columns, 3)."""
    raw, at, packed = path.read_bytes(), 8, b""
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at:at + 8])
        body = raw[at + 8:at + 8 + size]
        at += 12 + size
        if kind == b"IHDR":
            columns, rows, depth, colours = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colours in (2, 6)
        packed += body if kind == b"IDAT" else b""
    width = 4 if colours == 6 else 3
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(rows, 1 + columns * width)
    image, above = np.zeros((rows, columns, width), np.uint8), np.zeros((columns, width), int)
    for r, line in enumerate(lines):
        kind, now, left, corner = line[0], line[1:].reshape(columns, width).astype(int), np.zeros(width, int), np.zeros(width, int)
        if kind == 1:
            now = np.cumsum(now, axis=0) % 256
        elif kind == 2:
            now = (now + above) % 256
        elif kind in (3, 4):
            for c in range(columns):
                guess = left + above[c] - corner
                off = np.abs([guess - left, guess - above[c], guess - corner])
                paeth = np.where((off[0] <= off[1]) & (off[0] <= off[2]), left, np.where(off[1] <= off[2], above[c], corner))
                now[c] = (now[c] + ((left + above[c]) // 2 if kind == 3 else paeth)) % 256
                left, corner = now[c], above[c]
        image[r] = above = now
    return image[:, :, :3].astype(float)


def pixels(image, rgba):
    """Which have a colour's proportions, whatever the light on it."""
    bright = image.max(axis=2)
    want = np.array(rgba[:3]) / max(rgba[:3])
    near = np.abs(image / np.maximum(bright, 1)[:, :, None] - want).max(axis=2) < 0.12
    return near & (bright > 60)


def screenshot(page, width, height):
    """Of a page after a while, as png gives it."""
    browser = Browser(width, height)
    try:
        browser.open(page)
        browser.run("new Promise(done => setTimeout(done, 1000))")
        return png(browser.shot(page.with_suffix(".png")))
    finally:
        browser.close()
