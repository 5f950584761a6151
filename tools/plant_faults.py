#!/usr/bin/env python3
"""Plants faults one by one in copies of the sources and sees that a named test turns red for each: detectors must detect.

  tools/plant_faults.py [WORD]                 all, or those whose file or reason contains WORD; a run of all that was interrupted
                                               goes on, and what it found is kept in tools/faults_found.csv
  tools/plant_faults.py --share N --seed S     N of them and 3 N of those whose file, test or text is not as it was when they were
                                               last found (tools/faults_found.csv), chosen by the seed
  tools/plant_faults.py --list                 what the same options would plant

Two workers have a copy each. A fault whose text is no longer found counts as a failure: the list must follow the code.
"""
import argparse
import csv
import hashlib
import json
import os
import pathlib
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "faults"
FOUND = ROOT / "tools" / "faults_found.csv"
UNFINISHED = PLACE / "unfinished.json"

# file, text, what stands there instead, the test that must fail (ctest's -R, or pytest:PATH[::NAME]), why. After assert: the test must
# end at an assertion (src/base/assert.h); all others have to notice without any.
FAULTS = [
    ("io/task/task_policy.c", "json_is_object(list) ? outputs_of(list) : 0;", "0;", "unit/test_policy_file", "room for two of the names in one row of outputs"),
    ("src/optimize/hosted.c", "to[c] += t->weight * from[c];", "to[c] += from[c];", "unit/test_task_terms", "losses of the host: the weight does not reach the slopes"),
    ("src/optimize/hosted.c", "row = next_row(s, row, t->steps[k]);\n      double *to", "double *to", "unit/test_task_terms",
     "losses of the host: all slopes go to the first state"),
    ("python/pullback/rollout.py", "{v: k for k, v in _ROTATIONS.items()}.get(name, name)]\n            worlds", "{v: k.replace('quat', 'pos') for k, v in _ROTATIONS.items()}.get(name, name)]\n            worlds",
     "pytest:tests/python/test_contract.py::test_places_and_orientations_of_mocap_bodies_have_axes_of_their_own",
     "gradients by rotations of mocap bodies are summed over worlds where their places are shared"),
    ("python/pullback/rollout.py", "{self.model._field_of(n) for n in params}", '{n.split(":")[0] for n in params}',
     "pytest:tests/python/test_load.py::test_gradients_by_exposed_vertices_and_heights", "parameters on request have no gradient"),
    ("python/pullback/functional.py", 'return self.rollout._inputs[name].data', 'return self._spread(name)',
     "pytest:tests/python/test_torch.py::test_arrays_that_change_are_noticed", "a buffer that changed after the forward pass changes the gradient"),
    ("python/pullback/functional.py", "return rows.reshape((*lead, *width))", "return rows.reshape(*lead, *width)",
     "pytest:tests/python/test_torch.py::test_parameters_of_one_number", "a parameter of one number has no backward"),
    ("python/pullback/follow.py", "if self._watch.changed() or ", "if ", "pytest:tests/python/test_gym_fields.py::test_changes_during_an_episode",
     "what is written into MuJoCo's model is not seen"),
    ("python/pullback/follow.py", "(self._model.dof_M0 - _fresh_diagonal(self._model))[simple] if", "0 * self._model.dof_M0[simple] if",
     "pytest:tests/python/test_gym_fields.py::test_masses_without_setconst_are_those_of_mujoco", "bodies that MuJoCo calls simple move with a mass matrix of their own"),
    ("python/pullback/follow.py", 'self._refuse_rows(name, rows & np.isin(same, fixed), f"{kind}_sameframe")', "pass",
     "pytest:tests/python/test_gym_fields.py::test_every_field_of_the_model", "places that MuJoCo takes no notice of move"),
    ("python/pullback/follow.py", "self._held = self._simple_inertia()", "pass", "pytest:tests/python/test_gym_fields.py::test_masses_before_and_after_another_model",
     "what MuJoCo keeps of its mass matrix counts twice"),
    ("python/pullback/gym.py", "groups.setdefault((id(physics), e.frame_skip), [])", "groups.setdefault((0, e.frame_skip), [])",
     "pytest:tests/python/test_gym_fields.py::test_worlds_with_physics_of_their_own_move_as_singly", "worlds of a vector move with the first one's physics"),
    ("python/pullback/model.py", "if not name.startswith(\"_\"):\n                raise", "if name == \"params\":\n                raise",
     "pytest:tests/python/test_contract.py::test_a_model_takes_no_attributes", "what is assigned to a model acts nowhere, and no error says so"),
    ("python/pullback/gym.py", "(Physics, cls, _Simulation), {", "(Physics, _Simulation, cls), {", "pytest:tests/python/test_gym_fields.py::test_what_a_class_overrides_acts",
     "what an environment's class overrides is passed over"),
    ("python/pullback/gym.py", "if self._count.number > 0:", "if self._count.number > 1e9:", "pytest:tests/python/test_gym_fields.py::test_steps_of_mujoco_are_refused",
     "an environment moves by MuJoCo where its class calls mj_step"),
    ("python/pullback/gym.py", "if ctrl.shape != (e.model.nu,):", "if False:", "pytest:tests/python/test_gym_fields.py::test_actions_that_are_no_controls",
     "actions that are no controls end a vector of environments"),
    ("python/pullback/gym.py", "if self.physics_state.model is not physics:", "if not physics:", "pytest:tests/python/test_gym_fields.py::test_physics_that_change_within_a_step",
     "a step computed ahead is taken for that of other physics"),
    ("python/core/mirror.c", "*to[i] = acts ? at : NULL;", "*to[i] = i >= from_mocap_pos && acts ? at : NULL;",
     "pytest:tests/python/test_gym_fields.py::test_every_field_of_the_data", "wrenches of an environment's data do not act"),
    ("python/pullback/torch.py", "if b is not None), *inputs))", "if b is not None)))", "pytest:tests/python/test_torch.py::test_second_derivatives_raise_in_every_way",
     "second derivatives in reverse are zero"),
    ("python/pullback/torch.py", "if w is not None), *inputs), None)", "if w is not None)), None)",
     "pytest:tests/python/test_torch.py::test_second_derivatives_raise_in_every_way", "second derivatives in forward mode are zero"),
    ("python/pullback/commands.py", "if not rollout._given:", "if rollout._given or not rollout._given:",
     "pytest:tests/python/test_commands.py::test_pages_show_the_parameters_of_the_rollout", "pages show the model's own parameters"),
    ("python/pullback/model.py", "if q.offset < p.place.stop:", "if q.offset < p.offset:",
     "pytest:tests/python/test_contract.py::test_parameters_that_overlap_are_refused", "a field and a row of it both act, and the gradient is one's"),
    ("python/pullback/xla.py", "np.ndarray(shape, dtype, buffer).copy()", "np.ndarray(shape, dtype, buffer)",
     "pytest:tests/python/test_xla.py::test_from_memories_into_memories", "custom calls keep memory that is XLA's"),
    ("python/pullback/xla.py", "pickle.dumps(content), digest_size", "b'', digest_size", "pytest:tests/python/test_xla.py::test_a_host_is_known_by_its_content",
     "custom calls of one model compute another's rollouts"),
    ("src/world/cached.c", "if (searched && c->point == 0) pass(", "if (searched && c->point < 0) pass(", "unit/test_rollout",
     "a cached step is pulled back by what a search found in another step"),
    ("src/geometry/box_rates.c", "dx[SIZE2 + i] += 2 * way * inv;", "dx[SIZE2 + i] += way * inv;", "unit/test_geometry",
     "a capsule on a box: its second place follows half of the box's width"),
    ("src/geometry/box_rates.c", "clip_rate(p->dt, f->clipped[2], column2);", "(void)column2;", "unit/test_geometry",
     "boxes: the end of an edge that is nearest moves along it"),
    ("src/geometry/box_rates.c", "v3_dot(along, plane[0].normal)) > parallel", "v3_dot(along, plane[0].normal)) > 0 * parallel", "unit/test_geometry",
     "equal boxes: points run along sides that are parallel to rounding"),
    ("src/check/slopes.c", "move < 16 * DBL_EPSILON * weight)", "move < 0)",
     "pytest:tests/oracle/test_cli.py::test_check_takes_bodies_of_very_different_sizes", "check: friction that rounding hides is called a wrong gradient"),
    ("src/check/slopes.c", "if (most <= 1 || isinf(most)) return;", "if (most >= 0) return;", "pytest:tests/oracle/test_cli.py::test_check_moves_no_further_than_the_motion_allows",
     "check: a torque that is huge for a small body is taken for a small move"),
    ("src/bodies/actuators/adhesion.c", "bar[4 + k] = share * u[k];", "bar[4 + k] = -share * u[k];", "conformance/test_step",
     "adhesion: a normal that turns takes the force the other way"),
    ("src/bodies/actuators/slider_crank.c", "by_slide * (u[k] + turned[k])", "by_slide * (u[k] - turned[k])", "conformance/test_step",
     "slider-cranks: the axis that turns with the slider's body is held"),
    ("src/bodies/sensors/contact.c", "PB_ADDCROSS(n.point, -1, net.force, n.torque);", "PB_ADDCROSS(n.point, 1, net.force, n.torque);",
     "pytest:tests/oracle/test_sensors.py::test_slopes_of_contact_sensors", "the mean point of summed contacts moves the arms of their torques the wrong way"),
    ("src/bodies/sensors/contact.c", "if (flip) y[2] = -y[2];", "if (flip) y[1] = -y[1];", "pytest:tests/oracle/test_sensors.py::test_contact_sensors_are_mujocos",
     "a contact seen from its other side turns about the wrong axis"),
    ("src/bodies/sensors/energy.c", "PB_CROSS(s.torque, momentum, V);", "PB_CROSS(s.torque, V, momentum);", "conformance/test_step",
     "the kinetic energy of a body that turns goes the wrong way with its frame"),
    ("src/bodies/sensors/distance.c", "PB_ADDCROSS(g[0].torque, -1, apart, g[1].force);", "PB_ADDCROSS(g[0].torque, 1, apart, g[1].force);",
     "pytest:tests/oracle/test_distance.py::test_slopes_are_those_of_differences", "distances: the first geom does not feel that the second is elsewhere"),
    ("src/bodies/sensors/distance.c", "double side = found.flip ? -1 : 1;", "double side = 1;", "pytest:tests/oracle/test_distance.py::test_distances",
     "distances: geoms in the other order of types have their points exchanged"),
    ("src/geometry/distance.c", "if (are_boxes(shape1, shape2)) return NUM(pbPolytope_Collide)", "if (are_boxes(shape1, shape2) && most < 0) return NUM(pbPolytope_Collide)",
     "pytest:tests/oracle/test_distance.py::test_distances", "distances: of boxes by their contacts' axes"),
    ("src/bodies/sensors/rangefinder.c", "PB_ADDCROSS(g.torque, -1, arm, p_bar);", "PB_ADDCROSS(g.torque, 1, arm, p_bar);",
     "pytest:tests/oracle/test_rays.py::test_slopes_are_those_of_differences", "rangefinders: a geom that turns moves the surface the wrong way"),
    ("src/geometry/ray.c", "s->normal_size[k][k] = -2 * g[k] / size[k];", "s->normal_size[k][k] = -g[k] / size[k];",
     "pytest:tests/oracle/test_rays.py::test_slopes_are_those_of_differences", "rays: the normal of an ellipsoid by half of its sizes"),
    ("src/geometry/ray_search.c", "if (from[far] < s->x) waiting[count++] = (waiting_node){node->first + far, from[far]};", "", "pytest:tests/oracle/test_rays.py::test_rays_are_those_of_mujoco",
     "rays: of two boxes of triangles the second is not looked at"),
    ("io/mesh/mesh_load.c", "#define MOST_COORDINATE 0x1p30", "#define MOST_COORDINATE 0x1p130", "pytest:tests/oracle/test_bad_meshes.py",
     "mesh files: a coordinate of 1e38 is taken"),
    ("io/mesh/mesh_reader.c", "if (!isprint((unsigned char)*c)) *c = '?';", ";", "pytest:tests/oracle/test_bad_meshes.py",
     "mesh files: bytes of a binary file get into a message"),
    ("src/compile/compile_surface.c", "if (to && mirrored && !hull) turn_round(to, count);", "", "unit/test_surface",
     "surfaces: a scale that mirrors turns triangles inside out"),
    ("src/compile/compile_surface.c", "v3_neg(to->pos, to->pos);", "", "unit/test_surface",
     "surfaces: a mesh that weighs is seen beside its place"),
    ("io/view/view_motion.c", "frame[3 + k] * force[1]", "frame[6 + k] * force[1]", "pytest:tests/oracle/test_view_page.py",
     "pages: friction of contacts points across"),
    ("io/xml/xml.c", "column - pbXmlRepair_Shift(&p->repair, line, column)", "column", "pytest:tests/oracle/test_files.py",
     "files that are no XML: columns count what was put in"),
    ("src/solve/noslip_adjoint.c", "G[j] += a->slip_x[j] * change;", "G[j] += 0 * a->slip_x[j] * change;",
     "pytest:tests/oracle/test_noslip.py::test_way_back", "sweeps against slip: how a block moves the others is taken for given"),
    ("src/multibody/sweep_adjoint.c", "P[3 + k] += I[0] * g[1 + k] + 2", "P[3 + k] += I[0] * g[1 + k] + 1", "conformance/test_step",
     "multibody: half of what a moved inertia gives to the cotangents of M"),
    ("src/solve/noslip.c", "w->slip.inertia[island[m->dof_treeid[i]]]", "w->slip.inertia[0]", "pytest:tests/oracle/test_noslip.py::test_steps_are_mujocos",
     "sweeps against slip: islands end by the inertia of all"),
    ("src/solve/noslip_adjoint.c", "for (int k = s->at - 1; k >= 0; k--) pull_multiplier", "for (int k = s->at - 1; k > 0; k--) pull_multiplier",
     "pytest:tests/oracle/test_noslip.py::test_way_back", "sweeps against slip: the search for the multiplier loses its first iteration on the way back"),
    ("src/solve/noslip_adjoint.c", "a->slip_loss[id] = -g;", "", "pytest:tests/python/test_noslip_meetings.py::test_loss_of_zero_is_the_slope_into_the_domain",
     "sweeps against slip: a loss of zero pulls its force in every sweep as if there were no other"),
    ("src/solve/noslip.c", "w->slip.sign[next] - sign", "sign - w->slip.sign[next]", "pytest:tests/python/test_noslip_meetings.py::test_loss_of_zero_is_the_slope_into_the_domain",
     "sweeps against slip, forward: a loss of zero turns the wrong way"),
    ("src/solve/noslip.c", "< 1e-15 || re(u->bound) <= 0", "< 1e-15", "pytest:tests/python/test_noslip_meetings.py::test_contacts_that_touch_without_pushing",
     "sweeps against slip: a tangent of a contact that does not push is free"),
    ("src/multibody/sweep_adjoint.c", "acc = a->at.qacc[i];", "acc = w->qacc[i];", "pytest:tests/python/test_noslip_meetings.py::test_policy_in_the_loop",
     "sweeps against slip: what comes down the tree reads the accelerations after the sweeps"),
    ("src/model/terrain.c", "step_column[2][3] = {{0, 0, 1}, {0, 1, 1}};", "step_column[2][3] = {{0, 0, 1}, {0, 1, 0}};",
     "pytest:tests/oracle/test_hfield.py::test_spheres_have_the_contacts_of_mujoco", "height fields: a cell is cut along the other diagonal"),
    ("src/contact/contact.h", "  if (c->prism >= 0) prism_shape(w, c->geom1, c->prism, column, s1);", "  if (c->prism >= 0) prism_shape(w, c->geom1, 0, column, s1);",
     "pytest:tests/oracle/test_hfield.py::test_gradients_on_terrain_are_those_of_the_step", "height fields: a contact is pulled back through another prism"),
    ("src/contact/mesh_bar_adjoint.c", "corner_bar[3 * (PB_PRISM_TOP + k) + 2]", "corner_bar[3 * k + 2]", "conformance/test_step",
     "heights in theta: the gradient by the bottom of a prism"),
    ("src/bodies/sensors/rangefinder.c", "(k ? 0 : N[2])", "(k == 1 ? 0 : N[2])", "conformance/test_step", "heights in theta: a ray's gradient by the wrong corner"),
    ("src/model/exposed.c", "if (beyond > p) look_at_edge", "if (beyond > p && p > 4) look_at_edge",
     "pytest:tests/oracle/test_mesh_parameters.py::test_hulls_that_lose_their_faces_are_refused", "exposed vertices: not all edges are looked at"),
    ("src/model/exposed.h", "    t->highest = fmax(t->highest, reals[i]);\n", "    t->highest = 1;\n", "pytest:tests/oracle/test_hfield_parameters.py::test_heights_above_one_act",
     "heights in theta: what rises above the compiled field is not seen"),
    ("io/image/png.c", "(size_t)(x * channels)]", "(size_t)(x * channels + channels - 1)]", "pytest:tests/oracle/test_hfield.py::test_pictures", "height fields: of a color another channel than red"),
    ("src/step/observe_adjoint.c", "PB_ADDCROSS(torque, 1, arm, back);", "PB_ADDCROSS(torque, -1, arm, back);", "conformance/test_policy",
     "policies: the frame that looks at a point feels the wrong torque"),
    ("src/step/observe_adjoint.c", "  NUM(pbSensor_Share)(w, true);\n", "", "conformance/test_policy",
     "policies: sensors of subtrees are pulled back with motions of another step"),
    ("src/world/policy_step.c", "if (hears_now(k, state_tail(s, x))) hear(", "if (!k->model && hears_now(k, state_tail(s, x))) hear(", "unit/test_learn",
     "exploration: what a policy did last is told without the noise"),
    ("src/world/policy_step.c", "ctrl_bar[t->index] += held_bar[i] / t->scale;", "ctrl_bar[t->index] += held_bar[i] * t->scale;", "conformance/test_policy",
     "exploration: the pullback of what was given beside a decision is scaled the other way"),
    ("src/world/policy_step.c", "add_to(tail_bar + held_at(p), k->held_bar, p->held);", "add_to(tail_bar + held_at(p), k->held_bar, 0);",
     "conformance/test_policy", "policies: between decisions the costate of what is held is lost"),
    ("src/step/step_adjoint.c", "if (k->phase == pb_pullWhole) LANE(pbSweep_Pull)(a);", "LANE(pbSweep_Pull)(a);", "conformance/test_policy",
     "policies: cotangents go down the tree before those of observations are there, and again with them"),
    ("src/learn/gradient.c", "pbTrain_Ended(t, w, k) ? share : factor", "!t ? share : factor", "unit/test_learn",
     "training: an episode is discounted by the length of the one before it"),
    ("src/rollout/track.c", "if (input) *input = kept_row(r, i);", "if (input) *input = pbRollout_InputAt(r, k);", "unit/test_learn",
     "an episode's end is pulled back with the next one's command"),
    ("src/rollout/pullback.c", "  if (left) PB_TRY(leave(r, bar, g, k, certificate));\n", "", "unit/test_batch",
     "batches: a gradient passes from a new start to what was before it"),
    ("src/learn/worlds.c", "  if (k > 0 && pbTrain_Ended(t, w, k - 1)) return t->fresh", "  if (!t->fresh) return t->fresh", "unit/test_learn",
     "training: a new episode begins with what the one before it saw last"),
    ("src/rollout/pullback.c", "  add(x_bar, pbCotangent_At(&bar->x, r->n, k, steps), r->n);\n",
     "  add(x_bar, pbCotangent_At(&bar->x, r->n, k, steps), 2 * r->nv + r->na);\n", "unit/test_learn",
     "training: a critic that sees the last decision does not tell it what it thinks of it"),
    ("src/learn/gradient.c", "  add_scaled(x + 2 * c->nv + c->na + c->np, c->bar_point_velocity, factor, c->np);\n", "", "unit/test_learn",
     "training: velocities of points are left out of gradients"),
    ("src/optimize/audit_watch.c", "p->target[i].kind != pb_outputControl", "p->target[i].kind == pb_outputForce",
     "pytest:tests/oracle/test_audit.py::test_what_a_policy_puts_on_joints_and_bodies_has_a_limit", "audits: a policy flies a body by a wrench without limit"),
    ("src/learn/worlds.c", "  if (!tally->decisions) return INFINITY;", "", "unit/test_learn", "training: a policy that diverges at once is free"),
    ("src/contact/law.c", "  if (!(kappa > 0)) value = fmin(fmax(y, least), most);\n", "", "unit/test_servo", "servos that settle: a small force loses its digits against large bounds"),
    ("io/task/task_variables.c", "if (free_start && course)",
     "if (free_start && v->linear)", "pytest:tests/oracle/test_task_run.py::test_controls_start_as_the_file_has_them",
     "a variable of controls begins at the file's first row throughout"),
    ("io/task/task_sample.c", "other->use != pb_drawValue || d->use == pb_drawValue", "d->use == pb_drawValue", "unit/test_task_sample", "two offsets of one number are drawn"),
    ("src/learn/worlds.c", "return !isnan(end);", "return isfinite(t->costs[at]);", "pytest:tests/oracle/test_train.py::test_mistakes",
     "training: what ends an episode and is no number is taken for no end"),
    ("io/view/train_page.c", ".theta = result->theta,", ".theta = result->last,", "pytest:tests/oracle/test_train.py::test_the_page",
     "the page of a training plays the last policy, not the best"),
    ("src/learn/worlds.c", "pbTrain_Start(train, pb_drawEvaluation, (uint64_t)start,", "pbTrain_Start(train, pb_drawStart, (uint64_t)start,",
     "pytest:tests/oracle/test_train.py::test_the_page", "the page of a training plays from a start that no evaluation has"),
    ("src/learn/gradient.c", "  if (t->lost[w] || pbTrain_Ended(t, w, t->length[w] - 1)) return pb_ok;", "  if (t->lost[w]) return pb_ok;", "unit/test_learn",
     "training: a critic behind an episode that has ended"),
    ("src/learn/train.c", "  PB_TRY(pbTrain_Ramp(t, 1));\n", "", "unit/test_learn", "training: policies are judged by the physics of their ramps"),
    ("src/learn/critic.c", "(1 - s->lambda) * next[k] + s->lambda * follows", "s->lambda * next[k] + (1 - s->lambda) * follows", "unit/test_learn",
     "training: targets mix returns the wrong way round"),
    ("src/learn/begin.c", "t->stat_mean[i] = t->theta[t->mean_at + i];", "t->stat_mean[i] = 0;", "pytest:tests/oracle/test_train.py::test_a_policy_brings_its_statistics",
     "a policy that training begins with loses what its normalizer knew"),
    ("src/learn/critic.c", "if (t->mean_at < 0 || t->brought) return pb_ok;", "if (t->mean_at < 0) return pb_ok;",
     "pytest:tests/oracle/test_train.py::test_a_policy_brings_its_statistics", "training moves the statistics that the policy's weights were learned on"),
    ("io/task/task_train.c", "for (int i = 0; i < t->features; i++) moved = moved || ", "for (int i = 0; i < 0; i++) moved = moved || ",
     "pytest:tests/oracle/test_train.py::test_a_policy_brings_its_statistics", "policies of files without a count lose their statistics"),
    ("src/learn/begin.c", "  PB_TRY(segment(t, (size_t)s->worlds, &t->age));", "  PB_TRY(reals(t, (size_t)s->worlds, &t->age));", "unit/test_learn",
     "training: a resumed run forgets how old its episodes are"),
    ("src/optimize/variables.c", "    if (is_varied(task, &p)) names[count++] = p.name;", "    if (is_varied(task, &p) && !count) names[count++] = p.name;",
     "unit/test_policy_file", "a variable of several fields has gradients by the first alone"),
    ("src/policy/layer_matrix.c", ".k = some, .a_transposed = true,", ".k = some, .a_transposed = cols != rows,", "unit/test_network",
     "networks: cotangents go back through square weights instead of their transpose"),
    ("src/policy/layer_delay.c", "if (p.inside) by_delay[i % n] +=", "if (!p.inside) by_delay[i % n] +=", "unit/test_network", "networks: a delay has no derivative by itself"),
    ("src/policy/layer_gru.c", "real bar = y_bar[i] + next_bar[i];", "real bar = y_bar[i];", "unit/test_network", "networks: the memory's cotangent is forgotten"),
    ("src/policy/layer_clip.c", "l->projected && !pass->exact && (", "l->projected && (", "unit/test_network", "networks: checks of derivatives see the projected clip"),
    ("src/policy/check.c", "&c->third, SPOILED))", "&c->third, CLEAN))", "unit/test_policy_check", "the check of policies misses those that keep state in their working memory"),
    ("src/policy/check.c", "check_columns(c) && check_threads(c)", "check_columns(c) && check_columns(c)", "unit/test_policy_check", "the check of policies does not call from two threads"),
    ("src/world/policy_model.c", "PB_TRY(pbPolicy_Check(m->ctx, def->decide, check_seed, &report));", "report.text[0] = 0;", "conformance/test_policy",
     "policies become part of a model unchecked"),
    ("docs/map.md", "`src/contact/potential.c` (value and force)", "`src/solve/potential.c` (value and force)", "pytest:tests/oracle/test_docs.py::test_files_that_pages_name_exist",
     "the map of primals and derivatives names a file that is not there"),
    ("src/model/joint.h", "pbJoint_IsAngle(int type) { return type == pb_jntHinge; }", "pbJoint_IsAngle(int type) { return type == pb_jntSlide; }",
     "pytest:tests/oracle/test_compile.py", "ranges of slides are read in degrees, those of hinges are not"),
    ("src/barrier/barrier.c", "  if (t[1] == v) k = 1;\n", "", "assert:unit/test_barrier", "asserted: the vertices of a triangle besides one of them are others"),
    ("src/deform/newton.c", "slope = pb_dot(w->step, w->gradient, n), s = pbDeform_MaxStep(w, w->x, w->step);",
     "slope = pb_dot(w->step, w->gradient, n), s = 2 * pbDeform_MaxStep(w, w->x, w->step);", "assert:unit/test_deform",
     "asserted: a search along a line goes beyond the longest step"),
    ("src/energy/derive.c", "      hessian[j * n + i] = sum;\n", "", "assert:unit/test_energy", "asserted: a Hessian is not mirrored"),
    ("src/barrier/barrier.c", "l->most = l->found > l->most ? l->found : l->most;", "l->most = l->found;", "hostile/test_failing_allocator",
     "room for contacts is made for the last search alone: beside bodies it never suffices"),
    ("src/couple/couple_step.c", "gain < -noise && size * it->length > small * w->d->size", "gain < -noise",
     "pytest:tests/python/test_deformables.py::test_the_coupled_step_decides_at_rounding", "the coupled step judges moves of rounding by values"),
    ("src/couple/couple_step.c", "double tolerance = pbDeform_ToleranceAt(w);", "double tolerance = pbDeform_Tolerance(w->d);",
     "pytest:tests/python/test_deformables.py::test_attached_points_converge_far_from_the_origin", "the coupled step takes no account of the rounding of positions"),
    ("src/couple/couple.c", "    c->g[k] = sum / h4 + c->damping[k] * c->acc[k];", "    c->g[k] = sum / h4;",
     "pytest:tests/python/test_deformables.py::test_joint_damping_is_implicit_beside_attachments", "joint damping is left out of the coupled step's slope"),
    ("src/couple/couple_jvp.c", "sum / h4 + c->damping_tangent[k] * c->acc[k];", "sum / h4;",
     "pytest:tests/python/test_deformables.py::test_derivatives_of_joint_damping_beside_attachments", "coupled: forward derivatives without that of joint damping"),
    ("src/bodies/forces/damper.c", "lane x = inside ? -h * lam * w->qacc_integrated[i] : -h", "lane x = inside ? 0 * h * lam : -h",
     "pytest:tests/python/test_deformables.py::test_derivatives_of_joint_damping_beside_attachments", "coupled: gradients without that of implicit joint damping"),
    ("src/couple/attach_jvp_kernel.c", "if (query->start && w->mocap_moves) move_mocap_back(w, h);", "",
     "pytest:tests/python/test_deformables.py::test_a_hand_carries_what_flies_with_it", "what a mocap body holds has no velocity"),
    ("src/couple/attach_jvp_kernel.c", "quat_mul(w->mocap_quat + 4 * k, q, w->mocap_quat + 4 * k);", "",
     "pytest:tests/python/test_deformables.py::test_a_hand_that_turns_is_pins_along_paths", "a mocap body that turns: points on it start where they end"),
    ("src/couple/couple_rest.c", "c->end_bar[i] = velocity_bar[at] / h;", "c->end_bar[i] = 0;",
     "pytest:tests/python/test_deformables.py::test_derivatives_by_the_path_of_a_hand", "gradients by where a hand goes stay away"),
    ("src/couple/couple_vjp.c", "pull_mocap(s, bar->mocap_vel, 6 * n, &(pbAttachmentTangent){.mocap_vel = unit});", "",
     "pytest:tests/python/test_deformables.py::test_derivatives_by_the_path_of_a_hand", "gradients by where a hand came from stay away"),
    ("src/couple/couple_step.c", "  c->led_share = 0;\n", "", "pytest:tests/python/test_deformables.py::test_a_led_plate_does_not_pass_through_cloth",
     "coupled: what mocap bodies lead jumps to where it goes"),
    ("src/couple/couple_step.c", "return k == 0 || size * it->length > tolerance;", "return true;",
     "pytest:tests/oracle/test_deform_cli.py::test_a_search_between_bodies_and_points_that_finds_nothing_ends",
     "bodies and deformables: a search that ends where it began counts as a step"),
    ("src/deform/adjoint.c", "*bar->h += w->in.ticks * time_bar;", "*bar->h += 0 * time_bar;", "pytest:tests/oracle/test_deform_physics.py::test_time_follows_the_time_step",
     "the time of a step follows the time step"),
    ("src/deform/compile.c", "{name, geom, low, high - low + 1}", "{name, geom, low, high - low}", "pytest:tests/oracle/test_deform_cli.py::test_rows_of_points_are_told",
     "meta tells other rows of points for a geom or plane"),
    ("cli/gradient.c", ".count = a->ndim == ndim ? 1 : (int)a->shape[0]}", ".count = a->ndim == b->ndim ? 1 : (int)a->shape[0]}",
     "pytest:tests/oracle/test_deform_cli.py::test_cotangents_of_points_may_have_an_axis_of_three", "a cotangent (n, 3) of the last state is read as one for every state"),
    ("io/trajectory/simulate.c", "k % r->every == 0 ? k / r->every : -1", "k % r->every == 1 ? k / r->every : -1", "pytest:tests/oracle/test_cli.py::test_every_so_many_states",
     "simulate --every keeps other states than the docs say"),
    ("src/step/wanted.c", "return row->wakes;", "return row->wakes & ~(unsigned)pb_wantInertiaAxes;", "pytest:tests/oracle/test_wanted.py",
     "a chosen gradient misses a part of its own"),
    ("src/step/wanted.c", "row->follows == pb_followsSome", "false",
     "pytest:tests/oracle/test_wanted.py::test_program_writes_the_same_gradients",
     "a chosen gradient misses what flows through derived constants"),
    ("src/batch/sum.c", "    while (next < group) pbSumTree_Insert(&sum->total, present, next++, NULL, from, to);\n", "", "unit/test_batch",
     "groups of worlds are summed in the order in which they are at work, not by their numbers"),
    ("src/batch/forward.c", "  return done > job->first ? r->x_before : NULL;", "  return done > 0 ? r->x : NULL;", "unit/test_batch",
     "a world that leaves the bounds goes on to the state beyond them"),
    ("src/batch/forward.c", "  memcpy(x, pbBatch_Row(reset->x0, world, (size_t)b->nx), (size_t)b->nx * sizeof *x);",
     "  memcpy(x, pbBatch_Row(reset->x0, world, (size_t)b->nx), (size_t)(b->nx - b->nv) * sizeof *x);", "unit/test_batch",
     "a world that is reset keeps the warm start of its solver"),
    ("src/batch/parameters.c", "    memset(from, 0, s->size * sizeof *from);\n", "", "unit/test_batch",
     "gradients by a world's own values are added to those by the shared ones, too"),
    ("src/optimize/trajectories.c", "  memset(theta_bar, 0, job->task->ntheta * sizeof *theta_bar);\n", "", "unit/test_task_threads",
     "a trajectory's gradient begins with that of the one before it on the same thread"),
    ("src/base/pool.c", "  if (p->process != getpid()) {", "  if (p->process < 0) {", "unit/test_pool", "a child of fork waits for threads that it does not have"),
    ("src/rollout/schedule.c", "  while (s->depth > 0 && s->held[s->depth - 1] >= s->end) s->depth--;\n", "", "assert:unit/test_schedule",
     "the checkpoint schedule keeps snapshots of steps that are reversed already"),
    ("src/model/topology_site.c", "geom1] = read[t->candidate[k].geom2] = true;", "geom1] = true;",
     "unit/test_rollout", "a step leaves a geom that may touch where it was"),
    ("src/geometry/jacobian.c", "margin, count, contacts);\n\n    PB_ASSERT", "margin, 1, contacts);\n\n    PB_ASSERT", "unit/test_geometry",
     "a cylinder's further contacts have no derivative"),
    ("src/rollout/rollout.c", "    r->leaf_from = a->from;\n", "", "assert:unit/test_rollout",
     "records of a leaf are counted from the first step of the one before"),
    ("lcp/condensed_blocks.c", "j > 0 && dof[j - 1] > dof[j]", "j > 0 && dof[j - 1] < dof[j]", "assert:unit/test_condensed",
     "unknowns of a block in descending order: entries of the envelope change sides"),
    ("src/optimize/run.c", "l->size = SAVED + 2 * (size_t)task->n", "l->size = SAVED + 3 * (size_t)task->n", "assert:unit/test_verdict",
     "the saved state of a run is longer than what is written to it"),
    ("src/optimize/run.c", "pbOptimizer_Leave(l->optimizer, task->verdict.beside);", "pbOptimizer_Leave(l->optimizer, task->result_z);",
     "unit/test_verdict", "a search that leaves a saddle begins at the saddle"),
    ("src/optimize/verdict.c", "return fmax(promise_along(j, p), promise_downhill(j));", "return fmin(promise_along(j, p), -promise_downhill(j));",
     "unit/test_verdict", "steps that bounds cut off promise nothing, and the search has converged"),
    ("src/optimize/verdict_unknowns.c", "bool seen = others[0] != all[0] || others[1] != all[1];", "bool seen = false;", "unit/test_verdict",
     "weights of layers that are zero are said to have no influence"),
    ("src/optimize/verdict_saddle.c", "fall > 5 * before;", "fall > 5 * before && direction == 0;", "unit/test_verdict", "a saddle that falls to one side alone is taken for convergence"),
    ("src/optimize/verdict_saddle.c", "if (curvature < 0) PB_TRY(look_along(j, found));", "if (curvature > 0) PB_TRY(look_along(j, found));",
     "unit/test_verdict", "the direction of negative curvature is not looked along"),
    ("src/optimize/audit.c", "tr->ctrl_now[i / nu / (size_t)p->divide * nu + i % nu]", "tr->ctrl_now[i / (size_t)p->divide]", "pytest:tests/oracle/test_audit.py",
     "an audit repeats numbers of controls instead of rows, and the first run reads them at other times"),
    ("src/optimize/audit.c", "a->theta[h.offset] /= p->divide;", "a->theta[h.offset] /= 1;", "pytest:tests/oracle/test_audit.py", "an audit's finer steps are no finer"),
    ("src/optimize/fine.c", "fine->policy.every *= divide;", "fine->policy.every *= 1;", "pytest:tests/oracle/test_audit.py::test_policies_decide_at_the_same_times",
     "at finer steps a policy decides more often"),
    ("src/optimize/audit_verdict.c", "if (is_within(r, row->mean) || r->better", "if (row->ran > 0 || r->better", "pytest:tests/oracle/test_audit.py",
     "an audit confirms whatever ran"),
    ("src/optimize/audit_verdict.c", "gained = measured ? r->gained : trained;", "gained = trained;", "pytest:tests/oracle/test_audit.py",
     "an audit's tolerance is a part of the objective, constants and all"),
    ("src/optimize/audit_verdict.c", "r->better * (row->mean - trained->mean) > 0) return;", "r->better * (row->mean - trained->mean) < 0) return;",
     "pytest:tests/oracle/test_audit.py", "an audit refuses what is better at finer steps"),
    ("src/optimize/audit_watch.c", "m->geom_type[geom] == pb_geomHfield;", "m->geom_type[geom] < 0;", "pytest:tests/oracle/test_audit.py::test_through_a_field",
     "an audit lets things fall through a height field between two steps"),
    ("src/optimize/audit_verdict.c", "floor = measured ? 0 : nothing;", "floor = measured ? nothing : 0;", "pytest:tests/oracle/test_audit.py::test_what_rests_at_zero",
     "an audit refuses what rests at zero by ratios of rounding"),
    ("src/optimize/audit_watch.c", "    if (parts > 1) w->status", "    if (parts > 1e9) w->status", "pytest:tests/oracle/test_audit.py",
     "an audit does not look between steps"),
    ("src/optimize/audit_watch.c", "    if (r->kind == pb_rowLimit) watch_limit(w, r);\n", "", "pytest:tests/oracle/test_audit.py", "an audit does not see limits give way"),
    ("src/optimize/audit_watch.c", "    if (r->kind == pb_rowEquality) watch_equality(w, r);\n", "", "pytest:tests/oracle/test_audit.py",
     "an audit does not see equalities give way"),
    ("src/optimize/audit_watch.c", "fabs(actuation_at(&s->w, i))", "fabs(s->w.actuator_force[0])", "pytest:tests/oracle/test_audit.py",
     "an audit takes forces at joints without their gears"),
    ("src/optimize/audit_watch.c", "    if (!w->m->actuator_servo[u]) continue;\n", "    if (w->m->actuator_servo[u]) continue;\n",
     "pytest:tests/oracle/test_audit.py", "an audit does not see what servos do at joints"),
    ("src/optimize/audit.c", "  if (same) clear_controls(a);\n", "  if (same) (void)clear_controls;\n", "pytest:tests/oracle/test_audit.py", "the reference of an audited start is that start"),
    ("src/world/ledger.c", "mean[i] = (w->v0[i] + w->qvel[i]) / 2;", "mean[i] = w->qvel[i];", "unit/test_ledger", "the ledger's impulses work at the velocity after them"),
    ("src/world/ledger.c", "  l->dampers -= implicit_dampers(w, by);\n", "", "unit/test_ledger", "the ledger has dampers as if they were explicit"),
    ("src/world/ledger.c", "case pb_rowLimit: l->limits += taken; break;", "case pb_rowLimit: l->limits += 0; break;", "unit/test_ledger",
     "the ledger leaves out what limits take"),
    ("src/rollout/truncate.c", "t->factor = exp(-options->decay * r->timestep);", "t->factor = exp(-options->decay);", "unit/test_truncate",
     "the decay of the costate depends on the time step"),
    ("src/rollout/pullback.c", "    PB_TRY(pbRollout_Play(r, NULL, false, &action));\n  }\n",
     "    if (action.from) pbTruncation_Shorten(r, action.from, p->certificate);\n    PB_TRY(pbRollout_Play(r, NULL, false, &action));\n  }\n",
     "unit/test_truncate", "the costate decays twice where a leaf of the tape begins"),
    ("src/rollout/pullback.c", "  return at->observed ? pull_step(r, &none, &alone, c) : pb_ok;", "  return pb_ok;", "unit/test_truncate",
     "what is observed where a window begins is cut off"),
    ("src/rollout/pullback.c", "  add_direct(r, bar, k, r->costate_before);\n", "", "unit/test_rollout", "cotangents of states are forgotten on the way back"),
    ("src/rollout/jvp.c", "if (t->x && at >= 0) memcpy(", "if (t->x && at > 0) memcpy(", "unit/test_rollout", "the first row of the states' sensitivities is left out"),
    ("src/rollout/pullback.c", "    pbSelection_Restore(r, g->theta);\n", "", "unit/test_rollout", "gradients that nobody asked for are written"),
    ("src/world/cached.c", "  p.skip = s->skip;\n", "", "unit/test_rollout", "a gradient by chosen parameters pays for all"),
    ("io/file.c", "  pbContext_FileOpened(ctx, path);\n", "", "pytest:tests/oracle/test_cli.py::test_optimize_resumes_only_what_it_was",
     "a run goes on with another model or recording"),
    ("io/file.c", "open(file->path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666)", "open(file->path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)", "unit/test_npz", "files get other permissions"),
    ("io/file.c", "fwrite(bytes, 1, size, file.stream);", "fwrite(bytes, 1, size / 2, file.stream);", "unit/test_npz",
     "half of the bytes of a file are written"),
    ("src/world/deform_model.c", ".first = s->first, .count = s->count};", ".first = s->first + 1, .count = s->count};", "unit/test_task_deform",
     "points of planes and geoms are counted from one"),
    ("io/view/scene.c", "given || material < 0 ? own :", "material < 0 ? own :", "pytest:tests/oracle/test_view.py",
     "to be seen: the material's colour wins over the geom's own"),
    ("src/compile/compile_mesh.c", "half[2] - across / 2)", "half[2] - across)", "pytest:tests/oracle/test_fit.py", "capsules fitted to meshes are short"),
    ("io/mjcf/mjcf_key.c", "if (node->attach != w->attach ||", "if (", "pytest:tests/oracle/test_attach.py",
     "keyframes of a model attached twice go to its first copy"),
    ("io/mjcf/mjcf_attach.c", "of = node->place.file;", "of = reader->family->readers[0]->document.root->place.file;", "pytest:tests/oracle/test_attach.py",
     "files of models in attached models are looked for beside the main file"),
    ("io/mjcf/mjcf_copy.c", "if (!u->assets || node->assets != u->known) {", "if (!u->assets) {", "pytest:tests/oracle/test_attach.py",
     "assets of a model within an attached model lose its prefix"),
    ("io/mjcf/mjcf.c", "material ? class->material_rgba : NULL", "material ? reader->main->material_rgba : NULL", "pytest:tests/oracle/test_compile.py",
     "a material has not the colour of its class"),
    ("io/urdf/urdf_link.c", "pbPose_MulQuat(body->inertial.quat, body->inertial.quat, axes);", "memcpy(body->inertial.quat, axes, sizeof axes);",
     "pytest:tests/oracle/test_urdf.py::test_every_kind_of_joint", "URDF: how an inertia is turned is forgotten"),
    ("io/urdf/urdf_mesh.c", "  leave_out(reader, def);\n  def->file = \"\";", "  def->file = \"\";", "pytest:tests/oracle/test_urdf.py::test_meshes_that_are_missing",
     "URDF: a mesh that is missing collides"),
    ("io/urdf/urdf_mesh.c", "    geom->contype = geom->conaffinity = 0;\n", "", "pytest:tests/oracle/test_urdf.py::test_meshes_that_are_flat_or_open",
     "URDF: a flat mesh collides"),
    ("io/urdf/urdf_joint.c", '  if (fixed) *name = "";\n', "", "pytest:tests/oracle/test_urdf.py::test_mimics_and_fixed_joints",
     "URDF: a joint that mimics a fixed one asks for a joint that is not there"),
    ("io/urdf/urdf_joint.c", "    def.polycoef[0] = offset;\n", "", "pytest:tests/oracle/test_urdf.py::test_mimic_is_an_equality",
     "URDF: joints that mimic others have no offset"),
    ("io/mesh/mesh_dae.c", "compose(out, out, local);", "compose(out, local, out);", "pytest:tests/oracle/test_dae.py::test_units_and_nodes",
     "DAE: transforms of a node act in the other order"),
    ("io/mesh/gltf.c", "if (w->pose == p->pose) return true;", "if (w->pose) return true;", "pytest:tests/oracle/test_view.py",
     "glTF: all rigid parts move like the first"),
    ("io/view/motion.c", "point + triangles->vertex[c];", "triangles->vertex[c];", "pytest:tests/oracle/test_view.py",
     "VTU: surfaces of geoms are drawn between the points of tendons"),
    ("io/view/view.js", "    stretch();\n", "", "pytest:tests/oracle/test_view_page.py", "the page does not draw tendons where their ends are"),
    ("io/view/view_motion.c", "return root && distance_of(v, (size_t)root) > 0.5 * most ? root : far;", "return root ? 1 : far;", "pytest:tests/oracle/test_view.py",
     "the camera follows the first body, whichever leaves the picture"),
    ("src/deform/fail.c", "return w->lacks ? pbDeform_Fail(w, pb_capacity, \"%s\", w->lacking) : status;", "return status;",
     "hostile/test_failing_allocator", "a step of too little room for contacts is shortened instead of refused"),
    ("src/barrier/barrier.c", "if (l->found++ < l->capacity) l->row", "if (++l->found < l->capacity) l->row", "unit/test_barrier",
     "the last place of a list is not used"),
    ("src/energy/builtin/muscle.c", "max(f##q - 0.01, 0)^3)/0.06;", "0*max(f##q - 0.01, 0)^3)/0.06;", "unit/test_builtin", "muscles: the toe has no end"),
    ("src/world/deform_model.c", "if (g->mass || pbEnergy_Symmetric(g->energy)) continue;", "continue;",
     "pytest:tests/python/test_deformables.py::test_forces_without_a_potential_are_refused_on_bodies_that_move", "formulas with freeze() on bodies that move"),
    ("src/deform/step.c", "if (!pbDeform_PrescribedStep(w) || predict(w)) return pb_ok;", "",
     "pytest:tests/python/test_deformables.py::test_pins_carry_what_flies_with_them", "a step's search begins with all but the pins left behind"),
    ("src/deform/step.c", "admissible_share(w, pbDeform_MaxStep(w, w->x, w->step));", "pbDeform_MaxStep(w, w->x, w->step);",
     "pytest:tests/python/test_deformables.py::test_a_pin_that_leaves_neighbors_behind_goes_in_shares", "pins take their neighbors out of an energy's domain"),
    ("src/deform/contact.c", "from->contact.kind == pb_frictionImplicit ? check_cloth(d, from) : pb_ok;", "pb_ok;",
     "pytest:tests/python/test_deformables.py::test_implicit_friction_on_cloth_is_refused", "implicit friction on cloth, which does not converge"),
    ("src/world/deform_model.c", "  warn_of_lost_energy(m, d);\n", "", "pytest:tests/python/test_deformables.py::test_what_a_description_will_show_is_warned_of",
     "energy that the default scheme loses is not warned of"),
    ("src/deform/contact.c", "if (!found.count) return pb_ok;", "return pb_ok;", "pytest:tests/python/test_deformables.py::test_self_contact_at_rest_is_refused",
     "self contact that pushes at rest"),
    ("src/deform/lead.c", "state_bar[at.x + c->coordinate] -= v_bar / span;", "", "pytest:tests/python/test_deformables.py::test_derivatives_by_paths",
     "led points: where they are does not count in their velocity's gradient"),
    ("src/optimize/fine.c", "fine->deform.lead_parts *= divide;", "", "pytest:tests/python/test_deformables.py::test_finer_steps_follow_the_same_path",
     "finer steps go through the rows of a path in less time"),
    ("src/deform/lead.c", "return (size_t)fmin(floor(count_of(w) / w->d->lead_parts), c->steps - 1);", "return (size_t)fmin(fmax(floor(count_of(w) / w->d->lead_parts) - 1, 0), c->steps - 1);",
     "pytest:tests/python/test_deformables.py::test_a_constant_velocity_is_a_path", "paths come a step late"),
    ("src/deform/step.c", "if (!w->scheme->implicit) PB_TRY(check_explicit_path(w));", "",
     "pytest:tests/python/test_deformables.py::test_an_explicit_step_is_refused_where_it_would_pass_through", "explicit steps pass through surfaces"),
    ("src/rollout/jvp.c", "next = k < r->plan.steps ? next : NULL;", "", "pytest:tests/python/test_deformables.py::test_the_last_state_of_a_rollout_has_no_step_to_push",
     "forward derivatives push a step from the last state, which was not taken"),
    ("src/deform/adjoint.c", "w->d->nfree && w->scheme->inertia;", "w->d->nfree;", "pytest:tests/python/test_deformables.py::test_a_saddle_has_no_gradient",
     "statics: the pullback does not look at the pivots at the solution"),
    ("src/deform/newton.c", "if (at_rest && w->report.converged && !w->preconditioner_valid)", "if (false && at_rest)",
     "pytest:tests/oracle/test_deform_physics.py::test_straight_column_gives_way", "statics: a saddle is taken for an equilibrium"),
    ("src/optimize/evaluation.c", "return isfinite(o->h->best_value);", "return false;",
     "pytest:tests/python/test_deformables.py::test_a_trial_outside_an_energy_is_a_step_too_long", "a trial without mass ends a search"),
    ("src/deform/assemble.c", "pb_not_finite, \"%s: element %d (point", "pb_unsupported, \"%s: element %d (point",
     "pytest:tests/python/test_deformables.py::test_a_trial_outside_an_energy_is_a_step_too_long", "a trial that inverts an element ends a search"),
    ("src/deform/newton.c", "if (w->d->unsymmetric) PB_TRY(step_by_forces(w, &value, &found));", "",
     "pytest:tests/oracle/test_deform_physics.py::test_implicit_friction_slides", "implicit friction: every matrix is made definite"),
    ("src/deform/adjoint.c", "pbCg_Solve(NULL, &k, b, packed", "pbCg_Solve(w->ctx, &k, b, packed", "hostile/test_threads",
     "a pullback that succeeds leaves a text of an error"),
    ("src/model/param.c", "const pbChecker c = {ctx, m, theta};", "const pbChecker c = {m->ctx, m, theta};", "hostile/test_threads",
     "what only reads a model writes into its context"),
    ("src/deform/scheme.c", ".ago = {HALF, NOW},", ".ago = {NOW, NOW},", "pytest:tests/oracle/test_deform_physics.py", "deformables: AVF4 damps with another velocity"),
    ("src/deform/scheme.c", ".span = 2. / 3,", ".span = 1,", "pytest:tests/oracle/test_deform_physics.py", "deformables: BDF2 damps with another coefficient"),
    ("src/deform/adjoint.c", "state_bar[at.v + i] += coefficient[pb_pastV] * h * g;", "", "unit/test_deform",
     "deformables: velocities of damping have no gradient by the state before"),
    ("src/deform/newton.c", "share = fmax(w->project / 4, least_projection)", "share = 1", "pytest:tests/oracle/test_deform_physics.py",
     "deformables: all that bends downwards is projected as a whole"),
    ("src/bodies/rows/ends.c", "t[k] - along * pose[k]", "t[k]", "unit/test_sphere", "a gradient along a weld's orientation"),
    ("src/model/sphere.c", "g[k] = (g[k] - along * (v[k] / length)) / length;", "g[k] = g[k] - along * (v[k] / length);", "unit/test_sphere",
     "directions: the length is missing in the pullback of the normalization"),
    ("src/model/sphere.c", "bar[r->at + (size_t)k] += aside[k];", "(void)aside;", "unit/test_sphere", "directions: what a gradient held is lost"),
    ("src/step/scratch.c", "if (integrate) return pbScratch_FirstNotFinite", "if (nv >= 0) return pbScratch_FirstNotFinite", "unit/test_failed_step",
     "an evaluation after a step that failed is refused for what the failed one left"),
    ("src/step/scratch.c", "isfinite(s->variant->sum(theta, s->model->ntheta)) && ", "", "unit/test_sphere", "NaN in theta is not seen from the second step on"),
    ("src/step/scratch.c", " && pbSphere_Same(s->model, theta, s->theta_unit)", "", "unit/test_sphere", "directions that changed are not normalised anew"),
    ("src/model/contact_settings.c", "m->revision++;", "{}", "unit/test_sphere", "a rollout goes on after its contact settings changed"),
    ("src/step/scratch.c", "if (record[tape_revision(s->model)] == s->model->revision) return pb_ok;", "if (record) return pb_ok;", "unit/test_sphere",
     "a tape record of other settings is read beyond its end"),
    ("src/world/step.c", "s->model == m ? s->revision : no_revision", "m->revision", "unit/test_sphere", "a record of no step passes for one of the model as it is"),
    ("src/model/model.c", "else m->revision++;", "", "unit/test_sphere", "a rollout goes on after its options changed"),
    ("src/deform/adjoint.c", "state_bar[at.v + i] += s->start[pb_pastV] * h * g;", "state_bar[at.v + i] += h * g;", "unit/test_deform",
     "deformables: velocities of the past count like those of implicit Euler"),
    ("src/deform/adjoint.c", "w->mass_bar[i / 3] -= lam * (dx - gravity * w->in.gravity[i % 3]);", "w->mass_bar[i / 3] -= lam * dx;",
     "unit/test_deform", "deformables: masses have no weight in the pullback"),
    ("src/deform/contact.c", "tangent[pb_parameterXi] = theta_dot[d->radius_at + (size_t)a] + theta_dot[d->radius_at + (size_t)b];",
     "tangent[pb_parameterXi] = theta_dot[d->radius_at + (size_t)a];", "unit/test_deform", "deformables: one radius of a contact is forgotten forwards"),
    ("src/couple/couple.c", "    c->g[k] = sum / h4 + c->damping", "    c->g[k] = sum / (h4 / h4 * s->deform->in.h) + c->damping",
     "unit/test_deform", "bodies and deformables: forces on bodies of another size than those on points"),
    ("src/couple/couple_vjp.c", "double sum = pb_dot(c->end_bar, c->x_tangent, n) - pb_dot(c->lam, c->tau_tangent, nv);",
     "(void)nv;\n  double sum = pb_dot(c->end_bar, c->x_tangent, n);",
     "unit/test_deform", "bodies and deformables: directions of forces do not turn with bodies"),
    ("src/rollout/rollout.c", "if (r->cached_used == 0 && pbCached_Guess(r->scratch) > room / (size_t)left) return false;", "(void)left;", "unit/test_rollout",
     "evaluations of the first steps are kept, not those of the last"),
    ("src/probe/probe.c", "< gap / 8 ? pb_differs : pb_atKink;", "< gap / 8 ? pb_atKink : pb_atKink;",
     "pytest:tests/oracle/test_cli.py::test_a_wrong_gradient_is_called_off", "a quotient that contradicts the gradient is left out"),
    ("src/rollout/sample_quotient.c", "  if (a->m == r->model) pbScratch_GuessDeform(a->scratch, a->record);\n", "",
     "pytest:tests/python/test_contract.py::test_the_check_of_a_step_with_contact_begins_at_its_solution", "quotients are solved from where the step began"),
    ("src/deform/newton.c", "  PB_TRY(pbDeformMatrix_RefuseRounding(w));\n", "",
     "pytest:tests/python/test_deformables.py::test_an_equilibrium_that_rounding_holds_has_no_gradient", "an equilibrium that rounding alone holds has a gradient"),
    ("src/deform/kink.c", "near.second > 0.5 * shorter * far.second", "near.second > 0", "pytest:tests/python/test_deformables.py::test_formulas_at_their_bounds_are_named",
     "a smooth choice of a formula is called a kink"),
    ("src/deform/kink.c", "displace(at->ago, share * length * w->d->size, n, 2, w->step);", "displace(at->ago, 0, n, 2, w->step);", "pytest:tests/python/test_deformables.py::test_formulas_at_their_bounds_are_named",
     "kinks by the start of a step are not seen"),
    ("src/rollout/pullback.c", "  c->kink_step = k;\n", "  c->kink_step = c->kink_step < 0 ? k : c->kink_step;\n", "pytest:tests/python/test_deformables.py::test_strings_that_are_just_taut_are_named",
     "the last step with a kink is told for the first"),
    ("src/optimize/run.c", "  status = save_best(&loop, status, result);\n", "", "unit/test_task", "a search that ends for want of memory has no result"),
    ("python/core/describe.c", "  Py_BEGIN_ALLOW_THREADS;\n  status = check(&s, in, &options, &report);\n  Py_END_ALLOW_THREADS;\n", "  status = check(&s, in, &options, &report);\n",
     "pytest:tests/python/test_threads.py::test_one_command_does_not_wait_for_another", "a check keeps the interpreter's lock"),
    ("io/json/json.c", "    j->told->nothing(j->user, key);\n", "    j->told->number(j->user, key, value);\n", "unit/test_describe", "numbers that are not finite are told as numbers"),
    ("io/trajectory/simulate.c", "in->mocap_vel ? in->mocap_vel : r->rate", "in->mocap_vel", "unit/test_describe", "a trajectory of mocap bodies that are led by poses has them stand still"),
    ("python/core/task.c", "status != pb_interrupted && s->result.z", "false", "pytest:tests/python/test_commands.py::test_a_search_that_ends_by_want_of_room_writes_its_best",
     "a search that ends for want of room writes nothing"),
    ("io/task/task_deform.c", "if (json_object_get(o, \"name\") && !json_object_get(o, \"path\"))", "if (!o)", "pytest:tests/python/test_deformables.py::test_paths_that_cannot_be",
     "a pin's name without a path is ignored"),
    ("src/couple/couple_step.c", "begin_at_guess(s) ? pb_ok : move_prescribed_points(s)", "move_prescribed_points(s)", "unit/test_guess",
     "bodies and deformables: quotients are solved from where the step began"),
    ("src/rollout/noise.c", "(int)((int64_t)steps * i / (s->rows - 1));", "i;",
     "pytest:tests/oracle/test_noise.py", "noise is looked for in the first states of a long rollout alone"),
    ("src/rollout/noise.c", "2 * r->nv + r->na + 2 * r->np;", "2 * r->nv + r->na;",
     "pytest:tests/python/test_reach.py", "of deformables nothing moves where noise is looked for"),
    ("src/optimize/run.c", "|| pbTask_IsTruncated(task)) return pb_ok;", ") return pb_ok;",
     "pytest:tests/oracle/test_noise.py", "a search by windows is told that windows would help"),
    ("src/learn/noise.c", "i * t->settings.worlds / worlds, &found[count]", "i * t->settings.worlds / worlds, &found[0]",
     "pytest:tests/oracle/test_noise.py", "a training judges its windows by the last that was looked at"),
    ("src/rollout/sample.c", "  c->spot_checked |= compared || c->spot_off;", "  c->spot_checked = true;",
     "pytest:tests/python/test_contract.py::test_a_certificate_says_what_was_compared", "a check that compared nothing says that it checked"),
    ("src/multibody/force_adjoint.h", "*linear += bar[0];", "*linear += 1.001 * bar[0];", "unit/test_rollout",
     "a gradient by damping that is off by a thousandth, seen by the check of steps"),
    ("src/world/policy_pack.c", "    get_column(k->m_next, batch, b, call[b].m_next, f->memory);\n", "", "unit/test_batch_pack",
     "worlds whose policy is called together forget what it remembers"),
    ("src/world/policy_pack.c", "add_column(k->m_bar, batch, b, call[b].m_bar, f->memory);", "add_column(k->m_bar, batch, 0, call[b].m_bar, f->memory);",
     "unit/test_batch_pack", "the memory of each world in a pack gets the first one's cotangent"),
    ("src/rollout/pullback.c", "  if (!r->ahead) begin_pull(r, k, certificate);\n", "  begin_pull(r, k, certificate);\n", "unit/test_batch_pack",
     "what the first part of a step's pullback in a pack has given is dropped"),
    ("src/linalg/product_body.h", "A.x += (size_t)start * A.down + (size_t)b.p * A.right;", "A.x += (size_t)start * A.down;", "unit/test_product",
     "products: blocks of terms beyond the first read the first one's"),
    ("src/linalg/product_body.h", "job->B.x + first, OF(WIDTH), edge", "job->B.x + first - 1, OF(WIDTH), edge", "unit/test_product", "products: the last columns are those before them"),
    ("src/linalg/product_body.h", "there.B.x += first;", "", "unit/test_product", "products: later parts of a few rows read the first part's columns"),
    ("src/linalg/product_body.h", "columns < width ? columns : width);\n    }", "width);\n    }", "unit/test_product", "products: a tile at the edge writes beyond it"),
    ("src/linalg/product_column.h", "(size_t)(i < c->rows ? i : c->rows - 1) * c->lda", "(size_t)(i < c->rows ? i : 0) * (c->lda + (i == 2))", "unit/test_product",
     "products with one column: a row reads another's entries"),
    ("src/linalg/product_column.h", "sum[v] += x * c->b[(size_t)p * c->step];", "sum[v] += x * c->b[0 * c->step];", "unit/test_product",
     "products with one column: terms that fill no vector take the first one's factor"),
    ("src/linalg/tile.h", "sum[i][v] += row[v] * one.x[(size_t)i * one.line];", "sum[i][v] = row[v] * one.x[(size_t)i * one.line] + 2 * sum[i][v] - sum[i][v];", "unit/test_product",
     "products: sums are rounded more often than once a term"),
    ("src/sparse/front_kernel.c", "above > 0 ? above / TILE * TILE : 0", "above > 0 ? (above / TILE + 1) * TILE : 0", "unit/test_sparse",
     "tiles on the diagonal are left out"),
    ("src/sparse/analysis.c", "? ~place : place", "? place : place", "unit/test_sparse", "blocks above the diagonal are not transposed"),
    ("src/sparse/dissect.c", "part[v] = other[fine->map[v]]", "part[v] = other[v / 2]", "unit/test_sparse", "separators do not separate"),
    ("src/sparse/krylov.c", "int down = transposed ? 1 : 3, along = transposed ? 3 : 1;", "int down = 3, along = 1;\n    (void)transposed;", "unit/test_sparse_krylov",
     "block Jacobi is not transposed"),
    ("src/contact/law.c", "law->Nmu[i * t + j - 1] = -open * f[j]", "law->Nmu[i * t + j - 1] = open * f[j]", "unit/test_hard",
     "hard contact: a sign in the gradient by friction"),
    ("src/contact/law.c", "along = most > 0 && size > 0 ? scale / most * slope * y[i] * y[j] / size : 0;", "along = 0; (void)slope;",
     "conformance/test_step", "hard contact: the disk does not turn with its force"),
    ("src/bodies/actuators_adjoint.c", "double rate = -turns * 2", "double rate = 0 * turns * 2", "pytest:tests/oracle/test_turns.py::test_steps_and_gradients",
     "the gear of a servo on a rotation: whole turns that are taken off its setpoint grow with it"),
    ("src/bodies/actuators/filter.c", "(NUM(pbActuator_Wrap)(w, u, ctrl, act) - act)", "(ctrl - act)", "pytest:tests/oracle/test_turns.py::test_steps_and_gradients",
     "a filtered setpoint of a rotation goes the longer way round"),
    ("src/bodies/actuators_adjoint.c", "-bar * (asked / b[2])", "bar * (asked / b[2])", "unit/test_servo", "a servo's velocity by the bias of its force law has the wrong sign"),
    ("src/bodies/rows/servo.c", "a->act_target[r->actuator] = r->b * z;", "a->act_target[r->actuator] = z;", "conformance/test_step",
     "what a servo asks for is pulled back without the row's damping"),
    ("src/contact/potential.c", "p->f[0] = r->bound[above ? 0 : 1];", "p->f[0] = r->bound[above ? 1 : 0];", "unit/test_potential", "a bounded row pushes with the wrong bound"),
    ("src/bodies/sensors_adjoint.c", "lane bar = a->act_force[u];", "lane bar = PB_LANE_ZERO;", "conformance/test_step", "what a sensor asks of a servo's force is lost"),
    ("src/contact/law.c", "law->Nbound[i] = -by_bound[i];", "law->Nbound[i] = by_bound[i];", "unit/test_servo", "a hard servo's force moves against its bound"),
    ("src/bodies/rows/friction.c", "-loss_sign(w, i, a->at.qacc) * power", "0 * power", "unit/test_kinks",
     "a friction loss of zero has no gradient"),
    ("src/bodies/actuators_adjoint.c", "|| before_joint_limit(w, dof) == edge) continue;", ") continue;", "unit/test_kinks",
     "a motor's force of zero is held by a range that begins there"),
    ("src/geometry/box.c", "num d = num_make(fabs(re(depth)), im(depth));", "num d = num_abs(depth);", "unit/test_kinks",
     "a ball's centre on a box's face has no slope"),
    ("src/probe/probe.c", "!ahead.parted && 2 * fabs(ahead.value - central->value) < gap / 8", "true",
     "pytest:tests/oracle/test_cli.py::test_a_kink_in_a_whole_rollout_is_told", "a kink in a rollout calls its gradient off"),
    ("src/probe/probe.c", "!ahead.parted && 2 * fabs(ahead.value - central->value) < gap / 8", "false",
     "pytest:tests/oracle/test_cli.py::test_a_wrong_gradient_of_a_whole_rollout_is_called_off",
     "a quotient of rollouts that contradicts the gradient is left out"),
    ("src/geometry/primitive.h", "if (!(fabs(fabs(re(x)) - 1) <= SEGMENT_TIE)) return clipped;", "return clipped;", "unit/test_geometry",
     "ends of parallel capsules side by side: one has the whole slope"),
    ("src/geometry/jacobian.c", "if (s->upright) dot_rate(dist, n, point);", "", "unit/test_geometry",
     "a cylinder that stands on a plane does not tilt about all axes"),
    ("src/geometry/polytope.c", "if (!m->count && faces && !p->found->is_round)", "if (0)", "unit/test_poses",
     "hulls: faces that touch along their sides meet at any corner"),
    ("src/geometry/polytope_polish.c", "if (out->round.kind == pb_roundCap) id[0] = id[1] = id[2] = w.id[body];", "(void)id;", "unit/test_poses",
     "hulls: a cap rests on the corner at which it was found"),
    ("src/geometry/polytope_meet.c", "if (r->kind == pb_roundFace && meet_face(p, m, u, sides, corner)) return;", "", "unit/test_poses",
     "hulls: the rim's lowest point is beyond the side of the face"),
    ("src/geometry/polytope_meet.c", "if (!(re(m->dist[low]) <= re(p->dist) + 3 * m->tie)) return false;", "return false;", "unit/test_poses",
     "hulls: the lower end of a cylinder's line is beyond the side of the face"),
    ("src/geometry/pair.c", "  v3_cross(s->down, level, s->axis);\n", "  v3_scale(s->down, s->axis, slope);\n  v3_subfrom(s->down, s->normal);\n", "unit/test_standing",
     "points of a cylinder that is tilted by rounding are not on its rim"),
    ("src/geometry/convex_probe.h", "bool faces = kind == pb_normalFace && s->out->kind == pb_normalFace;", "bool faces = false;", "unit/test_standing",
     "tilted by 1e-10 a cylinder on a box stands on its own cap"),
    ("src/geometry/jacobian.c", "bool other_rim = count % 2 == 0;", "bool other_rim = false;", "unit/test_geometry",
     "of a cylinder that lies on a plane both contacts have the rates of standing points"),
    ("src/step/solve_report.c", "if (!(r->diag[0] < 1e-14)) return;", "if (!(r->diag[0] < -1)) return;",
     "pytest:tests/oracle/test_cli.py::test_a_row_without_softness_is_told", "an unconverged solve does not say that its row has no softness"),
    ("src/step/solve_report.c", "if (met < 0 || (c->point == 0 && pbScratch_PairTies(s, r->contact))) return 0;", "", "pytest:tests/oracle/test_cli.py::test_a_right_gradient_at_a_tie_is_not_called_off",
     "a quotient across a tie of features calls a right gradient off"),
    ("src/geometry/primitive.h", "normal[i] = num_make(re(normal[i]), slope);", "(void)slope;", "unit/test_kinks",
     "an arbitrary normal stays forwards and turns backwards"),
    ("src/bodies/rows/friction.c", "if (PB_IS_COMPLEX) loss_slopes(w);", "(void)loss_slopes;", "unit/test_kinks",
     "a friction loss of zero has no slope forwards"),
    ("src/contact/parameters_adjoint.c", "if (a == b) first = 0.5;", "if (a == b) first = 1;", "unit/test_kinks",
     "a tie of two frictions gives all to the first"),
    ("src/number/number.h", "if (PB_IS_COMPLEX && re(a) == re(b)) return num_make(re(a), 0.5 * (im(a) + im(b)));\n\n  return re(a) >= re(b) ? a : b;",
     "return re(a) >= re(b) ? a : b;", "unit/test_kinks", "a tie of a maximum has one side's slope forwards"),
    ("src/rollout/clock.c", "theta_bar[m->timestep - m->theta0] += k", "theta_bar[m->timestep - m->theta0] += 0 * k", "unit/test_kinks",
     "the clock does not move with the time step"),
    ("src/bodies/forces/gravity_compensation.c", "!v3_is_zero(g)", "(re(g[0]) != 0 || re(g[1]) != 0 || re(g[2]) != 0)", "unit/test_kinks",
     "at no gravity its compensation has no slope forwards"),
    ("src/bodies/rows/ends.c", "PB_THETA(a, eq_data, torquescale, value);", "PB_THETA(a, eq_data, torquescale, value * w->p.eq_data[torquescale] / w->p.eq_data[torquescale]);",
     "unit/test_kinks", "a weld without torque divides by its scale"),
    ("src/multibody/fluid_adjoint.c", "if (!damping) flag_slope(a, b, k);", "", "unit/test_kinks", "a geom that does not meet the fluid has no gradient"),
    ("src/contact/row_numbers.c", "r->b *= 1 + w->contact[r->contact].restitution", "r->b *= 1 - w->contact[r->contact].restitution",
     "unit/test_hard", "hard contact: restitution of the other sign"),
    ("src/contact/parameters_adjoint.c", "    add_mixed(w->m, w->p.geom_restitution,", "    if (0) add_mixed(w->m, w->p.geom_restitution,", "conformance/test_step",
     "a parameter that is zero in all models has no gradient"),
    ("src/contact/parameters_adjoint.c", "if (bar->restitution != 0)", "if (bar->restitution == NAN)", "conformance/test_lists",
     "restitution of geoms: no gradient at all, where it is zero in every other scene of the tests"),
    ("src/contact/parameters_adjoint.c", "if (law == pb_normalBounce) bar->restitution = bar->b / w->p.timestep[0];", "",
     "unit/test_hard", "hard contact: no gradient by restitution"),
    ("src/contact/row.h", "if (pb_lands(w, r)) return pb_normalBounce;", "", "unit/test_hard", "hard contact: what lands is thrown back"),
    ("src/contact/row.h", "return rise ? pb_normalRise : pb_normalCorrect;", "return pb_normalCorrect;", "unit/test_hard",
     "hard contact: an overlap comes apart with a hop"),
    ("src/contact/parameters_adjoint.c", ".by_weight = (depth + 0.25 * g * h * h) / root - 0.5 * h", ".by_weight = depth / root - 0.5 * h", "unit/test_hard",
     "hard contact: a term in the gradient of rising by gravity"),
    ("src/impact/impact.c", "if (t->gap < -PB_TOUCH && !(t->rate > PB_REST)) return t->candidate;", "(void)t;",
     "pytest:tests/oracle/test_jammed.py", "geoms that overlap at the start sink into each other, impact by impact"),
    ("src/impact/impact.c", "touched ? fmax(-gap, 0) : 0}", "0}", "pytest:tests/python/test_single_impacts.py::test_what_has_sunk_in_by_rounding_parts",
     "impacts: bodies that have sunk in by rounding touch again at once"),
    ("src/impact/impact.c", "gain += 0.5 * (w->qvel[i] + v[i]) * w->Mstep[i]", "gain += 0.5 * (w->qvel[i] - v[i]) * w->Mstep[i]", "unit/test_impact",
     "energy that impacts make: of the change, not of the mean"),
    ("src/step/bounce.c", "0.5 * impulse * (before + last)", "0.5 * impulse * (last - before)", "unit/test_hard",
     "energy that bounces of hard contact make: of the change, not of the mean"),
    ("src/step/bounce.c", "(1e-9 + w->residual) * moved", "-1", "unit/test_hard", "every bounce of hard contact is said to make energy"),
    ("src/rollout/certificate.c", "  c->gains += report->gains;\n", "  if (step) c->gains += report->gains;\n",
     "pytest:tests/oracle/test_cli.py::test_energy_made_by_impacts", "energy made in the first step of a rollout is not told"),
    ("src/impact/impact_law_kernel.c", "    if (relative_gain(s) > 0) high", "    if (relative_gain(s) < 0) high", "unit/test_impact",
     "the cap of restitution is sought on the wrong side"),
    ("src/impact/impact_adjoint.c", "      before[i] += eta * s->impulse[t->first + i];\n", "", "unit/test_impact",
     "the adjoint of a capped impact without the velocity before in its energy"),
    ("src/impact/impact_law_kernel.c", "gain_by[i] = 2 * s->after[i];", "gain_by[i] = s->after[i];", "unit/test_impact",
     "the slope of a capped impact's energy is half of what it is"),
    ("src/solve/dual.c", "fmax(w->residual, NUM(pbDual_Distance)(w, f, x))", "w->residual", "unit/test_hard",
     "sweeps whose corrections are small because they are slow claim to have converged"),
    ("src/contact/weight.h", "return re(translation) < pb_still * re(turning) ? turning : translation;", "return translation;",
     "pytest:tests/oracle/test_jammed.py::test_centers_of_mass_that_stand_still", "hard contact has no softness where centers of mass stand still"),
    ("src/contact/parameters_adjoint.c", "PB_THETA(a, body_mass, of[g].body, -bar * of[g].weight * of[g].weight);", ";",
     "pytest:tests/oracle/test_jammed.py::test_centers_of_mass_that_stand_still", "softness by a mass that stands still has no derivative"),
    ("src/solve/dual_newton.c", "(re(r->R[j]) + w->dual.softness[r->at + j])", "re(r->R[j])", "pytest:tests/oracle/test_jammed.py::test_jammed_starts",
     "hard contact, softened: Newton's matrix by way of the dofs does not see it"),
    ("src/step/wanted.c", "wanted |= pb_wantRows;", "wanted |= 0;", "pytest:tests/oracle/test_jammed.py::test_gradient_by_mass_alone",
     "hard contact: a gradient by mass alone lacks what comes by way of softness"),
    ("src/solve/dual.c", "if (!known || known->n != w->dual.n", "if (known || !known", "pytest:tests/oracle/test_jammed.py::test_forward_derivatives_at_the_forces_found",
     "hard contact: the forward derivative searches for the forces once more"),
    ("lcp/cones_interior.c", " || p->at.g[i] <= 0) p->at.g[i] += left;", ") p->at.g[i] += left;", "unit/test_hard",
     "cones by the interior point method: a contact that has lost its room keeps none"),
    ("src/solve/dual_jam.c", "if (found && w->dual.kappa == 0 && w->residual <= resolved && jam(w) < jammed) return true;", "if (found) return true;", "pytest:tests/oracle/test_jammed.py::test_gradients",
     "jammed hard contact: forces that hide whether contacts slide"),
    ("src/solve/dual_edge.c", "if (r->zone && is_idle(w, r, 1)) r->zone = pb_zoneOpen;", "", "pytest:tests/oracle/test_jammed.py::test_idle_contact_holds_nothing",
     "hard contact without a force holds what moves along it"),
    ("src/geometry/box_box.c", "second &= s->size2[b] - extent1 > abs_re(p->pos12[b]) + p->rounding;", "second &= extent2 - s->size1[a] > p->rounding;",
     "pytest:tests/oracle/test_cli.py::test_what_has_no_derivative_of_every_direction_is_named", "the wider of two faces that are turned against each other"),
    ("src/solve/dual_adjoint.c", "lane minus[6];\n  for (int i = 0; i < r->dim; i++) minus[i] = -z[i];", "lane minus[6];\n  for (int i = 0; i < r->dim; i++) minus[i] = z[i];",
     "unit/test_hard", "hard contact by way of the dofs: a sign in its adjoint"),
    ("src/solve/dual_adjoint.c", "for (int i = 0; i < r->dim; i++) u[at + i] += a->y0[6 * k + i];", "", "conformance/test_step",
     "hard contact: cotangents of forces are lost"),
    ("src/barrier/barrier.c", "if (weight != 0) add_points(f, p->a[0], p->b[i], weight);", "", "unit/test_barrier$",
     "a point over the vertex of a surface is not counted"),
    ("src/barrier/formula.c", "m = select(c < 1, c*(2 - c), 1)", "m = select(c < 1, c, 1)", "unit/test_barrier$",
     "the weight of near parallel edges has a kink"),
    ("src/barrier/barrier.c", "values->radius[pair % groups] += bar[pb_parameterXi][e];", "", "unit/test_barrier$",
     "a thickness loses half of its gradient"),
    ("src/barrier/formula.c", "(1 - s)^2/s - 2*(1 - s)*log(s)", "(1 - s)^2/s + 2*(1 - s)*log(s)", "unit/test_barrier$",
     "a sign in the normal force of friction"),
    ("src/barrier/advance.c", "if (room <= 0) return 0;", "if (room <= 0) continue;", "unit/test_barrier_geometry",
     "advancement looks past a vertex that is too near"),
    ("src/barrier/exact.c", "1e-15 * size", "1e-25 * size", "unit/test_barrier_geometry", "a sign is taken from a determinant that is rounding"),
    ("src/base/arena.c", "count > room / size", "count * size > room", "unit/test_base", "overflow of a size goes unnoticed"),
    ("src/base/context.c", "memory ? memset(memory, 0, size) : NULL", "memory", "unit/test_base", "memory is not zeroed"),
    ("src/base/context.c", "if (need > PB_WARNING_TEXT) return false;", "", "unit/test_base", "warnings without bound"),
    ("src/number/number.h", "num_chain(x, r, r > 0 ? 0.5 / r : 0)", "num_chain(x, r, r > 0 ? 0.4 / r : 0)", "conformance/test_step",
     "the derivative of a root"),
    ("src/number/number.h", "PB_IMAG_STEP 1e-200", "PB_IMAG_STEP 1e-40", "unit/test_geometry",
     "products of imaginary parts decide where real parts are zero"),
    ("src/number/number.h", "PB_IMAG_STEP 1e-200", "PB_IMAG_STEP 1e-40", "conformance/test_step",
     "products of imaginary parts decide which contacts there are"),
    ("src/step/jvp_kernel.c", "j->grow = ldexp(1, exponent);", "j->grow = ldexp(1, exponent + 1);", "assert:conformance/test_step",
     "step: directions come out at twice the scale that they went in"),
    ("src/step/integrate_kernel.c", "quat_normalize(q);\n        quat_integrate(q, u, h);", "quat_integrate(q, u, h);", "assert:unit/test_sphere",
     "step: quaternions keep the length that they came in with"),
    ("src/bodies/actuators/joint.c", "put_moment(w, used, dof + (free ? 3 : 0) + k, rotated[k]);", "put_moment(w, used, dof + (free ? 3 : 0) + 2 - k, rotated[k]);",
     "assert:conformance/test_step", "multibody: moments of rotations list their dofs downwards"),
    ("src/model/topology_tendon.c", "t->ten_dof + start : NULL);", "t->ten_dof + start : NULL);\n    if (block) t->ten_dof[start - 1] = 0;",
     "assert:conformance/test_step", "multibody: Jacobians of tendons list their dofs downwards"),
    ("src/geometry/wrap.c", "b->weight[b->n++] = -share / D;", "b->weight[b->n++] = share / D;", "conformance/test_step",
     "geometry: where a path touches a geom from inside, the touching point moves the wrong way"),
    ("src/multibody/tendon_path_adjoint.c", "l3_add(l3_cross(end[0], rel[0]), l3_cross(end[1], rel[1]))", "l3_cross(end[0], rel[0])", "conformance/test_step",
     "multibody: directions of a path do not turn with the geom that it goes around"),
    ("src/multibody/tendon_path_adjoint.c", "l3_cross(s->F, s->X.a)", "l3_cross(s->F, s->u)", "conformance/test_step",
     "multibody: what pulls at a site does not turn with its body"),
    ("src/bodies/actuators_adjoint.c", "if (w->act_scale[u] == 1) return end >= 0 ?", "if (w->act_scale[u] == 1 || end >= 0) return end >= 0 ?",
     "pytest:tests/python/test_meetings.py::test_clamped_actuator_of_a_clamped_tendon", "an actuator at an end of its range does not move the share of the others of its tendon"),
    ("src/bodies/actuators/tendon.c", "a->ten_lam[k] += gear * force;", "a->ten_lam[k] += force;", "conformance/test_step",
     "multibody: a tendon's tension by an actuator without its gear"),
    ("src/model/topology_site.c", "t->site_turned[site] || turned", "t->site_turned[site] && turned", "unit/test_rollout",
     "model: steps of rollouts do not turn the sites that they read"),
    ("src/multibody/muscle.c", "  if (ctrl == low) return 1;\n", "", "pytest:tests/python/test_meetings.py::test_muscle_where_control_is_activation",
     "muscles at rest: half of a slope that leaves the controls' range"),
    ("src/multibody/muscle.c", "out->lengthrange[0] -= L / unit;", "", "conformance/test_step",
     "multibody: a muscle's length is not counted from its length range in the gradient by that"),
    ("src/multibody/sweep_adjoint.c", "mass * (g->h + 2 * (trace * d - Gd))", "mass * (g->h + (trace * d - Gd))", "conformance/test_step",
     "multibody: half of Steiner's share in the gradient by a center of mass"),
    ("src/multibody/tendon_adjoint.c", "- 2 * along * f->across[x]", "- along * f->across[x]", "conformance/test_step",
     "multibody: half of what a tendon's drift has by its direction"),
    ("src/bodies/sensors/hold.c", "a->ten_len[k] -= T * (slope", "a->ten_len[k] += T * (slope", "conformance/test_step",
     "multibody: a sign in the load of a tendon's spring on a force sensor"),
    ("src/bodies/sensors/frame.c", "  v3_addcross(v, arm, w->V + 6 * ref->body);", "", "conformance/test_step",
     "multibody: a velocity relative to a frame forgets that the frame rotates"),
    ("src/multibody/fluid.c", "d[k] = a[k] * vv - pn;", "d[k] = a[k] * vv + pn;", "unit/test_fluid",
     "multibody: a sign in the damping of Kutta's lift"),
    ("src/step/runge_kutta_adjoint.c", "k->rk_a[(s - 1) * nv + i] += step * v;", "k->rk_a[(s - 1) * nv + i] += step * a->v[i];", "conformance/test_step",
     "step: a stage's velocity moves positions, and forgets the acceleration before it"),
    ("src/bodies/forces/gravity_compensation.c", "PB_THETA(a, gravity, k, -m * gc * u[k])", "PB_THETA(a, gravity, k, m * gc * u[k])",
     "conformance/test_step", "a sign in the gradient by gravity"),
    ("src/contact/potential.c", "h -= Dm * e * mu", "h += Dm * e * mu", "unit/test_potential", "row potentials: a sign in the cone's curvature"),
    ("src/contact/potential.c", "p->f[k] += D * m * phi;", "p->f[k] += D * phi;", "unit/test_potential",
     "row potentials: an edge's share of the tangent"),
    ("src/contact/potential_adjoint.c", "bar->friction[0] -= 2 * g / friction[0];", "bar->friction[0] -= g / friction[0];", "unit/test_potential",
     "row potentials: the sticking cone by its first friction"),
    ("src/contact/potential_adjoint.c", "- slope * r->x[k]", "+ slope * r->x[k]", "conformance/test_step",
     "a sign in the gradient of a pyramid by friction"),
    ("src/contact/potential_adjoint.c", "      bar->friction[k - 1] += g;\n", "", "conformance/test_step",
     "the smoothed cone loses its gradient by friction"),
    ("src/contact/parameters_adjoint.c", "if (NUM(pbRow_Regularization)(w, r, i) <= PB_LEAST_R) continue;", "",
     "unit/test_contact", "a gradient by what the least regularisation replaces"),
    ("src/contact/penalty.c", "- u * u * width * share_slope", "", "conformance/test_step", "a term of the penalty force by stiffness"),
    ("src/contact/penalty.c", "- c * speed * fade_slope / width", "", "conformance/test_step", "a term of the penalty force by depth"),
    ("src/contact/penalty.c", "  *slope = 30 * t * t * (1 - t) * (1 - t);\n  return t * t * t * (10 + t * (6 * t - 15));",
     "  *slope = 6 * t * (1 - t);\n  return t * t * (3 - 2 * t);", "unit/test_contact", "the penalty force's slope has a kink"),
    ("src/contact/penalty_adjoint.c", "(bar->y[j] - W * (v[j] / slide))", "bar->y[j]", "conformance/test_step",
     "penalty friction by velocity loses its bend"),
    ("src/contact/penalty_adjoint.c", "rest = j == 1 ? slip : 0", "rest = 0", "conformance/test_step",
     "penalty friction by its coefficient loses the slip"),
    ("src/contact/row_numbers.c", "t * t * t * (10 + t * (6 * t - 15))", "t * t * (3 - 2 * t)", "conformance/test_step",
     "the slope of the fade is another function's"),
    ("src/step/step_adjoint.c", "memcpy(w->LD, w->M, (size_t)w->t->M.size * sizeof(num));  // a replay leaves M unfactored", "",
     "hostile/test_nan_scratch", "an adjoint reads what another step left"),
    ("src/impact/event_kernel.c", "  v3_addcross(out, V, v);\n", "  (void)v;\n", "pytest:tests/python/test_single_impacts.py::test_a_tip_that_swings_past_is_counted",
     "impacts: a closing speed that changes by rotation alone is called steady"),
    ("src/world/event.c", "p->at_touch = find_touch(p, record, lone);", "p->at_touch = false;",
     "pytest:tests/python/test_single_impacts.py::test_impacts_are_taken_where_they_touch", "impacts are differentiated where the step sees them"),
    ("src/world/drift.c", "x_bar[m->nv + i] += time * x_bar[i];", "x_bar[m->nv + i] += 0 * time * x_bar[i];",
     "pytest:tests/python/test_single_impacts.py::test_forward_is_reverse_where_they_touch", "the way to the touch takes no time"),
    ("src/world/event.c", "e->unsteady || (e->acts && turns_much(p))", "e->unsteady",
     "pytest:tests/python/test_single_impacts.py::test_what_leaves_too_fast_for_the_step_is_counted",
     "impacts after which motion is too fast for the step are called steady"),
    ("src/impact/event_kernel.c", "(e->release ? -share : share)", "(e->release ? -share : -share)", "unit/test_event",
     "an onset corrected the wrong way"),
    ("src/impact/event_kernel.c", "(e->release ? -share : share)", "share", "unit/test_event", "a release corrected the wrong way"),
    ("src/impact/event_kernel.c", "pb_explicit(w->m, r) || (r->kind", "(r->kind", "unit/test_event", "penalty contacts have events"),
    ("src/step/jvp_kernel.c", "t += n;\n    rotate(j, q, t);", "t += n;\n    quat_normalize(q);\n    rotate(j, q, t);", "unit/test_event",
     "the forward derivative decides by other bits than the step"),
    ("src/contact/contact_geometry_adjoint.c", "a->mocap_vel[6 * b + i] += sign * s->Fv[i];", "", "pytest:tests/python/test_prescribed.py::test_derivatives_by_given_velocities",
     "contacts that follow have no gradient by the velocity of what is led"),
    ("src/contact/prescribed.c", "u[i] += sign * (velocity[i] + across[i]);", "u[i] += sign * velocity[i];", "pytest:tests/python/test_prescribed.py::test_derivatives_by_the_path",
     "contacts see a body that turns as one that does not"),
    ("src/model/mocap_rate.c", "turn_rate(&t, -1, turned, u);", "turn_rate(&t, 1, turned, u);", "unit/test_mocap_rate",
     "the pullback of a turn is that of the opposite one"),
    ("src/rollout/prescribed.c", "to.pos[side] = either_bar(s.pos[side], g->mocap_pos, row, n, g->mocap_pos_before, own_pos);",
     "to.pos[side] = side ? either_bar(s.pos[side], g->mocap_pos, row, n, g->mocap_pos_before, own_pos) : NULL;",
     "pytest:tests/python/test_prescribed.py::test_derivatives_by_the_path", "the velocity of a path owes nothing to the row before"),
    ("src/rollout/prescribed.c", "if (pbMocap_Settle(r->model, p.h, true, r->mocap_rate, text, sizeof text)) return pb_ok;", "return pb_ok;",
     "pytest:tests/python/test_prescribed.py::test_paths_that_jump", "a path that jumps is run"),
    ("src/multibody/sweep_adjoint.c", "torque[i] = F[i] - torque[i]", "torque[i] = F[i]", "conformance/test_step",
     "mocap bodies: the gradient by a rotation is one about the world's origin"),
    ("src/impact/impact_derivative.c", "if (to && to->mocap_pos) add(to->mocap_pos, pos, (int)n);\n  if (to && to->mocap_rot) add(to->mocap_rot, rot, (int)n);",
     "", "pytest:tests/oracle/test_mocap.py::test_gradient_of_an_impact_with_a_mocap_body", "mocap bodies: where one is when it is struck has no gradient"),
    ("src/impact/impact_derivative.c", "*over_bar += along;\n", "", "pytest:tests/python/test_prescribed.py::test_derivatives_by_the_path",
     "the time of an impact moves as if what is led stood still"),
    ("src/impact/impact_derivative.c", "impact.span_rate = -*rate;", "", "pytest:tests/python/test_prescribed.py::test_derivatives_by_the_path",
     "forward: what is led stands where it does however late the impact"),
    ("src/optimize/poses.c", "if (own && p->origin[part] == pb_fromModel) p->origin[part] = pb_fromFirstRow;", "", "pytest:tests/oracle/test_mocap.py::test_velocities_in_a_task",
     "an unknown path of a mocap body jumps to where it begins"),
    ("src/optimize/poses.c", "if (p->origin[i] == pb_fromGiven) from[i] = p->before_bar[i];", "", "pytest:tests/oracle/test_mocap.py::test_velocities_are_unknowns_of_a_task",
     "unknown poses before the first step have no gradient"),
    ("src/optimize/poses.c", "if (p->vel) gradient->mocap_vel = p->vel_bar;", "", "pytest:tests/oracle/test_mocap.py::test_velocities_are_unknowns_of_a_task",
     "unknown velocities of mocap bodies have no gradient"),
    ("src/impact/impact_kernel.c", "if (!(mean - spread > least) && !slips[1]) t->n = 2;", "if (!(mean - spread > least)) t->n = 2;",
     "pytest:tests/python/test_prescribed.py::test_friction_along_what_nothing_follows", "slip that nothing follows has no share of the cone"),
    ("src/impact/impact_law_kernel.c", "if (!(A > rounding * b->A[0][0])) return false;", "if (!(A > rounding * b->A[0][0]) && A > 1e300) return false;",
     "pytest:tests/python/test_prescribed.py::test_friction_along_what_nothing_follows", "a bead on a wire sticks to a plate that slips by"),
    ("src/rollout/prescribed.c", "if (r->nmocap && in->mocap_vel && (before.mocap_pos || before.mocap_quat))", "if (0)",
     "pytest:tests/python/test_prescribed.py::test_velocities_and_poses_before_do_not_go_together", "a pose before is ignored beside velocities"),
    ("src/optimize/poses.c", "pbRotation_Column(turn_at(task, t, v->kind, row) + *at, (int)(index % 3), motion);", "motion[index % 3] = 1;",
     "pytest:tests/oracle/test_mocap.py::test_optimize_gradient_of_a_path", "mocap bodies: unknown rotations are taken for small ones"),
    ("src/learn/worlds.c", "(t->episode[w] > 0 ? 0 : pbTrain_FirstAge(t, w))", "0 * pbTrain_FirstAge(t, w)", "unit/test_learn",
     "training: first episodes begin in the middle of their paths"),
    ("src/learn/worlds.c", "pbTrain_Trajectory(t, (uint64_t)w, (uint64_t)t->episode[w]), 0, k * t->every)", "pbTrain_Trajectory(t, (uint64_t)w, 0), 0, k * t->every)",
     "unit/test_learn", "training: a new start within a window goes along the path of the first"),
    ("io/view/scene_path.c", "isfinite(*turn) ? fabs(*turn) : 0", "isfinite(*turn) ? 0.5 * fabs(*turn) : 0",
     "pytest:tests/oracle/test_view.py::test_tendons_go_around_what_is_in_their_way", "drawing: a tendon leaves the geom halfway"),
    ("io/view/scene_field.c", "put_triangle(to, at + n, at, at + n + 1)", "put_triangle(to, at + n, at, at + 1)",
     "pytest:tests/oracle/test_view.py::test_height_fields_are_drawn", "drawing: the cells of a height field overlap and leave gaps"),
    ("src/impact/event_kernel.c", "r->vel[0] + prescribed(w, r)", "r->vel[0]", "pytest:tests/python/test_prescribed.py::test_a_wall_that_moves",
     "events leave out how a mocap body moves"),
    ("src/impact/event_kernel.c", "p->q_bar ? h * p->q_bar[i] : 0", "0", "unit/test_event", "an onset does not move positions"),
    ("src/impact/event_kernel.c", "  NUM(pbStage_Passive)(w);\n  NUM(pbStage_Actuation)(w);\n", "", "unit/test_event",
     "the rate after an impact has the forces of the velocity before it"),
    ("src/world/event.c", "v[i] = before[i] + h * a[i]", "v[i] = before[i] + 0 * h * a[i]", "unit/test_event",
     "impacts that do not affect each other move with each other's moment"),
    ("src/impact/event_kernel.c", "own * fmax(free, pushed / much)", "0 * own * much", "unit/test_event",
     "bodies at rest have events"),
    ("src/impact/event_kernel.c", "gap - (1 + bend) * h * rate", "gap - (1 + 0 * bend) * h * rate", "unit/test_event",
     "an impact on a bent path is not seen"),
    ("src/bodies/rows_adjoint.c", ".margin = -distance_bar", ".margin = distance_bar",
     "unit/test_event", "a margin moves an event the wrong way"),
    ("src/world/event.c", "after[i] = next_bar[nv + i] + release_bar[nv + i]", "after[i] = next_bar[nv + i]", "unit/test_event",
     "a release does not reach the onset in the same step"),
    ("src/impact/impact_derivative.c", "pbModel_TangentSize(m)) + *over_bar;", "pbModel_TangentSize(m));", "unit/test_impact",
     "the moment of an impact does not shorten the rest of the step"),
    ("src/impact/impact_derivative.c", "  *rate -= later;\n", "", "unit/test_impact", "the same in the forward derivative"),
    ("src/impact/impact_adjoint.c", "  memset(a->lam_act, 0, nv * sizeof(lane));\n", "", "pytest:tests/python/test_meetings.py::test_impact_beside_actuated_gravity_compensation",
     "an impact's gravity compensation takes what the flight left"),
    ("src/impact/impact_adjoint.c", "change[k] = -b->after[row]", "change[k] = b->after[row]", "unit/test_impact",
     "a sign in the geometry of the velocity after an impact"),
    ("src/impact/impact_adjoint.c", "  v3_addcross(bar->point, force, rotation);\n", "", "unit/test_impact",
     "the contact point of an impact does not move"),
    ("src/impact/impact_adjoint.c", "b->restitution -= after[0] * s->before[t->first];", "b->restitution -= after[0];", "unit/test_impact",
     "the gradient by restitution"),
    ("src/impact/impact_law_kernel.c", "(i == j) - d * after[j] / speed", "(i == j)", "unit/test_impact",
     "friction turns with slip as if there were no direction"),
    ("src/impact/impact_law_kernel.c", "  solve(s->n, K, x, transposed);", "  solve(s->n, K, x, false);", "unit/test_impact",
     "the adjoint of an impact with its law not transposed"),
    ("src/contact/row_adjoint.c", ".margin = -dist", ".margin = dist", "unit/test_impact",
     "a sign in the gradient of an impact's moment by the margin"),
    ("lcp/vjp.c", "r->M[(size_t)rows[j] * (size_t)r->m + (size_t)rows[i]]", "r->M[(size_t)rows[i] * (size_t)r->m + (size_t)rows[j]]",
     "unit/test_lcp", "the adjoint of friction with the matrix not transposed"),
    ("lcp/vjp.c", "sum -= l->F[(size_t)j * (size_t)l->m + (size_t)i] * a->u[j]", "sum -= l->F[(size_t)i * (size_t)l->m + (size_t)j] * a->u[j]",
     "unit/test_lcp", "the same in its residual"),
    ("lcp/condensed.c", "blocks_times(c, c->B, transposed, v, v);", "blocks_times(c, c->B, false, v, v);", "unit/test_condensed",
     "the condensed adjoint with a contact's law not transposed"),
    ("lcp/condensed.c", "blocks_times(c, c->S, true, t, t);", "blocks_times(c, c->S, false, t, t);", "unit/test_condensed",
     "the same of a cone"),
    ("lcp/pgs.c", "d_bar += step * w[k] / d * bar[k];", "d_bar += 0;", "unit/test_pgs",
     "back through sweeps without the diagonal they divide by"),
    ("lcp/pgs_vjp.c", "- (j == l->normal ? l->tie : 0)", "", "unit/test_pgs",
     "the sweeps' implicit derivative without friction's bound"),
    ("lcp/cones_vjp.c", "sum -= l.by_z[i][row % 3] * k", "sum -= l.by_z[row % 3][i] * k", "unit/test_lcp_cones",
     "the adjoint of a cone with its law not transposed"),
    ("lcp/cones_vjp.c", "*to += l.by_z[row][k->rows[a] % 3]", "*to += l.by_z[k->rows[a] % 3][row]", "unit/test_lcp_cones",
     "the same in its matrix"),
    ("lcp/work.c", "add_outer(bar->G, -1, a->u, x, m, n);", "", "unit/test_lcp", "the adjoint by G loses a term"),
    ("src/mesh/cells.c", "{{1, 2, 3}, {0, 3, 2}, {0, 1, 3}, {0, 2, 1}}", "{{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 2, 1}}", "unit/test_mesh",
     "a face of tetrahedra that looks inward"),
    ("src/mesh/check.c", "sum += 0.45 * quadratic_det(m, v, L)", "sum += 0.45 * quadratic_det(m, v, middle)", "unit/test_mesh",
     "the volume of a curved tetrahedron by a rule that is not exact"),
    ("io/task/task_deform_energy.c", "i < e->count * pbTask_CellNodes(e->cell); i++) e->vertex[i] += body->first;", "i < 0; i++) e->vertex[i] += body->first;", "unit/test_task_deform",
     "deformables: elements of the second body are those of the first"),
    ("src/optimize/trajectories.c", "  if (status == pb_ok) status = pbTask_Want(task, tr->rollout);\n", "", "unit/test_task", "optimize computes gradients by fields that no variable is of"),
    ("src/optimize/variables.c", "names, count, task->recompute);", "names, count, false);", "unit/test_task",
     "optimize leaves out what flows through derived constants"),
    ("src/deform/compile.c", "moves ? parent[i] : loose", "moves ? -1 : loose", "unit/test_task_deform", "an equilibrium that is not found does not say what nothing holds"),
    ("src/compile/design_derivative.c", "a->same[i] ? products[i] / 2 :", "a->same[i] ? 0 :", "pytest:tests/oracle/test_design.py",
     "designs: where moments agree the inertia beside the diagonal has no gradient"),
    ("src/compile/design_derivative.c", "v3_addto(w->mesh_bar + PROPERTIES * g->mesh + 1, local);", "", "pytest:tests/oracle/test_design.py", "designs: frames of geoms do not follow the center of a mesh"),
    ("src/multibody/mesh_map_adjoint.c", "    v3_addcross(torque, column_bar, column);\n  }\n\n  quat_copy(q, a->w", "    v3_addcross(torque, column, column_bar);\n  }\n\n  quat_copy(q, a->w",
     "pytest:tests/oracle/test_design.py", "designs: points of a mesh turn with its axes the wrong way"),
    ("src/deform/contact.c", "if (from->nsurface > PB_MOST_SURFACES)", "if (from->nsurface > 2 * PB_MOST_SURFACES)", "unit/test_task_deform", "more surfaces are taken than the header says"),
    ("src/optimize/variables.c", "  pbTask_PullFollowers(task, gradient);\n", "", "unit/test_task_ties", "the gradient leaves out what follows the variables"),
    ("src/optimize/followers.c", "theta[v->index[k]] += follower->slope[c] * size;", "theta[v->index[k]] += follower->slope[c];", "unit/test_task_ties",
     "forward mode forgets the transform of an unknown that others follow"),
    ("src/optimize/variables.c", "v->kind == pb_varyParam ? v->count : v->follower_count;", "v->kind == pb_varyParam ? v->count : 0;", "unit/test_task_ties",
     "pullbacks leave out the fields that follow variables"),
    ("src/optimize/sample.c", "theta[d->index[k]] *= d->use == pb_drawFactor ? d->now[k] : 0;", "theta[d->index[k]] *= 1;", "unit/test_task_sample", "derivatives forget the factors that were drawn"),
    ("src/optimize/sample.c", "const uint64_t counter[4] = {sample->seed, (uint64_t)sample->iteration, number,", "const uint64_t counter[4] = {sample->seed, (uint64_t)sample->iteration, 0,",
     "unit/test_task_sample", "all worlds have the same draws"),
    ("src/optimize/run.c", "if (task->sample.fresh) task->sample.iteration = i.iteration + 1;", "", "unit/test_task_sample", "every iteration has the same draws"),
    ("src/optimize/run.c", "task->sample.fresh ? i->x : i->best", "i->best", "unit/test_task_sample", "of changing draws the luckiest point is the answer"),
    ("src/world/policy_points.c", "x_bar[3 * r->points[i / 3] + i % 3] += share * mean_bar[i % 3];",
     "x_bar[3 * r->points[i / 3] + i % 3] += mean_bar[i % 3];", "unit/test_policy_points", "every point has the whole cotangent of a mean that a policy sees"),
    ("src/world/policy_step.c", "pbPolicyPoints_Put(m, d->x ? d->x + tangent_deform(m) : NULL, k->observation_bar);", "pbPolicyPoints_Put(m, NULL, k->observation_bar);",
     "conformance/test_policy", "forward derivatives of closed loops take what a policy sees of points as given"),
    ("src/world/policy_step.c", "    s->w.time = x[state_layout(s->model).time];  // for messages", "    pbScratch_Load(s, theta, x, input);", "unit/test_task_sample",
     "a policy of commands alone uses up the place of the evaluation that is cached: its gradient is NaN"),
    ("src/optimize/es.c", "draw_point(o, &again, -1, x);", "draw_point(o, rng, -1, x);", "unit/test_optimize", "es: the points of a pair are not opposite"),
    ("src/optimize/es.c", "end < count && values[(int)order[end]] == values[(int)order[first]]; end++", "end < first; end++", "unit/test_optimize",
     "es: of equal values the first is the better"),
    ("src/optimize/sep_cma.c", "double faster = (o->n + 2) / 3.0;", "double faster = 1;", "unit/test_optimize", "sep-cma learns as slowly as cmaes"),
    ("src/optimize/cmaes.c", "  return pbOptimizer_Value(o, o->x, &o->h->value);", "  return pb_ok;", "unit/test_optimize", "methods without gradients do not look at the start"),
    ("src/optimize/terms.c", "  if (t->type == pb_termBelow) return d > 0 ? d : 0;", "  if (t->type == pb_termBelow) return d < 0 ? d : 0;", "unit/test_task_terms",
     "a term that is to keep a quantity below its target pushes it above"),
    ("src/optimize/terms.c", "deviation_pull(&f->inputs[i].parts[c], observed, state.target, bar * *slope++, to);", "deviation_pull(&f->inputs[i].parts[c], observed, state.target, bar * slope[c], to);",
     "unit/test_task_terms", "the inputs of a formula behind the first get the slopes of the first"),
    ("src/optimize/terms.c", "double weight = t->factor ? t->weight * t->factor[k] : t->weight;", "double weight = t->factor ? t->weight * t->factor[0] : t->weight;", "unit/test_task_terms",
     "a discount that forgets the time"),
    ("src/optimize/variables.c", " / row_length(v, row, z);", ";", "unit/test_task_sphere", "the derivative by an axis forgets its length"),
    ("src/optimize/variables.c", "  for (int c = 0; c < row->size; c++) value[v->first + row->at[c]] /= length;", "", "unit/test_task_sphere",
     "axes as unknowns leave the unit sphere"),
    ("src/optimize/judge.c", "          A[at] += size * along[a] * along[b] / squared;", "          (void)size, (void)at;", "unit/test_task_sphere",
     "the length of an axis is taken for an unknown"),
    ("src/optimize/variables.c", "(size_t)(kind == pb_varyPointVelocity ? s->np : 0)", "0", "unit/test_task_deform",
     "tasks: velocities of points get the gradient of their places"),
    ("io/task/task_deform.c", "turn[3 * b + a] = sin(angle);\n    turn[3 * a + b] = -sin(angle);", "turn[3 * b + a] = -sin(angle);\n    turn[3 * a + b] = sin(angle);", "unit/test_task_deform",
     "deformables: bodies are turned the wrong way round"),
    ("io/task/task_deform.c", "    *old = v[i % 3];", "    (void)old;", "unit/test_task_deform",
     "deformables: pinned points keep the body's velocity"),
    ("cli/gradient.c", "want_point_velocity, 2 * nv + na + np, np", "want_point_velocity, 2 * nv + na, np", "pytest:tests/oracle/test_deform_cli.py",
     "the program writes the gradient by places as that by velocities"),
    ("io/mesh/mesh_gmsh.c", "    v[8] = v[9];\n    v[9] = swapped;", "    (void)swapped;", "unit/test_mesh_files", "Gmsh's order of the nodes of quadratic tetrahedra"),
    ("io/mesh/gltf.c", "i / targets == i % targets + 1", "i / targets == i % targets", "pytest:tests/oracle/test_mesh_files.py::test_glb",
     "an animation that is one frame late"),
    ("src/step/finite_kernel.c", '#include "step/kernels.h"', '#include "number/number.h"', "kernels",
     "a kernel that does not see its own declaration may have any signature"),
    ("src/math/vec.h", '#include "number/number.h"', '#include "number/number.h"\n#include "step/scratch.h"', "layers",
     "a layer reaches below itself"),
    ("src/solve/dual.c", '#include "solve/dual.h"', '#include "solve/dual.h"\n#include <pullback/lcp.h>', "layers",
     "the engine uses the library that stands beside it"),
    ("src/energy/builtin/neo_hookean.c", "\"s = 4/3*mu; l = lambda + 5/6*mu;\"", "\"s = 4/3*mu; l = lambda + mu;\"", "unit/test_builtin",
     "built-in energies: a modulus of the stable neo-Hookean law"),
    ("src/energy/builtin/corotated.c", "F##q[0,1] - F##q[1,0]", "F##q[0,1] + F##q[1,0]", "unit/test_builtin",
     "built-in energies: a sign in the stretches of the plane"),
    ("src/energy/builtin/builtin.h", "4*a*(x##8 - x##4)", "4*a*(x##8 - x##5)", "unit/test_builtin",
     "built-in energies: a wrong node in the quadratic tetrahedron"),
    ("src/energy/builtin/rayleigh.c", "transpose(G##q)*G##q", "identity(3)", "unit/test_builtin",
     "built-in energies: damping without the start of the step"),
    ("src/deform/newton.c", "static const double small = 1e-6;", "static const double small = 0;", "unit/test_minimise",
     "a line search that hears nothing but rounding stands still"),
    ("src/deform/minimize.c", "move[i] = -s * w->step[i];", "move[i] = s * w->step[i];", "unit/test_minimise",
     "L-BFGS remembers moves of the other sign"),
    ("src/deform/minimize.c", "v[i] / (1 - pow(0.999, k + 1))", "v[i]", "unit/test_minimise", "Adam without the correction of its bias"),
    ("src/energy/stencil.c", "(j + o[1] + size[1] * (k + o[2]))", "(j + o[1] + size[1] * k)", "unit/test_stencil",
     "a stencil that does not reach into the next layer"),
    ("src/energy/stencil.c", "elements->parameter[p] + (size_t)first * (size_t)", "elements->parameter[p] + 0 * (size_t)", "unit/test_stencil",
     "stencils: every row has the parameters of the first"),
    ("src/energy/stencil.c", "    fault->element += first;\n", "", "unit/test_stencil", "stencils: a fault is said of another element"),
    ("src/energy/derive.c", "to[0] = bar;\n      to[1] = pb_neg(g, bar);", "to[0] = bar;\n      to[1] = bar;",
     "unit/test_energy", "formulas: a sign in the reverse sweep"),
    ("src/energy/derive.c", "pb_mul(g, constant(g, 2), pb_mul(g, i, slope))", "pb_mul(g, i, slope)", "unit/test_energy_oracle",
     "formulas: the stretch by the determinant"),
    ("src/energy/graph.c", "    case pb_opSub: return inside[0] && inside[1];\n", "    case pb_opSub: return false;\n", "unit/test_energy_formula",
     "formulas: zero times infinity on the side not taken"),
    ("src/energy/program.c", "c->step[i].uses == 1; }", "c->step[i].uses >= 1; }", "unit/test_energy_oracle",
     "formulas: a product read twice is fused away"),
    ("tools/abi.py", 'return lambda base: ["array", rest(base), length]', 'return lambda base: ["array", base, length]',
     "pytest:tests/oracle/test_interface.py", "the C interface in Python: arrays of arrays lose a dimension"),
    ("tools/abi_module.py", "        if checked and status:\n", "        if checked and status < 0:\n", "pytest:tests/oracle/test_interface.py",
     "the C interface in Python: a failed call goes unnoticed"),
    ("tools/abi_module.py", "if wrong or ct.sizeof(cls) != size:", "if wrong:", "pytest:tests/oracle/test_interface.py",
     "the C interface in Python: a struct that has grown goes unnoticed"),
    ("tools/abi_module.py", "*(named.get(n) for n in names[len(values):])", "*named.values()", "pytest:tests/oracle/test_interface.py",
     "the C interface in Python: arguments by name in the order in which they come"),
    ("tools/abi.py", "if [a for a in before[name] if a in both] != [a for a in now[name] if a in both]:", "if sorted(before[name]) != sorted(now[name]):",
     "pytest:tests/oracle/test_interface.py", "the C interface in Python: arguments change places unnoticed"),
    ("validation/run.py", "kept.about[n][1] == h == provenance.of(n)", "kept.about[n][1] == h", "pytest:tests/oracle/test_validation.py",
     "cases: a run goes on with numbers of other sources"),
    ("src/model/topology.c", "if (!t->candidate || (m->disableflags & pb_disMidphase)) return;", "if (t->ncandidate >= 0) return;",
     "pytest:tests/python/test_contact_order.py", "contacts of bodies of several geoms stand in the order of MuJoCo without its midphase"),
    ("src/model/topology.c", "      pair = explicit_candidates(m, t, pair, (b1 << 16) + b2);\n", "", "pytest:tests/python/test_contact_order.py",
     "contacts of explicit pairs come after all others"),
    ("src/multibody/contact_gap.h", "bool moves = w->t->body_dofend[b1] != w->t->body_dofend[b2];", "bool moves = w->t->body_dofend[b1] >= 0 || w->t->body_dofend[b2] >= 0;",
     "pytest:tests/python/test_contact_order.py", "adhesion counts contacts of a body with itself"),
    ("src/model/topology.c", "if (m->geom_type[g1] > m->geom_type[g2]) {", "if (m->geom_type[g1] < m->geom_type[g2]) {", "assert:unit/test_contact",
     "seen by an assertion: geoms of a candidate stand against the order of their types"),
    ("src/contact/row.c", "for (int i = 0; i < n / 2; i++) {\n    int t = dofs[i];", "for (int i = 1; i < n / 2; i++) {\n    int t = dofs[i];", "assert:unit/test_contact",
     "seen by an assertion: dofs of a row do not ascend"),
    ("src/sparse/pattern.c", "put_pair(l, i > j ? i : j, i > j ? j : i);", "put_pair(l, i > j ? j : i, i > j ? i : j);", "assert:unit/test_sparse",
     "seen by an assertion: blocks above the diagonal in a pattern"),
    ("src/mesh/mesh.c", "to[i] = to[i] ? kept++ : -1;", "to[i] = to[i] ? ++kept : -1;", "assert:unit/test_mesh",
     "seen by an assertion: points of a mesh are counted from one"),
    ("src/compile/compile_store.c", "at->qpos += pbJoint_PositionCount(type);", "at->qpos += pbJoint_DofCount(type);", "assert:unit/test_contact",
     "seen by an assertion: positions of joints follow each other as their dofs do"),
    ("src/sparse/analysis.c", "a->place[s->mark[k]] = place;", "a->place[s->mark[k]] = k;", "assert:unit/test_sparse",
     "seen by an assertion: places are not the inverse of the order"),
    ("src/sparse/dissect.c", "if (part[g->adjacent[e]] == 0) part[v] = SEPARATOR;", "if (part[g->adjacent[e]] == SEPARATOR) part[v] = SEPARATOR;", "assert:unit/test_sparse",
     "seen by an assertion: an edge joins the two sides of a separator"),
    ("src/contact/contact.c", "  v3_addscl(y, x, -v3_dot(x, y));\n", "", "assert:unit/test_contact",
     "seen by an assertion: tangents of a contact that are not square to its normal"),
    ("src/contact/potential.c", "  K[k * n] += curve * m;\n", "", "assert:unit/test_contact",
     "seen by an assertion: a pyramid's Hessian is not symmetric"),
    ("src/model/hull_support.c", "#define ROUNDED 2.5e-7", "#define ROUNDED 1e-15", "unit/test_polytope",
     "hulls: a climb ends at a corner that looks highest by the rounding of its neighbors"),
    ("src/geometry/polytope_search.c", "first + half[1][j] + reach) return true;", "first + reach) return true;", "unit/test_polytope",
     "hulls: boxes that overlap count as apart"),
    ("src/geometry/polytope_search.c", "pair->round && nearest < 1 - PB_SAME_FACE && take_level_face(", "false && take_level_face(",
     "pytest:tests/python/test_ties.py::test_cylinders_on_a_plate_of_many_triangles", "a cylinder at a corner of slivers does not know the face that they border"),
    ("python/pullback/rollout.py", "        self._warn_of_path(flat, read)\n", "", "pytest:tests/python/test_prescribed.py::test_a_run_that_goes_on_is_asked_where_bodies_were",
     "a run that goes on comes from the model's pose in one step, and nothing is said"),
    ("src/rollout/pullback.c", "!here->led || !pbPrescribed_Bends(r, k, here->led_by)", "true",
     "pytest:tests/python/test_prescribed.py::test_a_wall_that_speeds_up_throws_otherwise_later", "what an accelerating path adds to a throw is left out and not counted"),
    ("src/deform/contact.c", "led = led && is_led(w->d, v[i])", "led = false", "pytest:tests/python/test_deformables.py::test_what_is_led_into_a_plane_is_said",
     "what is led into a plane is told as a derivative of '/'"),
    ("python/pullback/functional.py", "if counts and options.get(pose) is not None", "if False", "pytest:tests/python/test_torch.py::test_a_step_asks_where_a_led_body_was_before",
     "single steps of a loop take the model's pose for the one before"),
    ("src/geometry/polytope_search.c", "  if (out->count < 3) find_level(pair, out);\n", "", "pytest:tests/python/test_ties.py::test_at_rest_on_a_mesh_as_on_a_box",
     "hulls: what is next to an edge between coplanar triangles turns about it"),
    ("src/geometry/polytope_search.c", "  prefer_wider(pair, out);\n\n  return true;", "  return true;", "unit/test_ties",
     "hulls: of two faces that lie on each other either carries the normal"),
    ("src/geometry/polytope_rates.c", "double hp_bar = -hq * t_bar,", "double hp_bar = hq * t_bar,", "unit/test_polytope",
     "hulls: points where a face's side cuts an edge move against it"),
    ("src/geometry/polytope_rates.c", "  v3_addscl(e_bar[!own], point_bar, along);\n", "", "unit/test_polytope",
     "hulls: points beside an end of an edge do not turn with theirs"),
    ("src/geometry/polytope_search.c", "#define ACCURACY 1e-12", "#define ACCURACY 1e-3", "unit/test_polytope",
     "hulls: the search ends before the nearest facet"),
    ("src/multibody/mesh_map_adjoint.c", "E_bar[3 * j + k] = strain[3 + i] - 0.5 * torque[i];", "E_bar[3 * j + k] = strain[3 + i] + 0.5 * torque[i];",
     "pytest:tests/oracle/test_mesh_parameters.py", "meshes that touch: a turn counts as a strain"),
    ("src/multibody/mesh_map.c", "D[3 * i + j] *= scale[i] / scale0[j];", "D[3 * i + j] *= scale[j] / scale0[j];",
     "pytest:tests/oracle/test_mesh_contact.py", "meshes are scaled in the axes they were compiled in"),
    ("src/couple/couple_vjp.c", "{m->mesh_scale, m->nmesh, 3, false}", "{m->mesh_scale, 0, 3, false}", "pytest:tests/oracle/test_mesh_parameters.py",
     "deformables on a mesh do not feel its scale"),
    ("src/geometry/strain.c", "if (flat->sides == 2) return i < 2 ? flat->edge[i] : -1;", "if (flat->sides == 2) return -1;",
     "pytest:tests/oracle/test_mesh_parameters.py", "vertices in theta: an edge that lies flat has one corner less"),
    ("src/geometry/box_box.c", "*tied = code_face == s.tied[0] || code_face == s.tied[1];", "*tied = code_face < 0;",
     "pytest:tests/oracle/test_cli.py::test_what_has_no_derivative_of_every_direction_is_named", "boxes: faces that tie are not told"),
    ("src/geometry/box_box.c", "s->code = first ? i : 3 + j;\n    return;", "s->code = first ? i : 3 + j;",
     "pytest:tests/oracle/test_cli.py::test_what_has_no_derivative_of_every_direction_is_named", "boxes: a wider face is told to tie"),
    ("src/step/tie.c", "fabs(gap) <= rounding * scale", "fabs(gap) < 0 * scale",
     "pytest:tests/oracle/test_cli.py::test_what_has_no_derivative_of_every_direction_is_named", "touches to rounding are not told"),
    ("src/step/tie.c", "!pbScratch_PairTies(s, k)) continue;", "true) continue;", "pytest:tests/python/test_ties.py::test_a_tie_is_counted_in_every_step_and_named",
     "ties are counted in no step"),
    ("src/geometry/polytope_epa.c", "k < g->corners; k++) pbPolytope_Difference(", "k < 3; k++) pbPolytope_Difference(", "unit/test_ties",
     "a search that goes on from a pose nearby leaves corners where they were"),
    ("src/geometry/tie.c", "#define FORETOLD  2e-6", "#define FORETOLD  2", "unit/test_ties", "contacts that leave what the map foretells are taken for far from a tie"),
    ("src/geometry/tie.c", "kink > 0.25 * change", "kink > 4 * change", "unit/test_ties", "what one side alone shows is no tie"),
    ("src/geometry/standing.h", "if (ref) v3_neg(", "if (!ref) v3_neg(", "unit/test_ties", "a cylinder that stands on a box is pulled into it"),
    ("src/geometry/convex_wider.c", "  out->shape = !k;\n", "", "unit/test_ties", "the face around another one is told, and the other one carries"),
    ("src/geometry/hull_search.c", "  widen(view, &s, rounding, &out);\n", "", "unit/test_ties", "balls over the diagonal of a face roll on it as on an edge"),
    ("src/geometry/hull_search.c", "spread <= RESTS * view->radius)", "spread <= FLAT * view->radius)", "pytest:tests/python/test_ties.py::test_prisms_that_lie_flat",
     "which corners of a prism touch a plane hangs on the direction of a tilt"),
    ("src/geometry/polytope.c", "LEVEL_CONTACTS = 8", "LEVEL_CONTACTS = 4", "unit/test_polytope", "faces that lie on each other touch with four corners of eight"),
    ("src/geometry/polytope_search.c", "  out->lies = lie_on_top(pair, out);\n", "  out->lies = false;\n", "pytest:tests/python/test_ties.py::test_prisms_at_rest_stay",
     "prisms of a height field push aside what lies across them"),
    ("src/geometry/hull.h", "return forth ? side_of >= 0 : side_of < 0;", "return forth ? side_of >= 0 : side_of <= 0;",
     "pytest:tests/python/test_ties.py::test_level_ground_is_a_plane", "a corner on the border of two prisms of a field belongs to both"),
    ("src/model/terrain.c", "<= SAME) sides |= 1u << k;", "<= -SAME) sides |= 1u << k;", "pytest:tests/python/test_ties.py::test_level_ground_is_a_plane",
     "a level height field has corners of contact where its prisms meet"),
    ("src/geometry/tie.c", "(f > 1 && (sides", "(f > 9 && (sides", "pytest:tests/python/test_ties.py::test_a_deep_corner_on_a_border_is_named",
     "corners that cross the border of two prisms are not named"),
    ("src/geometry/hull_search.c", "moved.offset < q->offset - FLAT", "moved.offset > q->offset + FLAT", "pytest:tests/oracle/test_mesh_contact.py",
     "prisms stand on four corners out of balance"),
    ("src/geometry/polytope.c", "re(dist) < re(p->dist) - ROUNDED * p->found->scale;", "re(dist) < re(p->dist);", "pytest:tests/python/test_ties.py::test_flat_on_a_face_as_differences",
     "hulls: corners that are all as deep have the deepest one's rate, by rounding"),
    ("src/geometry/polytope.c", "(m->ref ? -height : height) - p->radius[0]", "(m->ref ? height : height) - p->radius[0]", "unit/test_polytope",
     "hulls: heights over a face of the second shape have the wrong sign"),
    ("src/geometry/polytope.c", "NUM(pbPolytope_MeetCylinder)(p, m, sides, flat);", "(void)sides;", "unit/test_poses",
     "hulls: the cap's center is the contact where it lies beyond the face"),
    ("src/geometry/polytope_polish.c", "for (int k = 0; k < 3; k++) p->out->id[k] = support;", "p->out->id[0] = support;", "unit/test_poses",
     "hulls: corners are read that nobody wrote"),
    ("src/geometry/polytope_polish.c", "if (r->kind != pb_roundFace || from[4] >= 0) memcpy(from + 1, r->id, sizeof r->id);", "", "unit/test_poses",
     "hulls: a minimum at an edge is looked for at one of its ends"),
    ("src/geometry/polytope_polish.c", "toward_touching(p, from + 4);", "(void)0;", "unit/test_poses",
     "hulls: what lies level with a face beside it has that face's normal"),
    ("src/geometry/polytope_polish.c", "if (!is_support(p, u, kind, a, value)) return false;", "", "unit/test_poses",
     "hulls: a direction is of a piece that another corner is beyond"),
    ("src/geometry/polytope_search.c", "for (int i = 0; i == 0 || i < out->count; i++) {", "for (int i = 0; i == 0 || (i < out->count && !(nearest > 0)); i++) {", "unit/test_poses",
     "hulls: which face lies flat hangs on the corner that the search named first"),
    ("src/geometry/polytope_round.c", "if (re(at) < 0 || re(at) > re(v3_dot(d, edge))) v3_copy(out, ends[re(at) > 0]);", "", "unit/test_poses",
     "hulls: a rim is met beyond the end of the edge"),
    ("src/geometry/polytope_round.c", "if (upright && r->kind == pb_roundFace) stay_on_face(p, axis);", "", "unit/test_poses",
     "hulls: a rim touches beside the face that carries it"),
    ("src/geometry/polytope_search.c", "(pair->round ? BASIN : ACCURACY)", "(pair->round ? ROUGH : ACCURACY)", "unit/test_poses",
     "hulls: of two depths that are almost as small any is taken"),
    ("src/model/topology.c", "return type2 == pb_geomCylinder ? 13 : 11;", "return 8;", "unit/test_poses",
     "a cap on a cap has room for eight contacts"),
    ("src/geometry/polytope_polish.c", "p->out->inverse[1] = -h[1] / det;", "p->out->inverse[1] = h[1] / det;", "unit/test_polytope",
     "hulls: the normal at an ellipsoid does not follow its shape"),
    ("src/geometry/pair.c", "v3_along(contacts->pos, world, normal, -0.5 * dist);", "v3_along(contacts->pos, world, normal, -dist);", "unit/test_geometry",
     "an ellipsoid's contact point is on the plane, not midway"),
    ("src/linalg/tree_ldl.c", "    if (p < j) parent[i] = j;\n", "    if (p < 0) parent[i] = j;\n", "conformance/test_step",
     "a tree of dofs that rows join loses a coupling"),
    ("src/linalg/tree_ldl.c", "for (int q = n - 1; q > r; q--) s[r] -= row[r][depth - q] * s[q];", "for (int q = n - 1; q > r + 1; q--) s[r] -= row[r][depth - q] * s[q];", "unit/test_hard",
     "a chain of dofs is solved without its nearest ancestor"),
    ("src/linalg/tree_ldl.c", "      s[q] += row[q][depth - r] * z[r];\n", "", "conformance/test_step",
     "M times a vector without a part of a block's triangle"),
    ("python/without/jansson/json_read.c", "known = r->flags & JSON_REJECT_DUPLICATES && ", "known = r->flags & JSON_INDENT(4) && ",
     "pytest:tests/oracle/test_stand_ins.py::test_json", "JSON without jansson: of two keys with one name the first is lost"),
    ("python/without/png/png.c", "to_left <= to_above && to_left <= to_corner", "to_left <= to_above && to_left < to_corner",
     "pytest:tests/oracle/test_stand_ins.py::test_pictures", "pictures without libpng: rows that were predicted from three neighbours at a tie"),
    ("src/linalg/lu.c", "y[i] = x[perm[i]];", "y[i] = x[i];", "unit/test_hard",
     "LU: the right-hand side is not permuted"),
    ("src/linalg/small.h", "for (int k = 0; k < i; k++) left -= row[k] * row[k];", "for (int k = 1; k < i; k++) left -= row[k] * row[k];", "unit/test_compile",
     "Cholesky: pivots without the first column"),
    ("src/solve/newton.c", "to[H->depth[chain[a]]] = from[a];", "to[a] = from[a];", "conformance/test_step",
     "the mass matrix in the pattern of branches that rows join"),
    ("src/linalg/lu.c", "    perm[k] = perm[p];\n", "", "unit/test_hard",
     "LU: a row that moved keeps its number"),
    ("src/solve/dual_newton.c", "for (int i = 0; i < r->dim; i++) x[at + i] -= KJh[i];", "for (int i = 0; i < r->dim; i++) x[at + i] += KJh[i];", "unit/test_hard",
     "hard contact by way of the dofs: forces move against the motion"),
    ("src/solve/dual.c", "A[(r->at + j) * (n + 1)] += re(r->R[j]);", "A[(r->at + j) * (n + 1)] += 0 * re(r->R[j]);", "unit/test_hard",
     "hard contact: the dual problem without its regularization"),
    ("src/solve/dual_newton.c", "rhs[at] = is_contact(r) && i > 0 ? move[i] / row_mu(w, r, i) : move[i];", "rhs[at] = move[i];", "unit/test_hard",
     "hard contact: friction's misfit is not in its own scale"),
]


def sh(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, **options)


# ---- which --------------------------------------------------------------------------------------------------------------
def sources_of(test):
    """Files that a test consists of."""
    test = test.removeprefix("assert:")
    if test.startswith("pytest:"):
        return [test[7:].split("::")[0]]
    if "/" not in test:
        return [f"tools/check_{test}.py"]
    folder, name = test.rstrip("$").split("/")
    return [p for p in (f"tests/{folder}/{name}.c", f"tests/{folder}/{name.replace('test_', 'probe_', 1)}.c") if (ROOT / p).exists()]


def digest(fault):
    """Of a fault and of the files that it is planted in and that must find it."""
    total = hashlib.sha256(json.dumps(fault[:4]).encode())
    for name in [fault[0], *sources_of(fault[3])]:
        total.update(b"\0" + ((ROOT / name).read_bytes() if (ROOT / name).exists() else b""))
    return total.hexdigest()[:16]


def found_before():
    if not FOUND.exists():
        return set()
    with open(FOUND, newline="", encoding="utf-8") as f:
        return {r[0] for r in list(csv.reader(f))[1:]}


def keep_found(faults):
    with open(FOUND, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["hash", "file", "test", "why"])
        out.writerows(sorted([digest(f), f[0], f[3], f[4]] for f in faults))


MINUTES = ("hostile/test_failing_allocator",)  # tests that take so long without optimization: in full runs alone


def choose(word, share, seed):
    """The faults to plant, in order, and how many of them because they changed."""
    chosen = [f for f in FAULTS if word in f[0] or word in f[4]]
    if share is None:
        return chosen, len(chosen)
    before, order = found_before(), random.Random(seed)
    chosen = [f for f in chosen if f[3] not in MINUTES]
    changed = [f for f in chosen if digest(f) not in before]
    rest = [f for f in chosen if digest(f) in before]
    chosen = order.sample(changed, min(3 * share, len(changed))) + order.sample(rest, min(share, len(rest)))
    order.shuffle(chosen)
    return chosen, len(changed)


# ---- one copy -------------------------------------------------------------------------------------------------------------
class Copy:
    """Sources and build of one worker."""

    def __init__(self, number):
        self.source, self.build = PLACE / f"source{number}", PLACE / f"build{number}"
        # Compilers' results are shared between the copies where ccache is installed: paths are told from the copy's own folder.
        # Everything is built with assertions, which keep silent but where they are what must notice.
        self.environment = dict(os.environ, CCACHE_BASEDIR=str(PLACE / f"source{number}"), CCACHE_NOHASHDIR="1", PULLBACK_BUILD=str(self.build),
                                PULLBACK_ASSERT="off")

    def fill(self):
        """Files as they are now; unchanged ones keep their time, so that only what a fault touches is built again."""
        names = sh("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).stdout.split("\n")
        wanted = {n for n in names if n and (ROOT / n).is_file()}
        for name in wanted:
            target = self.source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
                shutil.copy2(ROOT / name, target)
                os.utime(target)
        for old in self.source.rglob("*"):
            if old.is_file() and old.relative_to(self.source).as_posix() not in wanted and "__pycache__" not in old.parts:
                old.unlink()
        return sh("cmake", "-S", str(self.source), "-B", str(self.build), "-G", "Ninja", "-DPULLBACK_WIDE=OFF", "-DPULLBACK_BENCH=OFF",
                  "-DCMAKE_BUILD_TYPE=Debug", "-DPULLBACK_TESTS=ON", "-DPULLBACK_PYTHON=ON", "-DPULLBACK_VALIDATE=ON", env=self.environment)

    def make(self, tests, jobs=1):
        """What tests need: to link all programs for each fault would take most of the time."""
        tests = [t.removeprefix("assert:") for t in tests]
        needs = {t.rstrip("$").replace("/", "_") for t in tests if "/" in t and not t.startswith("pytest:")}
        if any(t.startswith("pytest:") for t in tests):
            needs |= {"pullback_program", "pullback_shared"}
        if any(t.startswith("pytest:tests/python/") for t in tests):
            needs.add("pullback_core")
        if not needs:  # tests that are no programs
            return sh("true")
        return sh("nice", "cmake", "--build", str(self.build), "-j", str(jobs), "--target", *sorted(needs), env=self.environment)

    def passes(self, test):
        if test.startswith("pytest:"):
            frameworks = re.match(r"pytest:tests/python/test_(torch|jax|gym)\w*\.py", test)  # make python-env
            python = ROOT / "build" / ("frameworks" if frameworks else "venv") / "bin" / "python"
            return sh(str(python), "-m", "pytest", "-q", "-x", test[7:], cwd=self.source, env=self.environment)
        return sh("ctest", "--test-dir", str(self.build), "--no-tests=error", "-R", f"^{test.removeprefix('assert:')}$", env=self.environment)

    def notices(self, test):
        """Does a test fail, or, after assert:, end at an assertion?"""
        name = test.removeprefix("assert:")
        if name == test:
            return self.passes(test).returncode != 0
        self.environment["PULLBACK_ASSERT"] = "on"
        ended = sh("ctest", "--test-dir", str(self.build), "--no-tests=error", "--output-on-failure", "-R", f"^{name}$", env=self.environment)
        self.environment["PULLBACK_ASSERT"] = "off"
        return ended.returncode != 0 and "does not hold" in ended.stdout

    def detected(self, name, old, new, test):
        """What came of a fault: 'found', or why not."""
        path = self.source / name
        text = path.read_text() if path.exists() else ""
        if text.count(old) != 1:
            return f"STALE: its text occurs {text.count(old)} times"
        path.write_text(text.replace(old, new))
        made = self.make([test])
        verdict = "STALE: it does not compile" if made.returncode else "found" if self.notices(test) else "NOT FOUND"
        path.write_text(text)
        return verdict


# ---- all workers ----------------------------------------------------------------------------------------------------------
def in_turn(copies, work, jobs):
    """Gives every job to the worker that is free; yields (job, result) as they come."""
    todo, done = queue.SimpleQueue(), queue.SimpleQueue()
    for job in jobs:
        todo.put(job)

    def take(copy):
        while True:
            try:
                job = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((job, work(copy, job)))
            except Exception as error:  # the run must not wait for a worker that is gone
                done.put((job, f"{type(error).__name__}: {error}"))
    for copy in copies:
        threading.Thread(target=take, args=(copy,), daemon=True).start()
    for _ in jobs:
        yield done.get()


def prepare(copies, tests):
    """Copies filled and built, one after the other, so that the second finds what the first compiled; tests pass without a fault."""
    for copy in copies:
        configured = copy.fill()
        made = copy.make(tests, os.cpu_count())
        if configured.returncode or made.returncode:
            print(configured.stdout[-3000:], configured.stderr[-3000:], made.stdout[-3000:])
            return False
    clean = True
    for test, result in in_turn(copies, lambda copy, test: copy.passes(test), tests):
        if isinstance(result, str) or result.returncode:
            print(f"{test} fails without any fault:\n{result if isinstance(result, str) else result.stdout[-3000:]}")
            clean = False
    return clean


def stale():
    """How many faults have lost their text, those that are not planted now included."""
    lost = [f for f in FAULTS if f[1] not in (ROOT / f[0]).read_text(encoding="utf-8")]
    for name, text, _, _, why in lost:
        print(f"STALE: {name} has no more {text[:60]!r} ({why})")
    return len(lost)


def unfinished():
    """Faults that an interrupted run of all found, by hash."""
    return set(json.loads(UNFINISHED.read_text())) if UNFINISHED.exists() else set()


def main():
    parser = argparse.ArgumentParser(description="Plant faults and see that tests find them.")
    parser.add_argument("word", nargs="?", default="", help="only faults whose file or reason contains this")
    parser.add_argument("--share", type=int, help="so many of those that are as they were when last found, and three times as many of the others")
    parser.add_argument("--seed", default="0", help="of the choice and the order")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after so long; those that were not reached are named")
    parser.add_argument("--list", action="store_true", help="do not plant")
    asked = parser.parse_args()
    chosen, changed = choose(asked.word, asked.share, asked.seed)
    if asked.share is not None:
        print(f"{len(chosen)} of {len(FAULTS)} faults, {changed} changed since they were last found; seed {asked.seed}", flush=True)
    if asked.list:
        for name, _, _, test, why in chosen:
            print(f"{name:32s} {test:40s} {why}")
        return 0
    whole = asked.share is None and not asked.word
    done = unfinished() if whole else set()
    left = [f for f in chosen if digest(f) not in done]
    if len(left) < len(chosen):
        print(f"going on with an interrupted run: {len(chosen) - len(left)} of {len(chosen)} faults are found", flush=True)
    copies = [Copy(k) for k in range(min(2, os.cpu_count()))]
    if left and not prepare(copies, sorted({f[3] for f in left})):
        return 1
    begin = time.monotonic()
    bad, late = stale(), 0
    plant = lambda copy, fault: copy.detected(*fault[:4]) if time.monotonic() - begin < asked.seconds else "not reached in time"
    for k, (fault, verdict) in enumerate(in_turn(copies, plant, left)):
        name, _, _, test, why = fault
        late += verdict == "not reached in time"
        bad += verdict not in ("found", "not reached in time")
        print(f"{k + 1:3d} {time.monotonic() - begin:5.0f} s {name:32s} {test:40s} {why}: {verdict}", flush=True)
        if whole and verdict == "found":
            done.add(digest(fault))
            UNFINISHED.write_text(json.dumps(sorted(done)))
    print(f"{len(chosen) - bad - late} of {len(chosen) - late} planted faults were found" + (f"; {late} were not reached" if late else ""))
    if whole:
        keep_found([f for f in FAULTS if digest(f) in done])
        UNFINISHED.unlink(missing_ok=True)
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
