// Every compiled field of a model, a row each, in MuJoCo's own names (sizes as in MuJoCo 4.0's mjModel). From these lists come
// the struct (model.h), the parameter table (param.h), the views of the number-generic kernels (par.h), the inspection of fields,
// docs/parameters.md, and the tests that compare with the oracle. What is not a word of param.h in a row does not compile.
// Tests: tests/oracle/test_parameters.py.
#ifndef PB_MODEL_FIELDS_H
#define PB_MODEL_FIELDS_H

// clang-format off
// X(name): counts. nudelay, nsensordelay: nu where an actuator keeps samples, nsensor where a sensor does, else 0
#define PB_MODEL_SIZES(X)                                                                                     \
  X(nq) X(nv) X(nu) X(na) X(nbody) X(njnt) X(ngeom) X(nsite) X(ncam) X(nlight) X(npair) X(nexclude) X(neq)     \
  X(ntendon) X(nwrap) X(nsensor) X(nsensordata) X(nhistory) X(nkey) X(nnumeric) X(nnumericdata) X(ntext) X(ntuple) X(nmat) \
  X(nmocap) X(nmesh) X(nmeshvert) X(nmeshgraph) X(nmeshpoly) X(nmeshpolyvert) X(nmeshpolymap) X(nmeshface) \
  X(nhfield) X(nhfielddata) X(ndesignbody) X(ndesigngeom) X(ndesignmesh) \
  X(nudelay) X(nsensordelay) \
  X(nuser_body) X(nuser_jnt) X(nuser_geom) X(nuser_site) X(nuser_cam) X(nuser_tendon) X(nuser_actuator) X(nuser_sensor)

// known: whether the field is MuJoCo's, too: Mujoco, Unread (its steps do not read it), Ours.
// X(name, rows, columns, known, meaning): integers
#define PB_MODEL_INTS(X) \
  X(body_parentid, nbody, 1, Mujoco, "the parent body") \
  X(body_rootid, nbody, 1, Mujoco, "the body at the root of its tree") \
  X(body_weldid, nbody, 1, Mujoco, "the body that it is welded to: the nearest one upwards that has joints, or itself") \
  X(body_jntnum, nbody, 1, Mujoco, "number of joints") \
  X(body_jntadr, nbody, 1, Mujoco, "its first joint; -1: none") \
  X(body_dofnum, nbody, 1, Mujoco, "degrees of freedom") \
  X(body_dofadr, nbody, 1, Mujoco, "its first degree of freedom; -1: none") \
  X(body_geomnum, nbody, 1, Mujoco, "number of geoms") \
  X(body_geomadr, nbody, 1, Mujoco, "its first geom; -1: none") \
  X(body_simple, nbody, 1, Mujoco, "1: its inertia is diagonal in its joints' axes; 2: and its joints are slides alone") \
  X(body_mocapid, nbody, 1, Mujoco, "which mocap body; -1: none") \
  X(jnt_type, njnt, 1, Mujoco, "free, ball, slide, hinge") \
  X(jnt_qposadr, njnt, 1, Mujoco, "its first position in qpos") \
  X(jnt_dofadr, njnt, 1, Mujoco, "its first degree of freedom") \
  X(jnt_bodyid, njnt, 1, Mujoco, "the body that it moves") \
  X(jnt_group, njnt, 1, Mujoco, "group for drawing") \
  X(jnt_limited, njnt, 1, Mujoco, "does jnt_range hold?") \
  X(jnt_actfrclimited, njnt, 1, Mujoco, "does jnt_actfrcrange hold?") \
  X(jnt_actgravcomp, njnt, 1, Mujoco, "is gravity compensation a force of the actuators?") \
  X(dof_bodyid, nv, 1, Mujoco, "the body that it moves") \
  X(dof_jntid, nv, 1, Mujoco, "the joint that it belongs to") \
  X(dof_parentid, nv, 1, Mujoco, "the degree of freedom before it on the way to the root; -1: none") \
  X(dof_treeid, nv, 1, Mujoco, "its tree") \
  X(geom_type, ngeom, 1, Mujoco, "plane, hfield, sphere, capsule, ellipsoid, cylinder, box, mesh") \
  X(geom_contype, ngeom, 1, Mujoco, "which kind of contact it is, a bit mask") \
  X(geom_conaffinity, ngeom, 1, Mujoco, "which kinds it touches, a bit mask") \
  X(geom_condim, ngeom, 1, Mujoco, "directions in which its contacts push: 1, 3, 4 or 6") \
  X(geom_bodyid, ngeom, 1, Mujoco, "the body that it is fixed to") \
  X(geom_group, ngeom, 1, Mujoco, "group for drawing") \
  X(geom_priority, ngeom, 1, Mujoco, "whose contact parameters rule where those of two geoms differ") \
  X(geom_matid, ngeom, 1, Mujoco, "its material; -1: none") \
  X(geom_dataid, ngeom, 1, Mujoco, "its mesh or height field; -1: none") \
  X(mesh_vertadr, nmesh, 1, Mujoco, "its first vertex") \
  X(mesh_vertnum, nmesh, 1, Mujoco, "number of vertices") \
  X(mesh_graphadr, nmesh, 1, Mujoco, "where its hull begins in mesh_graph; -1: it touches nothing") \
  X(mesh_polynum, nmesh, 1, Mujoco, "faces of its hull") \
  X(mesh_polyadr, nmesh, 1, Mujoco, "the first of them") \
  X(mesh_graph, nmeshgraph, 1, Mujoco, "corners of hulls with their neighbors, in MuJoCo's layout") \
  X(mesh_polyvertadr, nmeshpoly, 1, Mujoco, "the face's first corner in mesh_polyvert") \
  X(mesh_polyvertnum, nmeshpoly, 1, Mujoco, "number of its corners") \
  X(mesh_polyvert, nmeshpolyvert, 1, Mujoco, "corners of faces, counterclockwise seen from outside") \
  X(mesh_polymapadr, nmeshvert, 1, Mujoco, "where the vertex's faces begin in mesh_polymap") \
  X(mesh_polymapnum, nmeshvert, 1, Mujoco, "number of its faces") \
  X(mesh_polymap, nmeshpolymap, 1, Mujoco, "faces at each vertex") \
  X(mesh_faceadr, nmesh, 1, Mujoco, "its first triangle") \
  X(mesh_facenum, nmesh, 1, Mujoco, "number of triangles") \
  X(mesh_face, nmeshface, 3, Mujoco, "triangles as rangefinders see them") \
  X(hfield_nrow, nhfield, 1, Mujoco, "number of rows") \
  X(hfield_ncol, nhfield, 1, Mujoco, "number of columns") \
  X(hfield_adr, nhfield, 1, Mujoco, "where its heights begin in hfield_data") \
  X(site_type, nsite, 1, Mujoco, "shape, as of geoms") \
  X(site_bodyid, nsite, 1, Mujoco, "the body that it is fixed to") \
  X(site_group, nsite, 1, Mujoco, "group for drawing") \
  X(site_matid, nsite, 1, Mujoco, "its material; -1: none") \
  X(cam_bodyid, ncam, 1, Mujoco, "the body that it is fixed to") \
  X(cam_mode, ncam, 1, Mujoco, "how it moves: fixed, track, trackcom, targetbody, targetbodycom") \
  X(cam_targetbodyid, ncam, 1, Mujoco, "the body that it looks at; -1: none") \
  X(cam_projection, ncam, 1, Mujoco, "perspective or orthographic") \
  X(cam_resolution, ncam, 2, Mujoco, "width and height in pixels") \
  X(pair_dim, npair, 1, Mujoco, "directions in which its contacts push: 1, 3, 4 or 6") \
  X(pair_geom1, npair, 1, Mujoco, "the first geom") \
  X(pair_geom2, npair, 1, Mujoco, "the second geom") \
  X(pair_signature, npair, 1, Mujoco, "the bodies of the pair in one number") \
  X(exclude_signature, nexclude, 1, Mujoco, "bodies that do not touch each other, in one number") \
  X(eq_type, neq, 1, Mujoco, "connect, weld, joint, tendon") \
  X(eq_obj1id, neq, 1, Mujoco, "what is held") \
  X(eq_obj2id, neq, 1, Mujoco, "to what; -1: the world, or a number") \
  X(eq_objtype, neq, 1, Mujoco, "what the ends are: bodies or sites") \
  X(eq_active0, neq, 1, Mujoco, "does it hold?") \
  X(tendon_adr, ntendon, 1, Mujoco, "its first piece in wrap_type") \
  X(tendon_num, ntendon, 1, Mujoco, "number of pieces") \
  X(tendon_limited, ntendon, 1, Mujoco, "does tendon_range hold?") \
  X(tendon_actfrclimited, ntendon, 1, Mujoco, "does tendon_actfrcrange hold?") \
  X(tendon_group, ntendon, 1, Mujoco, "group for drawing") \
  X(tendon_matid, ntendon, 1, Mujoco, "its material; -1: none") \
  X(wrap_type, nwrap, 1, Mujoco, "joint, pulley, site, sphere, cylinder") \
  X(wrap_objid, nwrap, 1, Mujoco, "which of them") \
  X(wrap_side, nwrap, 1, Ours, "the site that says on which side of the geom a tendon lies; -1: none") \
  X(actuator_trntype, nu, 1, Mujoco, "what it acts on: joint, jointinparent, slidercrank, tendon, site, body") \
  X(actuator_dyntype, nu, 1, Mujoco, "dynamics of its activation: none, integrator, filter, filterexact, muscle, dcmotor") \
  X(actuator_gaintype, nu, 1, Mujoco, "law of its gain: fixed, affine, muscle, dcmotor") \
  X(actuator_biastype, nu, 1, Mujoco, "law of its bias: none, affine, muscle, dcmotor") \
  X(actuator_trnid, nu, 2, Mujoco, "what it acts on, by number; sites: and the one it is seen from, or -1") \
  X(actuator_actadr, nu, 1, Mujoco, "its first activation; -1: none") \
  X(actuator_actnum, nu, 1, Mujoco, "number of activations") \
  X(actuator_ctrllimited, nu, 1, Mujoco, "does actuator_ctrlrange hold?") \
  X(actuator_forcelimited, nu, 1, Mujoco, "does actuator_forcerange hold?") \
  X(actuator_actlimited, nu, 1, Mujoco, "does actuator_actrange hold?") \
  X(actuator_actearly, nu, 1, Mujoco, "does the activation after the step act?") \
  X(actuator_group, nu, 1, Mujoco, "group, by which actuators are disabled") \
  X(actuator_history, nu, 2, Mujoco, "samples of its control that are kept; how it is read between them: held, linear, cubic") \
  X(actuator_historyadr, nu, 1, Mujoco, "where they begin in the state's history; -1: none are kept") \
  X(actuator_motor, nu, 1, Ours, "what a dcmotor has, summed: 1 temperature, 2 bristle, 4 current, 8 a limit of its rate") \
  X(actuator_servo, nu, 1, Ours, "is its force that of a constraint row (option servo)?") \
  X(sensor_type, nsensor, 1, Mujoco, "what it measures") \
  X(sensor_datatype, nsensor, 1, Mujoco, "real, positive, axis or quaternion") \
  X(sensor_needstage, nsensor, 1, Mujoco, "of position, velocity or acceleration") \
  X(sensor_objtype, nsensor, 1, Mujoco, "kind of what it is fixed to") \
  X(sensor_objid, nsensor, 1, Mujoco, "which of them") \
  X(sensor_reftype, nsensor, 1, Mujoco, "kind of what it is seen from") \
  X(sensor_refid, nsensor, 1, Mujoco, "which of them; -1: none") \
  X(sensor_intprm, nsensor, 3, Mujoco, "what it writes: bits of data, reduction, number of contacts") \
  X(sensor_dim, nsensor, 1, Mujoco, "how many numbers it writes") \
  X(sensor_adr, nsensor, 1, Mujoco, "its first number in sensordata") \
  X(sensor_history, nsensor, 2, Mujoco, "samples of what it measured that are kept; how it is read between them") \
  X(sensor_historyadr, nsensor, 1, Mujoco, "where they begin in the state's history; -1: none are kept")

// X(name, rows, columns, unit, range, moves, kink, follows, wakes, known, meaning): real fields the step reads. They make up
// theta, in this order, then those of terms and of meshes, row-major: the parameters of pbStep_*, differentiated one by one.
// Options are mjOption's. The words of columns 5 to 8 are those of param.h: pb_range*, pb_moves*, pb_kink*, pb_follows*. wakes:
// the groups of the pullback's work that add to the field (model/wanted.h); 0: it costs next to nothing and is always computed.
#define PB_MODEL_PARAMS(X) \
  X(timestep, one, 1, "s", Positive, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "time step") \
  X(gravity, one, 3, "m/s^2", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "acceleration of what falls") \
  X(wind, one, 3, "m/s", Any, Free, Smooth, Own, 0, Mujoco, \
    "velocity of the medium") \
  X(magnetic, one, 3, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "magnetic field that magnetometers see") \
  X(density, one, 1, "kg/m^3", Nonnegative, Free, Smooth, Own, pb_wantMedium, Mujoco, \
    "of the medium") \
  X(viscosity, one, 1, "Pa s", Nonnegative, Free, Smooth, Own, pb_wantMedium, Mujoco, \
    "of the medium") \
  X(impratio, one, 1, "", Positive, Free, Smooth, Own, pb_wantRows | pb_wantFriction, Mujoco, \
    "how much harder than its normal the friction of an elliptic contact is") \
  X(o_margin, one, 1, "m", Nonnegative, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "margin of all contacts, where the file overrides them") \
  X(o_solref, one, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference of all contacts, where the file overrides them") \
  X(o_solimp, one, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance of all contacts, where the file overrides them") \
  X(o_friction, one, 5, "", Nonnegative, Free, Friction, Own, pb_wantRows | pb_wantFriction, Mujoco, \
    "friction of all contacts, where the file overrides them") \
  X(qpos0, nq, 1, "m|rad", Any, Positions, Smooth, Own, 0, Mujoco, \
    "configuration in which joints are at zero and the file's poses hold") \
  X(qpos_spring, nq, 1, "m|rad", Any, Positions, Smooth, Own, pb_wantSprings, Mujoco, \
    "configuration in which joint springs are at rest") \
  X(body_pos, nbody, 3, "m", Any, Free, Smooth, Own, pb_wantPoses, Mujoco, \
    "place in its parent's frame") \
  X(body_quat, nbody, 4, "", Any, Quaternion, Smooth, Own, pb_wantPoses, Mujoco, \
    "orientation in its parent's frame") \
  X(body_ipos, nbody, 3, "m", Any, Free, Smooth, Design, pb_wantInertia, Mujoco, \
    "center of mass in the body's frame") \
  X(body_iquat, nbody, 4, "", Any, Quaternion, Smooth, Design, pb_wantInertia | pb_wantInertiaAxes, Mujoco, \
    "principal axes of inertia in the body's frame") \
  X(body_mass, nbody, 1, "kg", Nonnegative, Free, Smooth, Design, pb_wantInertia | pb_wantFluidShape, Mujoco, \
    "mass") \
  X(body_inertia, nbody, 3, "kg m^2", Nonnegative, Free, Smooth, Design, pb_wantInertia | pb_wantFluidShape, Mujoco, \
    "principal moments of inertia") \
  X(body_subtreemass, nbody, 1, "kg", Nonnegative, Free, Smooth, Derived, 0, Mujoco, \
    "mass of the body and all below it") \
  X(body_invweight0, nbody, 2, "1/kg|1/(kg m^2)", Nonnegative, Free, Smooth, Derived, pb_wantRows, Mujoco, \
    "mean inverse inertia at qpos0, of translations and rotations; it scales the softness of constraints") \
  X(body_gravcomp, nbody, 1, "", Any, Free, Smooth, Own, pb_wantGravcomp, Mujoco, \
    "share of its weight that is held up") \
  X(jnt_solref, njnt, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference of the limit: time constant and damping ratio, or -stiffness and -damping") \
  X(jnt_solimp, njnt, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance of the limit: at zero, at width, width, midpoint, power") \
  X(jnt_pos, njnt, 3, "m", Any, Free, Smooth, Own, pb_wantPoses, Mujoco, \
    "anchor in the body's frame") \
  X(jnt_axis, njnt, 3, "", Any, Axis, Smooth, Own, pb_wantPoses, Mujoco, \
    "axis in the body's frame") \
  X(jnt_stiffness, njnt, 1, "N/m|N m/rad", Any, Free, Smooth, Own, pb_wantSprings, Mujoco, \
    "linear coefficient of the spring") \
  X(jnt_stiffnesspoly, njnt, 2, "", Any, Free, Smooth, Own, pb_wantSprings, Mujoco, \
    "quadratic and cubic coefficient of the spring") \
  X(jnt_range, njnt, 2, "m|rad", Any, Free, Smooth, Own, 0, Mujoco, \
    "limits") \
  X(jnt_actfrcrange, njnt, 2, "N|N m", Any, Free, Smooth, Own, 0, Mujoco, \
    "range of the sum of all actuators' forces") \
  X(jnt_margin, njnt, 1, "m|rad", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "distance from the limit at which it begins to act") \
  X(dof_solref, nv, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference of the friction loss, as jnt_solref") \
  X(dof_solimp, nv, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance of the friction loss, as jnt_solimp") \
  X(dof_frictionloss, nv, 1, "N|N m", Nonnegative, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Mujoco, \
    "dry friction: the greatest force with which it resists motion") \
  X(dof_armature, nv, 1, "kg|kg m^2", Nonnegative, Free, Smooth, Own, pb_wantArmature, Mujoco, \
    "inertia added to the diagonal of the mass matrix") \
  X(dof_damping, nv, 1, "N s/m|N m s/rad", Any, Free, Smooth, Own, pb_wantDamping, Mujoco, \
    "linear coefficient of damping") \
  X(dof_dampingpoly, nv, 2, "", Any, Free, Smooth, Own, pb_wantDamping, Mujoco, \
    "quadratic and cubic coefficient of damping") \
  X(dof_invweight0, nv, 1, "1/kg|1/(kg m^2)", Nonnegative, Free, Smooth, Derived, pb_wantRows, Mujoco, \
    "inverse inertia at qpos0; it scales the softness of limits and friction loss") \
  X(geom_solmix, ngeom, 1, "", Nonnegative, Free, Smooth, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "weight with which its references and impedances are mixed with those of the other geom") \
  X(geom_solref, ngeom, 2, "", Any, Free, MixedReference, Own, pb_wantRows, Mujoco, \
    "reference of its contacts, as jnt_solref") \
  X(geom_solimp, ngeom, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance of its contacts, as jnt_solimp") \
  X(geom_size, ngeom, 3, "m", Nonnegative, Free, Smooth, Own, pb_wantFluidShape | pb_wantGeoms, Mujoco, \
    "sizes by type: radius; radius and half length; half lengths; radii") \
  X(geom_pos, ngeom, 3, "m", Any, Free, Smooth, Design, pb_wantGeoms, Mujoco, \
    "place in the body's frame") \
  X(geom_quat, ngeom, 4, "", Any, Quaternion, Smooth, Design, pb_wantGeoms, Mujoco, \
    "orientation in the body's frame") \
  X(geom_friction, ngeom, 3, "", Nonnegative, Free, MixedFriction, Own, pb_wantRows | pb_wantFriction, Mujoco, \
    "coefficients of friction: sliding, torsional [m], rolling [m]") \
  X(geom_margin, ngeom, 1, "m", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "distance at which contacts are made") \
  X(geom_gap, ngeom, 1, "m", Any, Free, Smooth, Own, 0, Mujoco, \
    "part of the margin in which they do not push") \
  X(geom_fluid, ngeom, 12, "", Any, Free, Fluid, Some, pb_wantFluidShape, Mujoco, \
    "of the fluid's force on an ellipsoid: switch, drag and lift coefficients, virtual mass and inertia") \
  X(geom_restitution, ngeom, 1, "", Share, Free, MixedRestitution, Own, pb_wantRows, Ours, \
    "of contacts by hard methods and impacts: speed after over speed before") \
  X(site_size, nsite, 3, "m", Nonnegative, Free, Smooth, Own, 0, Mujoco, \
    "sizes by type, as of geoms") \
  X(site_pos, nsite, 3, "m", Any, Free, Smooth, Own, pb_wantSites, Mujoco, \
    "place in the body's frame") \
  X(site_quat, nsite, 4, "", Any, Quaternion, Smooth, Own, pb_wantSites, Mujoco, \
    "orientation in the body's frame") \
  X(cam_pos, ncam, 3, "m", Any, Free, Smooth, Own, 0, Mujoco, \
    "place in the body's frame") \
  X(cam_quat, ncam, 4, "", Any, Quaternion, Smooth, Own, 0, Mujoco, \
    "orientation in the body's frame") \
  X(pair_solref, npair, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference of the pair's normals, as jnt_solref") \
  X(pair_solreffriction, npair, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference of its friction; 0: as of its normals") \
  X(pair_solimp, npair, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance of the pair, as jnt_solimp") \
  X(pair_margin, npair, 1, "m", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "distance at which contacts are made") \
  X(pair_gap, npair, 1, "m", Any, Free, Smooth, Own, 0, Mujoco, \
    "part of the margin in which they do not push") \
  X(pair_friction, npair, 5, "", Nonnegative, Free, Friction, Own, pb_wantRows | pb_wantFriction, Mujoco, \
    "coefficients of friction: two sliding, torsional [m], two rolling [m]") \
  X(eq_solref, neq, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference, as jnt_solref") \
  X(eq_solimp, neq, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance, as jnt_solimp") \
  X(eq_data, neq, 12, "", Any, Welds, Smooth, Some, 0, Mujoco, \
    "by type: anchors; anchors, relative pose and torque scale; coefficients of a polynomial") \
  X(tendon_solref_lim, ntendon, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference of the limit, as jnt_solref") \
  X(tendon_solimp_lim, ntendon, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance of the limit, as jnt_solimp") \
  X(tendon_solref_fri, ntendon, 2, "", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "reference of the friction loss, as jnt_solref") \
  X(tendon_solimp_fri, ntendon, 5, "", Any, Free, Impedance, Own, pb_wantRows | pb_wantImpedance, Mujoco, \
    "impedance of the friction loss, as jnt_solimp") \
  X(tendon_range, ntendon, 2, "m", Any, Free, Smooth, Own, 0, Mujoco, \
    "limits of its length") \
  X(tendon_actfrcrange, ntendon, 2, "N", Any, Free, Smooth, Own, 0, Mujoco, \
    "range of the sum of all actuators' forces") \
  X(tendon_margin, ntendon, 1, "m", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "distance from the limit at which it begins to act") \
  X(tendon_stiffness, ntendon, 1, "N/m", Any, Free, Smooth, Own, 0, Mujoco, \
    "linear coefficient of the spring") \
  X(tendon_stiffnesspoly, ntendon, 2, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "quadratic and cubic coefficient of the spring") \
  X(tendon_damping, ntendon, 1, "N s/m", Any, Free, Smooth, Own, pb_wantDamping, Mujoco, \
    "linear coefficient of damping") \
  X(tendon_dampingpoly, ntendon, 2, "", Any, Free, Smooth, Own, pb_wantDamping, Mujoco, \
    "quadratic and cubic coefficient of damping") \
  X(tendon_armature, ntendon, 1, "kg", Nonnegative, Free, Smooth, Own, pb_wantTendon, Mujoco, \
    "inertia of changes of its length") \
  X(tendon_frictionloss, ntendon, 1, "N", Nonnegative, Free, Smooth, Own, pb_wantRows | pb_wantLoss, Mujoco, \
    "dry friction along it") \
  X(tendon_lengthspring, ntendon, 2, "m", Any, Free, Smooth, Own, 0, Mujoco, \
    "lengths between which the spring has no force") \
  X(tendon_length0, ntendon, 1, "m", Any, Free, Smooth, Derived, 0, Mujoco, \
    "length at qpos0") \
  X(tendon_invweight0, ntendon, 1, "1/kg", Nonnegative, Free, Smooth, Derived, pb_wantRows, Mujoco, \
    "inverse inertia at qpos0; it scales the softness of limits and friction loss") \
  X(wrap_prm, nwrap, 1, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "coefficient of a joint, divisor of a pulley, side site of a geom") \
  X(actuator_dynprm, nu, 10, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "numbers of the activation's law (time constants)") \
  X(actuator_gainprm, nu, 10, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "numbers of the gain's law") \
  X(actuator_biasprm, nu, 10, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "numbers of the bias's law") \
  X(actuator_ctrlrange, nu, 2, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "limits of the control") \
  X(actuator_forcerange, nu, 2, "N|N m", Any, Free, Smooth, Own, pb_wantRows, Mujoco, \
    "limits of the force") \
  X(actuator_actrange, nu, 2, "", Any, Free, Smooth, Own, 0, Mujoco, \
    "limits of the activation") \
  X(actuator_gear, nu, 6, "", Any, Free, Smooth, Own, pb_wantDamping | pb_wantArmature | pb_wantTendon | pb_wantRows, Mujoco, \
    "by how much its force acts: of a joint the first; of a site three of a force, three of a torque") \
  X(actuator_damping, nu, 1, "", Any, Free, Smooth, Own, pb_wantDamping, Mujoco, \
    "linear coefficient of damping, on the side of the transmission") \
  X(actuator_dampingpoly, nu, 2, "", Any, Free, Smooth, Own, pb_wantDamping, Mujoco, \
    "quadratic and cubic coefficient of damping") \
  X(actuator_armature, nu, 1, "", Nonnegative, Free, Smooth, Own, pb_wantArmature | pb_wantTendon, Mujoco, \
    "inertia of the rotor, times the square of the gear") \
  X(sensor_cutoff, nsensor, 1, "", Nonnegative, Free, Smooth, Own, 0, Mujoco, \
    "greatest value that it tells; 0: any") \
  X(contact_stiffness, one, 1, "N/m", Positive, Free, Smooth, Own, pb_wantRows, Ours, \
    "of penalty contacts") \
  X(contact_damping, one, 1, "N s/m", Nonnegative, Free, Smooth, Own, pb_wantRows, Ours, \
    "of penalty contacts")

// The same, of meshes and designs; in theta behind those of terms (term_fields.h).
#define PB_MESH_PARAMS(X) \
  X(mesh_scale, nmesh, 3, "", Any, Free, Smooth, Own, pb_wantMeshes, Unread, \
    "scale of the mesh's vertices, beside that of the file") \
  X(mesh_refpos, nmesh, 3, "m", Any, Free, Smooth, Own, pb_wantMeshes, Ours, \
    "its origin, in the file's frame") \
  X(mesh_refquat, nmesh, 4, "", Any, Quaternion, Smooth, Own, pb_wantMeshes, Ours, \
    "its orientation, in the file's frame") \
  X(geom_density, ndesigngeom, 1, "kg/m^3|kg/m^2", Nonnegative, Free, Smooth, Own, 0, Ours, \
    "of geoms whose mass goes by their density (designs)") \
  X(mesh_center, ndesignmesh, 3, "m", Any, Free, Smooth, Derived, pb_wantMeshes, Ours, \
    "center of the mesh's mass (designs)") \
  X(mesh_axes, ndesignmesh, 4, "", Any, Free, Smooth, Derived, pb_wantMeshes, Ours, \
    "principal axes of the mesh (designs)") \
  X(body_products, ndesignbody, 3, "kg m^2", Any, Free, Smooth, Derived, pb_wantInertia, Ours, \
    "products of inertia, which stay zero: they carry the derivative where two moments agree (designs)")

// X(name, rows, columns, known, meaning): real fields that are stored and compared, but that no step reads
#define PB_MODEL_CONSTANTS(X) \
  X(geom_rbound, ngeom, 1, Mujoco, "radius of a ball about its center that holds it") \
  X(geom_aabb, ngeom, 6, Mujoco, "box in its frame that holds it: center and half lengths") \
  X(actuator_length0, nu, 1, Mujoco, "length of what it acts on at qpos0") \
  X(actuator_cranklength, nu, 1, Mujoco, "length of the rod of a slider-crank") \
  X(dof_M0, nv, 1, Mujoco, "diagonal of the mass matrix at qpos0") \
  X(dof_length, nv, 1, Mujoco, "length that makes rotations comparable with translations") \
  X(sensor_noise, nsensor, 1, Mujoco, "standard deviation; nothing is added to what a sensor writes") \
  X(sensor_interval, nsensor, 2, Mujoco, "from one measurement to the next, s, 0: each step; when it last measured") \
  X(body_margin, nbody, 1, Mujoco, "greatest margin of its geoms") \
  X(tendon_width, ntendon, 1, Mujoco, "for drawing") \
  X(body_user, nbody, nuser_body, Mujoco, "the user's own numbers") \
  X(jnt_user, njnt, nuser_jnt, Mujoco, "the user's own numbers") \
  X(geom_user, ngeom, nuser_geom, Mujoco, "the user's own numbers") \
  X(site_user, nsite, nuser_site, Mujoco, "the user's own numbers") \
  X(cam_user, ncam, nuser_cam, Mujoco, "the user's own numbers") \
  X(tendon_user, ntendon, nuser_tendon, Mujoco, "the user's own numbers") \
  X(actuator_user, nu, nuser_actuator, Mujoco, "the user's own numbers") \
  X(sensor_user, nsensor, nuser_sensor, Mujoco, "the user's own numbers") \
  X(key_time, nkey, 1, Mujoco, "time of the keyframe") \
  X(key_qpos, nkey, nq, Mujoco, "positions of the keyframe") \
  X(key_qvel, nkey, nv, Mujoco, "velocities of the keyframe") \
  X(key_act, nkey, na, Mujoco, "activations of the keyframe") \
  X(key_ctrl, nkey, nu, Mujoco, "controls of the keyframe") \
  X(key_mpos, nkey, nmocap_3, Mujoco, "places of mocap bodies in the keyframe") \
  X(key_mquat, nkey, nmocap_4, Mujoco, "orientations of mocap bodies in the keyframe") \
  X(numeric_data, nnumericdata, 1, Mujoco, "numbers of `custom/numeric`") \
  X(geom_rgba, ngeom, 4, Mujoco, "color") \
  X(site_rgba, nsite, 4, Mujoco, "color") \
  X(tendon_rgba, ntendon, 4, Mujoco, "color") \
  X(mat_rgba, nmat, 4, Mujoco, "color") \
  X(mat_cells, nmat, 6, Ours, "cells of a built-in checker, two colors") \
  X(cam_fovy, ncam, 1, Mujoco, "vertical field of view, degrees") \
  X(cam_lens, ncam, 4, Ours, "focal lengths and principal point, as shares of the sensor") \
  X(light_pos, nlight, 3, Mujoco, "place") \
  X(light_dir, nlight, 3, Mujoco, "direction") \
  X(mesh_vert, nmeshvert, 3, Mujoco, "vertices; parameters on request (mesh_vert:NAME)") \
  X(mesh_polynormal, nmeshpoly, 3, Mujoco, "normals of hull faces") \
  X(mesh_pos, nmesh, 3, Mujoco, "place of the file's frame in that of the geoms") \
  X(mesh_quat, nmesh, 4, Mujoco, "its orientation there") \
  X(mesh_scale0, nmesh, 3, Ours, "mesh_scale as compiled") \
  X(mesh_refpos0, nmesh, 3, Ours, "mesh_refpos as compiled") \
  X(mesh_refquat0, nmesh, 4, Ours, "mesh_refquat as compiled") \
  X(noslip_tolerance, one, 1, Mujoco, "gain below which sweeps against slip end") \
  X(file_tolerance, one, 1, Ours, "tolerance as the file has it (option tolerance=file)") \
  X(hfield_size, nhfield, 4, Mujoco, "half lengths, elevation, depth of the base") \
  X(hfield_data, nhfielddata, 1, Mujoco, "heights; parameters on request (hfield_data:NAME)") \
  X(stat_meaninertia, one, 1, Mujoco, "mean of the mass matrix's diagonal at qpos0") \
  X(stat_meanmass, one, 1, Mujoco, "mean mass of bodies") \
  X(stat_meansize, one, 1, Mujoco, "mean size of bodies") \
  X(stat_extent, one, 1, Mujoco, "size of the model") \
  X(stat_center, one, 3, Mujoco, "center of the model")

// X(name, known, meaning): integers that hold for the whole model. Values are MuJoCo's enumerations (its mjmodel.h).
#define PB_MODEL_OPTIONS(X) \
  X(integrator, Mujoco, "Euler, RK4, implicit, implicitfast") \
  X(cone, Mujoco, "pyramidal or elliptic") \
  X(solver, Mujoco, "as the file has it; always Newton's method") \
  X(iterations, Mujoco, "of Newton's method, at most") \
  X(ls_iterations, Mujoco, "of its line search, at most") \
  X(noslip_iterations, Mujoco, "sweeps against slip, at most") \
  X(disableflags, Mujoco, "what is disabled, a bit mask") \
  X(enableflags, Mujoco, "what is enabled, a bit mask") \
  X(disableactuator, Mujoco, "groups of actuators that are disabled, a bit mask") \
  X(file_iterations, Ours, "iterations as the file has them (option iterations=file)") \
  X(file_ls_iterations, Ours, "ls_iterations as the file has them")

#endif
