/* Endings: how works and communicators end that do not end well. A communicator ends once, with one
 * fault: its works fail with it, the handler hears of it, and its peers are told through this rank's seat.
 * All but comm_ask_abort() are the driver's. */
#ifndef PLAIT_ENDING_H
#define PLAIT_ENDING_H

#include "work.h"
#include "world.h"

/* Where `rank` leaves word, or where what it told is kept (tidings.h). */
static inline struct seat *comm_seat(const struct comm *comm, int rank)
{
    return comm->group.board == NULL ? &comm->seats[rank] : comm->group.board->seats[rank];
}

/* Is the communicator over on `rank`, or left by it, as far as its seat says? */
bool comm_has_ended(const struct comm *comm, int rank);
/* In good order, by destroying it? */
bool comm_has_left(const struct comm *comm, int rank);
/* Tells the peers that this rank has destroyed the communicator. */
void comm_show_left(struct comm *comm);

/* Asks the driver for a communicator's end. Any thread. */
void comm_ask_abort(struct comm *comm, const char *reason);

/* End it: because that was asked for; with the verdict of a rank where it is over; because `rank`
 * died or left; because `work` took longer than `timeout_ms`. */
void comm_end_by_abort(struct comm *comm);
void comm_end_as_peer_did(struct comm *comm, int rank);
void comm_end_by_loss(struct comm *comm, const struct work *work, int rank, enum life life);
void comm_end_by_deadline(struct comm *comm, const struct work *work, int64_t timeout_ms);
/* Because a transfer of its head failed with `status`. `work`, the head, is no longer in the queue. */
void comm_end_by_transfer(struct comm *comm, struct work *work, plait_status status);

/* Fails all works of a communicator that is over. */
void comm_fail_all(struct comm *comm);

/* A work that failed on all ranks, with this thread's sentence: the communicator goes on. */
void comm_report_failure(struct comm *comm, struct work *work, plait_status status);

/* Fails a work with this thread's sentence. */
void work_fail_by_sentence(struct work *work, plait_status status);

/* A message's transfer is done. True if that ended its communicator and all its works. */
bool message_settle(struct work *work);

#endif
