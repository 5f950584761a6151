"""Cases R4 and R4U in short: an arm with servos learns where its hand is to be, from a task whose loss sees what its policy is told."""
import os
import sys

import numpy as np
import pytest

import inside

sys.path.insert(0, os.path.join(inside.ROOT, "validation"))
import arm  # noqa: E402
import R4  # noqa: E402
import R4U  # noqa: E402


@pytest.mark.parametrize("name", ["small", "closed"])
def test_sixty_updates_halve_the_error(name, tmp_path):
    targets = R4.places(np.random.default_rng(99), 64)
    assert R4.errors(R4.learn(tmp_path, name, 60), targets).mean() < R4.errors(R4.policy(name), targets).mean() / 2


def test_places_are_those_in_reach():
    p = R4.places(np.random.default_rng(1), 1000)
    assert np.all(p[:, 2] >= arm.MIDDLE[2])
    far = np.linalg.norm(p - arm.MIDDLE, axis=1)
    assert .7071 <= far.min() < .75 and .98 < far.max() <= 1


def test_gradient_of_the_closed_loop():
    """By all weights along a direction, against differences, of places that worlds are told."""
    m, random = R4.load({**R4.policy("closed"), "layers": [{"dense": 16, "activation": "tanh"}, {"dense": 4, "gain": .1}]}), np.random.default_rng(3)
    names = [n for n in m.params if n.startswith("policy.")]
    at, command = {n: m.params[n].copy() for n in names}, np.repeat(R4.places(random, 4)[:, None], 400, 1)
    ways, weights = {n: random.standard_normal(at[n].shape) for n in names}, random.standard_normal((4, 401, 1, 3))

    def run(step):
        params = {n: at[n] + step * ways[n] for n in names} | {"actuator_speed": np.full(4, arm.SPEED)}
        return m.rollout(m.init(batch=4), steps=400, command=command, outputs="site_xpos", params=params)

    value = lambda step: (run(step).site_xpos * weights).sum()
    found = run(0).vjp(site_xpos=weights, wrt=names)
    slope = sum((found.params[n] * ways[n]).sum() for n in names)
    assert slope == pytest.approx((value(1e-6) - value(-1e-6)) / 2e-6, rel=1e-6)


def test_a_network_learns_set_points():
    net, targets = R4U.Network(None), R4.places(np.random.default_rng(99), R4U.WORLDS)
    before = net.error(targets)
    for _ in range(4):
        net.learn()
    assert net.error(targets) < .9 * before
