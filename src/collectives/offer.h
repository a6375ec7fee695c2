/* Offers: what a rank's notice says of its memory, and whether the ranks read each other's buffers in place.
 *
 * A rank is *ready* when what an in-place plan shows of its buffers lies where peers can read it. Who is not
 * starts with the staged plan at once; who is waits until all have met. When all are ready all change to
 * the in-place plan, otherwise nobody does: everybody decides by the same notices. */
#ifndef PLAIT_COLLECTIVES_OFFER_H
#define PLAIT_COLLECTIVES_OFFER_H

#include "collectives/execute.h"

/* Makes this rank's offer for a program that has an in-place one beside it. */
void offer_make(struct execution *execution);

/* All have met, and this rank is ready: are all others? Then their buffers are known to the group. False
 * with the execution done where a peer's offer can't be. */
bool offer_accepted(struct execution *execution);

/* Are the `size` bytes at `to`, which this rank is about to write, best written past the caches, because some of them were
 * lent lately? Peers' caches hold these lines, and far cores take long to give them back one by one. */
bool offer_streams(const struct execution *execution, const void *to, size_t size);

/* Says that this rank has no memory for its staging lane. Before the notice is up. */
void offer_refuse_lane(struct execution *execution);

/* All have met: the lowest rank that said so, or -1. */
int offer_lane_refused_by(const struct execution *execution);

#endif
