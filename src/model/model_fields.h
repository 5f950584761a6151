// Every compiled field of a model, listed once, in MuJoCo's own names (sizes as in MuJoCo 4.0's mjModel).
// From these lists come the struct (model.h), the parameter table (param.c), the views of the number-generic kernels
// (par.h), the inspection of fields, and the tests that compare with the oracle.
#ifndef PB_MODEL_FIELDS_H
#define PB_MODEL_FIELDS_H

// Tables, by column.
// clang-format off
// X(name): counts
#define PB_MODEL_SIZES(X)                                                                                     \
  X(nq) X(nv) X(nu) X(na) X(nbody) X(njnt) X(ngeom) X(nsite) X(ncam) X(nlight) X(npair) X(nexclude) X(neq)     \
  X(ntendon) X(nwrap) X(nsensor) X(nsensordata) X(nkey) X(nnumeric) X(nnumericdata) X(ntext) X(ntuple) X(nmat) \
  X(nmocap) X(nmesh) X(nmeshvert) X(nmeshgraph) X(nmeshpoly) X(nmeshpolyvert) X(nmeshpolymap) X(nmeshface) \
  X(nhfield) X(nhfielddata) X(ndesignbody) X(ndesigngeom) X(ndesignmesh) \
  X(nuser_body) X(nuser_jnt) X(nuser_geom) X(nuser_site) X(nuser_cam) X(nuser_tendon) X(nuser_actuator) X(nuser_sensor)

// X(name, rows, columns): integers
#define PB_MODEL_INTS(X)                                                                                      \
  X(body_parentid, nbody, 1) X(body_rootid, nbody, 1) X(body_weldid, nbody, 1) X(body_jntnum, nbody, 1)        \
  X(body_jntadr, nbody, 1) X(body_dofnum, nbody, 1) X(body_dofadr, nbody, 1) X(body_geomnum, nbody, 1)         \
  X(body_geomadr, nbody, 1) X(body_simple, nbody, 1) X(body_mocapid, nbody, 1)                                 \
  X(jnt_type, njnt, 1) X(jnt_qposadr, njnt, 1) X(jnt_dofadr, njnt, 1) X(jnt_bodyid, njnt, 1)                   \
  X(jnt_group, njnt, 1) X(jnt_limited, njnt, 1) X(jnt_actfrclimited, njnt, 1) X(jnt_actgravcomp, njnt, 1)      \
  X(dof_bodyid, nv, 1) X(dof_jntid, nv, 1) X(dof_parentid, nv, 1) X(dof_treeid, nv, 1)                         \
  X(geom_type, ngeom, 1) X(geom_contype, ngeom, 1) X(geom_conaffinity, ngeom, 1) X(geom_condim, ngeom, 1)      \
  X(geom_bodyid, ngeom, 1) X(geom_group, ngeom, 1) X(geom_priority, ngeom, 1) X(geom_matid, ngeom, 1)          \
  X(geom_dataid, ngeom, 1)                                                                                     \
  X(mesh_vertadr, nmesh, 1) X(mesh_vertnum, nmesh, 1) X(mesh_graphadr, nmesh, 1) X(mesh_polynum, nmesh, 1)     \
  X(mesh_polyadr, nmesh, 1) X(mesh_graph, nmeshgraph, 1) X(mesh_polyvertadr, nmeshpoly, 1)                     \
  X(mesh_polyvertnum, nmeshpoly, 1) X(mesh_polyvert, nmeshpolyvert, 1) X(mesh_polymapadr, nmeshvert, 1)        \
  X(mesh_polymapnum, nmeshvert, 1) X(mesh_polymap, nmeshpolymap, 1)                                           \
  X(mesh_faceadr, nmesh, 1) X(mesh_facenum, nmesh, 1) X(mesh_face, nmeshface, 3)                               \
  X(hfield_nrow, nhfield, 1) X(hfield_ncol, nhfield, 1) X(hfield_adr, nhfield, 1)                              \
  X(site_type, nsite, 1) X(site_bodyid, nsite, 1) X(site_group, nsite, 1) X(site_matid, nsite, 1)              \
  X(cam_bodyid, ncam, 1) X(cam_mode, ncam, 1) X(cam_targetbodyid, ncam, 1) X(cam_projection, ncam, 1) X(cam_resolution, ncam, 2) \
  X(pair_dim, npair, 1) X(pair_geom1, npair, 1) X(pair_geom2, npair, 1) X(pair_signature, npair, 1)            \
  X(exclude_signature, nexclude, 1)                                                                            \
  X(eq_type, neq, 1) X(eq_obj1id, neq, 1) X(eq_obj2id, neq, 1) X(eq_objtype, neq, 1) X(eq_active0, neq, 1)     \
  X(tendon_adr, ntendon, 1) X(tendon_num, ntendon, 1) X(tendon_limited, ntendon, 1)                            \
  X(tendon_actfrclimited, ntendon, 1) X(tendon_group, ntendon, 1) X(tendon_matid, ntendon, 1)                  \
  X(wrap_type, nwrap, 1) X(wrap_objid, nwrap, 1) X(wrap_side, nwrap, 1)                                        \
  X(actuator_trntype, nu, 1) X(actuator_dyntype, nu, 1) X(actuator_gaintype, nu, 1) X(actuator_biastype, nu, 1) \
  X(actuator_trnid, nu, 2) X(actuator_actadr, nu, 1) X(actuator_actnum, nu, 1) X(actuator_ctrllimited, nu, 1)  \
  X(actuator_forcelimited, nu, 1) X(actuator_actlimited, nu, 1) X(actuator_actearly, nu, 1) X(actuator_group, nu, 1) \
  X(actuator_servo, nu, 1)                                                                                     \
  X(sensor_type, nsensor, 1) X(sensor_datatype, nsensor, 1) X(sensor_needstage, nsensor, 1)                    \
  X(sensor_objtype, nsensor, 1) X(sensor_objid, nsensor, 1) X(sensor_reftype, nsensor, 1)                      \
  X(sensor_refid, nsensor, 1) X(sensor_intprm, nsensor, 3) X(sensor_dim, nsensor, 1) X(sensor_adr, nsensor, 1)

// X(name, rows, columns, unit): real fields the step reads. They make up theta, in this order, row-major: the
// parameters of pbStep_*, differentiated one by one. "opt" fields are mjOption's, without a prefix in names.
#define PB_MODEL_PARAMS(X)                                                                                    \
  X(timestep, one, 1, "s") X(gravity, one, 3, "m/s^2") X(wind, one, 3, "m/s") X(magnetic, one, 3, "")          \
  X(density, one, 1, "kg/m^3") X(viscosity, one, 1, "Pa s") X(impratio, one, 1, "")                            \
  X(o_margin, one, 1, "m") X(o_solref, one, 2, "") X(o_solimp, one, 5, "") X(o_friction, one, 5, "")           \
  X(qpos0, nq, 1, "m|rad") X(qpos_spring, nq, 1, "m|rad")                                                      \
  X(body_pos, nbody, 3, "m") X(body_quat, nbody, 4, "") X(body_ipos, nbody, 3, "m") X(body_iquat, nbody, 4, "") \
  X(body_mass, nbody, 1, "kg") X(body_inertia, nbody, 3, "kg m^2") X(body_subtreemass, nbody, 1, "kg")         \
  X(body_invweight0, nbody, 2, "1/kg|1/(kg m^2)") X(body_gravcomp, nbody, 1, "")                               \
  X(jnt_solref, njnt, 2, "") X(jnt_solimp, njnt, 5, "") X(jnt_pos, njnt, 3, "m") X(jnt_axis, njnt, 3, "")      \
  X(jnt_stiffness, njnt, 1, "N/m|N m/rad") X(jnt_stiffnesspoly, njnt, 2, "") X(jnt_range, njnt, 2, "m|rad")    \
  X(jnt_actfrcrange, njnt, 2, "N|N m") X(jnt_margin, njnt, 1, "m|rad")                                         \
  X(dof_solref, nv, 2, "") X(dof_solimp, nv, 5, "") X(dof_frictionloss, nv, 1, "N|N m")                        \
  X(dof_armature, nv, 1, "kg|kg m^2") X(dof_damping, nv, 1, "N s/m|N m s/rad") X(dof_dampingpoly, nv, 2, "")   \
  X(dof_invweight0, nv, 1, "1/kg|1/(kg m^2)")                                                                  \
  X(geom_solmix, ngeom, 1, "") X(geom_solref, ngeom, 2, "") X(geom_solimp, ngeom, 5, "")                       \
  X(geom_size, ngeom, 3, "m") X(geom_pos, ngeom, 3, "m") X(geom_quat, ngeom, 4, "")                            \
  X(geom_friction, ngeom, 3, "") X(geom_margin, ngeom, 1, "m") X(geom_gap, ngeom, 1, "m")                      \
  X(geom_fluid, ngeom, 12, "") X(geom_restitution, ngeom, 1, "")                                                \
  X(site_size, nsite, 3, "m") X(site_pos, nsite, 3, "m") X(site_quat, nsite, 4, "")                            \
  X(cam_pos, ncam, 3, "m") X(cam_quat, ncam, 4, "")                                                            \
  X(pair_solref, npair, 2, "") X(pair_solreffriction, npair, 2, "") X(pair_solimp, npair, 5, "")               \
  X(pair_margin, npair, 1, "m") X(pair_gap, npair, 1, "m") X(pair_friction, npair, 5, "")                      \
  X(eq_solref, neq, 2, "") X(eq_solimp, neq, 5, "") X(eq_data, neq, 12, "")                                    \
  X(tendon_solref_lim, ntendon, 2, "") X(tendon_solimp_lim, ntendon, 5, "") X(tendon_solref_fri, ntendon, 2, "") \
  X(tendon_solimp_fri, ntendon, 5, "") X(tendon_range, ntendon, 2, "m") X(tendon_actfrcrange, ntendon, 2, "N") \
  X(tendon_margin, ntendon, 1, "m") X(tendon_stiffness, ntendon, 1, "N/m") X(tendon_stiffnesspoly, ntendon, 2, "") \
  X(tendon_damping, ntendon, 1, "N s/m") X(tendon_dampingpoly, ntendon, 2, "") X(tendon_armature, ntendon, 1, "kg") \
  X(tendon_frictionloss, ntendon, 1, "N") X(tendon_lengthspring, ntendon, 2, "m") X(tendon_length0, ntendon, 1, "m") \
  X(tendon_invweight0, ntendon, 1, "1/kg") X(wrap_prm, nwrap, 1, "")                                           \
  X(actuator_dynprm, nu, 10, "") X(actuator_gainprm, nu, 10, "") X(actuator_biasprm, nu, 10, "")               \
  X(actuator_ctrlrange, nu, 2, "") X(actuator_forcerange, nu, 2, "N|N m") X(actuator_actrange, nu, 2, "")      \
  X(actuator_gear, nu, 6, "") X(actuator_damping, nu, 1, "") X(actuator_dampingpoly, nu, 2, "")                \
  X(actuator_armature, nu, 1, "") X(sensor_cutoff, nsensor, 1, "")                                                \
  X(contact_stiffness, one, 1, "N/m") X(contact_damping, one, 1, "N s/m")                                      \
  X(actuator_speed, nu, 1, "m/s|rad/s") X(actuator_deadband, nu, 1, "m/s|rad/s")                               \
  X(actuator_lengthrange, nu, 2, "m|rad") X(actuator_acc0, nu, 1, "")                                          \
  X(mesh_scale, nmesh, 3, "") X(mesh_refpos, nmesh, 3, "m") X(mesh_refquat, nmesh, 4, "")                      \
  X(geom_density, ndesigngeom, 1, "kg/m^3|kg/m^2") X(mesh_center, ndesignmesh, 3, "m") X(mesh_axes, ndesignmesh, 4, "") \
  X(body_products, ndesignbody, 3, "kg m^2")

// X(name, rows, columns): real fields that are stored and compared, but that no step reads
#define PB_MODEL_CONSTANTS(X)                                                                                 \
  X(geom_rbound, ngeom, 1) X(geom_aabb, ngeom, 6) X(actuator_length0, nu, 1) X(actuator_cranklength, nu, 1) \
  X(dof_M0, nv, 1) X(dof_length, nv, 1) X(sensor_noise, nsensor, 1)              \
  X(body_margin, nbody, 1) X(tendon_width, ntendon, 1)                                                         \
  X(body_user, nbody, nuser_body) X(jnt_user, njnt, nuser_jnt) X(geom_user, ngeom, nuser_geom)                 \
  X(site_user, nsite, nuser_site) X(cam_user, ncam, nuser_cam) X(tendon_user, ntendon, nuser_tendon)           \
  X(actuator_user, nu, nuser_actuator) X(sensor_user, nsensor, nuser_sensor)                                   \
  X(key_time, nkey, 1) X(key_qpos, nkey, nq) X(key_qvel, nkey, nv) X(key_act, nkey, na) X(key_ctrl, nkey, nu)  \
  X(key_mpos, nkey, nmocap_3) X(key_mquat, nkey, nmocap_4)                                                     \
  X(numeric_data, nnumericdata, 1)                                                                             \
  X(geom_rgba, ngeom, 4) X(site_rgba, nsite, 4) X(tendon_rgba, ntendon, 4) X(mat_rgba, nmat, 4)                \
  X(mat_cells, nmat, 6)                                                                                        \
  X(cam_fovy, ncam, 1) X(cam_lens, ncam, 4) \
  X(light_pos, nlight, 3) X(light_dir, nlight, 3)                                                              \
  X(mesh_vert, nmeshvert, 3) X(mesh_polynormal, nmeshpoly, 3) X(mesh_pos, nmesh, 3) X(mesh_quat, nmesh, 4)      \
  X(mesh_scale0, nmesh, 3) X(mesh_refpos0, nmesh, 3) X(mesh_refquat0, nmesh, 4)                                 \
  X(noslip_tolerance, one, 1) X(file_tolerance, one, 1)                                                        \
  X(hfield_size, nhfield, 4) X(hfield_data, nhfielddata, 1)                                                    \
  X(stat_meaninertia, one, 1) X(stat_meanmass, one, 1) X(stat_meansize, one, 1) X(stat_extent, one, 1) X(stat_center, one, 3)

// X(name): integers that hold for the whole model. Values are MuJoCo's enumerations (MuJoCo's mjmodel.h).
#define PB_MODEL_OPTIONS(X)                                                                                   \
  X(integrator) X(cone) X(solver) X(iterations) X(ls_iterations) X(noslip_iterations) X(disableflags)           \
  X(enableflags) X(disableactuator) X(file_iterations) X(file_ls_iterations)

#endif
