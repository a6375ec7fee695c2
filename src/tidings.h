/* Tidings: how the ranks of a communicator that can't read each other's memory hear that it is over, or left,
 * on one of them. What a seat would show travels as a message; what came is kept in seats of this
 * rank's own, so that the watch looks in one way at both. All but making and freeing are the driver's. */
#ifndef PLAIT_TIDINGS_H
#define PLAIT_TIDINGS_H

#include <stdbool.h>

#include "plait.h"

struct comm;

/* For a communicator without a board; becomes the driver for a moment. */
plait_status tidings_open(struct comm *comm);
/* Takes in what came; true if there was anything. */
bool tidings_hear(struct comm *comm);
/* Tells all others what stands in this rank's seat. */
void tidings_tell(struct comm *comm);
/* Neither hears nor tells any more. */
void tidings_end(struct comm *comm);
void tidings_free(struct comm *comm);

#endif
