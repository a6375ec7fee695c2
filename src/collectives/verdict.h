/* Verdicts: at the end of a call with a caller's function all ranks meet once more, so that all know whether it
 * failed on any of them. A rank's verdict stands where its signals did, above all of them. */
#ifndef PLAIT_COLLECTIVES_VERDICT_H
#define PLAIT_COLLECTIVES_VERDICT_H

#include "collectives/execute.h"

/* Is there one to come? */
static inline bool verdict_due(const struct execution *execution)
{
    return __builtin_expect(execution->call.made != NULL, 0) && execution->call.made->function != NULL &&
           execution->phase != PHASE_VERDICT;
}

/* Says this rank's, and goes to PHASE_VERDICT. */
void verdict_say(struct execution *execution);

/* True when all ranks have said theirs: PLAIT_OK in *status, or PLAIT_CALLER_FAILED with the sentence and the rank in
 * execution->waiting. */
bool verdict_hear(struct execution *execution, plait_status *status);

#endif
