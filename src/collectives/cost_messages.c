/* What a plan of messages costs where ranks come in groups: a message inside a group goes through memory, one
 * between groups over what joins them, which all ranks of a group share. The steps themselves are looked at, of
 * all ranks; so every plan on every grouping is told by one rule, with its chunks on the belt.
 *
 * In a tick all wait for the slowest group: a message's latency, then the bytes that all of its ranks send to, or
 * get from, other groups in that tick's stages; and what the busiest of them moves and folds. Small chunks fill
 * the belt soon, large ones pay the latency less often: the best size is part of the answer. */
#include <stdlib.h>

#include "collectives/cost.h"
#include "collectives/grouping.h"

enum {
    ALL_RANKS_TO = 256, /* of more, some groups stand for all */
    LEAST_CHUNK = 32 << 10,
    MOST_CHUNK = 2 << 20 /* bytes; larger ones fall out of the caches between two stages */
};

/* Links carry as much each way at once; but bytes that go the quieter way cost the ranks some time, too. */
static const double BACK_COSTS = 0.125;

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
    int groups;              /* that are looked at */
    size_t row;              /* loads of one of them: a stage each, then sums of all before it */
    struct load *loads;      /* row after row */
    struct load *rank_loads; /* of one rank */
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

static void add_message(struct model *model, struct load *sum, int rank, const struct step *step)
{
    const struct plan *plan = model->plan;
    const int *group = model->facts->groups->group;
    struct load *load = &model->rank_loads[step->stage];
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

static void add_step(struct model *model, struct load *sum, int rank, const struct step *step)
{
    switch (step->kind) {
    case STEP_SEND:
    case STEP_RECV:
    case STEP_RECV_REDUCE: add_message(model, sum, rank, step); break;
    case STEP_COPY:
    case STEP_WIDEN:
    case STEP_NARROW:
        model->rank_loads[step->stage].work_ns += cost_fold(&model->inside, share(model->plan, &step->to));
        break;
    default: break;
    }
}

/* Adds what `rank` does to its group's loads. */
static bool add_rank(struct model *model, struct load *loads, int rank)
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
        add_step(model, &loads[model->steps[i].stage], rank, &model->steps[i]);
    for (int stage = 0; stage < plan->stages; stage++) {
        const struct load *one = &model->rank_loads[stage];
        struct load *most = &loads[stage];
        most->work_ns = one->work_ns > most->work_ns ? one->work_ns : most->work_ns;
        most->across = one->across > most->across ? one->across : most->across;
        most->near = one->near > most->near ? one->near : most->near;
    }
    return true;
}

/* Turns the loads of each stage into the sums of all before it; there is one more. */
static void sum_up(struct load *loads, int stages)
{
    struct load sum = { 0 };
    for (int stage = 0; stage <= stages; stage++) {
        struct load next = loads[stage]; /* empty at the end */
        loads[stage] = sum;
        sum.out += next.out;
        sum.in += next.in;
        sum.work_ns += next.work_ns;
        sum.across += next.across;
        sum.near += next.near;
    }
}

/* A group in a tick in which chunks of so many bytes are in stages first .. end - 1. */
static double group_ns(const struct model *model, const struct load *loads, int first, int end, double chunk)
{
    const struct load *from = &loads[first], *to = &loads[end];
    double out = to->out - from->out, in = to->in - from->in;
    double more = out > in ? out : in, less = out > in ? in : out;
    double cost = (to->work_ns - from->work_ns) * chunk;
    if (to->across > from->across)
        cost += cost_message(model->facts) + cost_further(model->facts, to->across - from->across - 1) +
                cost_carry(model->facts, (more + BACK_COSTS * less) * chunk);
    if (to->near > from->near)
        cost += cost_message(&model->inside) + cost_further(&model->inside, to->near - from->near - 1);
    return cost;
}

/* The slowest group's tick. Where some stand for all and none of them has anything to do, another one has. */
static double tick_ns(const struct model *model, int first, int end, double chunk)
{
    double most = 0;
    for (int i = 0; i < model->groups; i++) {
        double cost = group_ns(model, model->loads + (size_t)i * model->row, first, end, chunk);
        most = cost > most ? cost : most;
    }
    return most > 0 || model->groups == model->facts->groups->count ? most : cost_message(model->facts);
}

/* All ticks. While the belt fills and empties each is another one; between, all are alike. */
static double belt_ns(const struct model *model, size_t size, size_t target)
{
    int stages = model->plan->stages;
    size_t chunks = size > target ? (size + target - 1) / target : 1;
    double chunk = (double)size / (double)chunks;
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

/* Fills the loads of all groups that count; false without memory. */
static bool look(struct model *model)
{
    const struct grouping *groups = model->facts->groups;
    int looked = 0;
    for (int group = 0; group < groups->count; group++)
        looked += counts(model, group);
    model->row = (size_t)model->plan->stages + 1;
    model->loads = calloc((size_t)looked + 1, model->row * sizeof *model->loads);
    if (model->loads == NULL)
        return false;
    model->rank_loads = model->loads + (size_t)looked * model->row;
    for (int group = 0; group < groups->count; group++) {
        if (!counts(model, group))
            continue;
        struct load *loads = model->loads + (size_t)model->groups++ * model->row;
        for (int place = 0; place < grouping_size(groups, group); place++)
            if (!add_rank(model, loads, grouping_rank(groups, group, place)))
                return false;
        sum_up(loads, model->plan->stages);
    }
    return true;
}

double cost_messages(const struct plan *plan, const struct cost_facts *facts, size_t size, size_t *chunk)
{
    struct model model = { .plan = plan, .facts = facts, .inside = *facts };
    double least = -1;
    model.inside.windows = true; /* through memory */
    if (look(&model)) {
        for (size_t target = LEAST_CHUNK; target <= MOST_CHUNK; target *= 2) {
            double cost = belt_ns(&model, size, target);
            if (least >= 0 && cost >= least)
                continue;
            least = cost;
            *chunk = target;
        }
    }
    free(model.loads);
    free(model.steps);
    return least;
}
