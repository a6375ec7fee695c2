/* Lifelines: a TCP connection to each peer, beside the fabric. libfabric is mostly silent about a peer's
 * death: what is posted just never completes. A kernel closes the connections of a process that ends,
 * however it ends, and keep-alive finds a host that is gone. Over them, the ranks also prove to each
 * other that they are of this world, say where they can be written to, and take leave. */
#ifndef PLAIT_TRANSPORT_OFI_LIFELINES_H
#define PLAIT_TRANSPORT_OFI_LIFELINES_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/ofi_address.h"
#include "transport/ofi_rail.h"
#include "transport/transport.h"

/* Where a rank listens; it travels in the blob. */
struct lifeline_place {
    uint16_t family, port; /* as in a sockaddr; the port in network order */
    unsigned char address[16];
};

/* What one rank tells another first. Proved with the job key. */
struct lifeline_greeting {
    uint64_t magic;
    uint32_t version, credits;
    int32_t from, to; /* world ranks */
    uint64_t generation;
    uint64_t token; /* to be put into packets to `from` */
    uint32_t rails, slots;
    struct ofi_landing landings[OFI_RAILS];
    unsigned char proof[32];
};

struct lifeline {
    int fd; /* -1: none */
    struct lifeline_place place;
    bool up, ended;
    bool left;           /* said that it leaves in good order... */
    uint64_t left_after; /* ...after so many packets and writes to this rank */
    int64_t overdue_at;  /* when what it sent is given up, once it is gone; 0: it is not */
    bool taken;          /* has said that it took all that this rank sent */
    bool told_taken;     /* was told so */
    struct lifeline_greeting greeting;
    /* Of the exchange: */
    size_t said, heard; /* bytes of greetings */
    struct lifeline_greeting saying;
    /* Of what follows: */
    unsigned char record[16];
    size_t record_size;
};

struct lifelines {
    int rank, size;
    int listener;
    struct interface_address own;
    struct lifeline *lines; /* by world rank */
};

plait_status lifelines_open(struct lifelines *lifelines, int rank, int size,
                            const struct interface_address *own, struct lifeline_place *place);

struct lifelines_meeting {
    const struct peer *peers;
    const struct lifeline_place *places; /* in the order of the peers */
    int count;
    uint64_t generation;
    const unsigned char *job_key;
    int64_t deadline;
};

/* Connects to all peers and trades greetings; each line's `saying` holds this rank's token for that peer, and
 * what else is not the same for all is filled in here. */
plait_status lifelines_meet(struct lifelines *lifelines, const struct lifelines_meeting *meeting,
                            const struct lifeline_greeting *mine);

/* Hears what `rank` has said since. */
void lifeline_look(struct lifelines *lifelines, int rank);
/* Says that this rank leaves, after `sent` packets and writes to `rank`. */
void lifeline_say_left(struct lifelines *lifelines, int rank, uint64_t sent);
/* Says that all that `rank` sent was taken. */
void lifeline_say_taken(struct lifelines *lifelines, int rank);

void lifelines_close(struct lifelines *lifelines);

/* The lifelines' own: has the kernel look after a connection. */
void lifeline_keep_alive(int fd);

#endif
