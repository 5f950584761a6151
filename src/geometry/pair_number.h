// Shapes and contacts in a number type: included once for each (number/complex_begin.h).

// A convex shape in the world. Sizes as in MuJoCo (plane: unused for contact; sphere: radius; capsule, cylinder: radius,
// half length along z; ellipsoid: radii; box: half sizes; mesh: unused, its hull instead). Types are those of model.h (pb_geom*).
typedef struct NUM(pbShape) {
  int type;
  const struct pbMeshHull *hull;  // of a mesh, of a prism of a height field (model/mesh.h), else NULL
  const num *vertex;              // of a hull whose corners are parameters: vertices of its mesh (model/exposed.h), else NULL
  int nudged;                     // corner that stands beside its place by nudge, where there is a hull; -1: none
  pbHullMotion motion;            // where the hull's points are
  num pos[3];
  num mat[9];  // rotation, row-major; columns are the shape's axes in the world
  num size[3];
  num stretch[9], shift[3];  // of motions only
  num nudge[3];
} NUM(pbShape);

// One contact: as MuJoCo's mjContact. normal points from shape 1 to shape 2; pos is midway between the two surfaces;
// dist < 0 is penetration; hint is a wished first tangent (capsule axis on a plane), zero where there is none.
typedef struct NUM(pbContactPoint) {
  num dist, pos[3], normal[3], hint[3];
} NUM(pbContactPoint);

// Contacts with dist < margin; type of shape 1 <= type of shape 2. Returns their number (at most PB_MAX_CONTACT_POINTS).
// All decisions (features, counts, order) look at real parts only, so the complex and the double program agree.
int NUM(pbPair_Collide)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, NUM(pbContactPoint) *contacts);
// The same, with what a search found (search.h); kept: NULL, or written where the pair goes by a search and there are contacts.
struct pbSearched;
int NUM(pbPair_CollideKeeping)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin, struct pbSearched *kept,
                               NUM(pbContactPoint) *contacts);

// The contacts of a normal that was found (convex.h); of those the first `most`.
struct pbConvexNormal;
int NUM(pbConvex_Contacts)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin,
                           const struct pbConvexNormal *found, int most, NUM(pbContactPoint) *contacts);
struct pbPolytopeNormal;  // polytope.h
int NUM(pbPolytope_Contacts)(const NUM(pbShape) *shape1, const NUM(pbShape) *shape2, double margin,
                             const struct pbPolytopeNormal *found, NUM(pbContactPoint) *contacts);
