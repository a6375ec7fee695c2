/* Every planner, proved for every kind and many numbers of ranks: the pure functions alone, no transport. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "check.h"
#include "collectives/plan.h"

static const int rank_counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 32, 33, 64 };
enum { ALL_ROOTS_TO = 9 }; /* for more ranks a few roots stand for all */

struct subject {
    const struct planner *planner;
    enum collective kind;
};

static void prove(const struct planner *planner, enum collective kind, int ranks, int root, int chunks)
{
    struct plan plan = plan_make(planner, kind, ranks, root);
    if (plan_verify(&plan, chunks) != PLAIT_OK)
        fail_msg("%s", plait_last_error());
}

static bool root_counts(enum collective kind, int ranks, int root)
{
    if (!collective_has_root(kind))
        return root == 0;
    return ranks <= ALL_ROOTS_TO || root == 0 || root == 1 || root == ranks / 2 || root == ranks - 1;
}

static void is_proved(void **state)
{
    const struct subject *subject = *state;
    for (size_t i = 0; i < LENGTH(rank_counts); i++) {
        int ranks = rank_counts[i];
        if (!subject->planner->serves(subject->kind, ranks))
            continue;
        for (int root = 0; root < ranks; root++)
            if (root_counts(subject->kind, ranks, root))
                for (int chunks = 1; chunks <= (ranks <= 17 ? 3 : 2); chunks++)
                    prove(subject->planner, subject->kind, ranks, root, chunks);
    }
}

/* Whether windows can be had or not, and for a single rank, somebody serves. */
static void every_kind_is_served(void **state)
{
    (void)state;
    for (int kind = 0; kind < COLLECTIVES; kind++)
        for (int ranks = 1; ranks <= 70; ranks++) {
            int with = 0, without = 0;
            for (const struct planner *const *planner = planners; *planner; planner++) {
                if ((*planner)->needs_groups)
                    continue;
                bool serves = (*planner)->serves((enum collective)kind, ranks);
                with += serves && (*planner)->needs_windows;
                without += serves && !(*planner)->needs_windows;
            }
            assert_true(with > 0);
            assert_true(ranks == 1 || without > 0);
        }
}

static void a_single_rank_needs_no_windows(void **state)
{
    (void)state;
    for (const struct planner *const *planner = planners; *planner; planner++)
        for (int kind = 0; kind < COLLECTIVES; kind++)
            if ((*planner)->serves((enum collective)kind, 1)) {
                struct plan plan = plan_make(*planner, (enum collective)kind, 1, 0);
                assert_int_equal(plan.window_blocks, 0);
                for (int i = 0; i < plan_steps(&plan, 0); i++)
                    assert_int_not_equal(plan_step(&plan, 0, i).kind, STEP_WAIT);
            }
}

static void one_step_is_the_step_of_the_script(void **state)
{
    (void)state;
    struct step steps[64];
    struct plan plan = plan_make(planner_find("ring"), COLLECTIVE_ALLREDUCE, 5, 0);
    int count = plan_lay(&plan, 3, steps, LENGTH(steps));
    assert_int_equal(count, plan_steps(&plan, 3));
    assert_in_range(count, 1, LENGTH(steps));
    for (int i = 0; i < count; i++) {
        struct step step = plan_step(&plan, 3, i);
        assert_memory_equal(&step, &steps[i], sizeof step);
    }
    assert_int_equal(plan_lay(&plan, 3, steps, 2), count); /* keeps two, counts all */
}

static const struct finding {
    const char *name, *found;
} findings[] = {
    { NULL, NULL },
    { "", NULL },
    { "nonsense", NULL },
    { "direct-", NULL },
    { "rin", NULL },
    { "ringer", NULL },
    { "Ring", NULL },
    { "auto", NULL },
    { "direct", "direct-one-shot" },
    { "direct-one-shot", "direct-one-shot" },
    { "direct-two-phase", "direct-two-phase" },
    { "doubling", "doubling" },
    { "halving", "halving" },
    { "hierarchy", "hierarchy-doubling" },
    { "hierarchy-ring", "hierarchy-ring" },
    { "hierarchy-", NULL },
    { "ring", "ring" },
    { "tree", "tree" },
    { "chain", "chain" },
    { "pairwise", "pairwise" },
};

static void planners_are_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(findings); i++) {
        const struct planner *planner = planner_find(findings[i].name);
        if (!findings[i].found)
            assert_null(planner);
        else
            assert_string_equal(planner ? planner->name : "none", findings[i].found);
    }
}

/* What the literature promises: rounds, and blocks that the busiest rank sends or fetches. */
static const struct volume {
    const char *name;
    enum collective kind;
    int ranks, stages;
    double most_moved; /* in blocks */
} volumes[] = {
    { "direct-one-shot", COLLECTIVE_ALLREDUCE, 8, 2, 0 },
    { "direct-two-phase", COLLECTIVE_ALLREDUCE, 8, 3, 7 / 8.0 },
    { "direct-one-shot", COLLECTIVE_BROADCAST, 8, 2, 1 },
    { "direct-one-shot", COLLECTIVE_ALLGATHER, 8, 2, 7 },
    { "direct-one-shot", COLLECTIVE_BARRIER, 8, 1, 0 },
    { "doubling", COLLECTIVE_ALLREDUCE, 2, 2, 1 },
    { "doubling", COLLECTIVE_ALLREDUCE, 8, 4, 3 },
    { "doubling", COLLECTIVE_ALLREDUCE, 9, 5, 4 },
    { "doubling", COLLECTIVE_BARRIER, 9, 4, 0 },
    { "halving", COLLECTIVE_ALLREDUCE, 8, 6, 14 / 8.0 },
    { "halving", COLLECTIVE_ALLREDUCE, 9, 8, 14 / 8.0 + 1 },
    { "ring", COLLECTIVE_ALLREDUCE, 2, 2, 1 },
    { "ring", COLLECTIVE_ALLREDUCE, 8, 14, 14 / 8.0 },
    { "ring", COLLECTIVE_REDUCE_SCATTER, 8, 8, 7 },
    { "ring", COLLECTIVE_ALLGATHER, 8, 7, 7 },
    { "tree", COLLECTIVE_BROADCAST, 8, 3, 3 },
    { "tree", COLLECTIVE_BROADCAST, 9, 4, 4 },
    { "tree", COLLECTIVE_REDUCE, 8, 4, 1 },
    { "chain", COLLECTIVE_BROADCAST, 8, 7, 1 },
    { "chain", COLLECTIVE_REDUCE, 8, 8, 1 },
    { "chain", COLLECTIVE_SCAN, 8, 8, 1 },
    { "chain", COLLECTIVE_EXSCAN, 8, 14, 2 },
    { "direct-one-shot", COLLECTIVE_SCAN, 8, 2, 0 },
    { "direct-running", COLLECTIVE_SCAN, 8, 3, 1 },
    { "pairwise", COLLECTIVE_ALLTOALL, 8, 8, 7 },
    { "pairwise", COLLECTIVE_GATHER, 8, 1, 1 },
    { "pairwise", COLLECTIVE_SCATTER, 8, 1, 7 },
};

/* Blocks that a rank sends, or fetches by copying. */
static double blocks_moved(const struct plan *plan, int rank)
{
    double moved = 0;
    for (int i = 0; i < plan_steps(plan, rank); i++) {
        struct step step = plan_step(plan, rank, i);
        bool moves = step.kind == STEP_SEND || (step.kind == STEP_COPY && step.from.buffer == BUFFER_WINDOW);
        if (moves && step.from.buffer != BUFFER_NONE)
            moved += step.from.part == ALL_PARTS ? 1 : (1.0 + step.from.more) / plan->parts;
    }
    return moved;
}

static void volumes_are_as_promised(void **state)
{
    const struct volume *volume = *state;
    struct plan plan = plan_make(planner_find(volume->name), volume->kind, volume->ranks, 0);
    double most = 0;
    for (int rank = 0; rank < plan.ranks; rank++) {
        double moved = blocks_moved(&plan, rank);
        most = moved > most ? moved : most;
    }
    assert_int_equal(plan.stages, volume->stages);
    assert_int_equal((int)(most * 1000), (int)(volume->most_moved * 1000));
}

static const struct CMUnitTest others[] = {
    cmocka_unit_test(every_kind_is_served),
    cmocka_unit_test(a_single_rank_needs_no_windows),
    cmocka_unit_test(one_step_is_the_step_of_the_script),
    cmocka_unit_test(planners_are_found_by_name),
};

enum { PLANNERS_MOST = 20, NAME_SIZE = 80, TESTS_MOST = PLANNERS_MOST * COLLECTIVES + 64 };

static size_t add(struct CMUnitTest *tests, size_t count, CMUnitTestFunction function, const void *state,
                  const char *planner, const char *kind, const char *what)
{
    static char names[TESTS_MOST][NAME_SIZE];
    snprintf(names[count], NAME_SIZE, "%s by %s %s", kind, planner, what);
    tests[count] = (struct CMUnitTest){ .name = names[count],
                                        .test_func = function,
                                        .initial_state = (void *)(uintptr_t)state };
    return count + 1;
}

int main(void)
{
    static struct CMUnitTest tests[TESTS_MOST];
    static struct subject subjects[PLANNERS_MOST * COLLECTIVES];
    size_t count = 0, subject_count = 0;

    for (size_t i = 0; i < LENGTH(others); i++)
        tests[count++] = others[i];
    for (size_t i = 0; i < LENGTH(volumes); i++)
        count = add(tests, count, volumes_are_as_promised, &volumes[i], volumes[i].name,
                    collective_name(volumes[i].kind), "moves what it should");
    for (const struct planner *const *planner = planners; *planner; planner++)
        for (int kind = 0; kind < COLLECTIVES; kind++)
            if ((*planner)->serves((enum collective)kind, 8) && !(*planner)->needs_groups) {
                struct subject *subject = &subjects[subject_count++];
                *subject = (struct subject){ *planner, (enum collective)kind };
                count = add(tests, count, is_proved, subject, (*planner)->name,
                            collective_name(subject->kind), "is proved");
            }
    return check_run("plan", tests, count);
}
