/* Transports: how bytes get from a rank to a peer. One table each.
 *
 * An *endpoint* is a world's use of a transport: it reaches some of the world's ranks, each over a
 * *link* (which may consist of several rails). All calls on an endpoint come from one thread at a time.
 * None of them waits, except connect(), and none calls into the collectives other than through a
 * transfer's sink.
 *
 * Messages carry a key and find the receive with the same key. Nothing else is
 * promised: messages of one link may overtake each other, a message is not a piece of a stream. */
#ifndef PLAIT_TRANSPORT_TRANSPORT_H
#define PLAIT_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plait.h"
#include "transport/board.h"

/* Names a message. Both sides make the same key from what they know. */
struct message_key {
    uint64_t context;   /* the communicator, and whether it is a collective's or the caller's message */
    uint64_t operation; /* the collective's number; the caller's tag */
    uint64_t place;     /* chunk and stage of a collective; for the caller's messages, set by the
                           match layer: it counts what one rank sent another */
};

/* In the context's top bit: the caller's message. Those are matched by context and
 * operation (tag) in the order sent, and the receiver may not name the sender. */
#define CONTEXT_CALLERS ((uint64_t)1 << 63)

/* One message on its way. The caller provides it and the bytes, and keeps both
 * in place until status leaves PLAIT_IN_PROGRESS; so queueing never allocates
 * (but the bytes of a small message nobody waits for yet are kept aside). */
struct transfer {
    int peer; /* world rank; PLAIT_ANY_SOURCE for a caller's receive */
    struct message_key key;
    void *data;
    size_t size;         /* bytes; room for a receive */
    size_t moved;        /* bytes of the message; for a receive known when it is done */
    int source;          /* world rank of the sender, for a receive that is done */
    plait_status status; /* PLAIT_IN_PROGRESS from queueing on; then PLAIT_OK, PLAIT_TRUNCATED (message
                            longer than room: consumed, nothing written), PLAIT_ABORTED (canceled here, or
                            the sender gave it up), PLAIT_PEER_LOST (the peer's memory is damaged; that it
                            died shows in life() alone), PLAIT_OUT_OF_MEMORY */
    /* For a receive: takes the bytes instead of their being copied to `data`, in pieces of
     * whole 64 bytes but the last, any order, each byte once. NULL: copy. */
    void (*sink)(struct transfer *transfer, size_t offset, const void *bytes, size_t size);
    void *context; /* the sink's */
    int detail;    /* the sink's too */

    /* The transport's, while in progress. */
    struct transfer *next;
    uint64_t id;
    int stage;
};

/* Is a peer there? From hard evidence only. */
enum life {
    LIFE_HERE,
    LIFE_LEFT, /* ended its world in good order */
    LIFE_DEAD  /* its process is gone */
};

struct peer {
    int rank; /* world rank */
    int64_t pid;
    const unsigned char *blob; /* what its transport described */
};

enum { TRANSPORT_BLOB_BYTES = 128 };

struct endpoint; /* each transport has its own, beginning with struct endpoint_head */

struct endpoint_setup {
    int rank, size;   /* of the world */
    size_t lane_size; /* bytes wanted for the first staging lane; rounded up to 64 KiB */
    /* For a network; NULL where nothing is known or asked for. */
    const char *provider, *interface; /* as the settings say */
    const char *toward;               /* a host that all ranks reach */
    bool no_writes;                   /* messages alone, even where remote writes can be had; for tests */
};

struct transport {
    const char *name; /* "shm" */
    int64_t nap_ns;   /* of one sleep on wait_fd: what does not show there is late by that */
    bool maps_apart;  /* each rank has its own mapping of a peer's memory, page by page */

    /* Makes this rank's side and describes it in `blob` for the others. */
    plait_status (*open)(const struct endpoint_setup *setup, struct endpoint **endpoint,
                         unsigned char blob[TRANSPORT_BLOB_BYTES]);

    /* Meets the peers (this rank is one of them), who prove that they are of this world: by its
     * generation and its key. Waits until `deadline`; the sentence names who did not come. */
    plait_status (*connect)(struct endpoint *endpoint, const struct peer *peers, int count,
                            uint64_t generation, const unsigned char job_key[32], int64_t deadline);

    /* Queue a transfer. Trouble shows in its status, possibly before these return. */
    void (*send)(struct endpoint *endpoint, struct transfer *transfer);
    void (*recv)(struct endpoint *endpoint, struct transfer *transfer);

    /* Settles a transfer with PLAIT_ABORTED if it is still in progress; afterwards nobody touches it. */
    void (*cancel)(struct endpoint *endpoint, struct transfer *transfer);

    /* Moves what can move now. True if anything did. */
    bool (*progress)(struct endpoint *endpoint);

    /* Hard evidence about a peer; costs a system call. */
    enum life (*life)(struct endpoint *endpoint, int peer);

    /* This rank's channel `channel`: makes sure of its memory. After connect(). What lies in a channel
     * stays when it is closed, so whoever opens it next goes on counting. */
    plait_status (*channel_open)(struct endpoint *endpoint, int channel);
    void (*channel_close)(struct endpoint *endpoint, int channel);

    /* This rank's staging lane `lane`: makes sure of its memory, all or nothing; and gives it back, whether
     * it has any or not, when nobody reads it. */
    plait_status (*lane_open)(struct endpoint *endpoint, int lane);
    void (*lane_close)(struct endpoint *endpoint, int lane);

    /* Memory of this rank's that peers read in place: its addresses, which all ranks know by their offsets
     * from `base` (0 bytes of them: there is none); and the memory behind a part of it, in whole pages. */
    size_t (*heap)(struct endpoint *endpoint, unsigned char **base);
    plait_status (*heap_take)(struct endpoint *endpoint, size_t offset, size_t size);
    void (*heap_give)(struct endpoint *endpoint, size_t offset, size_t size);

    /* The board of a channel for the world ranks `ranks`, or NULL where a peer's memory can't be read
     * in place (then plans use messages); free it with board_free(). */
    struct board *(*board)(struct endpoint *endpoint, int channel, const int *ranks, int count);

    /* The own bell; NULL if the transport has none. */
    struct bell *(*bell)(struct endpoint *endpoint);

    /* Where it has none: what becomes readable when something came, the endpoint's to close; -1 if there
     * is nothing of the kind. And whether all that came is seen, so that one may sleep on it now. */
    int (*wait_fd)(struct endpoint *endpoint);
    bool (*may_sleep)(struct endpoint *endpoint);

    /* Says that this rank leaves, so that peers see LIFE_LEFT. */
    void (*leave)(struct endpoint *endpoint);

    /* Cancels what is queued and frees the endpoint; NULL is fine. */
    void (*close)(struct endpoint *endpoint);
};

void board_free(struct board *board);

extern const struct transport transport_inproc;
extern const struct transport transport_shm;
extern const struct transport transport_ofi; /* open() fails in builds without libfabric */

#endif
