"""Cases R3 and R4 in short: an arm with servos learns by gradients through many worlds, and a run goes on to the same bits."""
import os
import sys

import numpy as np
import pytest

import inside

sys.path.insert(0, os.path.join(inside.ROOT, "validation"))
import arm  # noqa: E402
import R4  # noqa: E402


def test_forty_updates_halve_the_error():
    before, after = R4.short()
    assert after < before / 2


@pytest.mark.parametrize("kind", [lambda: R4.Told("small"), R4.Sees])
def test_runs_go_on(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(R4, "WORLDS", 8)
    monkeypatch.setattr(R4, "ROOT", str(tmp_path))
    (tmp_path / "build").mkdir()
    whole = kind().train(4)
    os.remove(whole.path)
    kind().train(2)
    rest = kind().train(4)
    assert rest.update == 4
    for a, b in zip(whole.parameters, rest.parameters):
        assert np.array_equal(a, b) and np.any(a)


def test_gradient_of_the_closed_loop(monkeypatch):
    monkeypatch.setattr(R4, "WORLDS", 4)
    net, random = R4.Sees(), np.random.default_rng(3)
    z = net.parameters[0] + .01 * random.standard_normal(len(net.parameters[0]))
    direction, weights = random.standard_normal(len(z)), random.standard_normal((4, arm.STEPS + 1, 3))
    targets = R4.places(np.random.default_rng(5), 4)

    def value(step):
        net.parameters[0][:] = z + step * direction
        return (net.reach(targets) * weights).sum()

    value(0)
    slope = net.pull(weights)[0] @ direction
    assert slope == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-6)
