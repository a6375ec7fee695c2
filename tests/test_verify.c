/* Proving plans: a proof that accepts everything is worth nothing, so good plans are broken in
 * all sorts of ways, and each broken one must be refused with a sentence that names the place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "check.h"
#include "collectives/grouping.h"
#include "collectives/plan.h"
#include "collectives/script.h"

enum { STEPS_MOST = 256 };

/* The steps of one rank, to be broken. */
struct steps {
    int rank, count;
    struct step step[STEPS_MOST];
};

/* A planner that lays what `base` lays, with an edit on one rank. lay() has no argument of
 * its own, so what to do lies here. */
static struct breaking {
    const struct planner *base;
    int rank;
    void (*edit)(struct steps *steps, int index);
    int index;
} breaking;

static void lay_broken(const struct plan *plan, int rank, struct script *script)
{
    static struct steps steps;
    struct plan whole = *plan;
    whole.planner = breaking.base;
    steps.rank = rank;
    steps.count = plan_lay(&whole, rank, steps.step, STEPS_MOST);
    assert_in_range(steps.count, 0, STEPS_MOST - 1);
    if (rank == breaking.rank)
        breaking.edit(&steps, breaking.index);
    for (int i = 0; i < steps.count; i++)
        script_add(script, steps.step[i]);
}

static plait_status verify_broken(const struct plan *whole, int rank, void (*edit)(struct steps *, int),
                                  int index, int chunks)
{
    static struct planner broken;
    breaking = (struct breaking){ whole->planner, rank, edit, index };
    broken = *whole->planner;
    broken.lay = lay_broken;
    struct plan plan = *whole;
    plan.planner = &broken;
    return plan_verify(&plan, chunks);
}

/* ------------------------------------------------------------------ edits */

static void drop(struct steps *steps, int index)
{
    memmove(&steps->step[index], &steps->step[index + 1],
            (size_t)(steps->count - index - 1) * sizeof(struct step));
    steps->count--;
}

static void insert(struct steps *steps, int index, struct step step)
{
    memmove(&steps->step[index + 1], &steps->step[index],
            (size_t)(steps->count - index) * sizeof(struct step));
    steps->step[index] = step;
    steps->count++;
}

static void repeat(struct steps *steps, int index)
{
    insert(steps, index, steps->step[index]);
}

static void swap_with_next(struct steps *steps, int index)
{
    struct step step = steps->step[index];
    steps->step[index] = steps->step[index + 1];
    steps->step[index + 1] = step;
}

static void wait_for_itself_only(struct steps *steps, int index)
{
    steps->step[index].peer = steps->rank;
}

static void wait_for_the_next_stage(struct steps *steps, int index)
{
    steps->step[index].wait_stage++;
}

static void wait_for_an_earlier_stage(struct steps *steps, int index)
{
    steps->step[index].wait_stage--;
}

static void wait_for_no_stage(struct steps *steps, int index)
{
    steps->step[index].wait_stage = 99;
}

static void take_block_beyond(struct steps *steps, int index)
{
    steps->step[index].from.block++;
}

static void hold_block_beyond(struct steps *steps, int index)
{
    steps->step[index].from.block++;
    steps->step[index].to.of++;
}

static void take_block_before(struct steps *steps, int index)
{
    steps->step[index].from.block--;
}

static void write_block_beyond(struct steps *steps, int index)
{
    steps->step[index].to.block++;
}

static void write_another_part(struct steps *steps, int index)
{
    steps->step[index].to.part = (steps->step[index].to.part + 1) % 3;
}

static void move_another_part(struct steps *steps, int index)
{
    write_another_part(steps, index);
    steps->step[index].from.part = steps->step[index].to.part;
}

static void take_no_such_part(struct steps *steps, int index)
{
    steps->step[index].from.part = steps->step[index].to.part = 3;
}

static void fetch_from_oneself(struct steps *steps, int index)
{
    steps->step[index].peer = steps->rank;
}

static void talk_to_nobody(struct steps *steps, int index)
{
    steps->step[index].peer = 3;
}

static void talk_to_oneself(struct steps *steps, int index)
{
    steps->step[index].peer = steps->rank;
}

static void write_input(struct steps *steps, int index)
{
    steps->step[index].to = place_block(BUFFER_INPUT, 0);
}

static void work_to_output(struct steps *steps, int index)
{
    steps->step[index].to = place_block(BUFFER_OUTPUT, 0);
}

static void send_input(struct steps *steps, int index)
{
    steps->step[index].from = place_block(BUFFER_INPUT, 0);
}

static void send_the_sum(struct steps *steps, int index)
{
    steps->step[index].from.block = 0;
}

static void turn_round(struct steps *steps, int index)
{
    steps->step[index].peer_left = !steps->step[index].peer_left;
}

static void move_a_stage_back(struct steps *steps, int index)
{
    steps->step[index].stage--;
}

static void be_of_no_kind(struct steps *steps, int index)
{
    steps->step[index].kind = (enum step_kind)77;
}

static void first_step_again(struct steps *steps, int index)
{
    insert(steps, index, steps->step[0]);
}

/* Widens again where the partial sum is, so that it is lost. */
static void widen_again(struct steps *steps, int index)
{
    insert(steps, index, steps->step[0]);
    steps->step[index].stage = steps->step[index + 1].stage;
}

/* Takes the last step at once, and goes on from its result. */
static void round_twice(struct steps *steps, int index)
{
    struct step narrow = steps->step[steps->count - 1];
    narrow.stage = steps->step[index].stage;
    insert(steps, index, narrow);
    struct step widen = narrow;
    widen.kind = STEP_WIDEN;
    widen.to = narrow.from;
    widen.from = narrow.to;
    insert(steps, index + 1, widen);
}

static const struct fault {
    const char *name;
    const char *planner;
    enum collective kind;
    int rank, index; /* of the edit */
    void (*edit)(struct steps *steps, int index);
    const char *where, *rule; /* pieces of the sentence */
} faults[] = {
    /* Windows; three ranks. One-shot: 0 put, 1 signal, 2 wait, 3 reduce, 4 signal. Two-phase: 0 1 put,
     * 2 signal, 3 wait, 4 reduce, 5 signal, 6 wait, 7 8 copy, 9 signal. */
    { "a missing wait", "direct-one-shot", COLLECTIVE_ALLREDUCE, 0, 2, drop, "step 2 of rank 0",
      "reads rank 1's" },
    { "a missing wait on the last rank", "direct-one-shot", COLLECTIVE_ALLREDUCE, 2, 2, drop,
      "step 2 of rank 2", "nothing tells that rank 0 has written" },
    { "a wait for too few", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 2, wait_for_itself_only,
      "step 3 of rank 1", "nothing tells" },
    { "a wait after the reading", "direct-one-shot", COLLECTIVE_ALLREDUCE, 2, 2, swap_with_next,
      "step 2 of rank 2", "nothing tells" },
    { "a wait for too early a stage", "direct-two-phase", COLLECTIVE_ALLREDUCE, 2, 6,
      wait_for_an_earlier_stage, "step 7 of rank 2", "reads rank 0's window" },
    { "a second missing wait", "direct-two-phase", COLLECTIVE_ALLREDUCE, 1, 6, drop, "step 6 of rank 1",
      "nothing tells" },
    { "a put after the signal", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 0, swap_with_next,
      "step 1 of rank 1", "after the signal of its stage" },
    { "a missing signal", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 1, drop, "step 0 of rank 1",
      "must end in a signal" },
    { "a missing last signal", "direct-one-shot", COLLECTIVE_BROADCAST, 2, 3, drop, "step 2 of rank 2",
      "must end in a signal" },
    { "a missing signal on an idle rank", "direct-one-shot", COLLECTIVE_BROADCAST, 2, 0, drop,
      "of rank 2, stage 0", "must end in a signal" },
    { "two signals", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 1, repeat, "step 2 of rank 1",
      "after the signal" },
    { "a missing put", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 0, drop, "step 3 of rank",
      "reads rank 1's window" },
    { "a swapped part in one step", "direct-two-phase", COLLECTIVE_ALLREDUCE, 1, 0, write_another_part,
      "step 0 of rank 1", "mixes parts" },
    { "another part put", "direct-two-phase", COLLECTIVE_ALLREDUCE, 0, 0, move_another_part, "of rank 1",
      "rank 0's window" },
    { "a part fetched from one who has not folded it", "direct-two-phase", COLLECTIVE_ALLREDUCE, 1, 7,
      move_another_part, "step 7 of rank 1", "nothing has been written" },
    { "a fetch from oneself", "direct-one-shot", COLLECTIVE_ALLGATHER, 1, 4, fetch_from_oneself,
      "rank 1 after its last step", "holds block 0 of rank 1's input" },
    { "a part that there is not", "direct-two-phase", COLLECTIVE_ALLREDUCE, 1, 1, take_no_such_part,
      "step 1 of rank 1", "out of bounds" },
    { "a window block that there is not", "direct-two-phase", COLLECTIVE_ALLREDUCE, 1, 7, take_block_beyond,
      "step 7 of rank 1", "out of bounds: its source" },
    { "a negative block", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 0, take_block_before,
      "step 0 of rank 1", "out of bounds: its source" },
    { "a written block that there is not", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 3, write_block_beyond,
      "step 3 of rank 1", "out of bounds: its target" },
    { "another rank's block", "direct-one-shot", COLLECTIVE_SCATTER, 0, 0, take_block_beyond,
      "rank 1 after its last step", "block 2 of rank 0's input" },
    { "writing the input", "direct-one-shot", COLLECTIVE_ALLGATHER, 1, 3, write_input, "step 3 of rank 1",
      "out of bounds: its target" },
    { "a wait for a signal to come", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 2, wait_for_the_next_stage,
      "step 2 of rank 1", "never ends" },
    { "a wait for no stage", "direct-one-shot", COLLECTIVE_ALLREDUCE, 1, 2, wait_for_no_stage,
      "step 2 of rank 1", "waits for stage 99" },
    { "a barrier that does not wait", "direct-one-shot", COLLECTIVE_BARRIER, 2, 1, drop,
      "rank 2 after its last step", "nothing tells it that rank 0 has come" },
    { "a barrier that one rank passes by", "direct-one-shot", COLLECTIVE_BARRIER, 1, 0, drop, "never ends",
      "rank 1 does not come to that signal" },

    /* Messages; three ranks. Doubling: rank 0: 0 widen, 1 send, 2 recv; rank 1: 0 widen, 1 recv-reduce,
     * 2 copy, 3 recv-reduce, 4 send, 5 narrow, 6 send; rank 2: 0 widen, 1 copy, 2 recv-reduce, 3 send,
     * 4 narrow. */
    { "sending what the same stage changes", "doubling", COLLECTIVE_ALLREDUCE, 2, 3, send_the_sum,
      "step 3 of rank 2", "a message of the same stage may be writing" },
    { "changing what the same stage sends", "doubling", COLLECTIVE_ALLREDUCE, 0, 2, move_a_stage_back,
      "never ends", "does not come to the other side" },
    { "a local change of what is being sent", "tree", COLLECTIVE_REDUCE, 1, 2, first_step_again,
      "step 2 of rank 1", "changes what the same stage sends" },
    { "a local change of what arrives", "doubling", COLLECTIVE_ALLREDUCE, 2, 3, widen_again,
      "step 3 of rank 2", "where a message of the same stage arrives" },
    { "a sum overwritten", "doubling", COLLECTIVE_ALLREDUCE, 2, 4, widen_again, "rank 2 after its last step",
      "without rank 0's" },
    { "a contribution lost", "doubling", COLLECTIVE_ALLREDUCE, 1, 2, widen_again, "after its last step",
      "without rank 0's" },
    { "folding what is rounded", "doubling", COLLECTIVE_ALLREDUCE, 2, 1, round_twice, "step 2 of rank 2",
      "divided and rounded already" },
    { "another order of ranks", "doubling", COLLECTIVE_ALLREDUCE, 2, 2, turn_round,
      "rank 2 after its last step", "another order" },
    { "a message nobody receives", "doubling", COLLECTIVE_ALLREDUCE, 0, 2, drop, "step 6 of rank 1",
      "never ends" },
    { "a message nobody sends", "doubling", COLLECTIVE_ALLREDUCE, 0, 1, drop, "of rank", "never ends" },
    { "elements for accumulators", "doubling", COLLECTIVE_ALLREDUCE, 0, 1, send_input, "step 1 of rank 1",
      "another part or kind of element" },
    { "accumulators for elements", "doubling", COLLECTIVE_ALLREDUCE, 2, 1, work_to_output, "step 1 of rank 2",
      "accumulators and elements" },
    { "two messages at a time", "tree", COLLECTIVE_BROADCAST, 0, 0, repeat, "step 1 of rank 0",
      "second message" },
    { "two receives at a time", "tree", COLLECTIVE_BROADCAST, 2, 0, repeat, "step 1 of rank 2",
      "second message" },
    { "a message to a rank that there is not", "ring", COLLECTIVE_ALLGATHER, 1, 2, talk_to_nobody,
      "step 2 of rank 1", "names rank 3" },
    { "a message to oneself", "ring", COLLECTIVE_ALLGATHER, 1, 2, talk_to_oneself, "step 2 of rank 1",
      "names rank 1" },
    { "a stage before the stage", "ring", COLLECTIVE_ALLGATHER, 1, 1, move_a_stage_back, "step 1 of rank 1",
      "out of order" },
    { "the wrong one of two blocks sent", "ring", COLLECTIVE_REDUCE_SCATTER, 0, 6, take_block_beyond,
      "step 6 of rank 0", "a message of the same stage may be writing" },
    { "another block folded", "ring", COLLECTIVE_REDUCE_SCATTER, 0, 1, hold_block_beyond, "step 2 of rank 0",
      "folds block" },
    { "a work block that holds another block than it says", "ring", COLLECTIVE_REDUCE_SCATTER, 0, 1,
      take_block_beyond, "step 1 of rank 0", "says that work block 0 holds block 1, and it holds block 2" },
    { "a copy that holds another block than is sent", "pairwise", COLLECTIVE_ALLTOALL, 0, 1,
      hold_block_beyond, "step 3 of rank 0", "says that work block 0 holds block 1, and it holds block 2" },
    { "two blocks changed over", "direct-one-shot", COLLECTIVE_ALLTOALL, 0, 0, take_block_beyond,
      "rank 1 after its last step", "block 2 of rank 0's input" },
    { "a step of no kind", "chain", COLLECTIVE_REDUCE, 1, 0, be_of_no_kind, "step 0 of rank 1",
      "no known kind" },
};

static void assert_says(const char *sentence, const char *piece)
{
    if (!strstr(sentence, piece))
        fail_msg("\"%s\" does not say \"%s\"", sentence, piece);
}

static void is_refused(void **state)
{
    const struct fault *fault = *state;
    struct plan plan = plan_make(planner_find(fault->planner), fault->kind, 3, 0);
    assert_int_equal(plan_verify(&plan, 2), PLAIT_OK);
    for (int chunks = 1; chunks <= 3; chunks++) {
        assert_int_equal(verify_broken(&plan, fault->rank, fault->edit, fault->index, chunks),
                         PLAIT_INTERNAL);
        assert_says(plait_last_error(), fault->where);
        assert_says(plait_last_error(), fault->rule);
    }
}

/* ------------------------------------------------- breaking all there is */

/* Planners have no step too many: each single one is missed. */
static void refuses_without(const struct plan *plan)
{
    for (int rank = 0; rank < plan->ranks; rank++)
        for (int index = 0; index < plan_steps(plan, rank); index++)
            if (verify_broken(plan, rank, drop, index, 2) != PLAIT_INTERNAL)
                fail_msg("%s of %d ranks by %s, root %d: step %d of rank %d is not missed",
                         collective_name(plan->kind), plan->ranks, plan->planner->name, plan->root, index,
                         rank);
}

/* Messages and signals must not come twice. */
static void refuses_twice(const struct plan *plan)
{
    for (int rank = 0; rank < plan->ranks; rank++)
        for (int index = 0; index < plan_steps(plan, rank); index++) {
            enum step_kind kind = plan_step(plan, rank, index).kind;
            bool counts = kind == STEP_SIGNAL || kind >= STEP_SEND;
            if (counts && verify_broken(plan, rank, repeat, index, 1) != PLAIT_INTERNAL)
                fail_msg("%s of %d ranks by %s: step %d of rank %d may come twice",
                         collective_name(plan->kind), plan->ranks, plan->planner->name, index, rank);
        }
}

static void for_all_plans(void (*check)(const struct plan *plan))
{
    for (const struct planner *const *planner = planners; *planner; planner++)
        for (int kind = 0; kind < COLLECTIVES; kind++)
            for (int ranks = 2; ranks <= 5; ranks++) {
                if (!(*planner)->serves((enum collective)kind, ranks) || (*planner)->needs_groups)
                    continue;
                struct plan plan = plan_make(*planner, (enum collective)kind, ranks, ranks - 1);
                check(&plan);
            }
}

/* The same for ranks in groups. */
static void for_all_grouped_plans(void (*check)(const struct plan *plan))
{
    static const int colours[][5] = { { 0, 0, 1, 1 }, { 0, 1, 0, 1 }, { 0, 1, 1, 1 }, { 0, 1, 0, 2, 0 } };
    for (const struct planner *const *planner = planners; *planner; planner++)
        for (int kind = 0; kind < COLLECTIVES; kind++)
            for (size_t i = 0; i < LENGTH(colours); i++) {
                int ranks = i < 3 ? 4 : 5;
                if (!(*planner)->serves((enum collective)kind, ranks) || !(*planner)->needs_groups)
                    continue;
                struct grouping *groups = grouping_make(colours[i], ranks);
                struct plan plan = plan_make_for(*planner, (enum collective)kind, ranks, ranks - 1, groups);
                assert_int_equal(plan_verify(&plan, 2), PLAIT_OK);
                check(&plan);
                free(groups);
            }
}

static void every_step_is_missed(void **state)
{
    (void)state;
    for_all_plans(refuses_without);
    for_all_grouped_plans(refuses_without);
}

static void no_message_comes_twice(void **state)
{
    (void)state;
    for_all_plans(refuses_twice);
    for_all_grouped_plans(refuses_twice);
}

/* ----------------------------------------------- plans written for the test */

static bool serves_all(enum collective kind, int ranks)
{
    (void)kind;
    (void)ranks;
    return true;
}

static double free_of_cost(const struct plan *plan, const struct cost_facts *facts, size_t size)
{
    (void)plan;
    (void)facts;
    (void)size;
    return 0;
}

static void shape_two_stages(struct plan *plan)
{
    plan->stages = 2;
    plan->work_blocks = 1;
}

/* Each receives where its own block belongs, and puts it there afterwards: in place it is lost. */
static void lay_overwriting(const struct plan *plan, int rank, struct script *script)
{
    (void)plan;
    const struct place mine = place_block(BUFFER_OUTPUT, rank), other = place_block(BUFFER_OUTPUT, 1 - rank);
    script_recv(script, 0, 1 - rank, mine);
    script_send(script, 0, 1 - rank, place_block(BUFFER_INPUT, 0));
    script_copy(script, 1, other, mine);
    script_copy(script, 1, mine, place_block(BUFFER_INPUT, 0));
}

/* Each receives in the stage before the one in which the other sends: nobody ever gets to its send. */
static void lay_embrace(const struct plan *plan, int rank, struct script *script)
{
    (void)plan;
    script_widen(script, 0, place_block(BUFFER_WORK, 0), place_block(BUFFER_INPUT, 0));
    script_recv_reduce(script, 0, 1 - rank, place_block(BUFFER_WORK, 0), rank == 1);
    script_send(script, 1, 1 - rank, place_block(BUFFER_INPUT, 0));
}

static void lay_nothing(const struct plan *plan, int rank, struct script *script)
{
    (void)plan;
    (void)rank;
    (void)script;
}

/* Sums the input of rank 1 twice into that of rank 0. */
static void lay_twice(const struct plan *plan, int rank, struct script *script)
{
    (void)plan;
    const struct place sum = place_block(BUFFER_WORK, 0);
    script_widen(script, 0, sum, place_block(BUFFER_INPUT, 0));
    for (int stage = 0; stage < 2; stage++)
        if (rank == 0)
            script_recv_reduce(script, stage, 1, sum, false);
        else
            script_send(script, stage, 0, sum);
}

static const struct made {
    const char *name;
    enum collective kind;
    void (*lay)(const struct plan *plan, int rank, struct script *script);
    const char *says, *says_too;
} made[] = {
    { "a plan without steps", COLLECTIVE_ALLREDUCE, lay_nothing, "on rank 0 after its last step",
      "holds nothing" },
    { "a barrier without steps", COLLECTIVE_BARRIER, lay_nothing, "on rank 0",
      "nothing tells it that rank 1" },
    { "each waits for the other's message", COLLECTIVE_ALLREDUCE, lay_embrace, "step 1 of rank 0, stage 0",
      "never ends: rank 1 does not come to the other side" },
    { "a duplicate contribution", COLLECTIVE_REDUCE, lay_twice, "step 2 of rank 0, stage 1",
      "folds the contribution of rank 1 a second time" },
    { "right with buffers apart, wrong in place", COLLECTIVE_ALLGATHER, lay_overwriting, "of rank 0",
      "in place" },
};

static void made_plan_is_refused(void **state)
{
    const struct made *row = *state;
    const struct planner planner = { .name = "made",
                                     .serves = serves_all,
                                     .shape = shape_two_stages,
                                     .lay = row->lay,
                                     .cost_ns = free_of_cost };
    struct plan plan = plan_make(&planner, row->kind, 2, 0);
    assert_int_equal(plan_verify(&plan, 2), PLAIT_INTERNAL);
    assert_says(plait_last_error(), row->says);
    assert_says(plait_last_error(), row->says_too);
}

static void shapes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const struct plan good = plan_make(planner_find("ring"), COLLECTIVE_ALLREDUCE, 4, 0);
    struct plan plans[6];
    for (size_t i = 0; i < LENGTH(plans); i++)
        plans[i] = good;
    plans[0].ranks = 0;
    plans[1].root = 4;
    plans[2].parts = 0;
    plans[3].stages = 0;
    plans[4].window_blocks = -1;
    plans[5].work_blocks = -1;
    for (size_t i = 0; i < LENGTH(plans); i++)
        assert_int_equal(plan_verify(&plans[i], 1), PLAIT_INTERNAL);
    assert_int_equal(plan_verify(&good, 0), PLAIT_INTERNAL);
    assert_int_equal(plan_verify(&good, 1), PLAIT_OK);
}

int main(void)
{
    static struct CMUnitTest tests[LENGTH(faults) + LENGTH(made) + 3];
    size_t count = 0;
    for (size_t i = 0; i < LENGTH(faults); i++)
        tests[count++] = (struct CMUnitTest){ .name = faults[i].name,
                                              .test_func = is_refused,
                                              .initial_state = (void *)(uintptr_t)&faults[i] };
    for (size_t i = 0; i < LENGTH(made); i++)
        tests[count++] = (struct CMUnitTest){ .name = made[i].name,
                                              .test_func = made_plan_is_refused,
                                              .initial_state = (void *)(uintptr_t)&made[i] };
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(every_step_is_missed);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(no_message_comes_twice);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(shapes_that_cannot_be_are_refused);
    return check_run("verify", tests, count);
}
