/* The script: what a planner writes its steps to, one line of code a step. */
#ifndef PLAIT_COLLECTIVES_SCRIPT_H
#define PLAIT_COLLECTIVES_SCRIPT_H

#include "collectives/plan.h"

/* Counts all steps and keeps those from `first` on that `steps` has room for. */
struct script {
    int rank;
    int first, room;
    struct step *steps;
    int count;
};

static inline struct place place_of(enum buffer buffer, int block, int part)
{
    return (struct place){ .buffer = buffer, .block = block, .part = part };
}

/* `count` parts from `first` on. */
static inline struct place place_parts(enum buffer buffer, int first, int count)
{
    return (struct place){ .buffer = buffer, .part = first, .more = count - 1 };
}

/* A whole block. */
static inline struct place place_block(enum buffer buffer, int block)
{
    return place_of(buffer, block, ALL_PARTS);
}

/* A block of WORK that holds block `of` of the data. */
static inline struct place place_work(int block, int of)
{
    return (struct place){ .buffer = BUFFER_WORK, .block = block, .part = ALL_PARTS, .of = of };
}

static inline void script_add(struct script *script, struct step step)
{
    int index = script->count++ - script->first;
    if (index >= 0 && index < script->room)
        script->steps[index] = step;
}

/* `from` is this rank's own. */
static inline void script_copy(struct script *script, int stage, struct place to, struct place from)
{
    script_add(script,
               (struct step){ STEP_COPY, .stage = stage, .peer = script->rank, .to = to, .from = from });
}

/* `from` is in the window of `peer`. */
static inline void script_fetch(struct script *script, int stage, struct place to, int peer,
                                struct place from)
{
    script_add(script, (struct step){ STEP_COPY, .stage = stage, .peer = peer, .to = to, .from = from });
}

static inline void script_put(struct script *script, int stage, struct place to, struct place from)
{
    script_add(script,
               (struct step){ STEP_PUT, .stage = stage, .peer = script->rank, .to = to, .from = from });
}

static inline void script_signal(struct script *script, int stage)
{
    script_add(script, (struct step){ STEP_SIGNAL, .stage = stage, .peer = ALL_RANKS });
}

static inline void script_wait(struct script *script, int stage, int peer, int wait_stage)
{
    script_add(script, (struct step){ STEP_WAIT, .stage = stage, .peer = peer, .wait_stage = wait_stage });
}

static inline void script_reduce(struct script *script, int stage, struct place to, struct place own,
                                 struct place from, struct place also)
{
    script_add(script, (struct step){ STEP_REDUCE, .stage = stage, .peer = script->rank, .to = to, .own = own,
                                      .from = from, .also = also });
}

/* Over ranks 0 .. ranks - 1. */
static inline void script_reduce_first(struct script *script, int stage, struct place to, struct place own,
                                       struct place from, int ranks)
{
    script_add(script, (struct step){ STEP_REDUCE, .stage = stage, .peer = script->rank, .ranks = ranks,
                                      .to = to, .own = own, .from = from });
}

static inline void script_running(struct script *script, int stage, struct place to, struct place own,
                                  struct place from, int ranks)
{
    script_add(script, (struct step){ STEP_RUNNING, .stage = stage, .peer = script->rank, .ranks = ranks,
                                      .to = to, .own = own, .from = from });
}

static inline void script_widen(struct script *script, int stage, struct place to, struct place from)
{
    script_add(script,
               (struct step){ STEP_WIDEN, .stage = stage, .peer = script->rank, .to = to, .from = from });
}

static inline void script_narrow(struct script *script, int stage, struct place to, struct place from)
{
    script_add(script,
               (struct step){ STEP_NARROW, .stage = stage, .peer = script->rank, .to = to, .from = from });
}

static inline void script_send(struct script *script, int stage, int peer, struct place from)
{
    script_add(script, (struct step){ STEP_SEND, .stage = stage, .peer = peer, .from = from });
}

static inline void script_recv(struct script *script, int stage, int peer, struct place to)
{
    script_add(script, (struct step){ STEP_RECV, .stage = stage, .peer = peer, .to = to });
}

static inline void script_recv_reduce(struct script *script, int stage, int peer, struct place to,
                                      bool peer_left)
{
    script_add(script, (struct step){ STEP_RECV_REDUCE, .stage = stage, .peer = peer, .peer_left = peer_left,
                                      .to = to });
}

#endif
