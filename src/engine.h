/* The engine: who makes progress, and on what.
 *
 * At any time at most one thread *drives* a world: it advances all works under way and moves messages.
 * A thread that waits for a work drives until that work is done. If another drives already, it sleeps
 * until the work is done or the drive is free. A background thread drives only while works are
 * outstanding and nobody waits; it is made at the first such work and sleeps otherwise, so an idle
 * world uses no CPU. */
#ifndef PLAIT_ENGINE_H
#define PLAIT_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "callback.h"
#include "patience.h"
#include "transport/transport.h"

struct comm;
struct use_question;
struct work;
struct world;

struct engine {
    struct world *world;
    const struct transport *transport;
    struct endpoint *endpoint;
    struct bell *bell;    /* NULL if the transport has none */
    struct berth berth;   /* where the driver sleeps then */
    bool crowded;         /* more ranks on this host than cores */
    struct temper temper; /* the driver's: how waits have gone so far */

    _Atomic int driving;   /* 1 while a thread drives */
    _Atomic int active;    /* works that are not done */
    _Atomic int waiters;   /* threads that sleep on `turn` */
    _Atomic uint32_t turn; /* changes when the drive becomes free or a work is done */
    _Atomic bool alarm;    /* somebody asked for a communicator's end, or a question: look at once */
    struct use_question *_Atomic question; /* waits for the driver's answer (uses.h) */

    pthread_mutex_t lock; /* guards the list of works that were submitted, and the making of the thread */
    struct work *incoming, *incoming_last;
    bool has_thread;
    pthread_t thread;
    _Atomic bool incoming_any;
    _Atomic bool stop;            /* the thread is to end */
    _Atomic uint32_t thread_word; /* changes when the thread is wanted */
    _Atomic bool thread_idle;     /* it sleeps on that until it changes */

    /* The driver's. */
    struct comm *busy;     /* communicators with collectives under way */
    struct work *messages; /* sends and receives under way */
    int64_t next_watch_ns, next_life_ns;
    unsigned passes;
};

plait_status engine_start(struct engine *engine, struct world *world);
/* Ends the background thread. No work may be left. */
void engine_stop(struct engine *engine);

/* Becomes the driver, if nobody is. */
static inline bool engine_enter(struct engine *engine)
{
    return atomic_load_explicit(&engine->driving, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&engine->driving, 1, memory_order_acquire) == 0;
}

/* Ends the drive, and sees to it that what is left gets a driver. */
void engine_leave(struct engine *engine);

/* The driver's: takes a communicator without works, which is about to be freed, out of its list. */
void engine_forget(struct engine *engine, struct comm *comm);

/* The driver's: one round over everything. True if something moved. */
bool engine_pass(struct engine *engine);

/* Puts a work where the driver finds it; engine_nudge() or engine_wait() must follow. Any thread. */
void engine_submit(struct engine *engine, struct work *work);

/* Makes the progress that can be made now, or has the driver look up. */
void engine_nudge(struct engine *engine);

/* Has the background thread, or who drives already, take up what was submitted, while the caller goes on at
 * once: for works that last longer than it takes to wake a thread. */
void engine_hand_over(struct engine *engine);

/* A work is done: wakes those who may wait for it. The driver's. */
void engine_work_done(struct engine *engine);

/* Runs a work to its end: `work` lies on the stack of its caller, who waits. A failure's sentence becomes
 * this thread's. */
plait_status engine_run(struct engine *engine, struct work *work);

/* Runs works of one world, linked by `sibling`, until `all`, the work that stands for them, is done. */
void engine_run_together(struct engine *engine, struct work *first, struct work *all);

/* Waits for a work, driving when it can. PLAIT_IN_PROGRESS when `deadline` passes first. */
plait_status engine_wait(struct engine *engine, struct work *work, int64_t deadline);

#endif
