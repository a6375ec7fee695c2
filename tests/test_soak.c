/* Everything at once, in a random order that a seed decides: collectives of all kinds, v-forms, callers' operations
 * and messages, on several communicators that come and go, blocking, as works, in groups and prepared, in memory of
 * all kinds that comes and goes too. Each result is checked. Then the promise of bits: the same seed gives the
 * same bits over inproc and shm, blocking or not, registered or not, under the plan "deterministic".
 *
 * PLAIT_TEST_SEED=another draw (each failure tells the seed and the step), PLAIT_TEST_SCALE=percent of the steps. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "soak.h"

/* Of each rank of the soak that ended last. */
static uint64_t *digests;

/* ---------------------------------------------------------------- what goes on beside */

/* A thread that asks and allocates, as any thread may at any time. */
struct meddler {
    struct rank *rank;
    pthread_t thread;
    atomic_bool stop;
};

static void meddle(struct meddler *meddler, uint64_t random)
{
    struct rank *rank = meddler->rank;
    plait_fault fault = { .struct_size = sizeof fault };
    plait_profile profile = { .struct_size = sizeof profile };
    void *memory = NULL, *own = aligned_alloc(4096, 8192);
    if (rank_ok(rank, plait_mem_alloc(rank->world, 1 + random % 20000, &memory), "allocating"))
        memset(memory, 7, 1 + random % 20000);
    rank_ok(rank, plait_mem_register(rank->world, own, 8192), "registering");
    memset(own, 9, 8192);
    rank_ok(rank, plait_comm_set_profiling(rank->comm, (int)(random >> 20 & 1)), "profiling");
    rank_ok(rank, plait_comm_profile(rank->comm, &profile), "the profile");
    rank_ok(rank, plait_comm_fault(rank->comm, &fault), "the fault");
    rank_ok(rank, plait_comm_set_timeout(rank->comm, 20000 + (int64_t)(random % 100)), "the deadline");
    rank_check(rank, plait_comm_last_plan(rank->comm) != NULL, "there is no plan");
    rank_ok(rank, plait_mem_deregister(rank->world, own), "deregistering");
    rank_ok(rank, plait_mem_free(rank->world, memory), "freeing");
    free(own);
}

static void *meddle_on(void *argument)
{
    struct meddler *meddler = argument;
    for (uint64_t i = 0; !atomic_load(&meddler->stop) && !rank_failed(meddler->rank); i++) {
        meddle(meddler, mix(i));
        sleep_ms(1);
    }
    return NULL;
}

static void meddler_start(struct meddler *meddler)
{
    if (pthread_create(&meddler->thread, NULL, meddle_on, meddler) != 0)
        abort();
}

static void meddler_stop(struct meddler *meddler)
{
    atomic_store(&meddler->stop, true);
    pthread_join(meddler->thread, NULL);
}

static void *strike(void *context)
{
    struct soak *soak = context;
    const uint64_t when = mix(test_settings()->seed + soak->tour->salt) % 20000;
    nanosleep(&(struct timespec){ .tv_nsec = (long)when * 1000 }, NULL);
    if (soak->tour->end == PLAIT_PEER_LOST)
        raise(SIGKILL);
    plait_world_abort(soak->rank->world, "it had to be");
    return NULL;
}

/* After some steps, at any moment of the next ones, the culprit is killed or aborts. */
static void fall(struct soak *soak, int step)
{
    pthread_t thread;
    if (step != 10 || soak->rank->number != soak->tour->culprit)
        return;
    if (pthread_create(&thread, NULL, strike, soak) != 0 || pthread_detach(thread) != 0)
        abort();
}

/* ------------------------------------------------------------------------ a whole soak */

static void run_soak(struct rank *rank)
{
    static struct soak soaks[RANKS_MOST];
    struct soak *soak = &soaks[rank->number];
    struct meddler meddler = { .rank = rank };
    const int steps = 1 + test_settings()->scale / 2 * (ranks_slowness() > 1 ? 2 : 1);
    /* Few calls have bits that an order of operands could change. */
    const int all = ((const struct tour *)rank->context)->salt != 0 ? 3 * steps : steps;
    *soak = (struct soak){ 0 };
    if (!soak_open(soak, rank))
        return;
    if (soak->tour->meddled)
        meddler_start(&meddler);
    for (int step = 0; (step < all || soak->tour->end != PLAIT_OK) && !soak->over && !rank_failed(rank);
         step++) {
        if (soak->tour->end != PLAIT_OK)
            fall(soak, step);
        soak_step(soak, step);
    }
    if (soak->tour->meddled)
        meddler_stop(&meddler);
    digests[rank->number] = soak->digest;
    soak_close(soak);
}

/* ------------------------------------------------------------------------------- tests */

static void soak_is_right(void **state)
{
    const struct tour *tour = *state;
    const struct ranks_setup setup = {
        .way = tour->way, .size = tour->size, .plan = tour->plan, .limit_s = 390
    };
    ranks_run(&setup, run_soak, tour);
}

/* Each time at another moment: the others learn of it from whatever they are doing, and end. */
static void ends_are_told(void **state)
{
    struct tour tour = *(const struct tour *)*state;
    const struct ranks_setup setup = { .way = tour.way, .size = tour.size, .plan = tour.plan };
    for (unsigned time = 0; time < 1 + (unsigned)test_settings()->scale / 40; time++) {
        tour.salt = time;
        tour.culprit = (int)(mix(time) % (unsigned)tour.size);
        struct ranks *ranks = ranks_start(&setup, run_soak, &tour);
        ranks_excuse(ranks, tour.culprit);
        ranks_finish(ranks);
    }
}

/* Tours of one size: all that should make no difference differs. */
static void bits_are_the_same(void **state)
{
    const int size = (int)(intptr_t)*state;
    const struct tour tours[] = {
        { .way = RANKS_THREADS, .size = size, .plan = "deterministic", .plain = true, .salt = 1 },
        { .way = RANKS_THREADS, .size = size, .plan = "deterministic", .salt = 2 },
        { .way = RANKS_FILE, .size = size, .plan = "deterministic", .plain = true, .salt = 3 },
        { .way = RANKS_FILE, .size = size, .plan = "deterministic", .salt = 4 },
    };
    uint64_t wanted[RANKS_MOST];
    for (size_t i = 0; i < LENGTH(tours); i++) {
        const struct ranks_setup setup = {
            .way = tours[i].way, .size = size, .plan = tours[i].plan, .limit_s = 390
        };
        if (tours[i].way != RANKS_THREADS && !ranks_can_fork())
            break;
        ranks_run(&setup, run_soak, &tours[i]);
        if (i == 0)
            memcpy(wanted, digests, sizeof wanted);
        for (int rank = 0; rank < size; rank++)
            if (digests[rank] != wanted[rank])
                fail_msg("seed %llu: tour %zu gave rank %d other bits",
                         (unsigned long long)test_settings()->seed, i, rank);
    }
}

static const struct tour tours[] = {
    { .way = RANKS_THREADS, .size = 1 },
    { .way = RANKS_THREADS, .size = 2 },
    { .way = RANKS_THREADS, .size = 3 },
    { .way = RANKS_THREADS, .size = 4, .plan = "in-place" },
    { .way = RANKS_THREADS, .size = 5 },
    { .way = RANKS_THREADS, .size = 9 },
    { .way = RANKS_THREADS, .size = 3, .plan = "ring" },
    { .way = RANKS_THREADS, .size = 4, .plan = "tree" },
    { .way = RANKS_THREADS, .size = 4, .plan = "doubling" },
    { .way = RANKS_THREADS, .size = 3, .plan = "pairwise" },
    { .way = RANKS_THREADS, .size = 3, .plan = "chain" },
    { .way = RANKS_FILE, .size = 1 },
    { .way = RANKS_FILE, .size = 2 },
    { .way = RANKS_FILE, .size = 3, .plan = "in-place" },
    { .way = RANKS_FILE, .size = 4 },
    { .way = RANKS_FILE, .size = 6 },
    { .way = RANKS_FILE, .size = 8 },
    { .way = RANKS_FILE, .size = 3, .plan = "ring" },
    { .way = RANKS_FILE, .size = 4, .plan = "direct-two-phase" },
    { .way = RANKS_THREADS, .size = 2, .meddled = true },
    { .way = RANKS_THREADS, .size = 4, .meddled = true },
    { .way = RANKS_FILE, .size = 3, .meddled = true },
    { .way = RANKS_FILE, .size = 2, .end = PLAIT_PEER_LOST },
    { .way = RANKS_FILE, .size = 4, .end = PLAIT_PEER_LOST },
    { .way = RANKS_FILE, .size = 3, .end = PLAIT_PEER_LOST, .plan = "in-place" },
    { .way = RANKS_THREADS, .size = 3, .end = PLAIT_ABORTED },
    { .way = RANKS_FILE, .size = 4, .end = PLAIT_ABORTED },
};
static const int sizes[] = { 1, 2, 3, 5 };
static char names[LENGTH(tours) + LENGTH(sizes)][64];

static const char *tour_name(const struct tour *tour, char name[64])
{
    snprintf(name, 64, "%d %s%s%s%s%s", tour->size, tour->way == RANKS_THREADS ? "threads" : "processes",
             tour->plan != NULL ? ", " : "", tour->plan != NULL ? tour->plan : "",
             tour->meddled ? ", meddled with" : "",
             tour->end == PLAIT_OK          ? ""
             : tour->end == PLAIT_PEER_LOST ? ", one is killed"
                                            : ", one aborts");
    return name;
}

int main(void)
{
    struct CMUnitTest tests[LENGTH(tours) + LENGTH(sizes)];
    size_t count = 0;
    test_settings();
    digests =
        mmap(NULL, sizeof(uint64_t) * RANKS_MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (digests == MAP_FAILED)
        return 1;
    printf("seed %llu\n", (unsigned long long)test_settings()->seed);
    for (size_t i = 0; i < LENGTH(tours); i++, count++)
        tests[count] =
            (struct CMUnitTest){ .name = tour_name(&tours[i], names[count]),
                                 .test_func = tours[i].end == PLAIT_OK ? soak_is_right : ends_are_told,
                                 .initial_state = (void *)&tours[i] };
    for (size_t i = 0; i < LENGTH(sizes); i++, count++) {
        snprintf(names[count], sizeof names[count], "the same bits, %d rank%s", sizes[i],
                 sizes[i] > 1 ? "s" : "");
        tests[count] = (struct CMUnitTest){ .name = names[count],
                                            .test_func = bits_are_the_same,
                                            .initial_state = (void *)(intptr_t)sizes[i] };
    }
    return check_run("soak", tests, count);
}
