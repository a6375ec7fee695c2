/* Lowering: what is kept for a kind, a size class and a root, and that the steps are the plan's. */
#include "check.h"

#include "collectives/lower.h"

static struct group make_group(int ranks, size_t staging, const char *forced)
{
    return (struct group){ .rank = ranks - 1,
                           .ranks = ranks,
                           .staging = { .size = staging },
                           .facts = { .ranks = ranks, .cores = 64, .line_ns = 50, .windows = true },
                           .forced_plan = forced,
                           .prove = true };
}

static const struct program *lower(struct group *group, enum collective kind, size_t count, int root)
{
    struct call call = { .kind = kind, .type = PLAIT_U8, .op = PLAIT_SUM, .root = root, .count = count };
    plait_status status = PLAIT_OK;
    const struct program *program = program_for(group, &call, &status);
    assert_non_null(program);
    assert_int_equal(status, PLAIT_OK);
    assert_int_equal(program->plan.root, root);
    assert_int_equal(program->plan.kind, kind);
    return program;
}

/* Equal: the same program; 0: another. */
static const struct {
    size_t first, second;
    int first_root, second_root;
    bool same;
} classes[] = {
    { 0, 0, 0, 0, true },        { 1, 1, 0, 0, true },
    { 2, 3, 0, 0, true },        { 3, 4, 0, 0, false },
    { 64, 127, 1, 1, true },     { 64, 64, 0, 1, false },
    { 1000, 2048, 0, 0, false }, { (size_t)1 << 40, ((size_t)2 << 40) - 1, 0, 0, true },
};

static void a_program_serves_a_class_and_a_root(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(classes); i++) {
        struct group group = make_group(4, 1 << 20, "auto");
        const struct program *first =
            lower(&group, COLLECTIVE_BROADCAST, classes[i].first, classes[i].first_root);
        const struct program *second =
            lower(&group, COLLECTIVE_BROADCAST, classes[i].second, classes[i].second_root);
        assert_int_equal(first == second, classes[i].same);
        assert_ptr_equal(lower(&group, COLLECTIVE_BROADCAST, classes[i].first, classes[i].first_root), first);
        assert_ptr_not_equal(lower(&group, COLLECTIVE_REDUCE, classes[i].first, classes[i].first_root),
                             first);
        group_clear(&group);
        group_clear(&group); /* once more does no harm */
    }
}

/* Ranks of a group call different sizes of a class first, and must come to the same plan. */
static void the_choice_does_not_depend_on_what_came_first(void **state)
{
    (void)state;
    for (size_t size = 1; size < (size_t)1 << 30; size *= 2) {
        for (int kind = 0; kind < COLLECTIVE_BARRIER; kind++) {
            struct group low = make_group(5, 1 << 20, "auto"), high = make_group(5, 1 << 20, "auto");
            const struct program *a = lower(&low, (enum collective)kind, size, 0);
            const struct program *b = lower(&high, (enum collective)kind, 2 * size - 1, 0);
            assert_ptr_equal(a->plan.planner, b->plan.planner);
            assert_int_equal(a->target, b->target);
            group_clear(&low);
            group_clear(&high);
        }
    }
}

static void the_steps_are_the_plans(void **state)
{
    (void)state;
    static const char *const plans[] = { "direct-one-shot", "direct-two-phase", "ring", "doubling", "tree",
                                         "chain",           "pairwise" };
    for (size_t i = 0; i < LENGTH(plans); i++) {
        for (int ranks = 1; ranks <= 9; ranks++) {
            for (int kind = 0; kind < COLLECTIVES; kind++) {
                if (!planner_find(plans[i])->serves((enum collective)kind, ranks))
                    continue;
                struct group group = make_group(ranks, 1 << 20, plans[i]);
                const struct program *program = lower(&group, (enum collective)kind, 5000, 0);
                assert_string_equal(program->plan.planner->name, plans[i]);
                int count = plan_steps(&program->plan, group.rank), messages = 0;
                assert_int_equal(program->stage_first[0], 0);
                assert_int_equal(program->stage_first[program->plan.stages], count);
                for (int stage = 0; stage < program->plan.stages; stage++) {
                    assert_true(program->stage_first[stage] <= program->stage_first[stage + 1]);
                    for (int j = program->stage_first[stage]; j < program->stage_first[stage + 1]; j++)
                        assert_int_equal(program->steps[j].stage, stage);
                }
                for (int j = 0; j < count; j++) {
                    struct step step = plan_step(&program->plan, group.rank, j);
                    assert_int_equal(program->steps[j].kind, step.kind);
                    assert_int_equal(program->steps[j].peer, step.peer);
                    messages +=
                        step.kind == STEP_SEND || step.kind == STEP_RECV || step.kind == STEP_RECV_REDUCE;
                }
                assert_int_equal(program->messages, messages);
                group_clear(&group);
            }
        }
    }
}

/* Windows that do not fit the staging with a line a block are not used, whatever is asked for. */
static void windows_fit_the_staging(void **state)
{
    (void)state;
    static const int ranks[] = { 2, 9, 64, 85, 86, 300, 1024 };
    for (size_t i = 0; i < LENGTH(ranks); i++) {
        for (int kind = 0; kind < COLLECTIVES; kind++) {
            struct group group = make_group(ranks[i], SEAT_STAGING_BYTES, "direct");
            const struct plan *plan = &lower(&group, (enum collective)kind, 100, 0)->plan;
            assert_true((size_t)plan->window_blocks * 64 * (size_t)(plan->stages + 1) <= SEAT_STAGING_BYTES);
            group_clear(&group);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_serves_a_class_and_a_root),
        cmocka_unit_test(the_choice_does_not_depend_on_what_came_first),
        cmocka_unit_test(the_steps_are_the_plans),
        cmocka_unit_test(windows_fit_the_staging),
    };
    return cmocka_run_group_tests_name("lower", tests, NULL, NULL);
}
