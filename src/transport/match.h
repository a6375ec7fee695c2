/* Matching: which message is for which receive. Knows nothing of how bytes travel.
 *
 * A collective's message finds the receive with the same peer and key. A caller's message finds the
 * first posted receive of its context and tag that takes its sender; a receive finds the first such
 * message that came. Callers' messages are numbered (key.place) in the order one rank sent them to
 * another, and one that overtook others waits for them here, so a transport may deliver in any order. */
#ifndef PLAIT_TRANSPORT_MATCH_H
#define PLAIT_TRANSPORT_MATCH_H

#include "transport/lists.h"
#include "transport/transport.h"

enum { MATCH_BUCKETS = 256 };

struct match {
    int size; /* ranks of the world */
    struct transfer_list posted[MATCH_BUCKETS];
    struct message_list unexpected[MATCH_BUCKETS];
    struct message_list early; /* callers' messages that overtook others */
    uint64_t *sent, *came;     /* callers' messages to and from each rank, so far */
    /* Takes over a large message that has met its receive (message->receive). */
    void (*meet)(void *context, struct message *message);
    void *context;
};

enum arrival {
    ARRIVAL_TAKEN,
    ARRIVAL_NO_MEMORY, /* nothing happened; offer it again later */
    ARRIVAL_NONSENSE   /* a number that was there before */
};

plait_status match_open(struct match *match, int size, void (*meet)(void *, struct message *), void *context);
/* Frees the messages nobody received; receives still posted settle with PLAIT_ABORTED. */
void match_close(struct match *match);

/* Numbers a caller's message as it goes out; leaves a collective's key alone. */
void match_number(struct match *match, int peer, struct message_key *key);

/* A receive: meets a message that is there, or waits for one. */
void match_post(struct match *match, struct transfer *receive);
/* Forgets a receive that still waits, without settling it; false if it does not. */
bool match_unpost(struct match *match, struct transfer *receive);

/* A whole message came. Its bytes are copied or used before this returns. */
enum arrival match_arrive(struct match *match, int source, const struct message_key *key, const void *bytes,
                          size_t size);
/* The announcement of a large message came. */
enum arrival match_announce(struct match *match, int source, const struct message_key *key, size_t size,
                            uint32_t id);
/* The sender gave up a message it had announced; false if it has met a receive already or never came. */
bool match_withdraw(struct match *match, int source, uint32_t id);

/* Nothing more comes from `peer`: receives that name it settle with PLAIT_PEER_LOST, its announcements go. */
void match_lose(struct match *match, int peer);

#endif
