"""Springs relaxed to an equilibrium

Springs relaxed by Adam on their elastic energy, every number of the run against independently measured ones; the same
equilibrium by every minimizer from many starts."""
import numpy as np

from common import apart, below, inside, near, row
import deform
import springs

X = np.array([[0, 0], [1, 0], [2, .5], [1, 1], [1.5, 2], [2, -1], [0, -1], [1, -2]])
ENDS = np.array([[0, 1], [0, 3], [1, 3], [1, 2], [2, 3], [3, 4], [2, 4], [1, 5], [5, 6], [6, 0], [6, 1], [6, 5], [5, 7], [6, 7]])
REST = np.array([1, 1.3, 1.4, 1.5, 2, 1.4, 1.4, 1.3, 1, .8, 1, 1, 1, .9])
ADAM = {1: 1.12671106, 10: 0.10405551, 20: 0.06429998, 50: 3.773036e-3, 100: 2.034483e-5}


def energy(x):
    return springs.energy("hookean", 1, x, ENDS, REST)


def relax(method, x, **options):
    """(positions, iterations) of one static step."""
    w = springs.world("hookean", 1, "static", method, x=X, ends=ENDS, rest=REST, **options)
    s, _ = w.step(w.start(x))
    return w.x(s)[:, :2], w.report().iterations


def complex_gradient(x):
    at = np.array([x.ravel() + 1e-200j * e for e in np.eye(x.size)]).reshape(-1, *x.shape)
    return energy(at).imag.reshape(x.shape) / 1e-200


def refused():
    """What the pullback of an equilibrium says that may move and turn as a whole."""
    w = springs.world("hookean", 1, "static", x=X, ends=ENDS, rest=REST)
    rollout = deform.Rollout(w, 1)
    rollout.run()
    try:
        rollout.pull(np.ones((8, 3)))
    except inside.Error as error:
        return str(error).split(": ", 2)[2]
    return "a gradient"


def rows():
    spring = deform.Energy(springs.FORMULAS["hookean"], 2, k=(), l0=())
    value, each, _ = spring.evaluate(np.pad(X, ((0, 0), (0, 1))), ENDS, k=1, l0=REST)
    gradient = np.zeros((8, 3))
    np.add.at(gradient, ENDS, each)
    out = [row("springs, the pair (5, 6) twice among them", len(ENDS), 14, len(ENDS) == 14 and np.sum(np.all(np.sort(ENDS) == [5, 6], axis=1)) == 2),
           below("energy at the start against 1.9348648213476447, relative", abs(value.sum() / 1.9348648213476447 - 1), 1e-12),
           near("size of its gradient", np.linalg.norm(gradient), 4.099671603966, 1e-12),
           below("first entries of the gradient against -.080761914, .119238986, .553772731, .944474235", np.max(np.abs(gradient[:2, :2].ravel() - [-.080761914, .119238986, .553772731, .944474235])), 5e-10),
           below("gradient against an imaginary step through the energy in NumPy, relative", apart(gradient[:, :2], complex_gradient(X)), 1e-12)]
    for steps, wanted in ADAM.items():
        x, _ = relax("adam", X, iterations=steps, approximate=True, residual=1e-300)
        digits = 1e-6 if steps == 100 else 5e-7 if steps == 50 else 5e-8
        out.append(below(f"energy after {steps} steps of Adam against {wanted:.9g}, relative", abs(energy(x) / wanted - 1), digits))
    out.append(below("points 0 and 7 after 100 steps against (.204697, -.151672), (.443961, -1.770093)",
                     np.max(np.abs(x[[0, 7]] - [[.204697, -.151672], [.443961, -1.770093]])), 5e-7))
    later = {n: energy(relax("adam", X, iterations=n, approximate=True, residual=1e-300)[0]) for n in (1000, 2000, 5000)}
    out.append(row("Adam goes on: energy after 1000, 2000, 5000 steps (it leaves the equilibrium by rounding)", ", ".join(f"{e:.1e}" for e in later.values()), "reported", True))
    starts = X + np.random.default_rng(1).uniform(-0.5, 0.5, (200, *X.shape))
    for method in ("gradient", "lbfgs", "newton_cg", "newton"):
        done = [relax(method, x) for x in starts]
        worst = max(energy(x) for x, _ in done)
        out.append(below(f"{method} from 200 starts perturbed by up to 0.5: largest energy left (median iterations {np.median([n for _, n in done]):.0f})", worst, 1e-12))
    return out + [row("the equilibrium is not isolated: its pullback", refused(), "refused, with the point", "singular at point" in refused())]
