/* Bells: they wake, they don't wake for nothing, they never let sleep for long. Segments: what is refused. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "check.h"
#include "transport/segment.h"
#include "transport/transport.h"

static void a_ring_without_a_sleeper_is_nothing(void **state)
{
    (void)state;
    struct bell bell = { 0 };
    bell_ring(&bell);
    assert_int_equal(atomic_load(&bell.word), 0);
}

static void a_ring_after_lying_down_prevents_sleep(void **state)
{
    (void)state;
    struct bell bell = { 0 };
    for (int i = 0; i < 100; i++) {
        uint32_t seen = bell_lie_down(&bell);
        bell_ring(&bell);
        bell_ring(&bell); /* the second finds nobody asleep */
        int64_t start = clock_ns();
        bell_sleep(&bell, seen, BELL_NAP_NS);
        bell_get_up(&bell);
        assert_true(i < 99 || clock_ns() - start < 100000000);
        assert_int_equal(atomic_load(&bell.word), i + 1);
    }
}

static void a_nap_ends_by_itself(void **state)
{
    (void)state;
    struct bell bell = { 0 };
    static const int64_t naps[] = { 0, -5, 1000, BELL_NAP_NS, INT64_MAX };
    for (size_t i = 0; i < LENGTH(naps); i++) {
        int64_t start = clock_ns();
        bell_sleep(&bell, bell_lie_down(&bell), naps[i]);
        bell_get_up(&bell);
        assert_true(clock_ns() - start < 1000000000);
        assert_int_equal(atomic_load(&bell.sleeping), 0);
    }
}

struct court {
    struct bell bells[2];
    _Atomic int ball; /* whose turn it is */
    _Atomic int faults;
};

struct player {
    struct court *court;
    int number;
};

static void *play(void *argument)
{
    struct player *me = argument;
    struct court *court = me->court;
    for (int turn = 0; turn < 500; turn++) {
        while (atomic_load(&court->ball) % 2 != me->number) {
            uint32_t seen = bell_lie_down(&court->bells[me->number]);
            if (atomic_load(&court->ball) % 2 != me->number)
                bell_sleep(&court->bells[me->number], seen, BELL_NAP_NS);
            bell_get_up(&court->bells[me->number]);
        }
        if (atomic_fetch_add(&court->ball, 1) != 2 * turn + me->number)
            atomic_fetch_add(&court->faults, 1);
        bell_ring(&court->bells[1 - me->number]);
    }
    return NULL;
}

static void sleepers_wake_each_other(void **state)
{
    (void)state;
    struct court court = { 0 };
    struct player players[2] = { { &court, 0 }, { &court, 1 } };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, play, &players[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&court.faults), 0);
    assert_int_equal(atomic_load(&court.ball), 1000);
}

/* ---------------------------------------------------------------- segments */

static const struct segment_owner owner = { .rank = 3, .pid = 1234, .generation = 9 };

static void layouts_do_not_overlap(void **state)
{
    (void)state;
    static const int peers[] = { 1, 2, 64, 65, 1000 };
    static const size_t sizes[] = { 0, 1, 128 << 10, (128 << 10) + 1, 512 << 10, 4 << 20, 1 << 30 };
    for (size_t i = 0; i < LENGTH(peers) * LENGTH(sizes); i++) {
        size_t size = sizes[i % LENGTH(sizes)];
        struct segment_layout layout = segment_lay_out(peers[i / LENGTH(sizes)], size);
        assert_int_equal(layout.lane_size % (64 << 10), 0);
        assert_true(layout.lane_size > 0 && layout.lane_size >= size);
        assert_true(layout.doorbells >= sizeof(struct segment_header));
        assert_true(layout.channels >= layout.doorbells + (size_t)(layout.peers + 63) / 64 * 8);
        assert_true(layout.lanes >= layout.channels + (size_t)BOARD_CHANNELS * CHANNEL_SIZE);
        assert_true(layout.mailboxes >= layout.lanes + lane_offset(layout.lane_size, STAGING_LANES));
        for (int lane = 0; lane < STAGING_LANES; lane++)
            assert_int_equal(lane_offset(layout.lane_size, lane) + lane_bytes(layout.lane_size, lane),
                             lane_offset(layout.lane_size, lane + 1));
        assert_true(layout.size > layout.mailboxes);
        assert_int_equal((layout.channels | layout.lanes | layout.mailboxes | layout.size) % SEGMENT_PAGE, 0);
    }
}

static void a_mapped_segment_is_the_same_memory(void **state)
{
    (void)state;
    struct segment own, peers;
    struct segment_layout layout = segment_lay_out(2, 128 << 10);
    assert_int_equal(segment_make_shared(&own, &layout, &owner), PLAIT_OK);
    assert_int_equal(segment_map(&peers, &layout, &owner, own.fd), PLAIT_OK);
    own.base[layout.lanes] = 5;
    assert_int_equal(peers.base[layout.lanes], 5);
    segment_free(&own);
    assert_int_equal(peers.base[layout.lanes], 5);
    segment_free(&peers);
    segment_free(&peers);
}

/* Something that is no segment of rank 3: what is wrong with it. */
enum disguise {
    PIPE,
    PLAIN_FILE,
    UNSEALED,
    TOO_SMALL,
    OTHER_RANK,
    OTHER_PID,
    OTHER_WORLD,
    EMPTY,
    OTHER_LANES
};

static const struct refusal {
    enum disguise disguise;
    const char *says;
} refusals[] = {
    { PIPE, "not a memfd" },    { PLAIN_FILE, "not a memfd" },  { UNSEALED, "could shrink" },
    { TOO_SMALL, "bytes" },     { OTHER_RANK, "is of rank 4" }, { OTHER_PID, "pid 99" },
    { OTHER_WORLD, "another" }, { EMPTY, "version" },           { OTHER_LANES, "PLAIT_STAGING_SIZE" },
};

/* A sealed memfd full of zeros. */
static int make_file(size_t size, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int make_disguise(enum disguise disguise, const struct segment_layout *layout, struct segment *segment)
{
    int ends[2];
    struct segment_owner other = owner;
    struct segment_layout other_layout = *layout;
    switch (disguise) {
    case PIPE:
        assert_int_equal(pipe(ends), 0);
        close(ends[1]);
        return ends[0];
    case PLAIN_FILE: return open("/dev/null", O_RDWR);
    case UNSEALED: return make_file(layout->size, 0);
    case TOO_SMALL: return make_file(layout->heap - 4096, F_SEAL_SHRINK);
    case EMPTY: return make_file(layout->size, F_SEAL_SHRINK);
    case OTHER_RANK: other.rank = 4; break;
    case OTHER_PID: other.pid = 99; break;
    case OTHER_WORLD: other.generation = 8; break;
    case OTHER_LANES: other_layout = segment_lay_out(layout->peers, 2 * layout->lane_size); break;
    }
    assert_int_equal(segment_make_shared(segment, &other_layout, &other), PLAIT_OK);
    return dup(segment->fd);
}

static void disguises_are_refused(void **state)
{
    (void)state;
    struct segment_layout layout = segment_lay_out(2, 256 << 10);
    for (size_t i = 0; i < LENGTH(refusals); i++) {
        struct segment made = { 0 }, mapped;
        int fd = make_disguise(refusals[i].disguise, &layout, &made);
        assert_int_equal(segment_map(&mapped, &layout, &owner, fd), PLAIT_START_FAILED);
        if (strstr(failure_text(), refusals[i].says) == NULL)
            fail_msg("'%s' does not say '%s'", failure_text(), refusals[i].says);
        assert_null(mapped.base);
        close(fd);
        segment_free(&made);
    }
}

static void a_segment_can_not_be_shrunk(void **state)
{
    (void)state;
    struct segment own;
    struct segment_layout layout = segment_lay_out(1, 128 << 10);
    assert_int_equal(segment_make_shared(&own, &layout, &owner), PLAIT_OK);
    assert_int_equal(ftruncate(own.fd, 0), -1);
    assert_int_equal(fcntl(own.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    segment_free(&own);
}

/* The system would kill the process that oversteps it. */
static void a_limit_of_file_sizes_is_told(void **state)
{
    (void)state;
    struct segment own;
    struct segment_layout layout = segment_lay_out(1, 128 << 10);
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 1 << 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    plait_status status = segment_make_shared(&own, &layout, &owner);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, PLAIT_OUT_OF_RESOURCES);
    assert_non_null(strstr(failure_text(), "ulimit -f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_without_a_sleeper_is_nothing),
        cmocka_unit_test(a_ring_after_lying_down_prevents_sleep),
        cmocka_unit_test(a_nap_ends_by_itself),
        cmocka_unit_test(sleepers_wake_each_other),
        cmocka_unit_test(layouts_do_not_overlap),
        cmocka_unit_test(a_mapped_segment_is_the_same_memory),
        cmocka_unit_test(disguises_are_refused),
        cmocka_unit_test(a_segment_can_not_be_shrunk),
        cmocka_unit_test(a_limit_of_file_sizes_is_told),
    };
    return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
