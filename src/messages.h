/* Sends and receives for the library's own use. */
#ifndef PLAIT_MESSAGES_H
#define PLAIT_MESSAGES_H

#include "work.h"
#include "world.h"

/* Contexts that a communicator's messages are kept apart by. */
#define CONTEXT_TIDINGS (CONTEXT_CALLERS | (uint64_t)1 << 61) /* that a communicator is over */
#define CONTEXT_GROUPS (CONTEXT_CALLERS | (uint64_t)1 << 62) /* agreement of new communicators */

/* Sends or receives `size` bytes and waits. `peer` is a rank of comm. */
plait_status message_send(struct comm *comm, uint64_t context, const void *data, size_t size, int peer,
                          int tag);
plait_status message_recv(struct comm *comm, uint64_t context, void *data, size_t size, int peer, int tag);

/* For members of groups: makes a message that was transferred ready to go again; leaves what a receive got
 * where its caller wants it. */
void message_rewind(struct work *work);
void message_give_outputs(const struct work *work);

#endif
