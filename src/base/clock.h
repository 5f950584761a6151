// A clock that only goes forwards.
#ifndef PB_CLOCK_H
#define PB_CLOCK_H

double pb_seconds(void);  // since some moment of the past

#endif
