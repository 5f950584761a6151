// Networks fitted to samples: outputs and, from these, the gradient, in one pass.
#ifndef PB_POLICY_FIT_H
#define PB_POLICY_FIT_H

#include <pullback/policy.h>

// Outputs, (outputs, batch), and what their cotangents are: `bars` writes out_bar once `out` is there.
typedef struct pbFitOutputs {
  double *out, *out_bar;
  void (*bars)(void *user, const double *out, double *out_bar);
  void *user;
} pbFitOutputs;
// Forward once for outputs and gradient; adds to param_bar.
typedef pbStatus (*pbNetworkFit)(const void *self, int batch, const double *param, const double *o, const pbFitOutputs *to,
                                 double *param_bar, void *work);

// How a function that is a network's, without memory, is fitted (pbNetworkFit); NULL: it is another's.
pbNetworkFit pbNetwork_FitOf(const pbPolicyFunction *f);

#endif
