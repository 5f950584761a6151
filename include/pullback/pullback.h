// Pullback: everything the library offers.
#ifndef PULLBACK_PULLBACK_H
#define PULLBACK_PULLBACK_H

#include <pullback/base.h>
#include <pullback/model.h>
#include <pullback/world.h>
#if __has_include(<pullback/spec.h>)
#include <pullback/io.h>
#include <pullback/spec.h>
#endif
#if __has_include(<pullback/rollout.h>)
#include <pullback/rollout.h>
#endif
#if __has_include(<pullback/optimize.h>)
#include <pullback/optimize.h>
#endif

#endif
