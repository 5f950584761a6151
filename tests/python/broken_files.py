"""Files that readers must take or refuse: texts that are just wrong, and others with something changed. The same in every run."""
import io
import pathlib
import struct
import zipfile
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SEEDS = ROOT / "tests" / "fuzz" / "seeds"
PIECES = [b"<", b">", b"/>", b'"', b"'", b"&", b"&lt;", b"]]>", b"<!--", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"<![CDATA[", b"=", b"{", b"}",
          b"[", b"]", b",", b":", b"\\", b"\\u", b"\\ud800", b"\n", b" ", b"1e999", b"-", b".", b"9" * 20, b"\xff", b"\xc3\xa9", b"\x01", b"a"]


def broken(data, rng):
    """Cut short, or with bytes changed, gone, doubled or put in."""
    b = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, what = rng.randrange(len(b) + 1), rng.randrange(6)
        if what == 0:
            del b[at:]
        elif what == 1:
            del b[at:at + rng.randrange(1, 6)]
        elif what == 2 and b:
            b[at % len(b)] = rng.randrange(1, 256)
        elif what == 3 and b:
            b[at % len(b)] ^= 1 << rng.randrange(8)
        elif what == 4:
            b[at:at] = b[at // 2:at // 2 + rng.randrange(30)]
        else:
            b[at:at] = rng.choice(PIECES)
    return bytes(b).replace(b"\0", b"0") if b"\0" not in data else bytes(b)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(rng):
    """A PNG of any kind, whole or with a part that is wrong."""
    color, depth = rng.choice([(c, d) for c, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items() for d in depths])
    width, height, interlaced, wrong = rng.randrange(2, 20), rng.randrange(2, 20), rng.randrange(2), rng.randrange(12)
    rows = b""
    for x, y, dx, dy in ([(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]):
        size = (-(-(width - x) // dx) * depth * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color] + 7) // 8
        for _ in range(-(-(height - y) // dy) if size > 0 else 0):
            rows += bytes([rng.randrange(5 + (wrong == 0))]) + rng.randbytes(size)
    packed = zlib.compress(rows[:-2] if wrong == 1 else rows + b"more" if wrong == 2 else rows, rng.randrange(10))
    head = [width, height, depth, color, 0, 0, interlaced]
    if wrong == 3:
        head[rng.randrange(7)] = rng.randrange(40)
    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", *head))]
    if color == 3 and wrong != 4:
        parts.append(chunk(b"PLTE", rng.randbytes(3 << depth)))
    at = rng.randrange(len(packed))
    parts += [chunk(b"tEXt", b"a\0b"), chunk(b"IDAT", packed[:at]), chunk(b"IDAT", packed[at:]), chunk(b"IEND", b"")]
    if wrong == 5:
        parts.insert(rng.randrange(len(parts)), chunk(rng.choice([b"IDAT", b"PLTE", b"ABCD", b"abcd"]), b"abc"))
    if wrong == 6:
        rng.shuffle(parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def archive(rng):
    """An NPZ of states, packed in some way."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]), compresslevel=rng.randrange(1, 10)) as z:
        for name in rng.sample(["qpos", "qvel", "time"], rng.randrange(1, 4)):
            member = io.BytesIO()
            np.save(member, np.full(rng.choice([(1,), (1,), (30000, 1), ()]) if name != "time" else (), rng.random()))
            z.writestr(name + ".npy", member.getvalue())
    return out.getvalue()


DEEP = [("task", "deep.json", b'{"a":' * n + b"1" + b"}" * n) for n in (2047, 2048, 100000)] + [
    ("mjcf", "deep.xml", b"<mujoco><worldbody>" + b"<body>" * n + b"</body>" * n + b"</worldbody></mujoco>") for n in (253, 254, 255, 100000)]
TEXTS = [("task", "t.json", text) for text in (
    b"", b"{", b"[]", b"3", b'{"a":1,"a":2}', b'{"a":NaN}', b'{"a":1e999}', b'{"a":123456789012345678901}', b'{"a":"\\ud800"}', b'{"a":"\\u0000"}',
    b'{"\\u0000":1}', b'{"a":"\xff"}', b'\xef\xbb\xbf{}', b'{"a":01}', b'{"a":1.}', b'{"a":tru}', b'{"a" 1}', b'{"a":1,}', b'{"a":"\n"}', b"{}x", b"<a/>")] + [
    ("mjcf", "t.xml", text) for text in (
        b"", b"<mujoco>", b"<mujoco/>", b"<mujoco/>x", b"<mujoco a='1' a='2'/>", b"<mujoco></worldbody>", b"<mujoco>&b;</mujoco>",
        b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><mujoco>&b;</mujoco>", b"<?xml version='1.0' encoding='UTF-16'?><mujoco/>",
        "<?xml version='1.0' encoding='UTF-16'?><mujoco/>".encode("utf-16"), b"\xef\xbb\xbf<mujoco/>", b"<mujoco model='\xff'/>", b"<mujoco model='a--b'><!-- a -- b --></mujoco>",
        b"<mujoco " + b" ".join(b"a%d='1'" % i for i in range(65)) + b"/>", b"<mujoco><size nconmax='1'/><unknown/></mujoco>", b"<mujoco model='&#65;&#x42;'/>\r\n\r\n<x")]
# Appended data behind lines of all kinds; other encodings.
HEAD = (b'<VTKFile type="UnstructuredGrid" byte_order="LittleEndian" header_type="UInt32"><UnstructuredGrid><Piece NumberOfPoints="4" NumberOfCells="1">'
        b'<Points><DataArray type="Float64" NumberOfComponents="3" format="appended" offset="0"/></Points><Cells>'
        b'<DataArray type="Int32" Name="connectivity" format="appended" offset="100"/><DataArray type="Int32" Name="offsets" format="appended" offset="120"/>'
        b'<DataArray type="UInt8" Name="types" format="appended" offset="128"/></Cells></Piece></UnstructuredGrid>')
TAIL = (struct.pack("<I12d", 96, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1) + struct.pack("<I4i", 16, 0, 1, 2, 3) + struct.pack("<Ii", 4, 4) + struct.pack("<IB", 1, 10) +
        b"</AppendedData></VTKFile>")
APPENDED = [("mesh", "raw.vtu", start + HEAD + before + tag + b"_" + TAIL) for start in (b"", b"<?xml version='1.0'?>\r\n", b"\xef\xbb\xbf", "<!-- é\r€ -->\n".encode(),
            b"<?xml version='1.0' encoding='ISO-8859-1'?>", b"<?xml version='1.0' encoding='ISO-8859-1'?><!-- \xe9 -->") for before in (b"", b"\r\n\r", b"\n  ", "<!--é-->".encode())
            for tag in (b'<AppendedData encoding="raw">', b"<AppendedData a='>' encoding=\"raw\" >\n \r\n")]
