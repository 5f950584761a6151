// Inside of an audit: the verdict on a report whose rows are there.
#ifndef PB_AUDIT_H
#define PB_AUDIT_H

#include <pullback/audit.h>

// Sets confirmed and verdict.
void pbAuditReport_Judge(pbAuditReport *report);

#endif
