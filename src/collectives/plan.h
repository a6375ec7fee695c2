/* Plans: what each rank does in one collective, as a pure function.
 *
 * A plan is valid for any count. It speaks of a *chunk*: the same run of
 * elements of every *block* of the collective's data (a block has `count`
 * elements; all-reduce, reduce and broadcast have one block, the others one a
 * rank). A chunk may be dealt in *parts* (span_part() of the chunk). A *place* is
 * a buffer, a block of it and a part of the chunk, or some parts that follow each other. Blocks may differ in length (v-forms): then
 * `count` is the longest's, and all places of a step are of one block of the data.
 *
 * Steps are ordered by *stage*. Chunk c runs stage s in *tick* c + s, so chunks
 * follow each other through the stages like work on a belt. In a tick a rank
 * takes its steps in order of stage and, in a stage, in order of index:
 *  - local steps (copy, put, reduce, widen, narrow) are done at once;
 *  - a wait holds the rank up until the peer has signalled that stage of that chunk;
 *  - transfers (send, recv, recv-reduce) are started, and the tick ends when
 *    all of its transfers are done. So what a stage receives, a later stage uses; and
 *    what a stage sends must not be changed by that stage.
 *
 * Messages. Within one stage of one chunk there is at most one for each ordered pair of ranks. Accumulators
 * go from WORK to WORK, elements between the other buffers; windows take no part. BUFFER_NONE
 * at both ends is an empty message, which only orders the two ranks. All places of a step, and
 * both ends of a message, name the same part.
 *
 * Windows. Each rank's last step is the signal of the last stage, and every stage in which some
 * rank touches a window ends in a signal on every rank. Where a rank writes to its window, a PUT
 * comes first: it is what waits for the slot to be free.
 *
 * Plans in place read the INPUT and OUTPUT of peers where they lie; which of them, the planner's shows()
 * tells. They run when all that are shown can be read, known once all have met; and a rank is through only
 * when nobody reads its buffers any more.
 *
 * The executor adds what no planner needs to think of: nothing writes an OUTPUT before every rank's
 * call is known to be the same; a window slot is written again only after all ranks have signalled the
 * last stage of the chunk that used it; WORK holds as many chunks as are under way. */
#ifndef PLAIT_COLLECTIVES_PLAN_H
#define PLAIT_COLLECTIVES_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/collective.h"
#include "plait.h"

enum buffer {
    BUFFER_NONE,
    BUFFER_INPUT,  /* the caller's, read only; elements of the call's type */
    BUFFER_OUTPUT, /* the caller's; on a broadcast's root, input and output are the same memory */
    BUFFER_WORK,   /* ours; elements of the type's accumulator (float32 for 16-bit floats) where the
                      collective reduces, else of the call's type */
    BUFFER_WINDOW  /* this rank's staging slot, which peers read in place; elements of the call's type */
};

enum { ALL_PARTS = -1, ALL_RANKS = -1 };

struct place {
    enum buffer buffer;
    int block;
    int part; /* 0 .. parts - 1, or ALL_PARTS */
    int more; /* parts after that one, too; 0 with ALL_PARTS */
    int of;   /* WORK where the input has a block a rank: the one that it holds */
};

enum step_kind {
    STEP_COPY,       /* to = from; from may be peer's WINDOW, or what it shows */
    STEP_PUT,        /* to = from; to is this rank's WINDOW, about to be read by others */
    STEP_SIGNAL,     /* tells all ranks that this stage of this chunk is done here */
    STEP_WAIT,       /* until `peer`, or ALL_RANKS, signalled `wait_stage` of this chunk */
    STEP_REDUCE,     /* to = fold over ranks 0, 1, ...: `own` for this rank, `from` in their WINDOW (or
                         INPUT, if they show it) for the others; divides for AVERAGE, rounds once. `to` is
                         OUTPUT or this rank's WINDOW; also written to `also` (this rank's WINDOW) unless
                         BUFFER_NONE. Over the first `ranks` only where that is not 0 */
    STEP_RUNNING,    /* `to` (this rank's WINDOW) and the blocks after it = folds over ranks 0, 0 and 1, ...,
                         `ranks` of them, as of a REDUCE */
    STEP_WIDEN,      /* to (WORK) = from, widened to the accumulator */
    STEP_NARROW,     /* to = from (WORK), divided for AVERAGE, rounded once */
    STEP_SEND,       /* from -> peer */
    STEP_RECV,       /* to <- peer */
    STEP_RECV_REDUCE /* to (WORK) = message op to when `peer_left`, else to op message */
};

struct step {
    enum step_kind kind;
    int stage;
    int peer;       /* a rank, ALL_RANKS, or the rank itself for local steps */
    int wait_stage; /* STEP_WAIT */
    int ranks;      /* STEP_REDUCE, STEP_RUNNING */
    bool peer_left; /* STEP_RECV_REDUCE */
    struct place from, own, to, also;
};

struct planner;
struct grouping;

struct plan {
    const struct planner *planner;
    const struct grouping *groups; /* of the ranks, where the planner needs them; outlives the plan */
    enum collective kind;
    int ranks;
    int root;
    int parts; /* parts of a chunk */
    int stages;
    int window_blocks; /* blocks of a staging slot; 0: the plan needs no windows */
    int work_blocks;   /* blocks of WORK a rank needs */
};

/* How a plan combines contributions: a later one is stricter. */
enum fold_order {
    FOLDS_ANYHOW,     /* for operations that commute */
    FOLDS_NEIGHBOURS, /* in the order of ranks, with brackets anywhere */
    FOLDS_LEFT        /* ((rank 0 op rank 1) op rank 2) ...: the same bits by every such plan */
};

/* What carries messages between groups of ranks; 0: a guess. */
struct network {
    double latency_ns;  /* of a small message, one way */
    double ns_per_byte; /* that a group sends, while it receives as much */
};

/* What the cost model knows. The same on all ranks. */
struct cost_facts {
    int ranks;
    int cores;                     /* of the host, shared by those ranks; 0 if unknown */
    double line_ns;                /* one way of a cache line; 0 if unknown */
    bool windows;                  /* peers' staging can be read in place */
    size_t staging;                /* bytes of it a rank; 0: as much as a plan could want */
    enum fold_order order;         /* what the operation, or its caller, asks of reductions at least */
    const struct grouping *groups; /* ranks that are near each other; NULL: all are alike */
    struct network network;        /* between the groups; between all ranks where there are none, nor windows */
};

struct script; /* what a planner writes steps to: script.h */

struct planner {
    const char *name;   /* "direct-one-shot" */
    bool needs_windows; /* or signals, which live beside them; not for a single rank */
    bool needs_groups;  /* two or more, of which some have several ranks */
    /* In-place planners only, NULL for others: do peers read that buffer, INPUT or OUTPUT, of `rank`? */
    bool (*shows)(const struct plan *plan, int rank, enum buffer buffer);
    /* Can it plan `kind` for that many ranks? */
    bool (*serves)(enum collective kind, int ranks);
    /* How contributions are combined; NULL: anyhow. */
    enum fold_order (*folds)(enum collective kind, int root);
    /* Fills parts, stages, window_blocks, work_blocks. */
    void (*shape)(struct plan *plan);
    /* Writes the steps of one chunk on `rank`, in order; each stage's are consecutive and stages ascend. */
    void (*lay)(const struct plan *plan, int rank, struct script *script);
    /* Predicted nanoseconds for `size` bytes a block. */
    double (*cost_ns)(const struct plan *plan, const struct cost_facts *facts, size_t size);
};

/* Has the input to be apart from the output? An in-place all-to-all knows no order in which nobody's block
 * is overwritten before its peer has read it. */
static inline bool plan_wants_apart(const struct plan *plan)
{
    return plan->planner->shows != NULL && plan->kind == COLLECTIVE_ALLTOALL;
}

/* All planners; NULL ends the list. Order breaks ties of cost. */
extern const struct planner *const planners[];
/* By name; "direct", "hierarchy" and "in-place" are the first of theirs. NULL if unknown. */
const struct planner *planner_find(const char *name);
/* Is `planner` meant by `name`: its own, or "direct" for every "direct-...", and so on? */
bool planner_answers(const struct planner *planner, const char *name);

/* Is `name` that of a planner which works in place? */
bool plan_means_in_place(const char *name);

/* A plan of `planner`, which must serve the kind and need no groups. */
struct plan plan_make(const struct planner *planner, enum collective kind, int ranks, int root);
/* The same of any planner; `groups` may be NULL if it needs none. */
struct plan plan_make_for(const struct planner *planner, enum collective kind, int ranks, int root,
                          const struct grouping *groups);

/* The pure function: step `index` of `rank`, 0 <= index < plan_steps(plan, rank). It walks the
 * script, so whoever wants all steps takes them by plan_lay(). */
int plan_steps(const struct plan *plan, int rank);
struct step plan_step(const struct plan *plan, int rank, int index);
/* Puts the first `room` steps of `rank` into `steps`; returns how many there are. */
int plan_lay(const struct plan *plan, int rank, struct step *steps, int room);

/* For people: "all-reduce of 4 ranks by ring" and "step 3 of rank 1, stage 2: send to rank 2". */
void plan_describe(const struct plan *plan, char *text, size_t size);
void step_describe(const struct step *step, int rank, int index, char *text, size_t size);

/* Proves a plan: each output element gets each contribution exactly once and in one order of ranks
 * everywhere; no step reads what another may be writing (transfers of one tick are concurrent; ranks
 * run apart except where a wait or a message orders them); it ends; every place is inside its buffer,
 * and at most one message per ordered pair and stage; all of that with buffers apart and in place.
 * Looks at `chunks` chunks on the belt (1 to 3 tell all). On failure the sentence names the rank, the
 * step and the rule, and the status is PLAIT_INTERNAL. */
plait_status plan_verify(const struct plan *plan, int chunks);

/* The choice for a call: cheapest planner by cost, or the one called `forced` ("auto", NULL or an in-place
 * one: none; "direct": the cheaper direct one; "deterministic": one that no measurement changes) where it
 * serves, else the cheapest with a warning once. Some planner
 * serves every kind, but there may be none that folds in the order that facts->order asks for, or no memory to
 * tell: NULL. */
struct plan plan_choose(enum collective kind, int ranks, int root, size_t block_size,
                        const struct cost_facts *facts, const char *forced);

/* The in-place plan for the same call where buffers can be read in place: the cheapest one if it is cheaper
 * than `staged`, or the one called `forced`; its planner is NULL if there is none. */
struct plan plan_choose_in_place(const struct plan *staged, size_t block_size, const struct cost_facts *facts,
                                 const char *forced);

#endif
