/* A communicator as the executor sees it: who takes part, where their memory
 * is, and what is kept from one operation to the next. */
#ifndef PLAIT_COLLECTIVES_GROUP_H
#define PLAIT_COLLECTIVES_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "collectives/plan.h"
#include "transport/heap.h"
#include "transport/transport.h"

struct profile;
struct letters;
struct program;
struct exchange;

enum { SIZE_CLASSES = 64 }; /* a class for each power of two of a block's bytes */

/* The staging of a group: one ring, at the same place on every rank. The place
 * moves on by the same amount on all ranks, since all run the same operations. It begins in
 * the seats, and changes to a lane at the first operation for which those are too small (staging.h). */
struct staging {
    unsigned char **base;         /* each rank's, NULL without windows */
    size_t size;                  /* bytes */
    int lane;                     /* that it is in, or can change to */
    size_t lane_size;             /* bytes of the lane that it can change to; 0: it does no more */
    bool reserved;                /* this rank's lane has its memory */
    size_t position;              /* where the next operation's first slot may begin */
    size_t last_first, last_size; /* the ring's bytes that the previous operation used... */
    uint64_t last_number;         /* ...and its number */
};

/* A peer's buffers, where this rank reads them in place. */
struct shown {
    unsigned char *input, *output;
    bool is_private; /* the input: its address is the peer's, in its private memory, whence it is pulled */
    int64_t pid;     /* the peer's */
};

enum { LENT_KEPT = 4 };

/* Memory of this rank that its peers have read in place. */
struct lent {
    const unsigned char *first, *end;
};

struct group {
    int rank, ranks;
    const int *world_ranks;
    const struct transport *transport;
    struct endpoint *endpoint;
    uint64_t context;    /* of its messages */
    uint64_t number;     /* of the latest operation started; only grows, over all users of the channel */
    uint64_t uncounted;  /* what of it people don't count: other users', and the start's own */
    struct board *board; /* NULL where a peer's memory can't be read */
    struct heap *heap;   /* of this rank; NULL unless it can read those of all ranks */
    struct shown *shown; /* one a rank, of the operation under way if that runs in place */
    /* What was lent lately, a ring: peers' caches hold these lines, so ordinary stores to them are slow. */
    struct lent lent[LENT_KEPT];
    unsigned lent_count;
    size_t pull_from; /* bytes of a block from which on private inputs are pulled; 0: never */
    bool pull_near;   /* also while the cores are near */
    struct staging staging;
    enum stores stores;       /* as set */
    bool wide_stores;         /* the processor stores 16 aligned bytes at once */
    bool far;                 /* the cores of ranks 0 and 1 share no cache, as far as is known now */
    bool streamed;            /* staging is written past the caches now */
    size_t bytes_since_check; /* of the line's cost */
    struct cost_facts facts;
    struct grouping *groups; /* of its ranks, for the facts; NULL where all are alike */
    const char *forced_plan;
    bool prove; /* each plan before it runs */
    /* Of the time of operations: that of those which begin now, NULL if it is not wanted; the one there is. */
    _Atomic(struct profile *) profiling, profile;
    bool crowded;        /* more ranks than cores: a peer may need the very core that waits for it */
    uint64_t prints[2];  /* in this rank's notices; read here, since their lines are the peers' by then */
    int looks;           /* at a peer's word in a row before the executor gives up for now */
    size_t stream_above; /* outputs of more bytes are written past the caches */
    _Atomic(const char *) last_plan;

    struct program *programs[COLLECTIVES][SIZE_CLASSES];
    const void **sources;      /* one a rank, for the reduction under way */
    unsigned char *gathered;   /* NOTICE_BYTES a rank: contributions that came in several lines */
    struct letters *letters;   /* where there is no board; NULL before the first operation */
    struct exchange *exchange; /* counts that ranks compare before a v-form; NULL before the first */
    struct transfer *transfers;
    int transfer_room;
    unsigned char *work; /* scratch of message plans */
    size_t work_size;
};

/* Takes note of what a line costs now. */
void group_note_line(struct group *group, double line_ns);

/* The next operations choose their plans anew, since the facts have changed; on all ranks at the same operation. */
void group_forget_plans(struct group *group);

/* Frees what operations have gathered; not the board. */
void group_clear(struct group *group);

#endif
