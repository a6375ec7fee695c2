/* Batches: works of any communicators and worlds that are started together, linked by `sibling`, with one work
 * that stands for all and is done when all are. Its status is the first failure among them. */
#ifndef PLAIT_BATCH_H
#define PLAIT_BATCH_H

#include "work.h"

struct batch {
    struct work *first, *last;
    int count;
};

/* Calls that can be started again and again. */
struct prepared {
    plait_prepared *handle;
    struct batch batch;
    /* One word, so that whoever is last frees it at no more cost: PREPARED_RUNNING from a start until its calls are
     * done, and PREPARED_HELD for the handle and for each work that stands for a start. */
    _Atomic unsigned state;
};

enum { PREPARED_RUNNING = 1, PREPARED_HELD = 2 };

void batch_append(struct batch *batch, struct work *member);
bool batch_is_of_one_world(const struct work *first);

/* Do all communicators still live, in this process, and may this thread wait for them if it `waits`? */
plait_status batch_check(const struct batch *batch, bool waits, const char *function);

/* Starts a batch. With `out` it is under way when this returns, else done. The members are the work's from then
 * on, or stay with `prepared` if that is not NULL. Without memory for that work the batch is dropped. */
plait_status batch_start(struct batch *batch, struct prepared *prepared, plait_work **out,
                         const char *function);

/* A batch that is not started after all: works of its own that a call was given fail with this thread's sentence. */
void batch_drop(struct batch *batch, plait_status status);

/* Lets go of members. */
void batch_let_go(struct work *first);
/* Takes PREPARED_RUNNING or PREPARED_HELD back. */
void prepared_let_go(struct prepared *prepared, unsigned what);

/* A member has its status. From here on it may be gone. The driver's. */
void batch_member_done(struct work *member, plait_status status, const struct fault_record *record);

#endif
