"""The table of MJCF: every row of MuJoCo 4.0.0's own schema and no other, and what it says of each row is true.

For every row a small model is made that has it; MuJoCo must accept the model (so that the test means something), and then
"supported" and "no effect" must load, with the compiled fields that MuJoCo has, and "refused" must be refused, naming the place,
the element and the attribute.
"""
import os
import re

import mujoco
import pytest

import oracle
import inside
import schema
from test_compile import faults

SUPPORTED, NO_EFFECT, REFUSED = range(3)


def table():
    count = inside.native.int_()
    rows = inside.native.pbMjcf_Table(count)
    return [rows[k] for k in range(count.value)]


# Sensors and equalities that MuJoCo does not have: conformance/test_lists sees that they are read and pulled back.
OURS = {f"{kind}/{row[2]}" for kind, rows in (("sensor", oracle.fields.sensors()), ("equality", oracle.fields.equalities()))
        for row in rows if int(row[1]) >= oracle.fields.first_of_ours(kind)}


def key(row):
    return row.element.decode(), row.attribute.decode() if row.attribute else None


def loaded(path):
    """(error or None, model or None) of Pullback's load."""
    try:
        return None, inside.Model(path)
    except inside.Error as error:
        return error, None


def theirs(path):
    """(error or None, model or None) of MuJoCo's load."""
    try:
        return None, mujoco.MjModel.from_xml_path(path)
    except (ValueError, RuntimeError, mujoco.FatalError) as error:
        return str(error), None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("schema")
    schema.write_files(path)
    return path


def test_table_is_the_schema():
    want = set(schema.rows())
    for element, attributes in schema.META.items():
        want |= {(element, None)} | {(element, a) for a in attributes.split()}
    have = [key(row) for row in table()]
    assert len(have) == len(set(have)), "rows stand twice"
    assert not want - set(have), f"missing: {sorted(map(str, want - set(have)))}"
    have = [row for row in have if row[0] not in OURS]
    assert not set(have) - want, f"not in the schema: {sorted(map(str, set(have) - want))}"


def test_rows_of_an_element_lie_together():
    order = [row.element for row in table()]
    seen = []
    for element in order:
        if not seen or seen[-1] != element:
            seen.append(element)
    assert len(seen) == len(set(seen))
    assert all(row.attribute is None for row, before in zip(table(), [None] + order) if row.element != before)


# What MuJoCo takes from the file of a mesh or height field also where they are only seen; here those files are not read.
OF_FILES = ("geom_size[", "geom_rbound[", "geom_aabb[", "geom_pos[", "geom_quat[", "stat_")


def differences(model, m):
    seen = (m.geom_type == mujoco.mjtGeom.mjGEOM_MESH).any() or (m.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD).any()
    return [text for text in faults(model.fields(), m) if not (seen and text.startswith(OF_FILES))]


def check_row(row, folder):
    """What is wrong with a row, or None."""
    element, attribute = key(row)
    path = folder / (re.sub(r"\W", "_", f"{element}-{attribute}") + ".xml")
    path.write_text(schema.model(element, attribute))
    error, model = loaded(str(path))
    if element not in schema.ALONE and (element, attribute) not in schema.ALONE_AT:
        complaint, m = theirs(str(path))
        if complaint:
            return f"MuJoCo does not accept the model: {complaint}"
    if row.support != REFUSED:
        if error:
            return f"is not refused, but {error}"
        bad = differences(model, m)
        return f"compiles to something else: {bad[:2]}" if bad else None
    if not error:
        return "is refused, but the model loads"
    text = str(error)
    named = re.search(rf"{re.escape(str(path))}:\d+:\d+: ", text) and element.split("/")[-1] in text and (attribute or "") in text
    return None if named and "not supported" in text else f"is refused without its names: {text}"


def elements():
    return sorted({row.element.decode() for row in table()} - OURS)


@pytest.mark.parametrize("element", elements() if os.path.isdir(inside.build_dir()) else [])
def test_rows(element, folder):
    bad = []
    for row in table():
        if row.element.decode() == element:
            fault = check_row(row, folder)
            if fault:
                bad.append(f"{element} {row.attribute.decode() if row.attribute else ''}: {fault}")
    assert not bad, f"{len(bad)} rows\n" + "\n".join(bad)


def words(row):
    return [(w.lstrip("!").split("=")[0], w.startswith("!")) for w in (row.words or b"").decode().split()]


def test_keywords(folder):
    """Every keyword that MuJoCo takes is taken or refused as the table says; refused ones name the value."""
    bad, tried = [], 0
    for row in table():
        element, attribute = key(row)
        for word, refused in words(row) if row.words else []:
            path = folder / "word.xml"
            path.write_text(schema.model(element, attribute, word))
            error, model = loaded(str(path))
            complaint, m = theirs(str(path))
            if complaint:
                continue
            tried += 1
            if refused and (not error or word not in str(error) or "not supported" not in str(error)):
                bad.append(f"{element} {attribute} {word}: not refused by name: {error}")
            elif not refused and error and "collides" not in str(error) and "mass" not in str(error):
                bad.append(f"{element} {attribute} {word}: {error}")
            elif not refused and not error and differences(model, m):
                bad.append(f"{element} {attribute} {word}: {differences(model, m)[:2]}")
    assert tried > 250
    assert not bad, "\n".join(bad)


def test_neutral_values(folder):
    """A refused attribute at the value that means it is not there does no harm."""
    tried = 0
    for row in table():
        element, attribute = key(row)
        if not row.neutral or not row.neutral.decode() or element.startswith("default/"):
            continue
        path = folder / "neutral.xml"
        path.write_text(schema.model(element, attribute, row.neutral.decode(), bare=True))
        error, model = loaded(str(path))
        complaint, m = theirs(str(path))
        if complaint:  # crank lengths, say, even of zero
            continue
        assert not error, (element, attribute, str(error))
        assert not differences(model, m), (element, attribute)
        tried += 1
    assert tried > 10


@pytest.mark.parametrize("text, expected", [
    ('<mujoco><worldbody><geom sise="1"/></worldbody></mujoco>', "did you mean 'size'"),
    ('<mujoco><worldbody><goem size="1"/></worldbody></mujoco>', "did you mean 'geom'"),
    ('<mujoco><wordbody/></mujoco>', "did you mean 'worldbody'"),
    ('<mujoco><worldbody><geom size="1 2,3"/></worldbody></mujoco>', "geom: attribute 'size' has \"2,3\" where a finite number"),
    ('<mujoco><option timestep="0.01s"/></mujoco>', "option: attribute 'timestep' has \"0.01s\""),
    ('<mujoco><option gravity="0 0"/></mujoco>', "attribute 'gravity' has 2 numbers, expected 3"),
    ('<mujoco><option integrator="implicit"/></mujoco>', "attribute 'integrator' is \"implicit\", which is not supported"),
])
def test_messages(text, expected, tmp_path):
    path = tmp_path / "model.xml"
    path.write_text(text)
    error, _ = loaded(str(path))
    assert expected in str(error) and f"{path}:1:" in str(error), str(error)
