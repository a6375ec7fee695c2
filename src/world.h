/* The front's own structs: a world and its communicators. */
#ifndef PLAIT_WORLD_H
#define PLAIT_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/settings.h"
#include "collectives/group.h"
#include "engine.h"
#include "fault/fault.h"
#include "topology/machine.h"
#include "transport/heap.h"

/* A rank as its card told. */
struct member {
    int64_t pid;
    char host[HOST_NAME_BYTES];
    bool outside; /* on another host than this rank */
    int first;    /* rank on its host */
};

struct tidings;

struct world {
    plait_world *handle;
    int rank, size, local_rank, local_size;
    struct settings settings; /* its strings are not kept but for the names of the table */
    struct machine machine;
    int cores;     /* that the ranks of this host have between them */
    int all_cores; /* those of all hosts */
    struct member *members;
    const struct transport *transport;
    struct endpoint *endpoint;
    struct engine engine;
    struct heap heap;
    bool heap_open;
    struct work_pool *works;
    double line_ns;
    struct network network; /* between hosts */
    size_t pull_from;       /* as a group's */
    bool pull_near;
    unsigned fork_count; /* when the world was made */
    _Atomic int users;   /* threads inside of functions that may be called while another one destroys it */

    pthread_mutex_t lock; /* guards what follows */
    struct comm *comms;   /* all living ones */
    struct comm *retired; /* destroyed ones whose peers may still read what they left */
    unsigned char channels_used[BOARD_CHANNELS / 8];
    uint64_t lanes_used;
    uint64_t highest_number;   /* of any operation of any communicator that has ended */
    struct fault_record fault; /* the first */
};

struct comm {
    plait_comm *handle;
    struct world *world;
    struct comm *next; /* of the world */
    struct group group;
    int *world_ranks;
    struct tidings *tidings; /* where there is no board, */
    struct seat *seats;      /* and what they told, by rank */
    int channel, lane;       /* lane -1: only the seat's own staging */
    uint64_t first_number;   /* of its operations; with the channel, it tells communicators apart */
    int made;                /* communicators split off so far, for names */
    char name[64];
    _Atomic int64_t timeout_ms;
    struct layout *layout;   /* of the v-form that is being called; works have their own copies */
    _Atomic int outstanding; /* works that were handed to the engine and are not done */
    _Atomic int users;       /* as the world's */

    /* Guarded by the engine's drive. */
    struct work *first, *last; /* collectives, in order */
    struct comm *next_busy;
    bool busy;

    /* How it ended. `over` is a plait_status, 0 while it lives; written once, under
     * fault_lock, after `fault`. */
    _Atomic int over;
    pthread_mutex_t fault_lock;
    struct fault_record fault;
    _Atomic bool abort_asked; /* `fault` is not written yet; abort_reason is */
    char abort_reason[80];
    _Atomic bool leave_asked, left; /* destroyed here: the driver is to let go of it; it has */
};

/* The living communicator of a public handle, in this process; NULL with a sentence otherwise (in a forked
 * child, too). `function` is the caller's name. */
struct comm *comm_find(const plait_comm *handle, const char *function);

/* The same for functions that are safe at any time: it lives until it is let go. */
struct comm *comm_hold(const plait_comm *handle, const char *function);
static inline void comm_let_go(struct comm *comm)
{
    atomic_fetch_sub(&comm->users, 1);
}

/* The same of a world. */
struct world *world_hold(const plait_world *handle, const char *function);
static inline void world_let_go(struct world *world)
{
    atomic_fetch_sub(&world->users, 1);
}

/* Forks survived by this process's ancestors since they loaded the library. */
unsigned world_fork_count(void);

/* Was the world made before this process was forked? Then it is the parent's, and the sentence says so. */
bool world_is_parents(const struct world *world, const char *function);

/* What a communicator needs to be made; ranks are world ranks. */
struct comm_plan {
    const int *world_ranks;
    int rank, ranks;
    int channel, lane;
    uint64_t first_number; /* operations are numbered from here on */
    int64_t timeout_ms;
    const char *name;
};
plait_status comm_make(struct world *world, const struct comm_plan *plan, struct comm **comm);
/* Frees a communicator with no work left; its handle has ended. */
void comm_free(struct comm *comm);
/* Gives outstanding works and other threads' calls until `deadline`, then aborts them. */
void comm_settle(struct comm *comm, int64_t deadline);
/* Which channels and lanes (-1: none) this rank's communicators use. Under the world's lock. */
bool comm_places_used(const struct world *world, int channel, int lane);
void comm_use_places(struct world *world, int channel, int lane, bool used);
/* Frees what destroyed communicators have left, where nobody reads it any more. Under the world's lock. */
void comm_sweep(struct world *world);

/* Tries out how bytes go best between ranks (ways.c); all ranks of a starting world call it. */
plait_status world_try_ways(struct world *world);

/* Finds out what joins the hosts (network.c); all ranks of a starting world call it. */
plait_status world_measure_network(struct world *world);

/* Measures the line between ranks 0 and 1; all ranks of the group call it. 0 if it can't be measured. */
plait_status comm_probe_line(struct comm *comm, double *line_ns);

#endif
