"""Specs in Python: every kind and field of pullback/spec.h by name, editing, and models that are bit for bit those of the same text."""
import copy
import glob
import importlib.util
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

import pullback as pb
from conftest import BUILD, PROGRAMS, ROOT
from pullback import spec as inside

MODELS = sorted(glob.glob(os.path.join(ROOT, "tests", "oracle", "models", "*.xml"))) + sorted(glob.glob(os.path.join(ROOT, "examples", "*", "*.xml")))
STRUCTS = {"compiler": "pbCompilerSettings", "option": "pbOptionSettings", "statistic": "pbStatisticSettings", "size": "pbSizeSettings", "spec": "pbSpec",
           "wrap": "pbWrap", "entry": "pbTupleEntry"}
# What is no field: where an element stands and its key, the context, the lists of elements and settings, and settings of attached models.
APART = {"place", "key"}
APART_OF_SPEC = {"ctx", "pool", "attached", "nattached", *inside._SETTINGS, *inside._LISTS.values(), *(f"n{kind}" for kind in inside._LISTS)}
PENDULUM = """<mujoco model="pendulum"><compiler angle="radian"/><option timestep=".01"/><worldbody><body name="pole" pos="0 0 1">
<joint name="hinge" axis="0 1 0" damping=".1"/><geom name="rod" type="capsule" fromto="0 0 0 0 0 -.5" size=".02"/><site name="tip" pos="0 0 -.5"/></body>
</worldbody><actuator><motor name="motor" joint="hinge"/></actuator><sensor><jointpos name="angle" joint="hinge"/></sensor></mujoco>"""


def same(a, b):
    return a._compiled.pack() == b._compiled.pack()


@pytest.fixture
def pendulum():
    return pb.Spec.from_string(PENDULUM, name="pendulum.xml")


# ---- all that there is --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def structs():
    """The structs of the headers, as the build reads them: members with their types."""
    path = os.path.join(PROGRAMS, "pullback_abi.py")
    if not os.path.exists(path):
        pytest.skip("the build has no description of the headers")
    made = importlib.util.spec_from_file_location("pullback_abi_of_specs", path)
    module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    return lambda kind: getattr(module, STRUCTS.get(kind, f"pb{kind.title()}Def"))


def members(struct, prefix=""):
    """Names of all numbers, texts and lists of a struct, those of structs in it with a point between."""
    for name, kind, *_ in struct._fields_:
        if hasattr(kind, "_fields_") and kind.__name__ == "pbPose":
            yield from members(kind, f"{prefix}{name}.")
        else:
            yield prefix + name


@pytest.mark.parametrize("kind", inside.KINDS)
def test_every_member_is_a_field(kind, structs):
    """A member of a struct of pullback/spec.h that has no row in the library's table has none here."""
    fields = inside._fields_of(kind).values()
    expected = set(members(structs(kind))) - (APART_OF_SPEC if kind == "spec" else APART)
    counted = {"tendon": {"path_count"}, "tuple": {"count"}, "visual": {"count", "values"}}.get(kind, set())  # of lists that are one field
    assert {f.member for f in fields} == expected - counted and len(fields) == len(expected - counted) == len(inside._TABLE[inside.KINDS.index(kind)][2])
    assert all(f.meaning and f.meaning in f.__doc__ and f.unit in f.__doc__ for f in fields)


def another(field, element, spec):
    """A value that the field does not have."""
    now = field.__get__(element)
    if field.words:
        return next(w for w in ([True, False, "auto"] if field._tristate else field.words) if w != now)
    if field.refers >= 0:
        add = {"body": spec.add_body, "frame": spec.add_frame, "visual": spec.add_visual}[inside.KINDS[field.refers]]
        return add(name=f"other {field.name}")
    if field.type in (inside._PATH, inside._ENTRIES):
        texts = {f.name: "x" if f.type == inside._TEXT else next(iter(f.words)) if f.words else 2.5 for f in inside._PARTS[field.type]}
        return [texts, texts]
    plain = {inside._PAIRS: {"a": "b", "c": ""}, inside._TEXT: f"{now}x", inside._LETTERS: "XyZ", inside._BOOL: not now if isinstance(now, bool) else None,
             inside._REALS: np.array([1.5, 2.5]), inside._INTS: np.array([0, 1, 2])}
    if field.type in plain:
        return plain[field.type]
    if field.count == 1:
        return 7 if field.type == inside._INT else .625
    return np.arange(1, field.count + 1) * (1 if field.type == inside._INT else .25)


@pytest.mark.parametrize("kind", [k for k in inside.KINDS if k not in ("wrap", "entry")])
def test_every_field_is_read_and_written(kind):
    """Each takes another value, keeps it while elements come and go, and no other field is changed by it."""
    spec = pb.Spec()
    element = getattr(spec, f"add_{kind}")() if kind in inside._LISTS else spec if kind == "spec" else getattr(spec, kind)
    fields = (type(element))._fields
    for name, field in fields.items():
        value = another(field, element, spec)
        before = {n: np.array(f.__get__(element)) if not f.refers >= 0 else f.__get__(element) for n, f in fields.items() if n != name}
        setattr(element, name, value)
        if kind in inside._LISTS:
            getattr(spec, f"add_{kind}")().remove()
        found = getattr(element, name)
        assert np.array_equal(found, value) if isinstance(value, np.ndarray) else found == value, name
        after = {n: np.array(f.__get__(element)) if not f.refers >= 0 else f.__get__(element) for n, f in fields.items() if n != name}
        changed = {n for n in before if not np.array_equal(before[n], after[n], equal_nan=np.asarray(before[n]).dtype.kind == "f")}
        assert changed <= {"alt", "inertial_alt"} and (not changed or name.endswith("quat")), (name, changed)
        assert getattr(spec.copy(), name) == value if kind == "spec" else True


@pytest.mark.parametrize("kind", [*inside._LISTS, *inside._SETTINGS])
def test_wrong_values_are_told_with_field_and_place(kind):
    spec = pb.Spec()
    element = getattr(spec, f"add_{kind}")() if kind in inside._LISTS else getattr(spec, kind)
    for name, field in type(element)._fields.items():
        for wrong in (object(), np.zeros((2, 2, 2)), 1j, "no such word" if field.type not in (inside._TEXT, inside._LETTERS) else 5):
            with pytest.raises(pb.ArgumentError, match=f"^{kind}.*{name}"):
                setattr(element, name, wrong)
    with pytest.raises(AttributeError, match=f"{kind} has no field 'nothing'"):
        element.nothing = 1


# ---- the same models ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", MODELS, ids=[os.path.basename(p) for p in MODELS])
def test_a_spec_compiles_to_the_bits_of_load(path):
    try:
        loaded = pb.load(path)
    except pb.Error as e:
        with pytest.raises(type(e)) as raised:
            pb.Spec.load(path).compile()
        assert str(raised.value) == str(e)
        return
    spec = pb.Spec.load(path)
    assert same(loaded, spec.compile()) and same(loaded, spec.copy().compile()) and spec.compile().warnings == loaded.warnings


def test_options_and_contacts_are_those_of_load(pendulum):
    given = {"options": {"tolerance": 0, "integrator": "RK4"}, "contact": {"method": "soft"}}
    assert same(pendulum.compile(**given), pb.loads(PENDULUM, **given))


def test_every_field_that_a_file_states_is_set_by_hand():
    """Specs that are built element by element, out of what was read, give the model of the file."""
    for path in MODELS:
        try:
            read = pb.Spec.load(path)
            loaded = read.compile()
        except pb.Error:
            continue
        if read.copy()._core.count(inside.KINDS.index("visual")) and "attach" in pathlib.Path(path).read_text():
            continue  # compiler settings of attached models are not edited
        made = pb.Spec()
        for name in ("model_name", "surfaces", "design"):
            setattr(made, name, getattr(read, name))
        for kind in inside._SETTINGS:
            for name in inside._CLASSES[kind]._fields:
                setattr(getattr(made, kind), name, getattr(getattr(read, kind), name))
        order = ["body", "frame", *(k for k in inside._LISTS if k not in ("body", "frame"))]
        for kind in order:
            for element in list(getattr(read, inside._LISTS[kind]))[kind == "body":]:
                getattr(made, f"add_{kind}")()
        for kind in order:
            for old, new in zip(getattr(read, inside._LISTS[kind]), getattr(made, inside._LISTS[kind]), strict=True):
                for name, field in type(old)._fields.items():
                    value = getattr(old, name)
                    if field.refers >= 0 and value is not None:
                        value = getattr(made, inside._LISTS[inside.KINDS[field.refers]])[value.index]
                    if not (field.refers >= 0 and value is None and kind == "body"):
                        type(new)._fields[name].__set__(new, value) if not name.endswith("quat") else setattr(new, name, value)
                    if name.endswith("quat") and name[:-4] + "alt" in type(new)._fields:
                        setattr(new, name[:-4] + "alt", getattr(old, name[:-4] + "alt"))
        assert same(loaded, made.compile()), path


# ---- editing ------------------------------------------------------------------------------------------------------------------
def chain(links):
    spec = pb.Spec()
    body = spec.worldbody
    for k in range(links):
        body = body.add_body(name=f"link{k}", pos=[0, 0, -.2 if k else 1])
        body.add_joint(name=f"hinge{k}", axis=[0, 1, 0], damping=[.1, 0, 0])
        body.add_geom(name=f"rod{k}", type="capsule", fromto=[0, 0, 0, 0, 0, -.2], size=[.02, 0, 0], contype=0)
    spec.add_actuator(name="motor", trntype="joint", target="hinge0", gear=[2, 0, 0, 0, 0, 0])
    spec.add_sensor(name="angle", type="jointpos", objtype="joint", objname=f"hinge{links - 1}")
    return spec


def chain_text(links):
    inner = ""
    for k in reversed(range(links)):
        inner = (f'<body name="link{k}" pos="0 0 {-.2 if k else 1}"><joint name="hinge{k}" axis="0 1 0" damping=".1"/>'
                 f'<geom name="rod{k}" type="capsule" fromto="0 0 0 0 0 -.2" size=".02" contype="0"/>{inner}</body>')
    return (f'<mujoco><worldbody>{inner}</worldbody><actuator><motor name="motor" joint="hinge0" gear="2"/></actuator>'
            f'<sensor><jointpos name="angle" joint="hinge{links - 1}"/></sensor></mujoco>')


@pytest.mark.parametrize("links", (1, 2, 9, 40))
def test_a_chain_made_in_a_loop_is_the_one_of_the_text(links):
    assert same(chain(links).compile(), pb.loads(chain_text(links)))


def test_what_is_removed_takes_along_what_depends_on_it():
    spec = chain(5)
    spec.add_pair(name="p", geom1="rod0", geom2="rod3")
    spec.add_exclude(body1="link1", body2="link4")
    spec.add_tendon(name="t", path=[{"type": "joint", "target": "hinge1", "value": 1}, {"type": "joint", "target": "hinge4", "value": -1}])
    spec.add_actuator(name="pull", trntype="tendon", target="t")
    spec.add_sensor(type="actuatorfrc", objtype="actuator", objname="pull")
    spec.add_equality(type="joint", name1="hinge2", name2="hinge3")
    spec.add_tuple(name="all", entries=[{"objtype": "geom", "objname": "rod4"}])
    kept, gone = spec.geom("rod1"), spec.geom("rod4")
    spec.remove(spec.body("link3"))
    assert [b.name for b in spec.bodies] == ["world", "link0", "link1", "link2"]
    assert [len(x) for x in (spec.geoms, spec.joints, spec.pairs, spec.excludes, spec.tendons, spec.equalities, spec.tuples)] == [3, 3, 0, 0, 0, 0, 0]
    assert [a.name for a in spec.actuators] == ["motor"] and len(spec.sensors) == 0
    assert kept.name == "rod1" and kept in spec.geoms and gone not in spec.geoms
    with pytest.raises(ReferenceError, match="removed"):
        gone.name
    with pytest.raises(ReferenceError):
        spec.remove(gone)
    shorter = chain(3)
    shorter.sensors[0].remove()
    assert same(spec.compile(), shorter.compile())


def test_a_frame_takes_along_what_stands_in_it_and_numbers_follow():
    spec = pb.Spec()
    a, b = spec.worldbody.add_frame(name="a", pos=[1, 0, 0]), spec.worldbody.add_frame(name="b", pos=[0, 2, 0])
    inner = b.add_frame(pos=[0, 0, 3])
    a.add_body(name="one").add_geom(size=[.1, 0, 0])
    two = inner.add_body(name="two")
    two.add_geom(name="ball", size=[.1, 0, 0])
    a.remove()
    assert [x.name for x in spec.bodies] == ["world", "two"] and two.frame == inner and inner.parent == b and spec.geom("ball").body == two
    spec.worldbody.add_site(name="s")
    assert spec.compile().params["body_pos:two"].tolist() == [0, 2, 3]


def test_settings_orientations_and_numbers_in_place(pendulum):
    rod = pendulum.geom("rod")
    rod.fromto[5] = -.7
    rod.size *= 2
    assert rod.fromto.tolist() == [0, 0, 0, 0, 0, -.7] and rod.size[0] == .04 and type(rod.size + 1) is np.ndarray
    with pytest.raises(ValueError):
        np.add(rod.size, 1, out=rod.size)
    with pytest.raises(pb.ArgumentError, match="rod.*pendulum.xml:2:.*size"):
        rod.size[0] = np.nan
    pole = pendulum.body("pole")
    pole.euler = [0, 1, 0]
    assert pole.alt == "euler" and pole.axisangle is None and pole.euler.tolist() == [0, 1, 0]
    pole.quat = [0, 1, 0, 0]
    assert pole.alt == "none" and pole.euler is None
    pendulum.option.gravity, pendulum.compiler.degree = [0, 0, -1.6], False
    rod.mass = 2
    model = pendulum.compile()
    assert model.params["gravity"].tolist() == [0, 0, -1.6] and model.params["body_mass"][1] == 2 and model.params["body_quat:pole"].tolist() == [0, 1, 0, 0]
    rod.mass = None
    assert np.isnan(rod.mass) and pendulum.compile().params["body_mass"][1] != 2


def test_arrays_that_were_read_before_write_into_what_is_there_now(pendulum):
    spec = pb.Spec.from_string(PENDULUM)
    body, mesh = spec.body("pole"), spec.add_mesh(name="sheet", vertex=np.arange(12.), face=[0, 1, 2])
    first, second = body.pos, body.pos
    first[0] = 5
    second[1] = 6
    assert list(body.pos) == list(second) == [5, 6, 1]
    body.pos = [1, 2, 3]
    first[2] = 9
    assert list(body.pos) == list(first) == [1, 2, 9]
    second += 1
    assert list(body.pos) == list(second) == [2, 3, 10]

    # Entries are refused as whole fields are; nothing is changed then.
    for value in (1.5, np.nan, "7", True, 2**40):
        with pytest.raises(pb.ArgumentError, match="mesh 'sheet': face"):
            mesh.face[0] = value
    with pytest.raises(pb.ArgumentError, match="face"):
        mesh.face /= 2
    with pytest.raises(pb.ArgumentError, match=r"body 'pole' \(model.xml:1:87\): pos: expected real numbers, found text"):
        body.pos[0] = "7"
    with pytest.raises(pb.ArgumentError, match="pos: could not broadcast"):
        body.pos[:2] = [1, 2, 3]
    assert list(mesh.face) == [0, 1, 2] and list(body.pos) == [2, 3, 10]
    old = mesh.vertex
    mesh.vertex = np.zeros(9)
    with pytest.raises(pb.ArgumentError, match=r"vertex: it has shape \(9,\) by now, this array \(12,\)"):
        old[0] = 1


def test_nothing_is_added_where_a_field_is_wrong(pendulum):
    for wrong in ({"siez": [1, 1, 1]}, {"size": [1]}, {"type": "bxo"}, {"name": "rod", "size": "x"}, {"body": 3}):
        with pytest.raises(pb.ArgumentError):
            pendulum.add_geom(**wrong)
    with pytest.raises(pb.ArgumentError, match="body is that of"):
        pendulum.worldbody.add_geom(body=pendulum.worldbody)
    assert len(pendulum.geoms) == 1 and same(pendulum.compile(), pb.loads(PENDULUM))


def test_names_and_places_in_errors(pendulum):
    with pytest.raises(KeyError, match="did you mean 'hinge'"):
        pendulum.joint("hinje")
    with pytest.raises(IndexError):
        pendulum.joint(1)
    pendulum.actuator("motor").target = "hinges"
    with pytest.raises(pb.InputError, match="pendulum.xml:3:.*hinges"):
        pendulum.compile()
    other = pb.Spec()
    for what in (lambda: other.remove(pendulum.geom("rod")), lambda: other.add_geom(body=pendulum.body("pole")), lambda: pendulum.worldbody.remove(),
                 lambda: pb.Spec.load("task.json"), lambda: pb.Spec.from_string(3), lambda: pb.Spec.load(PENDULUM, inertia="no")):
        with pytest.raises(pb.ArgumentError):
            what()
    with pytest.raises(pb.InputError):
        pb.Spec.from_string("<mujoco><worldbody><geom siez='1'/></worldbody></mujoco>")
    with pytest.raises(pb.FileError):
        pb.Spec.load("no such file.xml")


def test_copies_are_their_own(pendulum):
    twin = copy.deepcopy(pendulum)
    twin.geom("rod").name = "stick"
    twin.body("pole").remove()
    assert "rod" in pendulum.geoms and same(pendulum.compile(), pb.loads(PENDULUM)) and len(twin.geoms) == 0
    before = pendulum.compile()
    pendulum.joint("hinge").damping = [5, 0, 0]
    assert before.params["dof_damping"][0] == .1 and pendulum.compile().params["dof_damping"][0] == 5
    for thing in (pendulum, pendulum.geom("rod")):
        with pytest.raises(TypeError):
            copy.copy(thing) if thing is not pendulum else thing.__reduce__()


def test_lists_that_are_written_over_leave_no_memory_behind():
    def megabytes():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    spec = pb.Spec.from_string(PENDULUM)
    mesh, rod, tip = spec.add_mesh(name="sheet"), spec.geom("rod"), spec.site("tip")
    before, place = megabytes(), rod.place
    for k in range(100):
        mesh.vertex = np.full(300_000, float(k))  # 2.4 MB
        rod.name = f"rod{k}"
    assert megabytes() - before < 80
    assert (mesh.vertex == 99).all() and rod.name == "rod99" and rod.place == place and tip.body.name == "pole"
    assert spec.geoms[0] == rod and spec.geoms[0].index == 0
    mesh.remove()
    rod.name = "rod"
    assert same(spec.compile(), pb.loads(PENDULUM))


def test_many_edits_end_where_fresh_ones_do():
    """Adding and removing at random, beside a list of what there should be."""
    rng, spec, there = np.random.default_rng(3), pb.Spec(), []
    for k in range(400):
        if there and rng.random() < .45:
            gone = there.pop(int(rng.integers(len(there))))
            spec.geom(gone[0]).remove()
        else:
            size = float(rng.random()) + .1
            spec.worldbody.add_geom(name=f"g{k}", size=[size, 0, 0])
            there.append((f"g{k}", size))
        assert len(spec.geoms) == len(there)
    assert [(g.name, g.size[0]) for g in spec.geoms] == there
    fresh = pb.Spec()
    for name, size in there:
        fresh.worldbody.add_geom(name=name, size=[size, 0, 0])
    assert same(fresh.compile(), spec.compile())


def test_removing_one_takes_time_as_there_are_elements_not_as_pairs_of_them():
    def seconds(count):
        spec = pb.Spec()
        for k in range(count):
            body = spec.worldbody.add_body(name=f"body{k}")
            body.add_joint(name=f"joint{k}", type="slide")
            spec.add_actuator(name=f"motor{k}", trntype="joint", target=f"joint{k}")
        begun = time.perf_counter()
        for body in spec.bodies[-10:]:
            body.remove()
        taken = time.perf_counter() - begun
        assert len(spec.joints) == len(spec.actuators) == count - 10
        return taken
    few, many = (min(seconds(count) for _ in range(3)) for count in (500, 4000))
    assert many < 24 * few, "eight times as many: 8 in proportion, 64 by pairs"


def test_the_types_are_those_of_the_table():
    """spec.pyi, which type checkers read, is what tools/spec_types.py writes now."""
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "spec_types.py"), BUILD, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_completion_and_help(pendulum):
    assert {"geoms", "geom", "add_geom", "option", "compile"} <= set(dir(pendulum)) and {"size", "euler", "friction"} <= set(dir(pendulum.geom("rod")))
    assert inside.Geom.size.__doc__ == "(3,) m: radius, half lengths, by type" and "kg" in inside.Geom.mass.__doc__
    assert repr(pendulum) == "<Spec 'pendulum': 2 bodies, 1 joints, 1 geoms, 1 sites, 1 actuators, 1 sensors>" and "rod" in repr(pendulum.geoms)
