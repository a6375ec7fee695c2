/* What a plan of messages costs where ranks come in groups: a message inside a group goes through memory, one
 * between groups over what joins them, which all ranks of a group share. The steps themselves are looked at, of
 * all ranks; so every plan on every grouping is told by one rule, with its chunks on the belt.
 *
 * In a tick a group's ranks wait for the slowest of them: a message's latency, then the bytes that all of them
 * send to, or get from, other groups in that tick's stages; and what the busiest of them moves and folds. */
#include <stdlib.h>

#include "collectives/cost.h"
#include "collectives/grouping.h"

enum { ALL_RANKS_TO = 256 }; /* of more, some groups stand for all */

/* What a group does in one stage with a chunk. */
struct load {
    double out, in;   /* blocks, to and from other groups */
    double work_ns;   /* of the busiest rank, for each byte of a block */
    int across, near; /* messages of the busiest rank */
};

struct model {
    const struct plan *plan;
    const struct cost_facts *facts;
    struct cost_facts inside;
    struct load *loads; /* of one group, by stage; then the sums of all stages before each */
    struct load *rank_loads;
    struct step *steps;
    int room;
};

/* How much of a chunk of a block a place has. */
static double share(const struct plan *plan, const struct place *place)
{
    if (place->buffer == BUFFER_NONE)
        return 0;
    return place->part == ALL_PARTS ? 1 : (double)(1 + place->more) / plan->parts;
}

static void add_message(struct model *model, int rank, const struct step *step)
{
    const struct plan *plan = model->plan;
    const int *group = model->facts->groups->group;
    struct load *load = &model->rank_loads[step->stage], *sum = &model->loads[step->stage];
    bool sends = step->kind == STEP_SEND;
    double part = share(plan, sends ? &step->from : &step->to);
    if (step->kind == STEP_RECV_REDUCE)
        load->work_ns += cost_fold(&model->inside, 2 * part);
    if (group[rank] == group[step->peer]) {
        load->near++;
        load->work_ns += cost_carry(&model->inside, part);
        return;
    }
    load->across++;
    sum->out += sends ? part : 0;
    sum->in += sends ? 0 : part;
}

static void add_step(struct model *model, int rank, const struct step *step)
{
    switch (step->kind) {
    case STEP_SEND:
    case STEP_RECV:
    case STEP_RECV_REDUCE: add_message(model, rank, step); break;
    case STEP_COPY:
    case STEP_WIDEN:
    case STEP_NARROW:
        model->rank_loads[step->stage].work_ns += cost_fold(&model->inside, share(model->plan, &step->to));
        break;
    default: break;
    }
}

static bool add_rank(struct model *model, int rank)
{
    const struct plan *plan = model->plan;
    int count = plan_steps(plan, rank);
    if (count > model->room) {
        free(model->steps);
        model->steps = malloc((size_t)count * sizeof *model->steps);
        model->room = model->steps != NULL ? count : 0;
        if (model->steps == NULL)
            return false;
    }
    plan_lay(plan, rank, model->steps, count);
    for (int stage = 0; stage < plan->stages; stage++)
        model->rank_loads[stage] = (struct load){ 0 };
    for (int i = 0; i < count; i++)
        add_step(model, rank, &model->steps[i]);
    for (int stage = 0; stage < plan->stages; stage++) {
        const struct load *one = &model->rank_loads[stage];
        struct load *most = &model->loads[stage];
        most->work_ns = one->work_ns > most->work_ns ? one->work_ns : most->work_ns;
        most->across = one->across > most->across ? one->across : most->across;
        most->near = one->near > most->near ? one->near : most->near;
    }
    return true;
}

/* Turns the loads of each stage into the sums of all before it; there is one more. */
static void sum_up(struct model *model)
{
    struct load sum = { 0 };
    for (int stage = 0; stage <= model->plan->stages; stage++) {
        struct load next = { 0 };
        if (stage < model->plan->stages)
            next = model->loads[stage];
        model->loads[stage] = sum;
        sum.out += next.out;
        sum.in += next.in;
        sum.work_ns += next.work_ns;
        sum.across += next.across;
        sum.near += next.near;
    }
}

/* A tick in which chunks are in stages first .. end - 1. */
static double tick_ns(const struct model *model, int first, int end, double chunk)
{
    const struct load *from = &model->loads[first], *to = &model->loads[end];
    double out = to->out - from->out, in = to->in - from->in;
    double cost = (to->work_ns - from->work_ns) * chunk;
    if (to->across > from->across)
        cost += cost_message(model->facts) + cost_further(model->facts, to->across - from->across - 1) +
                cost_carry(model->facts, (out > in ? out : in) * chunk);
    if (to->near > from->near)
        cost += cost_message(&model->inside) + cost_further(&model->inside, to->near - from->near - 1);
    return cost;
}

/* All ticks of one group. While the belt fills and empties each tick is another one; between, all are alike. */
static double belt_ns(const struct model *model, size_t chunks, double chunk)
{
    int stages = model->plan->stages;
    int wide = chunks < (size_t)stages ? (int)chunks : stages; /* stages at work at a time */
    double cost = 0;
    for (int end = 1; end < stages; end++)
        cost += tick_ns(model, end > wide ? end - wide : 0, end, chunk);
    cost += tick_ns(model, stages - wide, stages, chunk) * (double)(chunks - (size_t)wide + 1);
    for (int first = stages - wide + 1; first < stages; first++)
        cost += tick_ns(model, first, stages, chunk);
    return cost;
}

/* Is the group looked at? */
static bool counts(const struct model *model, int group)
{
    const struct grouping *groups = model->facts->groups;
    return groups->ranks <= ALL_RANKS_TO || group == 0 || group == groups->count - 1 ||
           group == groups->count / 2 || group == groups->group[model->plan->root];
}

/* The slowest group's time; < 0 without memory. */
static double slowest(struct model *model, size_t chunks, double chunk)
{
    const struct grouping *groups = model->facts->groups;
    double most = 0;
    for (int group = 0; group < groups->count; group++) {
        if (!counts(model, group))
            continue;
        for (int stage = 0; stage <= model->plan->stages; stage++)
            model->loads[stage] = (struct load){ 0 };
        for (int place = 0; place < grouping_size(groups, group); place++)
            if (!add_rank(model, grouping_rank(groups, group, place)))
                return -1;
        sum_up(model);
        double cost = belt_ns(model, chunks, chunk);
        most = cost > most ? cost : most;
    }
    return most;
}

double cost_messages(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    struct model model = { .plan = plan, .facts = facts, .inside = *facts };
    size_t target = cost_chunk(facts), chunks = size > target ? (size + target - 1) / target : 1;
    model.inside.windows = true; /* through memory */
    model.loads = calloc(2 * (size_t)plan->stages + 1, sizeof *model.loads);
    double cost = -1;
    if (model.loads != NULL) {
        model.rank_loads = model.loads + plan->stages + 1;
        cost = slowest(&model, chunks, (double)size / (double)chunks);
    }
    free(model.loads);
    free(model.steps);
    return cost;
}
