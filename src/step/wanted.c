// Which fields need which share of the pullback's work.
#include "step/wanted.h"

#include <stddef.h>
#include <string.h>

#include "eval/wanted.h"
#include "model/model.h"

// Everything that the code of a group adds to. A field that stands nowhere costs next to nothing and is always computed.
static const struct {
  const char *name;
  unsigned groups;
} needs[] = {
    {"body_pos", pb_wantPoses},
    {"body_quat", pb_wantPoses},
    {"jnt_pos", pb_wantPoses},
    {"jnt_axis", pb_wantPoses},
    {"body_mass", pb_wantInertia | pb_wantFluidShape},  // hard contact: and rows (contact/weight.h)
    {"body_ipos", pb_wantInertia},
    {"body_iquat", pb_wantInertia | pb_wantInertiaAxes},
    {"body_inertia", pb_wantInertia | pb_wantFluidShape},
    {"density", pb_wantMedium},
    {"viscosity", pb_wantMedium},
    {"geom_fluid", pb_wantFluidShape},
    {"geom_size", pb_wantFluidShape | pb_wantGeoms},
    {"geom_pos", pb_wantGeoms},
    {"geom_quat", pb_wantGeoms},
    {"jnt_stiffness", pb_wantSprings},
    {"jnt_stiffnesspoly", pb_wantSprings},
    {"qpos_spring", pb_wantSprings},
    {"dof_damping", pb_wantDamping},
    {"dof_dampingpoly", pb_wantDamping},
    {"tendon_damping", pb_wantDamping},
    {"tendon_dampingpoly", pb_wantDamping},
    {"actuator_damping", pb_wantDamping},
    {"actuator_dampingpoly", pb_wantDamping},
    {"actuator_gear", pb_wantDamping | pb_wantArmature | pb_wantTendon | pb_wantRows},
    {"actuator_armature", pb_wantArmature | pb_wantTendon},
    {"dof_armature", pb_wantArmature},
    {"tendon_armature", pb_wantTendon},
    {"body_gravcomp", pb_wantGravcomp},
    {"site_pos", pb_wantSites},
    {"site_quat", pb_wantSites},
    {"timestep", pb_wantRows},  // the time constants of references have a least one
    {"gravity", pb_wantRows},   // what is pushed out of contacts has a speed that depends on it
    {"impratio", pb_wantRows | pb_wantFriction},
    {"o_margin", pb_wantRows},
    {"o_solref", pb_wantRows},
    {"o_solimp", pb_wantRows | pb_wantImpedance},
    {"o_friction", pb_wantRows | pb_wantFriction},
    {"body_invweight0", pb_wantRows},
    {"dof_invweight0", pb_wantRows},
    {"tendon_invweight0", pb_wantRows},
    {"jnt_solref", pb_wantRows},
    {"jnt_solimp", pb_wantRows | pb_wantImpedance},
    {"jnt_margin", pb_wantRows},
    {"dof_solref", pb_wantRows},
    {"dof_solimp", pb_wantRows | pb_wantImpedance},
    {"dof_frictionloss", pb_wantRows | pb_wantLoss},
    {"geom_solmix", pb_wantRows | pb_wantImpedance},
    {"geom_solref", pb_wantRows},
    {"geom_solimp", pb_wantRows | pb_wantImpedance},
    {"geom_friction", pb_wantRows | pb_wantFriction},
    {"geom_margin", pb_wantRows},
    {"geom_restitution", pb_wantRows},
    {"pair_solref", pb_wantRows},
    {"pair_solreffriction", pb_wantRows},
    {"pair_solimp", pb_wantRows | pb_wantImpedance},
    {"pair_margin", pb_wantRows},
    {"pair_friction", pb_wantRows | pb_wantFriction},
    {"eq_solref", pb_wantRows},
    {"eq_solimp", pb_wantRows | pb_wantImpedance},
    {"tendon_solref_lim", pb_wantRows},
    {"tendon_solimp_lim", pb_wantRows | pb_wantImpedance},
    {"tendon_solref_fri", pb_wantRows},
    {"tendon_solimp_fri", pb_wantRows | pb_wantImpedance},
    {"tendon_margin", pb_wantRows},
    {"tendon_frictionloss", pb_wantRows | pb_wantLoss},
    {"contact_stiffness", pb_wantRows},
    {"contact_damping", pb_wantRows},
    {"actuator_forcerange", pb_wantRows},  // of servos
    {"mesh_scale", pb_wantMeshes},
    {"mesh_refpos", pb_wantMeshes},
    {"mesh_refquat", pb_wantMeshes},
    {"mesh_center", pb_wantMeshes},
    {"mesh_axes", pb_wantMeshes},
    {"body_products", pb_wantInertia},
};

static unsigned groups_of(const char *name) {
  if (!strncmp(name, "mesh_vert:", 10) || !strncmp(name, "hfield_data:", 12)) return pb_wantMeshes;
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
    if (strcmp(needs[i].name, name) == 0) return needs[i].groups;
  }
  return 0;
}

unsigned pbWanted_Skip(const pbModel *m, const bool *unwanted) {
  unsigned wanted = 0;
  for (int i = 0; i < pbModel_ParamCount(m); i++) {
    const char *name = pbModel_ParamAt(m, i).name;
    if (unwanted[i]) continue;
    wanted |= groups_of(name);
    if (pb_hard(m) && !strcmp(name, "body_mass")) wanted |= pb_wantRows;
  }
  return pb_wantEverything & ~wanted;
}

bool pbWanted_Taken(const pbModel *m, int field) {
  static const char *const some[] = {"eq_data", "geom_fluid"};  // of these and the next, some entries
  static const char *const of_designs[] = {"body_mass", "body_ipos", "body_iquat", "body_inertia", "geom_pos", "geom_quat"};
  pbParam p = pbModel_ParamAt(m, field);

  for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
    if (!strcmp(p.name, some[i])) return true;
  }
  for (size_t i = 0; pbModel_Size(m, "ndesignbody") > 0 && i < sizeof of_designs / sizeof *of_designs; i++) {
    if (!strcmp(p.name, of_designs[i])) return true;
  }
  return p.derived;
}
