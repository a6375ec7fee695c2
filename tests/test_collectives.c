/* Every collective x type x operation x 1..9 ranks x counts x in place x alignment, between guard
 * pages, against a reference; then again with each planner forced. Ranks are threads.
 *
 * PLAIT_TEST_SCALE=percent of the cases, PLAIT_TEST_WHOLE=1 for all types and operations on each number of ranks,
 * PLAIT_TEST_SEED=another draw, PLAIT_TEST_HUGE=1 for more
 * than 2^31 elements (9 GiB of memory). */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "calls.h"
#include "streams.h"

enum { MOST_RANKS = 9, MOST_COUNT = 65539, MOST_SIZE = MOST_COUNT * 8 };

/* Edges first. `one_in`: the larger ones are tried with some types and operations only. */
static const struct {
    size_t count;
    unsigned one_in;
} counts[] = {
    { 0, 2 },   { 1, 1 },    { 2, 2 },     { 7, 1 },           { 64, 2 },
    { 127, 1 }, { 1021, 2 }, { 10007, 8 }, { MOST_COUNT, 60 },
};

/* Which part of the matrix a test covers. */
struct section {
    char name[64];
    enum call_kind kind;
    int ranks;
    const char *plan; /* NULL: the library's choice */
    unsigned one_in;  /* of the cases */
};

/* Of the all-reduce's outputs, in two sets by turns: a rank writes a set again after it met all in the
 * other one. */
struct sums {
    uint64_t of[2][RANKS_MOST];
};

/* All ranks have the same bits; the test has no say in which. */
static bool same_bits(struct rank *rank, const struct trial *trial, unsigned turn)
{
    struct sums *sums = rank->shared;
    sums->of[turn % 2][rank->number] = trial_output_sum(trial);
    if (!rank_meet(rank))
        return false;
    return rank_check(rank, sums->of[turn % 2][0] == sums->of[turn % 2][rank->number],
                      "the result differs in bits from rank 0's (%s)", plait_comm_last_plan(rank->comm));
}

static bool drawn(uint64_t random, const struct section *section, unsigned one_in)
{
    return random % 100 < (uint64_t)test_settings()->scale && (random >> 8) % section->one_in == 0 &&
           (random >> 24) % one_in == 0;
}

/* All counts of one type and operation. */
static bool run_counts(struct rank *rank, struct trial *trial, plait_type type, plait_op op, uint64_t seed)
{
    const struct section *section = rank->context;
    for (size_t i = 0; i < LENGTH(counts) + 1; i++) {
        const bool fewer = i == LENGTH(counts);
        const uint64_t random = mix(seed + i);
        struct call call = { section->kind, type, op, (int)(random >> 40) % rank->size,
                             fewer ? (size_t)rank->size - 1 : counts[i].count };
        if (!drawn(random, section, fewer ? 1 : counts[i].one_in) || call.count * data_size(type) > MOST_SIZE)
            continue;
        for (unsigned in_place = 0; in_place <= call_has_in_place(call.kind); in_place++) {
            struct layout layout = layout_drawn(call.kind, mix(random + in_place));
            layout.in_place = in_place;
            if (!trial_run(rank, trial, rank->comm, &call, &layout, random))
                return false;
            if (call.kind == CALL_ALLREDUCE && !same_bits(rank, trial, in_place))
                return false;
        }
    }
    return true;
}

/* Types and operations take turns from section to section: each number of ranks sees one pair in four, and nine
 * numbers see each pair twice. */
static bool takes_turn(const struct section *section, int type, int op)
{
    return test_settings()->whole || (type * 5 + op + section->ranks + (int)section->kind) % 4 == 0;
}

static void run_section(struct rank *rank)
{
    const struct section *section = rank->context;
    struct trial trial;
    if (!rank_check(rank, trial_open(&trial, MOST_SIZE, rank->size), "no memory"))
        return;
    const uint64_t seed = mix(test_settings()->seed + (uint64_t)(section->kind * 100 + section->ranks));
    const bool reduces = call_reduces(section->kind);
    bool good = true;
    for (int type = 0; type < DATA_TYPES && good; type++)
        for (int op = 0; op < (reduces ? DATA_OPS : 1) && good; op++) {
            if (reduces && !data_reduces(data_types[type], data_ops[op]))
                continue;
            if (takes_turn(section, type, op))
                good = run_counts(rank, &trial, data_types[type], reduces ? data_ops[op] : PLAIT_SUM,
                                  seed + (uint64_t)(type * 100 + op * 10) * 7919);
        }
    trial_close(&trial);
}

static void section_is_right(void **state)
{
    const struct section *section = *state;
    struct ranks_setup setup = { .size = section->ranks,
                                 .plan = section->plan,
                                 .shared_size = sizeof(struct sums) };
    ranks_run(&setup, run_section, section);
}

/* ------------------------------------------------------------ other questions */

static struct scenario streams[] = {
    { "a stream of everything, 1 rank", stream_everything, { .size = 1 }, NULL },
    { "a stream of everything, 2 ranks", stream_everything, { .size = 2 }, NULL },
    { "a stream of everything, 3 ranks", stream_everything, { .size = 3 }, NULL },
    { "a stream of everything, 5 ranks", stream_everything, { .size = 5 }, NULL },
    { "a stream of everything, 8 ranks", stream_everything, { .size = 8 }, NULL },
    { "small ones in a row, 1 rank", stream_small, { .size = 1 }, NULL },
    { "small ones in a row, 2 ranks", stream_small, { .size = 2 }, NULL },
    { "small ones in a row, 3 ranks", stream_small, { .size = 3 }, NULL },
    { "small ones in a row, 5 ranks", stream_small, { .size = 5 }, NULL },
    { "repeats give the same bits, 2 ranks",
      stream_repeats,
      { .size = 2, .shared_size = STREAM_SHARED },
      NULL },
    { "repeats give the same bits, 3 ranks",
      stream_repeats,
      { .size = 3, .shared_size = STREAM_SHARED },
      NULL },
    { "repeats give the same bits, 6 ranks",
      stream_repeats,
      { .size = 6, .shared_size = STREAM_SHARED },
      NULL },
    { "everything on stacks of 64 KiB, 3 ranks",
      stream_everything,
      { .size = 3, .stack_size = 65536 },
      NULL },
    { "megabytes, 2 ranks", stream_large, { .size = 2 }, NULL },
    { "megabytes, 3 ranks", stream_large, { .size = 3 }, NULL },
    { "megabytes, 5 ranks", stream_large, { .size = 5 }, NULL },
};

static void stream_is_right(void **state)
{
    const struct scenario *scenario = *state;
    ranks_run(&scenario->setup, scenario->function, NULL);
}

/* More elements than an int holds: an all-reduce and a broadcast of 2^31 + 5 bytes on two ranks. */
static void run_huge(struct rank *rank)
{
    const size_t count = ((size_t)1 << 31) + 5;
    unsigned char *data =
        mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!rank_check(rank, data != MAP_FAILED, "no memory for %zu bytes", count))
        return;
    const size_t marks[] = { 0, 1, ((size_t)1 << 31) - 1, (size_t)1 << 31, count - 1 };
    for (size_t i = 0; i < LENGTH(marks); i++)
        data[marks[i]] = (unsigned char)(10 + i + (size_t)rank->number * 100);
    rank_doing(rank, "huge all-reduce");
    rank_ok(rank, plait_allreduce(rank->comm, data, data, count, PLAIT_U8, PLAIT_SUM, NULL),
            "huge all-reduce");
    for (size_t i = 0; i < LENGTH(marks); i++)
        rank_check(rank, data[marks[i]] == 120 + 2 * i, "element %zu is %d", marks[i], data[marks[i]]);

    memset(data, 3 + rank->number, count);
    rank_doing(rank, "huge broadcast");
    rank_ok(rank, plait_broadcast(rank->comm, data, count, PLAIT_I8, 1, NULL), "huge broadcast");
    for (size_t i = 0; i < count; i += 4096)
        if (!rank_check(rank, data[i] == 4, "element %zu is %d", i, data[i]))
            break;
    rank_check(rank, data[count - 1] == 4, "the last element is %d", data[count - 1]);
    munmap(data, count);
}

static void huge_is_right(void **state)
{
    (void)state;
    if (!test_settings()->huge)
        skip();
    struct ranks_setup setup = { .size = 2, .timeout_ms = 100000, .limit_s = 200 };
    ranks_run(&setup, run_huge, NULL);
}

/* ----------------------------------------------------------------------- main */

static const char *const plans[] = {
    "direct-one-shot", "direct-two-phase", "direct-running", "doubling", "ring", "tree", "chain", "pairwise",
};
static const int forced_sizes[] = { 2, 3, 4, 7 };

enum {
    SECTIONS = CALL_KINDS * MOST_RANKS + 8 * CALL_KINDS * 4,
    OTHERS = 20,
};
static struct section sections[SECTIONS];
static struct CMUnitTest tests[SECTIONS + OTHERS];

/* Scans have plans that nothing else has, and few others. */
static bool worth_forcing(const char *plan, enum call_kind kind)
{
    const bool scans = kind == CALL_SCAN || kind == CALL_EXSCAN,
               running = strcmp(plan, "direct-running") == 0;
    return scans ? running || strcmp(plan, "direct-one-shot") == 0 || strcmp(plan, "chain") == 0 : !running;
}

/* Sanitizers see what a build without them sees with each number of ranks on fewer of them. */
static bool worth_sanitizing(int ranks)
{
    return ranks_slowness() == 1 || test_settings()->whole || ranks < 4 || ranks == 5 || ranks == 8;
}

static struct CMUnitTest section_test(struct section *section)
{
    if (section->plan != NULL)
        snprintf(section->name, sizeof section->name, "%s, %d ranks, %s", call_name(section->kind),
                 section->ranks, section->plan);
    else
        snprintf(section->name, sizeof section->name, "%s, %d ranks", call_name(section->kind),
                 section->ranks);
    return (
        struct CMUnitTest){ .name = section->name, .test_func = section_is_right, .initial_state = section };
}

int main(void)
{
    test_settings();
    size_t count = 0, made = 0;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int kind = 0; kind < CALL_KINDS && worth_sanitizing(ranks); kind++) {
            sections[made] = (struct section){ .kind = (enum call_kind)kind, .ranks = ranks, .one_in = 1 };
            tests[count++] = section_test(&sections[made++]);
        }
    for (size_t plan = 0; plan < LENGTH(plans); plan++)
        for (size_t size = 0; size < LENGTH(forced_sizes); size++)
            for (int kind = 0; kind < CALL_KINDS; kind++) {
                if (!worth_forcing(plans[plan], (enum call_kind)kind))
                    continue;
                sections[made] = (struct section){ .kind = (enum call_kind)kind,
                                                   .ranks = forced_sizes[size],
                                                   .plan = plans[plan],
                                                   .one_in = 4 };
                tests[count++] = section_test(&sections[made++]);
            }
    for (size_t i = 0; i < LENGTH(streams); i++)
        tests[count++] = (struct CMUnitTest){ .name = streams[i].name,
                                              .test_func = stream_is_right,
                                              .initial_state = &streams[i] };
    tests[count++] = (struct CMUnitTest){ "more than 2^31 elements", huge_is_right, NULL, NULL, NULL };
    return check_run("collectives", tests, count);
}
