"""Gymnasium's CartPole-v1, unmodified, as a process of its own: lines of JSON on standard input and output.

The first line that it writes has names and sizes. {"reset": seed} begins an episode; {"t", "u"} with a force of any size makes a step: the
environment's own force is as large as |u|, its action the sign. Each answers {"t", "x", "reward", "done"}, x as env.unwrapped.state has it."""
import json
import sys

import gymnasium


def tell(**said):
    print(json.dumps(said), flush=True)


def main():
    env = gymnasium.make("CartPole-v1")
    inner, steps, total = env.unwrapped, 0, 0.0
    tell(x=["x", "v", "angle", "speed"], u=["force"], timestep=inner.tau)
    for line in sys.stdin:
        asked, done = json.loads(line), False
        if "reset" in asked:
            env.reset(seed=asked["reset"])
            steps, total = 0, 0.0
        else:
            force, = asked["u"]
            inner.force_mag = abs(force)
            _, reward, terminated, truncated, _ = env.step(int(force > 0))
            steps, total, done = steps + 1, total + reward, terminated or truncated
        tell(t=steps * inner.tau, x=[float(v) for v in inner.state], reward=total, done=done)


if __name__ == "__main__":
    main()
