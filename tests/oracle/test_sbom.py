"""The bill of materials names what the program is linked with, by the versions that the libraries say themselves, and the viewer's library."""
import ctypes
import json
import pathlib
import re
import subprocess

import pytest

C_LIBRARY = {"linux-vdso", "libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}


@pytest.fixture(scope="module")
def bill(pullback):
    return json.loads((pathlib.Path(pullback).parent / "pullback.cdx.json").read_text())


def says(name, function):
    call = getattr(ctypes.CDLL(name), function)
    call.restype = ctypes.c_char_p
    return call(None).decode()


def versions(pullback):
    """{component: version} of what the program is linked with, each by its own words."""
    lines = subprocess.run(["ldd", pullback], capture_output=True, text=True, check=True).stdout.split("\n")
    linked = {line.split()[0] for line in lines if line} - {""}
    names = {re.sub(r"(\.so.*|-?\.so.*)$", "", pathlib.Path(name).name): name for name in linked}
    own = {
        "libexpat": lambda so: ("libexpat", says(so, "XML_ExpatVersion").removeprefix("expat_")),
        "libz": lambda so: ("zlib", says(so, "zlibVersion")),
        "libpng16": lambda so: ("libpng", says(so, "png_get_libpng_ver")),
        "libjansson": lambda so: ("jansson", says(so, "jansson_version_str")),
        "libqhull_r": lambda so: ("qhull", subprocess.run(["pkg-config", "--modversion", "qhull_r"], capture_output=True, text=True).stdout.strip()),
    }
    return dict(own[stem](so) for stem, so in names.items() if stem not in C_LIBRARY)  # KeyError: a library that the bill does not know


def test_versions(bill, pullback):
    stated = {c["name"]: c["version"] for c in bill["components"]}
    told = subprocess.run([pullback, "--version"], capture_output=True, text=True, check=True).stdout
    three = re.search(r"three\.js r(\d+), SHA-256 ([0-9a-f]{64})", told)
    assert stated == {**versions(pullback), "three": f"0.{three[1]}.0"}
    (viewer,) = [c for c in bill["components"] if c["name"] == "three"]
    assert viewer["hashes"] == [{"alg": "SHA-256", "content": three[2]}]
    assert bill["metadata"]["component"]["version"] == re.search(r"pullback (\S+)", told)[1]


def test_form(bill):
    """What CycloneDX 1.6 requires of such a file; licences are names of SPDX; nothing changes from build to build."""
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert not {"serialNumber"} & set(bill) and "timestamp" not in bill["metadata"]
    for c in bill["components"]:
        assert c["type"] == "library" and re.fullmatch(r"\d+(\.\d+)+", c["version"]), c
        assert c["licenses"][0]["license"]["id"] in {"MIT", "Zlib", "libpng-2.0", "Qhull"}
        assert "cpe" not in c or re.fullmatch(r"cpe:2\.3:a:\w+:\w+:[\d.]+(:\*){7}", c["cpe"])
    assert bill["dependencies"] == [{"ref": "pullback", "dependsOn": [c["bom-ref"] for c in bill["components"]]}]
