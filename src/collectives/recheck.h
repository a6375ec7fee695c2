/* The recheck: now and then, at the end of an operation that staged data or read them in place, ranks 0 and 1 pass a line to
 * and fro to learn what it costs by now. The cores of a virtual machine move between near and far
 * within minutes, and the store kind follows. */
#ifndef PLAIT_COLLECTIVES_RECHECK_H
#define PLAIT_COLLECTIVES_RECHECK_H

#include "collectives/execute.h"

/* Is it due after this operation? The same answer on all ranks: they count the same bytes. */
bool recheck_due(struct execution *execution);

/* Goes as far as it can without waiting; true when it is over. */
bool recheck_advance(struct execution *execution);

#endif
