/* Works: collectives, sends and receives under way. */
#ifndef PLAIT_WORK_H
#define PLAIT_WORK_H

#include <pthread.h>
#include <stdatomic.h>

#include "collectives/execute.h"
#include "fault/fault.h"
#include "plait.h"

struct comm;
struct engine;
struct world;
struct prepared;
struct work_pool;

enum work_kind {
    WORK_COLLECTIVE,
    WORK_SEND,
    WORK_RECV,
    WORK_GROUP /* stands for several, its members; without a communicator of its own */
};

struct work {
    enum work_kind kind;
    _Atomic int status;     /* a plait_status; set last, after which a blocking caller's work is gone */
    _Atomic int references; /* the handle, and the engine or the group; a blocking call's work has none */
    struct comm *comm;
    plait_comm *comm_handle; /* by which a waiter finds out whether `comm` still lives */
    struct work *next;       /* in the engine's or the communicator's list */
    bool begun;
    bool counted; /* in the engine's and the communicator's counts */
    bool heap;
    int64_t deadline; /* 0: not looked at yet */
    uint64_t number;  /* the operation's; 0 for messages */

    struct execution execution; /* collectives */
    struct layout *layout;    /* room for a v-form's, kept while works come and go; works on the heap only */
    size_t layout_room;       /* bytes of it */
    struct transfer transfer; /* messages */
    size_t element_size;
    int source; /* rank of the communicator whose message a receive got */

    struct work *group;   /* whose member this is; NULL: nobody's */
    struct work *sibling; /* the next member, or the first for a group's work */
    int *source_out;      /* where a member that receives leaves its source and count; NULL: nowhere */
    size_t *received_out;
    _Atomic int unfinished;    /* members of a group's work */
    _Atomic int first_failure; /* of them: a plait_status */
    struct prepared *prepared; /* whose members a group's work runs; NULL: they are its own */

    plait_work *handle;
    struct work_pool *pool; /* where it came from and goes to; works on the heap only */
    pthread_mutex_t lock; /* guards the callback against its completion, a group's fault; on the heap only */
    plait_work_callback callback;
    void *callback_context;
    bool called;                /* done, and the callback was looked at */
    struct fault_record *fault; /* NULL unless it failed */
};

/* Makes a work on the heap with its public handle, or fills the caller's own. */
plait_status work_make(struct comm *comm, enum work_kind kind, struct work **work);
/* Gives a work on the heap its call, with a copy of the call's layout. */
plait_status work_set_call(struct work *work, const struct call *call);
/* Frees a work that was made and never submitted. */
void work_drop(struct work *work);
void work_init(struct work *work, struct comm *comm, enum work_kind kind);

/* A work on the heap without a handle, on behalf of its group; or one that stands for a group, from
 * `world`'s stock if there is one. */
plait_status work_make_member(struct comm *comm, enum work_kind kind, struct work **work);
plait_status work_make_group(struct world *world, struct work **work);
/* Gives it a public handle, which is one more reference. */
plait_status work_publish(struct work *work);
/* Lets go of one reference; the last one frees it. */
void work_let_go(struct work *work);

/* Calls the callback of a work that is done, on the thread that drives `engine`. */
void work_call_back(struct work *work, plait_status status, const struct engine *engine);
/* Keeps what went wrong. */
void work_keep_fault(struct work *work, const struct fault_record *record);

/* Settles a work: status, fault, callback, and those who wait. `record` may be
 * NULL for success. The driver's. */
void work_finish(struct work *work, plait_status status, const struct fault_record *record);

static inline plait_status work_status(const struct work *work)
{
    return (plait_status)atomic_load_explicit(&work->status, memory_order_acquire);
}

/* As plait_work_wait(). */
plait_status work_wait(struct work *work, int64_t timeout_ms, const char *function);

/* Makes the sentence of a work that failed this thread's. Returns its status. */
plait_status work_tell(const struct work *work);

#endif
