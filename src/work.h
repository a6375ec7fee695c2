/* Works: collectives, sends and receives under way. */
#ifndef PLAIT_WORK_H
#define PLAIT_WORK_H

#include <pthread.h>
#include <stdatomic.h>

#include "collectives/execute.h"
#include "fault/fault.h"
#include "plait.h"

struct comm;

enum work_kind { WORK_COLLECTIVE, WORK_SEND, WORK_RECV };

struct work {
    enum work_kind kind;
    _Atomic int status;     /* a plait_status; set last, after which a blocking caller's work is gone */
    _Atomic int references; /* the caller's handle and the engine; a blocking call's work has none */
    struct comm *comm;
    plait_comm *comm_handle; /* by which a waiter finds out whether `comm` still lives */
    struct work *next;       /* in the engine's or the communicator's list */
    bool begun;
    bool counted; /* in the engine's and the communicator's counts */
    bool heap;
    int64_t deadline; /* 0: not looked at yet */
    uint64_t number;  /* the operation's; 0 for messages */

    struct execution execution; /* collectives */
    struct layout *layout;      /* of a v-form; its call's */
    struct transfer transfer;   /* messages */
    size_t element_size;
    int source; /* rank of the communicator whose message a receive got */

    plait_work *handle;
    pthread_mutex_t lock; /* guards the callback against its completion; heap works only */
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

/* Settles a work: status, fault, callback, and those who wait. `record` may be
 * NULL for success. The driver's. */
void work_finish(struct work *work, plait_status status, const struct fault_record *record);

static inline plait_status work_status(const struct work *work)
{
    return (plait_status)atomic_load_explicit(&work->status, memory_order_acquire);
}

/* Makes the sentence of a work that failed this thread's. Returns its status. */
plait_status work_tell(const struct work *work);

#endif
