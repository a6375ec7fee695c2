/* What the transports have in common that work through segments: the segments
 * of all peers, boards in them, and a link to each. A transport's endpoint
 * begins with one; it says only how the segments meet and how a peer's death shows. */
#ifndef PLAIT_TRANSPORT_ROOM_H
#define PLAIT_TRANSPORT_ROOM_H

#include "transport/link.h"
#include "transport/match.h"
#include "transport/segment.h"
#include "transport/transport.h"

struct room {
    int rank, size;      /* of the world */
    uint64_t generation; /* of the world; known from connecting on */
    int *index_of;       /* a world rank's place among the peers, or -1 */

    /* From joining on: */
    int count; /* peers, this rank among them, in order of rank */
    int own_index;
    const struct segment **segments;
    struct link *links;
    uint64_t *busy; /* a bit a link that wants a turn */
    struct match match;
    uint64_t open_channels[BOARD_CHANNELS / 64]; /* whose memory is reserved */
};

plait_status room_open(struct room *room, const struct endpoint_setup *setup);
/* Checks the peers and puts them in order of rank. `order` has `count` places. */
plait_status room_order(struct room *room, const struct peer *peers, int count, const struct peer **order);
/* All segments are mapped: `segments` in order of rank, this rank's own among them. They outlive the room. */
plait_status room_join(struct room *room, const struct segment *const *segments, int count);
/* Settles what is under way with PLAIT_ABORTED. */
void room_close(struct room *room);

/* For the transports' tables. */
void room_send(struct endpoint *endpoint, struct transfer *transfer);
void room_recv(struct endpoint *endpoint, struct transfer *transfer);
void room_cancel(struct endpoint *endpoint, struct transfer *transfer);
bool room_progress(struct endpoint *endpoint);
plait_status room_channel_open(struct endpoint *endpoint, int channel);
void room_channel_close(struct endpoint *endpoint, int channel);
plait_status room_lane_open(struct endpoint *endpoint, int lane);
void room_lane_close(struct endpoint *endpoint, int lane);
size_t room_heap(struct endpoint *endpoint, unsigned char **base);
plait_status room_heap_take(struct endpoint *endpoint, size_t offset, size_t size);
void room_heap_give(struct endpoint *endpoint, size_t offset, size_t size);
struct board *room_board(struct endpoint *endpoint, int channel, const int *ranks, int count);
struct bell *room_bell(struct endpoint *endpoint);
int room_wait_fd(struct endpoint *endpoint);
bool room_may_sleep(struct endpoint *endpoint);
void room_leave(struct endpoint *endpoint);

/* The place of world rank `rank` among the peers; -1 if it is none of them. */
static inline int room_index(const struct room *room, int rank)
{
    return rank >= 0 && rank < room->size ? room->index_of[rank] : -1;
}

bool room_has_left(const struct room *room, int index);

#endif
