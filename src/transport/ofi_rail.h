/* A rail: one endpoint of a libfabric provider with its queue, and the registered memory that everything
 * passes through: packets in and out, pieces on their way out, and the landing slots that peers write
 * to. Callers' memory is never given to the provider, so that it is theirs again the moment a transfer is
 * canceled, whatever the fabric still does; the price is one copy through the cache on each side.
 *
 * Nothing is posted beyond the rail's limits, and the completion queue has room for all of it. */
#ifndef PLAIT_TRANSPORT_OFI_RAIL_H
#define PLAIT_TRANSPORT_OFI_RAIL_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdbool.h>

#include "transport/ofi_provider.h"
#include "transport/ofi_wire.h"

enum ofi_op_kind { OFI_OP_RECEIVE, OFI_OP_SEND, OFI_OP_WRITE };

/* An operation and its buffer. The provider's while it is under way. */
struct ofi_op {
    struct fi_context2 context; /* first: a completion's context is the op */
    struct ofi_op *next;
    enum ofi_op_kind kind;
    int peer; /* world rank, of sends and writes */
    int rail; /* on which it belongs */
    unsigned char *bytes;
    size_t size;           /* what is sent, or came */
    uint32_t immediate;    /* of a write, with */
    uint64_t to;           /* where it goes */
    struct transfer *send; /* these, by `next`, are done when it is */
    uint32_t id;           /* of the large message that this is a piece of; 0: none */
};

enum { OFI_PACKETS_OUT = 64, OFI_PIECES_OUT = 24 };

/* What a peer has to know to reach this rail. */
struct ofi_landing {
    uint64_t address, key; /* of its landing slots; 0, 0 without remote writes */
};

struct ofi_rail {
    const struct ofi_library *library;
    struct fi_info *info;
    bool writes;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    int wait_fd; /* readable when the queue is not empty; -1: the provider has none */
    size_t name_size;
    unsigned char name[OFI_NAME_BYTES];

    /* From rail_equip() on: */
    unsigned char *memory;
    size_t memory_size;
    unsigned char *slots; /* OFI_SLOTS of them */
    struct fid_mr *local, *landing;
    struct ofi_op *ops;
    size_t op_count;
    struct ofi_op *packets, *pieces; /* free ones */
    int packets_out;                 /* others */
    struct ofi_op *unposted;         /* receives that the provider had no room for */
};

/* Something that came of an operation. */
struct ofi_event {
    enum { OFI_EVENT_DONE, OFI_EVENT_WRITTEN, OFI_EVENT_FAILED } kind;
    struct ofi_op *op;  /* NULL for a peer's write, and for failures that belong to none */
    size_t size;        /* of a packet that came */
    uint32_t immediate; /* of a peer's write */
    char trouble[160];  /* what failed */
};

/* Opens an endpoint; takes `choice->info` over. `receives` is the most that will be posted. */
plait_status rail_open(struct ofi_rail *rail, struct ofi_choice *choice, size_t receives);
/* Makes and registers the memory, and posts all receives. Called once. */
plait_status rail_equip(struct ofi_rail *rail, size_t receives, struct ofi_landing *landing);
void rail_close(struct ofi_rail *rail);

plait_status rail_add_peer(struct ofi_rail *rail, const void *name, fi_addr_t *address);

/* 0; -FI_EAGAIN to try again after a poll; or libfabric's error. */
int rail_send(struct ofi_rail *rail, struct ofi_op *op, fi_addr_t address);
int rail_write(struct ofi_rail *rail, struct ofi_op *op, fi_addr_t address, uint64_t key);

/* Free operations; NULL if all are under way. */
struct ofi_op *rail_take_packet(struct ofi_rail *rail);
struct ofi_op *rail_take_piece(struct ofi_rail *rail);
/* Has all left that was sent? */
static inline bool rail_is_quiet(const struct ofi_rail *rail)
{
    return rail->packets_out == 0;
}
/* Gives back a packet or a piece, and posts a receive again. */
void rail_give(struct ofi_rail *rail, struct ofi_op *op);

/* Is all seen that came, so that the next shows at wait_fd? */
bool rail_may_sleep(const struct ofi_rail *rail);

/* Fills in up to `most` events; drives the provider. */
int rail_poll(struct ofi_rail *rail, struct ofi_event *events, int most);

#endif
