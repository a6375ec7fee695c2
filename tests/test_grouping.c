/* Ranks in groups: how they are numbered, and every plan that goes by groups, proved for all ways to deal out a few
 * ranks and for some to deal out more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "check.h"
#include "collectives/cost.h"
#include "collectives/grouping.h"
#include "collectives/plan.h"

static void groups_are_numbered_by_their_first_ranks(void **state)
{
    (void)state;
    const int colours[] = { 7, -2, 7, 9, -2, 7 }, group[] = { 0, 1, 0, 2, 1, 0 };
    const int place[] = { 0, 0, 1, 0, 1, 2 };
    const int members[] = { 0, 2, 5, 1, 4, 3 }, first[] = { 0, 3, 5, 6 };
    struct grouping *groups = grouping_make(colours, LENGTH(colours));
    assert_int_equal(groups->ranks, 6);
    assert_int_equal(groups->count, 3);
    assert_int_equal(groups->least, 1);
    assert_int_equal(groups->most, 3);
    assert_memory_equal(groups->group, group, sizeof group);
    assert_memory_equal(groups->place, place, sizeof place);
    assert_memory_equal(groups->members, members, sizeof members);
    assert_memory_equal(groups->first, first, sizeof first);
    assert_true(grouping_matters(groups));
    free(groups);
}

static void groups_matter_where_there_are_near_and_far_ranks(void **state)
{
    (void)state;
    const int one[] = { 3, 3, 3 }, apart[] = { 1, 2, 3 };
    struct grouping *groups = grouping_make(one, 3);
    assert_false(grouping_matters(groups));
    free(groups);
    groups = grouping_make(apart, 3);
    assert_false(grouping_matters(groups));
    free(groups);
    assert_false(grouping_matters(NULL));
}

/* ------------------------------------------------------------------- proofs */

struct subject {
    const struct planner *planner;
    enum collective kind;
};

static void prove(const struct subject *subject, const int *colours, int ranks, int chunks_most)
{
    struct grouping *groups = grouping_make(colours, ranks);
    if (grouping_matters(groups) && subject->planner->serves(subject->kind, ranks))
        for (int root = 0; root < (collective_has_root(subject->kind) ? ranks : 1); root++)
            for (int chunks = 1; chunks <= chunks_most; chunks++) {
                struct plan plan = plan_make_for(subject->planner, subject->kind, ranks, root, groups);
                if (plan_verify(&plan, chunks) == PLAIT_OK)
                    continue;
                char text[80] = "";
                for (int rank = 0, used = 0; rank < ranks && used < 70; rank++)
                    used += snprintf(text + used, sizeof text - (size_t)used, " %d", colours[rank]);
                fail_msg("in groups%s: %s", text, plait_last_error());
            }
    free(groups);
}

/* The next way to deal out the ranks: colours[i] is at most one more than all before it. False after the last. */
static bool deal_on(int *colours, int ranks)
{
    for (int i = ranks - 1; i > 0; i--) {
        int most = 0;
        for (int k = 0; k < i; k++)
            most = colours[k] > most ? colours[k] : most;
        if (colours[i] > most) {
            colours[i] = 0;
            continue;
        }
        colours[i]++;
        return true;
    }
    return false;
}

static void few_ranks_are_proved_in_all_groups(void **state)
{
    enum { RANKS = 6 };
    for (int ranks = 1; ranks <= RANKS; ranks++) {
        int colours[RANKS] = { 0 };
        do
            prove(*state, colours, ranks, ranks <= 4 ? 3 : 2);
        while (deal_on(colours, ranks));
    }
}

/* Groups of these many ranks, one after another; 0 ends them. */
static const int sizes[][8] = {
    { 4, 3 }, { 1, 6 },       { 6, 1 },       { 2, 2, 3 },       { 4, 4 },    { 7, 1 },    { 1, 7 },
    { 5, 3 }, { 2, 2, 2, 2 }, { 1, 2, 5 },    { 2, 1, 1, 1, 3 }, { 5, 4 },    { 3, 3, 3 }, { 1, 1, 7 },
    { 8, 1 }, { 4, 2, 1, 2 }, { 4, 4, 4, 4 }, { 3, 5, 2, 3, 3 }, { 8, 8, 7 }, { 16, 16 },
};

static void more_ranks_are_proved_in_some(void **state)
{
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        int blocks[64], dealt[64], ranks = 0, left[8], next = 0;
        for (int group = 0; group < 8; group++) {
            left[group] = sizes[i][group];
            for (int k = 0; k < sizes[i][group]; k++)
                blocks[ranks++] = group;
        }
        for (int rank = 0; rank < ranks; rank++, next = (next + 1) % 8) { /* the same, dealt like cards */
            while (left[next] == 0)
                next = (next + 1) % 8;
            dealt[rank] = next;
            left[next]--;
        }
        prove(*state, blocks, ranks, ranks <= 9 ? 3 : 2);
        prove(*state, dealt, ranks, 2);
    }
}

/* ------------------------------------------------------------------ volumes */

/* Blocks that ranks of a group send to other groups, at most. */
static double most_between(const struct plan *plan)
{
    const struct grouping *groups = plan->groups;
    double most = 0;
    for (int group = 0; group < groups->count; group++) {
        double sent = 0;
        for (int place = 0; place < grouping_size(groups, group); place++) {
            int rank = grouping_rank(groups, group, place);
            for (int i = 0; i < plan_steps(plan, rank); i++) {
                struct step step = plan_step(plan, rank, i);
                if (step.kind != STEP_SEND || groups->group[step.peer] == group ||
                    step.from.buffer == BUFFER_NONE)
                    continue;
                sent += step.from.part == ALL_PARTS ? 1 : (1.0 + step.from.more) / plan->parts;
            }
        }
        most = sent > most ? sent : most;
    }
    return most;
}

/* What each group sends is what it would send if it were one rank, whatever its size. */
static const struct volume {
    const char *planner;
    enum collective kind;
    int sizes[4];
    int stages;
    double between;
} volumes[] = {
    { "hierarchy-ring", COLLECTIVE_ALLREDUCE, { 2, 2 }, 4, 1 },
    { "hierarchy-ring", COLLECTIVE_ALLREDUCE, { 4, 4, 4, 4 }, 10, 1.5 },
    { "hierarchy-ring", COLLECTIVE_ALLREDUCE, { 3, 1 }, 5, 1 },
    { "hierarchy-halving", COLLECTIVE_ALLREDUCE, { 4, 4, 4, 4 }, 8, 1.5 },
    { "hierarchy-doubling", COLLECTIVE_ALLREDUCE, { 4, 4, 4, 4 }, 7, 2 },
    { "hierarchy-doubling", COLLECTIVE_BARRIER, { 4, 4, 4 }, 4, 0 },
    { "hierarchy-ring", COLLECTIVE_ALLGATHER, { 2, 2 }, 2, 2 },
    { "hierarchy-ring", COLLECTIVE_ALLGATHER, { 3, 2, 1 }, 7, 5 }, /* all but what the next one has */
    { "hierarchy-ring", COLLECTIVE_REDUCE_SCATTER, { 2, 2 }, 4, 2 },
    { "hierarchy-ring", COLLECTIVE_REDUCE_SCATTER, { 4, 4, 4, 4 }, 8, 12 },
    { "hierarchy-tree", COLLECTIVE_BROADCAST, { 4, 4, 4, 4 }, 4, 2 },
    { "hierarchy-chain", COLLECTIVE_BROADCAST, { 4, 4, 4, 4 }, 5, 1 },
    { "hierarchy-chain", COLLECTIVE_REDUCE, { 4, 1, 4, 2 }, 6, 1 },
};

static void groups_send_as_single_ranks_would(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(volumes); i++) {
        const struct volume *row = &volumes[i];
        int colours[16], ranks = 0;
        for (int group = 0; group < 4; group++)
            for (int k = 0; k < row->sizes[group]; k++)
                colours[ranks++] = group;
        struct grouping *groups = grouping_make(colours, ranks);
        struct plan plan = plan_make_for(planner_find(row->planner), row->kind, ranks, 0, groups);
        if (plan.stages != row->stages || (int)(most_between(&plan) * 1000) != (int)(row->between * 1000))
            fail_msg("row %zu, %s by %s: %d stages, and %.3f blocks leave a group", i,
                     collective_name(row->kind), row->planner, plan.stages, most_between(&plan));
        free(groups);
    }
}

/* ------------------------------------------------------------------- choice */

static const struct network gigabit = { 30000, 8.5 }, fabric = { 15000, 0.04 };

static const struct choice {
    int hosts, each; /* ranks */
    const struct network *network;
    enum collective kind;
    size_t size;
    const char *chosen;
} choices[] = {
    { 2, 1, &gigabit, COLLECTIVE_ALLREDUCE, 8, "doubling" },
    { 4, 1, &gigabit, COLLECTIVE_ALLREDUCE, 8, "doubling" },
    { 4, 1, &gigabit, COLLECTIVE_ALLREDUCE, 64 << 10, "halving" },
    { 4, 1, &gigabit, COLLECTIVE_ALLREDUCE, 64 << 20, "halving" },
    { 3, 1, &gigabit, COLLECTIVE_ALLREDUCE, 8, "doubling" },
    { 3, 1, &gigabit, COLLECTIVE_ALLREDUCE, 1 << 20, "ring" },
    { 4, 1, &gigabit, COLLECTIVE_BROADCAST, 8, "tree" },
    { 4, 1, &gigabit, COLLECTIVE_BROADCAST, 16 << 20, "chain" },
    { 4, 1, &gigabit, COLLECTIVE_ALLGATHER, 1 << 20, "ring" },
    { 4, 2, &gigabit, COLLECTIVE_ALLGATHER, 1 << 20, "hierarchy-ring" },
    { 4, 2, &gigabit, COLLECTIVE_REDUCE_SCATTER, 1 << 20, "hierarchy-ring" },
    { 8, 8, &fabric, COLLECTIVE_ALLREDUCE, 16 << 10, "hierarchy-doubling" },
    { 8, 8, &fabric, COLLECTIVE_BARRIER, 0, "hierarchy-doubling" },
    { 8, 8, &fabric, COLLECTIVE_BROADCAST, 64 << 20, "hierarchy-chain" },
    { 3, 4, &gigabit, COLLECTIVE_ALLREDUCE, 16 << 20, "hierarchy-ring" },
};

static struct grouping *hosts_of(int hosts, int each)
{
    int colours[64];
    for (int rank = 0; rank < hosts * each; rank++)
        colours[rank] = rank / each;
    return grouping_make(colours, hosts * each);
}

static void choices_go_by_hosts(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(choices); i++) {
        const struct choice *row = &choices[i];
        struct grouping *groups = hosts_of(row->hosts, row->each);
        const struct cost_facts facts = {
            .ranks = groups->ranks, .cores = groups->ranks, .groups = groups, .network = *row->network
        };
        struct plan plan = plan_choose(row->kind, groups->ranks, 0, row->size, &facts, NULL);
        if (strcmp(plan.planner->name, row->chosen) != 0)
            fail_msg("row %zu: %s, not %s", i, plan.planner->name, row->chosen);
        free(groups);
    }
}

static void more_bytes_cost_more(void **state)
{
    (void)state;
    struct grouping *groups = hosts_of(3, 3);
    const struct cost_facts facts = { .ranks = 9, .cores = 9, .groups = groups, .network = gigabit };
    for (const struct planner *const *planner = planners; *planner; planner++)
        for (int kind = 0; kind < COLLECTIVES; kind++) {
            if (!(*planner)->serves((enum collective)kind, 9) || (*planner)->needs_windows)
                continue;
            struct plan plan = plan_make_for(*planner, (enum collective)kind, 9, 0, groups);
            double last = cost_plan(&plan, &facts, 0);
            const char *name = (*planner)->name;
            assert_true(last >= 15000); /* nobody is done before a message has come */
            for (size_t size = 1; size <= 1 << 30; size *= 2) {
                double cost = cost_plan(&plan, &facts, size);
                if (cost < last)
                    fail_msg("%s of %zu bytes by %s: %.1f ns after %.1f", collective_name(plan.kind), size,
                             name, cost, last);
                last = cost;
            }
        }
    free(groups);
}

/* Chunks are small where they have far to go, and large where each waits long for its turn. */
static void chunks_fit_plan_and_network(void **state)
{
    (void)state;
    struct grouping *groups = hosts_of(8, 1);
    struct cost_facts facts = { .ranks = 8, .cores = 8, .groups = groups, .network = gigabit };
    struct plan chain = plan_make(planner_find("chain"), COLLECTIVE_BROADCAST, 8, 0);
    struct plan ring = plan_make(planner_find("ring"), COLLECTIVE_ALLREDUCE, 8, 0);
    size_t small, large, faster;
    cost_messages(&chain, &facts, 4 << 20, &small);
    cost_messages(&chain, &facts, 64 << 20, &large);
    assert_true(small < large);
    facts.network = fabric;
    cost_messages(&chain, &facts, 4 << 20, &faster);
    assert_true(small < faster);
    cost_messages(&ring, &facts, 4 << 20, &large);
    assert_true(faster < large);
    free(groups);
}

int main(void)
{
    enum { TESTS_MOST = 64, NAME_SIZE = 96 };
    static struct CMUnitTest tests[TESTS_MOST];
    static struct subject subjects[TESTS_MOST];
    static char names[2 * TESTS_MOST][NAME_SIZE];
    size_t count = 0, subject_count = 0;
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(groups_are_numbered_by_their_first_ranks);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(groups_matter_where_there_are_near_and_far_ranks);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(groups_send_as_single_ranks_would);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(choices_go_by_hosts);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(more_bytes_cost_more);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(chunks_fit_plan_and_network);
    for (const struct planner *const *planner = planners; *planner; planner++)
        for (int kind = 0; kind < COLLECTIVES; kind++) {
            if (!(*planner)->needs_groups || !(*planner)->serves((enum collective)kind, 8))
                continue;
            struct subject *subject = &subjects[subject_count++];
            *subject = (struct subject){ *planner, (enum collective)kind };
            for (int many = 0; many < 2; many++, count++) {
                snprintf(names[count], NAME_SIZE, "%s by %s is proved for %s", collective_name(subject->kind),
                         (*planner)->name, many ? "many ranks" : "all groups of few");
                tests[count] = (struct CMUnitTest){ .name = names[count],
                                                    .test_func = many ? more_ranks_are_proved_in_some
                                                                      : few_ranks_are_proved_in_all_groups,
                                                    .initial_state = subject };
            }
        }
    return check_run("grouping", tests, count);
}
