#include "multibody/adjoint.h"
#include "world/vjp.h"
size_t LANE(pbVjp_Size)(const pbModel *m, int c) { (void)m, (void)c; return 64; }
void LANE(pbVjp_Carve)(void *b, const pbModel *m, int c) { (void)b, (void)m, (void)c; }
pbStatus LANE(pbVjp_Run)(void *b, void *w, const double *s, const pbPullback *p) { (void)b, (void)w, (void)s, (void)p; return pb_unsupported; }
