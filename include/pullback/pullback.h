// Pullback: everything the engine offers. Beside it: pullback/lcp.h and pullback/pgs.h, of libpullback_lcp.
#ifndef PULLBACK_PULLBACK_H
#define PULLBACK_PULLBACK_H

#include <pullback/base.h>
#include <pullback/build.h>
#include <pullback/random.h>
#include <pullback/pool.h>
#include <pullback/mesh.h>
#include <pullback/model.h>
#include <pullback/contact.h>
#include <pullback/equalities.h>
#include <pullback/sensors.h>
#include <pullback/edit.h>
#include <pullback/spec.h>
#include <pullback/world.h>
#include <pullback/ledger.h>
#include <pullback/policy.h>
#include <pullback/rollout.h>
#include <pullback/check.h>
#include <pullback/batch.h>
#include <pullback/optimize.h>
#include <pullback/control.h>
#include <pullback/audit.h>
#include <pullback/learn.h>
#include <pullback/actuators.h>
#include <pullback/array.h>
#include <pullback/json.h>
#include <pullback/trajectory.h>
#include <pullback/energy.h>
#include <pullback/deform.h>
#include <pullback/materials.h>
#include <pullback/io.h>
#include <pullback/describe.h>
#include <pullback/view.h>

#endif
