"""Gymnasium's CartPole-v1, unmodified, as a process of its own, as `pullback control --plant` asks it (docs/control.md).

A control of any size makes a step: the environment's own force is as large as |u|, its action the sign. With "two" on the command line the
force stays the environment's and its action is the sign of what is asked, what it cannot do carried to the next step."""
import json
import sys

import gymnasium


def tell(**said):
    print(json.dumps(said), flush=True)


def main():
    env = gymnasium.make("CartPole-v1")
    inner, steps, total, carried = env.unwrapped, 0, 0.0, 0.0
    full, two = inner.force_mag, "two" in sys.argv
    tell(qpos=["x", "angle"], qvel=["x", "angle"], u=["force"], timestep=inner.tau)
    for line in sys.stdin:
        asked, done = json.loads(line), False
        if "reset" in asked:
            env.reset(seed=asked["reset"])
            steps, total, carried = 0, 0.0, 0.0
        else:
            force, = asked["u"]
            if two:
                carried += force
                force = full if carried > 0 else -full
                carried -= force
            inner.force_mag = abs(force)
            _, reward, terminated, truncated, _ = env.step(int(force > 0))
            steps, total, done = steps + 1, total + reward, terminated or truncated
        x, v, angle, speed = map(float, inner.state)
        tell(t=steps * inner.tau, qpos=[x, angle], qvel=[v, speed], reward=total, done=done)


if __name__ == "__main__":
    main()
