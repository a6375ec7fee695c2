/* A link: messages between this rank and one peer over libfabric. It owns an address on every rail;
 * ofi_wire.h says what travels. What a peer says is checked before use; a link whose peer talks nonsense,
 * or whose fabric fails, is lost for good. */
#ifndef PLAIT_TRANSPORT_OFI_LINK_H
#define PLAIT_TRANSPORT_OFI_LINK_H

#include "transport/lists.h"
#include "transport/ofi_rail.h"
#include "transport/ofi_wire.h"

struct ofi;

/* A large message under way to the peer. */
struct ofi_outgoing {
    struct ofi_outgoing *next;
    struct transfer *send;
    uint32_t id;
    uint32_t granted, written;       /* pieces */
    uint32_t flying;                 /* handed to the provider and not done */
    uint32_t immediates[OFI_WINDOW]; /* of pieces that are granted and not written */
};

/* One under way from the peer, that has met its receive. */
struct ofi_incoming {
    struct ofi_incoming *next;
    struct transfer *receive; /* NULL: nobody wants it any more */
    size_t size;
    uint32_t id;
    uint32_t pieces, granted, came;
    bool withdrawn; /* it ends with piece `pieces`, having been given up */
};

struct ofi_link {
    struct ofi *ofi;
    int rank; /* the peer's */
    bool open, lost, greeted;
    int64_t failing_since; /* the fabric says that it can't reach the peer; 0: it does not */
    char trouble[160];     /* ...and why */
    fi_addr_t addresses[OFI_RAILS];
    struct ofi_landing landings[OFI_RAILS];
    uint64_t token_in, token_out;

    /* Out */
    int credits;
    uint32_t sequence_out, last_id;
    uint64_t sent;          /* packets and writes */
    struct ofi_op *stalled; /* made, and not taken by the provider yet */
    struct ofi_op *stalled_last;
    struct transfer_list queue;
    struct ofi_outgoing *announced, *streams, *withdrawals;

    /* In */
    uint32_t sequence_in;
    struct ofi_op *parked[OFI_PARKED]; /* packets that can't be taken yet, by sequence */
    int owed;                          /* buffers that are free again and unsaid */
    uint64_t taken;                    /* packets and writes */
    uint32_t took;                     /* messages of the packet whose turn it is, when memory ran out */
    struct message_list answers;       /* announcements that met a receive */
    struct ofi_incoming *incoming;
};

void ofi_link_open(struct ofi_link *link, struct ofi *ofi, int rank);
/* Settles what is left with PLAIT_ABORTED. */
void ofi_link_close(struct ofi_link *link);

void ofi_link_hello(struct ofi_link *link);
void ofi_link_send(struct ofi_link *link, struct transfer *send);
/* An announcement of the peer's met its receive. */
void ofi_link_meet(struct ofi_link *link, struct message *message);

/* A packet or a piece has left. */
void ofi_link_sent(struct ofi_link *link, struct ofi_op *op);
/* A packet of the peer's came; the link gives the receive back. */
void ofi_link_packet(struct ofi_link *link, struct ofi_op *receive);
/* A piece landed in `bytes`. */
void ofi_link_piece(struct ofi_link *link, struct ofi_incoming *incoming, uint32_t piece, const void *bytes);
/* The fabric could not carry something to the peer. */
void ofi_link_fail(struct ofi_link *link, const char *trouble);

/* Gives what can be given now. True if the link wants another turn even if nothing comes. */
bool ofi_link_turn(struct ofi_link *link, bool *moved);

/* Forgets a transfer of this link, which is in progress, without settling it. */
/* False: too late, for it has left as a whole. */
bool ofi_link_cancel_send(struct ofi_link *link, struct transfer *send);
void ofi_link_cancel_receive(struct ofi_link *link, const struct transfer *receive);

/* Settles everything with PLAIT_PEER_LOST, by the calling thread's sentence. */
void ofi_link_lose(struct ofi_link *link);

/* For ofi_give.c and ofi_take.c. */
void ofi_settle(struct transfer *transfer, plait_status status);
/* Settles the messages of a packet. */
void ofi_settle_packet(struct ofi_op *op, plait_status status);
void ofi_link_nonsense(struct ofi_link *link, const char *what, uint64_t value);
struct ofi_outgoing *ofi_take_outgoing(struct ofi_outgoing **list, const struct transfer *send, uint32_t id);
void ofi_append_outgoing(struct ofi_outgoing **list, struct ofi_outgoing *outgoing);
/* Frees the slots of `incoming` for pieces from `first` on. */
void ofi_free_slots(struct ofi *ofi, const struct ofi_incoming *incoming, uint32_t first);
/* Frees an incoming message with its slots. */
void ofi_drop_incoming(struct ofi_link *link, struct ofi_incoming *incoming);
bool ofi_give(struct ofi_link *link);
bool ofi_take_parked(struct ofi_link *link);

#endif
