/* Single steps of a plan, carried out. */
#ifndef PLAIT_COLLECTIVES_STEPS_H
#define PLAIT_COLLECTIVES_STEPS_H

#include "collectives/execute.h"

/* Takes one step of chunk `chunk`. False when it can't be taken yet, or when it
 * ended the execution. */
bool step_take(struct execution *execution, const struct step *step, size_t chunk);

#endif
