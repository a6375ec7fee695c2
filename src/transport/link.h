/* A link: messages between this rank and one peer, through the mailbox that each
 * has for the other. Small messages go whole. A large one is announced; the receiver grants
 * it once it knows where the bytes belong, then they stream through the slots.
 *
 * A send:     queued -> (whole in the mailbox: done) or announced -> streaming -> done
 * A receive:  posted -> done, or met an announcement -> granted -> streaming -> done
 *
 * What a peer wrote is checked before use. A link whose peer wrote nonsense is lost for good. */
#ifndef PLAIT_TRANSPORT_LINK_H
#define PLAIT_TRANSPORT_LINK_H

#include "transport/mailbox.h"
#include "transport/match.h"
#include "transport/segment.h"

enum transfer_stage {
    STAGE_DONE,      /* not the transport's (any more) */
    STAGE_QUEUED,    /* a send that is in no mailbox yet */
    STAGE_ANNOUNCED, /* a send that is announced or streams */
    STAGE_POSTED     /* a receive; in `match`, or met by an announcement of its source */
};

/* A large message under way to the peer. */
struct outgoing {
    struct outgoing *next;
    struct transfer *send; /* NULL once withdrawn */
    uint32_t id;
};

struct outgoing_list {
    struct outgoing *first, *last;
};

struct link {
    const struct segment *own, *peers;
    struct match *match;
    int rank;  /* the peer's world rank */
    int index; /* its place among the ranks of this host; and this rank's: */
    int own_index;
    bool heard; /* the peer has rung, so its mailbox has memory */
    bool lost;
    struct inbox in;
    struct outbox out;

    uint32_t last_id;
    struct transfer_list queue;       /* sends that wait for room */
    struct outgoing_list announced;   /* wait for the peer's answer */
    struct outgoing_list streams;     /* granted */
    struct outgoing_list withdrawals; /* to be told to the peer */

    struct message_list answers;  /* announcements that met a receive, to be answered */
    struct message_list incoming; /* granted */
};

void link_open(struct link *link, const struct segment *own, const struct segment *peers, struct match *match,
               int own_index, int index);
/* Settles what is left with PLAIT_ABORTED. */
void link_close(struct link *link);

void link_send(struct link *link, struct transfer *send);
/* An announcement of the peer's met its receive. */
void link_meet(struct link *link, struct message *message);

/* Takes and gives what can be moved now; *moved is set if anything was. `rung`: the peer's doorbell
 * was. True if the link wants another turn even if the peer does not ring. */
bool link_turn(struct link *link, bool rung, bool *moved);

/* Forgets a transfer of this link, which is in progress, without settling it. */
void link_cancel_send(struct link *link, struct transfer *send);
void link_cancel_receive(struct link *link, const struct transfer *receive);

#endif
