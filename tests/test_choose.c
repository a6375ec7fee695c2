/* The choice of a plan: properties that hold for every kind, size and machine, and the few cross-overs
 * that were measured. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "collectives/cost.h"
#include "collectives/plan.h"

enum { SIZES = 31 }; /* powers of two: 1 byte to 1 GiB */

static size_t size_of(int index)
{
    return (size_t)1 << index;
}

static const int rank_counts[] = { 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 1000 };

/* Machines, but for the ranks. */
static const struct machine {
    const char *name;
    struct cost_facts facts;
} machines[] = {
    { "nothing known, no windows", { .cores = 0, .line_ns = 0, .windows = false } },
    { "nothing known, windows", { .cores = 0, .line_ns = 0, .windows = true } },
    { "near cores", { .cores = 64, .line_ns = 55, .windows = true } },
    { "far cores", { .cores = 64, .line_ns = 250, .windows = true } },
    { "two near cores", { .cores = 2, .line_ns = 55, .windows = true } },
    { "near cores, little staging", { .cores = 64, .line_ns = 55, .windows = true, .staging = 16 << 10 } },
    { "one core, little staging", { .cores = 1, .line_ns = 40, .windows = true, .staging = 16 << 10 } },
    { "one core", { .cores = 1, .line_ns = 40, .windows = true } },
    { "two far cores, no windows", { .cores = 2, .line_ns = 250, .windows = false } },
};

typedef void (*check_choice)(enum collective kind, int ranks, const struct cost_facts *facts);

static void for_all_calls(const struct machine *machine, check_choice check)
{
    for (int kind = 0; kind < COLLECTIVES; kind++)
        for (size_t i = 0; i < LENGTH(rank_counts); i++) {
            struct cost_facts facts = machine->facts;
            facts.ranks = rank_counts[i];
            check((enum collective)kind, rank_counts[i], &facts);
        }
}

static double cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    return cost_plan(plan, facts, size);
}

/* A plan that fits the call and the machine, and the same plan again. */
static void fits(enum collective kind, int ranks, const struct cost_facts *facts)
{
    for (int i = -1; i < SIZES; i++) {
        size_t size = i < 0 ? 0 : size_of(i);
        int root = ranks - 1;
        struct plan plan = plan_choose(kind, ranks, root, size, facts, NULL);
        struct plan again = plan_choose(kind, ranks, root, size, facts, "auto");
        assert_non_null(plan.planner);
        assert_ptr_equal(plan.planner, again.planner);
        assert_true(plan.planner->serves(kind, ranks));
        assert_int_equal(plan.kind, kind);
        assert_int_equal(plan.ranks, ranks);
        assert_int_equal(plan.root, collective_has_root(kind) ? root : 0);
        if (!facts->windows) {
            assert_int_equal(plan.window_blocks, 0);
            assert_true(ranks == 1 || !plan.planner->needs_windows);
        }
    }
}

static void choices_fit(void **state)
{
    for_all_calls(*state, fits);
}

/* No cheaper planner was passed over. */
static void is_cheapest(enum collective kind, int ranks, const struct cost_facts *facts)
{
    for (int i = 0; i < SIZES; i++) {
        struct plan chosen = plan_choose(kind, ranks, 0, size_of(i), facts, NULL);
        for (const struct planner *const *planner = planners; *planner; planner++) {
            if (!(*planner)->serves(kind, ranks) || ((*planner)->needs_windows && !facts->windows) ||
                (*planner)->shows != NULL || (*planner)->needs_groups)
                continue;
            struct plan other = plan_make(*planner, kind, ranks, 0);
            assert_true(cost(&chosen, facts, size_of(i)) <= cost(&other, facts, size_of(i)));
        }
    }
}

static void choices_are_cheapest(void **state)
{
    for_all_calls(*state, is_cheapest);
}

/* More bytes never cost less; and once a planner is left for another as sizes grow, it is left for good. */
static void is_monotone(enum collective kind, int ranks, const struct cost_facts *facts)
{
    for (const struct planner *const *planner = planners; *planner; planner++) {
        if (!(*planner)->serves(kind, ranks) || (*planner)->needs_groups)
            continue;
        struct plan plan = plan_make(*planner, kind, ranks, 0);
        assert_true(cost(&plan, facts, 0) >= 0);
        for (int i = 1; i < SIZES; i++)
            assert_true(cost(&plan, facts, size_of(i)) >= cost(&plan, facts, size_of(i - 1)));
    }

    const struct planner *left[SIZES];
    int left_count = 0;
    const struct planner *last = plan_choose(kind, ranks, 0, 1, facts, NULL).planner;
    for (int i = 1; i < SIZES; i++) {
        const struct planner *planner = plan_choose(kind, ranks, 0, size_of(i), facts, NULL).planner;
        if (planner == last)
            continue;
        left[left_count++] = last;
        last = planner;
        for (int k = 0; k < left_count; k++)
            assert_ptr_not_equal(left[k], planner);
    }
}

static void costs_are_monotone(void **state)
{
    for_all_calls(*state, is_monotone);
}

/* ---------------------------------------------------------- what was measured */

static const struct expectation {
    const char *name;
    enum collective kind;
    struct cost_facts facts;
    size_t size;
    const char *forced, *chosen;
} expectations[] = {
    { "a single rank",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 1, .cores = 2, .line_ns = 0, .windows = false },
      1 << 20,
      NULL,
      "direct-one-shot" },
    { "a single rank, another plan forced",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 1, .cores = 2, .line_ns = 0, .windows = false },
      8,
      "ring",
      "direct-one-shot" },
    { "in order by messages",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 6, .cores = 8, .line_ns = 55, .windows = false, .order = FOLDS_NEIGHBOURS },
      1 << 20,
      NULL,
      "halving" },
    { "in order to the first rank",
      COLLECTIVE_REDUCE,
      { .ranks = 6, .cores = 8, .line_ns = 55, .windows = false, .order = FOLDS_NEIGHBOURS },
      8,
      "ring",
      "tree" },
    { "8 bytes near",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 2, .line_ns = 55, .windows = true },
      8,
      NULL,
      "direct-one-shot" },
    { "16 KiB near",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 2, .line_ns = 55, .windows = true },
      16 << 10,
      NULL,
      "direct-one-shot" },
    { "64 KiB near",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 2, .line_ns = 55, .windows = true },
      64 << 10,
      NULL,
      "direct-two-phase" },
    { "16 KiB far",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 2, .line_ns = 250, .windows = true },
      16 << 10,
      NULL,
      "direct-one-shot" },
    { "64 KiB far",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 2, .line_ns = 250, .windows = true },
      64 << 10,
      NULL,
      "direct-two-phase" },
    { "8 ranks turn to two phases earlier",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 8, .cores = 8, .line_ns = 55, .windows = true },
      8 << 10,
      NULL,
      "direct-two-phase" },
    { "8 ranks on 2 cores, 1 KiB",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 8, .cores = 2, .line_ns = 55, .windows = true },
      1 << 10,
      NULL,
      "direct-one-shot" },
    { "8 ranks on 2 cores, 1 MiB",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 8, .cores = 2, .line_ns = 55, .windows = true },
      1 << 20,
      NULL,
      "direct-two-phase" },
    { "a large broadcast in windows",
      COLLECTIVE_BROADCAST,
      { .ranks = 4, .cores = 2, .line_ns = 250, .windows = true },
      64 << 20,
      NULL,
      "direct-one-shot" },
    { "small over messages",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 5, .cores = 8, .line_ns = 0, .windows = false },
      8,
      NULL,
      "doubling" },
    { "large over messages",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 5, .cores = 8, .line_ns = 0, .windows = false },
      16 << 20,
      NULL,
      "ring" },
    { "a small broadcast over messages",
      COLLECTIVE_BROADCAST,
      { .ranks = 8, .cores = 8, .line_ns = 0, .windows = false },
      8,
      NULL,
      "tree" },
    { "a large broadcast over messages",
      COLLECTIVE_BROADCAST,
      { .ranks = 8, .cores = 8, .line_ns = 0, .windows = false },
      64 << 20,
      NULL,
      "chain" },
    { "a barrier over messages",
      COLLECTIVE_BARRIER,
      { .ranks = 7, .cores = 8, .line_ns = 0, .windows = false },
      0,
      NULL,
      "doubling" },
    { "all-to-all over messages",
      COLLECTIVE_ALLTOALL,
      { .ranks = 7, .cores = 8, .line_ns = 0, .windows = false },
      64,
      NULL,
      "pairwise" },

    { "nothing measured counts: near",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 2, .line_ns = 55, .windows = true },
      24 << 10,
      "deterministic",
      "direct-one-shot" },
    { "nothing measured counts: far",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 1, .line_ns = 250, .windows = true },
      24 << 10,
      "deterministic",
      "direct-one-shot" },
    { "from the left, though messages would be faster",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 1000, .cores = 1000, .line_ns = 250, .windows = true },
      64,
      "deterministic",
      "direct-one-shot" },
    { "without windows some plan",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 6, .cores = 8, .line_ns = 55, .windows = false },
      1 << 20,
      "deterministic",
      "ring" },
    { "in order without windows",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 6, .cores = 8, .line_ns = 55, .windows = false, .order = FOLDS_NEIGHBOURS },
      1 << 20,
      "deterministic",
      "halving" },

    { "ring, forced",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true },
      8,
      "ring",
      "ring" },
    { "two phases, forced",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true },
      8,
      "direct-two-phase",
      "direct-two-phase" },
    { "one shot, forced",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true },
      1 << 26,
      "direct-one-shot",
      "direct-one-shot" },
    { "direct, small",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true },
      8,
      "direct",
      "direct-one-shot" },
    { "direct, large",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true },
      1 << 26,
      "direct",
      "direct-two-phase" },
    { "tree, forced",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true },
      1 << 26,
      "tree",
      "tree" },
    { "forced where it does not serve",
      COLLECTIVE_ALLTOALL,
      { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true },
      8,
      "ring",
      "direct-one-shot" },
    { "forced where there are no windows",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 4, .cores = 4, .line_ns = 0, .windows = false },
      8,
      "direct",
      "doubling" },
    { "forced by a name of nothing",
      COLLECTIVE_ALLREDUCE,
      { .ranks = 2, .cores = 2, .line_ns = 55, .windows = true },
      8,
      "nonsense",
      "direct-one-shot" },
};

struct lines {
    int count;
    char last[256];
};

static void take_line(void *context, plait_log_level level, const char *line)
{
    struct lines *lines = context;
    (void)level;
    lines->count++;
    snprintf(lines->last, sizeof lines->last, "%s", line);
}

static void is_chosen(void **state)
{
    const struct expectation *row = *state;
    struct lines lines = { 0 }; /* a warning is another test's matter */
    plait_log_set_sink(take_line, &lines);
    struct plan plan = plan_choose(row->kind, row->facts.ranks, 0, row->size, &row->facts, row->forced);
    plait_log_set_sink(NULL, NULL);
    assert_string_equal(plan.planner->name, row->chosen);
}

/* ------------------------------------------------------------------ warning */

/* Runs first: a kind is warned about once a process. */
static void warns_once_of_a_kind_that_a_forced_plan_cannot_do(void **state)
{
    (void)state;
    struct lines lines = { 0 };
    const struct cost_facts facts = { .ranks = 4, .cores = 4, .line_ns = 55, .windows = true };
    const struct cost_facts alone = { .ranks = 1, .cores = 4, .line_ns = 55, .windows = true };
    plait_log_set_sink(take_line, &lines);
    plan_choose(COLLECTIVE_GATHER, 1, 0, 8, &alone, "ring"); /* nothing to do for any plan */
    plan_choose(COLLECTIVE_ALLREDUCE, 4, 0, 8, &facts, "ring");
    assert_int_equal(lines.count, 0);
    plan_choose(COLLECTIVE_GATHER, 4, 0, 8, &facts, "ring");
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(lines.last, "\"ring\""));
    assert_non_null(strstr(lines.last, "gather of 4 ranks"));
    assert_non_null(strstr(lines.last, "direct-one-shot"));
    plan_choose(COLLECTIVE_GATHER, 4, 0, 8, &facts, "ring");
    assert_int_equal(lines.count, 1);
    plan_choose(COLLECTIVE_SCATTER, 4, 0, 8, &facts, "ring");
    assert_int_equal(lines.count, 2);
    plait_log_set_sink(NULL, NULL);
}

enum { NAME_SIZE = 80, TESTS_MOST = 1 + 3 * LENGTH(machines) + LENGTH(expectations) };

static size_t add(struct CMUnitTest *tests, size_t count, CMUnitTestFunction function, const void *state,
                  const char *what, const char *where)
{
    static char names[TESTS_MOST][NAME_SIZE];
    snprintf(names[count], NAME_SIZE, "%s%s", what, where);
    tests[count] = (struct CMUnitTest){ .name = names[count],
                                        .test_func = function,
                                        .initial_state = (void *)(uintptr_t)state };
    return count + 1;
}

int main(void)
{
    static struct CMUnitTest tests[TESTS_MOST];
    size_t count = 0;
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(warns_once_of_a_kind_that_a_forced_plan_cannot_do);
    for (size_t i = 0; i < LENGTH(machines); i++) {
        count = add(tests, count, choices_fit, &machines[i], "choices fit: ", machines[i].name);
        count =
            add(tests, count, choices_are_cheapest, &machines[i], "choices are cheapest: ", machines[i].name);
        count = add(tests, count, costs_are_monotone, &machines[i], "costs are monotone: ", machines[i].name);
    }
    for (size_t i = 0; i < LENGTH(expectations); i++)
        count = add(tests, count, is_chosen, &expectations[i], expectations[i].name, "");
    return check_run("choose", tests, count);
}
