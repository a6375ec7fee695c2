/* Data whose right answer every rank knows: small whole numbers, exact in every type and sum. */
#ifndef PLAIT_COMPARE_CHECK_H
#define PLAIT_COMPARE_CHECK_H

#include "loop.h"

/* Fills the buffers of a call for its check: what is not input holds something else than the answer. */
void check_fill(const struct call *call, int rank, int ranks);

/* True if the output is right. `output` is where this rank's result lies. */
bool check_output(const struct call *call, const void *output, int rank, int ranks);

#endif
