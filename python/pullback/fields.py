"""The arrays of states, rollouts, gradients and tangents by name, each with its shape and unit: what completes, and what type checkers know.

All shapes are those of one world; of B worlds an axis of them stands before. Which of the arrays there are is up to the model and to what was
given: dir() says it, and one that is not there is an AttributeError.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .arrays import Array, ArrayLike


class _Named:
    """A thing that has arrays by name."""

    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        own = {name for name, thing in vars(cls).items() if isinstance(thing, property)}
        cls._names = cls._names | own if cls.__module__ == __name__ else cls._names

    def _array(self, name: str) -> Array:
        """The array of the name; AttributeError where there is none."""
        raise NotImplementedError

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._names or hasattr(self, name)]


class StateArrays(_Named):
    """Arrays of a State: writable views into flat."""

    def _put(self, name: str, value: ArrayLike) -> None:
        """Writes into the array of the name."""
        raise NotImplementedError

    @property
    def flat(self) -> Array:
        """(StateSize,): all of the state, its fields one after the other, each in its unit."""
        return self._array("flat")

    @property
    def time(self) -> Array:
        """(1,): time, s."""
        return self._array("time")

    @time.setter
    def time(self, value: ArrayLike) -> None:
        self._put("time", value)

    @property
    def qpos(self) -> Array:
        """(nq,): positions of joints: m of slides and places, rad of hinges, unit quaternions (w x y z) of balls and free joints."""
        return self._array("qpos")

    @qpos.setter
    def qpos(self, value: ArrayLike) -> None:
        self._put("qpos", value)

    @property
    def qvel(self) -> Array:
        """(nv,): velocities of dofs, m/s and rad/s; angular ones of balls and free joints in the body's frame."""
        return self._array("qvel")

    @qvel.setter
    def qvel(self, value: ArrayLike) -> None:
        self._put("qvel", value)

    @property
    def act(self) -> Array:
        """(na,): activations of actuators, in the unit of each."""
        return self._array("act")

    @act.setter
    def act(self, value: ArrayLike) -> None:
        self._put("act", value)

    @property
    def qacc_warmstart(self) -> Array:
        """(nv,): accelerations that the solver begins with, m/s^2 and rad/s^2."""
        return self._array("qacc_warmstart")

    @qacc_warmstart.setter
    def qacc_warmstart(self, value: ArrayLike) -> None:
        self._put("qacc_warmstart", value)

    @property
    def points(self) -> Array:
        """(3 npoint,): places of the points of deformables, m; x y z of each."""
        return self._array("points")

    @points.setter
    def points(self, value: ArrayLike) -> None:
        self._put("points", value)

    @property
    def point_velocity(self) -> Array:
        """(3 npoint,): velocities of the points of deformables, m/s."""
        return self._array("point_velocity")

    @point_velocity.setter
    def point_velocity(self, value: ArrayLike) -> None:
        self._put("point_velocity", value)

    @property
    def points_before(self) -> Array:
        """(3 npoint,): places of the points a step before, m; with integrators that need them."""
        return self._array("points_before")

    @points_before.setter
    def points_before(self, value: ArrayLike) -> None:
        self._put("points_before", value)

    @property
    def point_velocity_before(self) -> Array:
        """(3 npoint,): velocities of the points a step before, m/s."""
        return self._array("point_velocity_before")

    @point_velocity_before.setter
    def point_velocity_before(self, value: ArrayLike) -> None:
        self._put("point_velocity_before", value)

    @property
    def points_begun(self) -> Array:
        """(1,): 1 after the first step of such an integrator, 0 before; no unit."""
        return self._array("points_begun")

    @points_begun.setter
    def points_begun(self, value: ArrayLike) -> None:
        self._put("points_begun", value)

    @property
    def policy_memory(self) -> Array:
        """(n,): what a policy remembers, in no unit."""
        return self._array("policy_memory")

    @policy_memory.setter
    def policy_memory(self, value: ArrayLike) -> None:
        self._put("policy_memory", value)

    @property
    def policy_held(self) -> Array:
        """(n,): what a policy holds between its decisions, in the units of what it sets."""
        return self._array("policy_held")

    @policy_held.setter
    def policy_held(self, value: ArrayLike) -> None:
        self._put("policy_held", value)

    @property
    def policy_count(self) -> Array:
        """(1,): steps since its last decision; no unit."""
        return self._array("policy_count")

    @policy_count.setter
    def policy_count(self, value: ArrayLike) -> None:
        self._put("policy_count", value)

    @property
    def history(self) -> Array:
        """(nhistory,): samples of controls and of what sensors measured, as in MuJoCo's mjData.history: of each actuator, then of each sensor that keeps
        some, a number of the sensor's own (s), the place of the newest sample, times (s), samples in the units of control and sensor.
        """
        return self._array("history")

    @history.setter
    def history(self, value: ArrayLike) -> None:
        self._put("history", value)


class RolloutArrays(_Named):
    """Arrays of a Rollout; row k of N + 1 is at state k, row k of N acts in step k."""

    @property
    def states(self) -> Array:
        """(N + 1, StateSize): all of each state, read-only, each field in its unit."""
        return self._array("states")

    @property
    def time(self) -> Array:
        """(N + 1,): time, s."""
        return self._array("time")

    @property
    def qpos(self) -> Array:
        """(N + 1, nq): positions of joints: m of slides and places, rad of hinges, unit quaternions (w x y z) of balls and free joints."""
        return self._array("qpos")

    @property
    def qvel(self) -> Array:
        """(N + 1, nv): velocities of dofs, m/s and rad/s; angular ones of balls and free joints in the body's frame."""
        return self._array("qvel")

    @property
    def act(self) -> Array:
        """(N + 1, na): activations of actuators, in the unit of each."""
        return self._array("act")

    @property
    def qacc_warmstart(self) -> Array:
        """(N + 1, nv): accelerations that the solver begins with, m/s^2 and rad/s^2."""
        return self._array("qacc_warmstart")

    @property
    def points(self) -> Array:
        """(N + 1, 3 npoint): places of the points of deformables, m; x y z of each."""
        return self._array("points")

    @property
    def point_velocity(self) -> Array:
        """(N + 1, 3 npoint): velocities of the points of deformables, m/s."""
        return self._array("point_velocity")

    @property
    def points_before(self) -> Array:
        """(N + 1, 3 npoint): places of the points a step before, m; with integrators that need them."""
        return self._array("points_before")

    @property
    def point_velocity_before(self) -> Array:
        """(N + 1, 3 npoint): velocities of the points a step before, m/s."""
        return self._array("point_velocity_before")

    @property
    def points_begun(self) -> Array:
        """(N + 1, 1): 1 after the first step of such an integrator, 0 before; no unit."""
        return self._array("points_begun")

    @property
    def policy_memory(self) -> Array:
        """(N + 1, n): what a policy remembers, in no unit."""
        return self._array("policy_memory")

    @property
    def policy_held(self) -> Array:
        """(N + 1, n): what a policy holds between its decisions, in the units of what it sets."""
        return self._array("policy_held")

    @property
    def policy_count(self) -> Array:
        """(N + 1, 1): steps since its last decision; no unit."""
        return self._array("policy_count")

    @property
    def history(self) -> Array:
        """(N + 1, nhistory): samples of controls and of what sensors measured, as a state has them."""
        return self._array("history")

    @property
    def ctrl(self) -> Array:
        """(N, nu): controls as given, read-only, in the units of the actuators."""
        return self._array("ctrl")

    @property
    def qfrc_applied(self) -> Array:
        """(N, nv): forces on dofs as given, N and N m."""
        return self._array("qfrc_applied")

    @property
    def xfrc_applied(self) -> Array:
        """(N, nbody, 6): force and torque on bodies as given, N and N m, in the world's axes."""
        return self._array("xfrc_applied")

    @property
    def command(self) -> Array:
        """(N, ncommand): what a policy was told, in the units of its numbers."""
        return self._array("command")

    @property
    def mocap_pos(self) -> Array:
        """(N, nmocap, 3): places of mocap bodies as given, m."""
        return self._array("mocap_pos")

    @property
    def mocap_quat(self) -> Array:
        """(N, nmocap, 4): their orientations as given, quaternions w x y z, no unit."""
        return self._array("mocap_quat")

    @property
    def mocap_vel(self) -> Array:
        """(N, nmocap, 6): how they move as given, m/s, then rad/s, in the world's axes."""
        return self._array("mocap_vel")

    @property
    def mocap_pos_before(self) -> Array:
        """(nmocap, 3): where they stood before row 0 as given, m."""
        return self._array("mocap_pos_before")

    @property
    def mocap_quat_before(self) -> Array:
        """(nmocap, 4): their orientations before row 0 as given, no unit."""
        return self._array("mocap_quat_before")

    @property
    def sensordata(self) -> Array:
        """(N + 1, nsensordata): readings of the sensors, in the unit of each; where `outputs` has it."""
        return self._array("sensordata")

    @property
    def xpos(self) -> Array:
        """(N + 1, nbody, 3): places of the bodies, m, in the world; where `outputs` has it."""
        return self._array("xpos")

    @property
    def site_xpos(self) -> Array:
        """(N + 1, nsite, 3): places of the sites, m, in the world; where `outputs` has it."""
        return self._array("site_xpos")


class GradientArrays(_Named):
    """Arrays of a Gradient: of a loss in some unit by what went in, so in that unit by the one named."""

    @property
    def state(self) -> Array:
        """(n,): by all of the initial state, in the order of Model.tangent_names; each entry by the unit of its number."""
        return self._array("state")

    @property
    def qpos(self) -> Array:
        """(nv,): by the initial positions in their tangent space, by m and rad."""
        return self._array("qpos")

    @property
    def qvel(self) -> Array:
        """(nv,): by the initial velocities, by m/s and rad/s."""
        return self._array("qvel")

    @property
    def act(self) -> Array:
        """(na,): by the initial activations, by the unit of each."""
        return self._array("act")

    @property
    def points(self) -> Array:
        """(3 npoint,): by the initial places of the points of deformables, by m."""
        return self._array("points")

    @property
    def point_velocity(self) -> Array:
        """(3 npoint,): by their initial velocities, by m/s."""
        return self._array("point_velocity")

    @property
    def ctrl(self) -> Array:
        """(N, nu): by controls, by the unit of each actuator's."""
        return self._array("ctrl")

    @property
    def qfrc_applied(self) -> Array:
        """(N, nv): by forces on dofs, by N and N m."""
        return self._array("qfrc_applied")

    @property
    def xfrc_applied(self) -> Array:
        """(N, nbody, 6): by force and torque on bodies, by N and N m."""
        return self._array("xfrc_applied")

    @property
    def command(self) -> Array:
        """(N, ncommand): by what a policy was told, by the unit of each number."""
        return self._array("command")

    @property
    def mocap_pos(self) -> Array:
        """(N, nmocap, 3): by places of mocap bodies, by m."""
        return self._array("mocap_pos")

    @property
    def mocap_rot(self) -> Array:
        """(N, nmocap, 3): by rotations of mocap bodies in their own frames, by rad."""
        return self._array("mocap_rot")

    @property
    def mocap_vel(self) -> Array:
        """(N, nmocap, 6): by how they move, by m/s and rad/s."""
        return self._array("mocap_vel")

    @property
    def mocap_pos_before(self) -> Array:
        """(nmocap, 3): by where they stood before row 0, by m."""
        return self._array("mocap_pos_before")

    @property
    def mocap_rot_before(self) -> Array:
        """(nmocap, 3): by rotations of them before row 0, by rad."""
        return self._array("mocap_rot_before")


class TangentArrays(_Named):
    """Arrays of a Tangent: how the trajectory moves along the direction, by its length."""

    @property
    def x(self) -> Array:
        """(N + 1, n): of all states, in the order of Model.tangent_names; each entry in the unit of its number."""
        return self._array("x")

    @property
    def qpos(self) -> Array:
        """(N + 1, nv): of positions, in the tangent space at each state, m and rad."""
        return self._array("qpos")

    @property
    def qvel(self) -> Array:
        """(N + 1, nv): of velocities, m/s and rad/s."""
        return self._array("qvel")

    @property
    def act(self) -> Array:
        """(N + 1, na): of activations, in the unit of each."""
        return self._array("act")

    @property
    def points(self) -> Array:
        """(N + 1, 3 npoint): of the points of deformables, m."""
        return self._array("points")

    @property
    def point_velocity(self) -> Array:
        """(N + 1, 3 npoint): of their velocities, m/s."""
        return self._array("point_velocity")

    @property
    def sensordata(self) -> Array:
        """(N + 1, nsensordata): of the sensors' readings, in the unit of each; where the rollout has it."""
        return self._array("sensordata")

    @property
    def xpos(self) -> Array:
        """(N + 1, nbody, 3): of the bodies' places, m; where the rollout has it."""
        return self._array("xpos")

    @property
    def site_xpos(self) -> Array:
        """(N + 1, nsite, 3): of the sites' places, m; where the rollout has it."""
        return self._array("site_xpos")


class SeenArrays(_Named):
    """Arrays that a loss sees of a trajectory; count rows, of the states that its term looks at."""

    @property
    def qpos(self) -> Array:
        """(count, nq): positions, m, rad and unit quaternions."""
        return self._array("qpos")

    @property
    def qvel(self) -> Array:
        """(count, nv): velocities, m/s and rad/s."""
        return self._array("qvel")

    @property
    def act(self) -> Array:
        """(count, na): activations, in the unit of each."""
        return self._array("act")

    @property
    def ctrl(self) -> Array:
        """(count, nu): controls, in the units of the actuators."""
        return self._array("ctrl")

    @property
    def sensordata(self) -> Array:
        """(count, nsensordata): readings of the sensors, in the unit of each."""
        return self._array("sensordata")

    @property
    def points(self) -> Array:
        """(count, npoint, 3): places of the points of deformables, m."""
        return self._array("points")

    @property
    def point_velocity(self) -> Array:
        """(count, npoint, 3): their velocities, m/s."""
        return self._array("point_velocity")

    @property
    def xpos(self) -> Array:
        """(count, nbody, 3): places of the bodies, m; where "sees" names it."""
        return self._array("xpos")

    @property
    def site_xpos(self) -> Array:
        """(count, nsite, 3): places of the sites, m; where "sees" names it."""
        return self._array("site_xpos")
