/* The watch: looks, while nothing moves, for reasons why nothing will: aborts,
 * peers that ended, left or died, and deadlines. The driver's. */
#ifndef PLAIT_WATCH_H
#define PLAIT_WATCH_H

#include "engine.h"
#include "work.h"
#include "world.h"

/* Looks at what is due by the clock; at aborts in any case. */
void engine_watch(struct engine *engine, bool now);

/* Is the communicator over on `rank`, or left by it, as far as its seat says? */
bool comm_has_ended(const struct comm *comm, int rank);

/* Fails all works of a communicator that is over. */
void comm_fail_all(struct comm *comm);

/* The head's transfer failed with `status`. `work` is no longer in the queue. */
void comm_end_by_transfer(struct comm *comm, struct work *work, plait_status status);

/* A work that ended with PLAIT_MISMATCH: the communicator goes on. */
void comm_report_mismatch(struct comm *comm, struct work *work);

/* Fails a work with this thread's sentence. */
void work_fail_by_sentence(struct work *work, plait_status status);

/* A message's transfer is done. True if that ended its communicator and all its works. */
bool message_settle(struct work *work);

/* Asks for a communicator's end. Any thread. */
void comm_ask_abort(struct comm *comm, const char *reason);

#endif
