/* The endpoint of the transport over libfabric, shared by its files. */
#ifndef PLAIT_TRANSPORT_OFI_H
#define PLAIT_TRANSPORT_OFI_H

#include "transport/match.h"
#include "transport/ofi_lifelines.h"
#include "transport/ofi_link.h"
#include "transport/ofi_rail.h"

/* A place where a peer may write a piece. */
struct ofi_slot {
    struct ofi_incoming *owner; /* NULL: free */
    struct ofi_link *link;
    uint32_t piece, lap;
};

struct ofi {
    int rank, size; /* of the world */
    struct ofi_rail rails[OFI_RAILS];
    int rail_count;
    struct lifelines lifelines;
    struct match match;
    int credits; /* of each link */
    bool left;

    /* From connecting on: */
    struct ofi_link *links; /* by world rank; those without a peer stay closed */
    int *peers;             /* world ranks, this one left out */
    int peer_count;
    uint64_t *busy; /* a bit a world rank whose link wants a turn */
    struct ofi_slot slots[OFI_SLOTS];
    uint32_t free_slots[OFI_SLOTS];
    int free_count;
};

static inline void ofi_mark_busy(struct ofi *ofi, int rank)
{
    ofi->busy[rank / 64] |= UINT64_C(1) << rank % 64;
}

/* Moves what can move. */
bool ofi_turn(struct ofi *ofi);

/* For the transport's table. */
plait_status ofi_open(const struct endpoint_setup *setup, struct endpoint **endpoint,
                      unsigned char blob[TRANSPORT_BLOB_BYTES]);
plait_status ofi_connect(struct endpoint *endpoint, const struct peer *peers, int count, uint64_t generation,
                         const unsigned char job_key[32], int64_t deadline);
void ofi_close(struct endpoint *endpoint);

#endif
