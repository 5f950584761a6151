"""The library loads from Python and answers."""


def test_version_is_that_of_the_build(lib, root):
    import re

    wanted = re.search(r"project\(pullback VERSION ([0-9.]+)", (root / "CMakeLists.txt").read_text())[1]
    assert lib.pbVersion().decode() == wanted


def test_context_starts_without_error(lib, context):
    assert lib.pbContext_Error(context) == b""
    assert lib.pbContext_Warnings(context) == b""
    assert lib.pbStatus_Text(0) == b"done"
